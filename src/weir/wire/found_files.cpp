#include <weir/wire/found_files.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include <weir/base/text.h>
#include <weir/layout/partition.h>
#include <weir/wire/path.h>

namespace weir::wire {

namespace {

constexpr std::string_view kLostAndFound = "/lost+found";

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Every byte of subfile i follows those of subfile i - 1.
Result<layout::Partition> one_after_the_other(const std::vector<Offset>& lengths) {
  layout::Explicit description;
  Offset at = 0;
  for (const Offset length : lengths) {
    layout::FallsSet falls;
    if (length > 0) falls.push_back({at, at + length - 1, 0, 1, {}});
    description.elements.push_back(std::move(falls));
    at += length;
  }
  return layout::Partition::create(std::move(description));
}

const AboutT* newest(const std::vector<FoundSubfile>& subfiles) {
  const AboutT* best = nullptr;
  for (const FoundSubfile& one : subfiles) {
    if (!one.about) continue;
    // A relayout that has ended is told after one that is under way, at the same time as far as metadata goes.
    const auto key = [](const AboutT& about) { return std::tuple(about.attributes->changed_ns, !about.pending); };
    if (best == nullptr || key(*one.about) > key(*best)) best = one.about.get();
  }
  return best;
}

// The layout of data never changes, so any of them has it, if it is not left out.
const AboutT* with_layout(const std::vector<FoundSubfile>& subfiles) {
  const AboutT* best = nullptr;
  for (const FoundSubfile& one : subfiles) {
    if (!one.about || one.about->attributes->layout.empty()) continue;
    if (best == nullptr || one.about->attributes->targets.size() > best->attributes->targets.size()) {
      best = one.about.get();
    }
  }
  return best;
}

void place(FoundFile& file, const std::vector<FoundSubfile>& subfiles, std::uint32_t servers) {
  const std::vector<std::uint32_t> told = file.attributes.targets;
  const std::vector<std::uint64_t> stores = file.attributes.stores;
  const std::size_t count = file.is_found.size();
  file.attributes.targets.assign(count, 0);
  file.attributes.stores.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_told = i < told.size() && told[i] < servers;
    file.attributes.targets[i] = is_told ? told[i] : static_cast<std::uint32_t>(i % servers);
    if (i < stores.size()) file.attributes.stores[i] = stores[i];
  }
  for (const FoundSubfile& one : subfiles) {
    const std::size_t element = one.id.element;
    const bool is_where_told = element < told.size() && told[element] == one.server;
    if (file.is_found[element] && !is_where_told) {
      file.notes.push_back(concat(file.name(), ": subfile ", element, " is on several servers; that on server ",
                                  one.server, " is left out"));
      continue;
    }
    if (file.is_found[element]) {
      file.notes.push_back(concat(file.name(), ": subfile ", element, " is on several servers; that on server ",
                                  file.attributes.targets[element], " is left out"));
    }
    file.attributes.targets[element] = one.server;
    file.is_found[element] = true;
  }
}

std::optional<FoundFile> unknown_file(std::uint64_t data, const std::vector<FoundSubfile>& subfiles,
                                      std::uint32_t servers) {
  std::vector<Offset> lengths;
  std::vector<FoundSubfile> fitting;
  bool has_bytes = false;
  for (const FoundSubfile& one : subfiles) {
    if (one.id.element >= static_cast<std::uint64_t>(kMostSubfiles)) continue;
    fitting.push_back(one);
    if (one.id.element >= lengths.size()) lengths.resize(one.id.element + std::size_t{1});
    lengths[one.id.element] = std::max(lengths[one.id.element], one.info.length);
    if (one.is_damaged) return {};  // how long it is would be part of the layout
    has_bytes = has_bytes || one.info.length > 0;
  }
  if (!has_bytes) return {};
  FoundFile file;
  for (const Offset length : lengths) {
    if (length > kMaxBytes - file.size) return {};
    file.size += length;
  }
  file.attributes.data = data;
  file.attributes.file = data;
  file.attributes.epoch = 1;
  file.attributes.mode = 0600;
  const Result<layout::Partition> layout = one_after_the_other(lengths);
  if (!layout.is_ok()) return {};
  file.attributes.layout = to_bytes(*layout);
  file.is_found.resize(lengths.size());
  place(file, fitting, servers);
  return file;
}

std::string with_suffix(const std::string& path, std::uint64_t number) {
  const std::string suffix = concat(".weir-", number);
  const std::size_t slash = path.rfind('/');
  const std::string name = path.substr(slash + 1, kMostNameBytes - suffix.size());
  return concat(path.substr(0, slash + 1), name, suffix);
}

// Bits of a directory for those who may read the file.
std::uint32_t directory_mode(std::uint32_t file_mode) {
  return 0700 | ((file_mode & 040) != 0 ? 050U : 0U) | ((file_mode & 04) != 0 ? 05U : 0U);
}

class Naming {
 public:
  Naming(const std::vector<FoundFile>& files, Owner owner) : files_(files), owner_(owner) {}

  Names run() {
    names_.paths.resize(files_.size());
    for (const FoundFile& file : files_) {
      if (!file.path.empty()) add_directories(file);
    }
    for (const std::size_t i : by_right_to_a_name()) name(i);
    return std::move(names_);
  }

 private:
  // Those that a relayout was still making come last, then old ones.
  [[nodiscard]] std::vector<std::size_t> by_right_to_a_name() const {
    std::vector<std::size_t> order(files_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto key = [this](std::size_t i) {
      const FoundFile& file = files_[i];
      return std::tuple(file.is_pending, -file.attributes.changed_ns, ~file.attributes.epoch, file.attributes.data);
    };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
    return order;
  }

  void add_directories(const FoundFile& file) {
    for (std::string path = parent_of(file.path); !path.empty(); path = parent_of(path)) {
      const auto [entry, is_new] = names_.directories.try_emplace(path);
      AttributesT& directory = entry->second;
      if (is_new) {
        directory.is_directory = true;
        directory.mode = directory_mode(file.attributes.mode);
        directory.uid = file.attributes.uid;
        directory.gid = file.attributes.gid;
        directory.created_ns = directory.changed_ns = file.attributes.created_ns;
        continue;
      }
      directory.mode &= directory_mode(file.attributes.mode);
      if (directory.uid != file.attributes.uid) directory.uid = owner_.uid;
      if (directory.gid != file.attributes.gid) directory.gid = owner_.gid;
    }
  }

  void name(std::size_t i) {
    const FoundFile& file = files_[i];
    std::string path = file.path;
    if (path.empty()) {
      AttributesT& directory = names_.directories[std::string(kLostAndFound)];
      directory.is_directory = true;
      directory.mode = 0700;
      path = concat(kLostAndFound, "/", file.attributes.data);
    }
    const std::string wanted = path;
    while (taken_.contains(path) || names_.directories.contains(path)) path = with_suffix(path, file.attributes.data);
    taken_.insert(path);
    if (file.path.empty()) {
      names_.lost.push_back(concat(path, ": nothing is known of these ", file.size,
                                   " bytes; its subfiles are in it one after the other"));
    } else if (path != wanted) {
      names_.collisions.push_back(concat(path, ": another file is newer by what is known, and has the name ", wanted));
    }
    names_.paths[i] = std::move(path);
  }

  const std::vector<FoundFile>& files_;
  Owner owner_;
  Names names_;
  std::set<std::string> taken_;
};

}  // namespace

std::string FoundFile::name() const { return path.empty() ? concat("data ", attributes.data) : path; }

Status check_found_about(storage::SubfileId id, const AboutT& about) {
  if (about.attributes->data != id.file || about.element != id.element) return corrupt("it speaks of another subfile");
  WEIR_TRY(const std::vector<std::string_view> names, split_path(about.path));
  if (names.empty()) return corrupt("the path has no name");
  if (about.attributes->is_directory || about.attributes->file == 0) return corrupt("it speaks of no file");
  if (about.attributes->layout.empty()) return Status::ok();
  WEIR_TRY(const layout::Partition partition, to_partition(about.attributes->layout));
  WEIR_RETURN_IF_ERROR(partition.validate());
  if (partition.element_count() > kMostSubfiles ||
      id.element >= static_cast<std::uint64_t>(partition.element_count())) {
    return corrupt(concat("its layout has ", partition.element_count(), " subfiles"));
  }
  return Status::ok();
}

std::optional<FoundFile> put_file_together(std::uint64_t data, const std::vector<FoundSubfile>& subfiles,
                                           std::uint32_t servers) {
  const AboutT* shape = with_layout(subfiles);
  if (shape == nullptr) return unknown_file(data, subfiles, servers);
  const AboutT* about = newest(subfiles);
  FoundFile file;
  file.attributes = *about->attributes;
  file.attributes.layout = shape->attributes->layout;
  file.attributes.targets = shape->attributes->targets;
  file.attributes.stores = shape->attributes->stores;
  file.is_pending = about->pending;
  // Both were checked when it was read.
  const Result<std::vector<std::string_view>> names = split_path(about->path);
  for (const std::string_view name : *names) file.path += concat('/', name);
  const layout::Partition partition = *to_partition(file.attributes.layout);
  file.is_found.resize(static_cast<std::size_t>(partition.element_count()));
  std::vector<FoundSubfile> fitting;
  for (const FoundSubfile& one : subfiles) {
    if (one.id.element < file.is_found.size()) fitting.push_back(one);
  }
  place(file, fitting, servers);
  return file;
}

Names name_files(const std::vector<FoundFile>& files, Owner owner) { return Naming(files, owner).run(); }

}  // namespace weir::wire
