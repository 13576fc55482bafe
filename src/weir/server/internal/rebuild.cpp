#include <weir/server/rebuild.h>

// Steps, and what a crash after each leaves:
//   1. All stores are opened, which locks them.                        nothing has changed
//   2. Empty stores take the places of those that are missing.         fewer are missing; the rest as before
//   3. Of each subfile: what is kept beside it, and its lengths.       nothing has changed
//   4. Files are put together and named; lengths of files of which     the same again when it is run again
//      nothing is known are set.
//   5. A draft of the metadata is made, made durable, and renamed.     a draft, which the next run removes; or all is
//                                                                      done

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fcntl.h>
#include <unistd.h>

#include <weir/base/descriptor.h>
#include <weir/base/text.h>
#include <weir/net/net.h>
#include <weir/server/internal/assembly.h>
#include <weir/server/internal/metadata.h>
#include <weir/storage/blocking.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/store_spec.h>
#include <weir/wire/found_files.h>
#include <weir/wire/path.h>
#include <weir/wire/wire.h>

namespace weir::server {

namespace {

using internal::FileNumber;
using internal::LabelledStore;
using internal::Metadata;
using Kind = RebuildFinding::Kind;

Status sync_folder_entries(const std::string& path) {
  const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.is_open() && ::fsync(folder.get()) == 0) return Status::ok();
  return {ErrorCode::kIoError, concat("rebuild: cannot sync ", path)};
}

class Rebuild {
 public:
  Rebuild(std::string directory, const RebuildOptions& options) : directory_(std::move(directory)), options_(options) {}

  Result<RebuildReport> run() {
    WEIR_RETURN_IF_ERROR(open_stores());
    WEIR_TRY(const bool is_there, check_metadata());
    WEIR_RETURN_IF_ERROR(replace_missing_stores());
    if (is_there) return std::move(report_);
    WEIR_RETURN_IF_ERROR(look_at_subfiles());
    WEIR_RETURN_IF_ERROR(make_metadata());
    report_.has_made_metadata = true;
    return std::move(report_);
  }

 private:
  void find(Kind kind, std::string what) { report_.findings.push_back({kind, std::move(what)}); }

  Status open_stores() {
    WEIR_TRY(const std::vector<LabelledStore> found, internal::find_stores(directory_));
    for (const LabelledStore& store : found) {
      if (store.label.is_formed) label_ = store.label;
    }
    if (found.empty()) {
      return {ErrorCode::kNotFound, concat("rebuild: there is no store below ", directory_, " (as server-0/store)")};
    }
    if (!label_.is_formed) {
      return invalid_argument(concat("rebuild: the file system in ", directory_,
                                     " was never complete, so nothing of it can be lost: start it with `weir up`"));
    }
    stores_.resize(label_.servers);
    for (const LabelledStore& store : found) {
      if (store.index >= stores_.size()) {
        return corrupt(
            concat("rebuild: ", store.path, " is beyond the ", label_.servers, " servers of the file system"));
      }
      WEIR_TRY(stores_[store.index], storage::open_disk_store(store.path));
    }
    return Status::ok();
  }

  // Whether it is there and sound.
  Result<bool> check_metadata() {
    WEIR_TRY(const bool is_there, internal::has_metadata(directory_));
    if (!is_there) return false;
    const std::string path = internal::metadata_path(directory_);
    const auto opened = storage::open_rocks_key_value(path);
    Status status = opened.status();
    if (status.is_ok()) {
      status = internal::label_metadata(**opened, directory_, {label_.file_system, 0, label_.servers, true});
    }
    if (status.is_ok()) return true;
    return corrupt(concat("rebuild: there is metadata in ", path, ", but it cannot be used: ", status.message(),
                          "; move the folder away (keep it) and run this again"));
  }

  Status replace_missing_stores() {
    for (std::uint32_t index = 0; index < stores_.size(); ++index) {
      if (stores_[index]) continue;
      const std::string path = internal::store_path(directory_, index);
      storage::Label label = label_;
      label.server = index;
      WEIR_TRY(stores_[index], storage::open_disk_store(path, {.label = label}));
      missing_.insert(index);
      find(Kind::kStore, concat("the store in ", path, " was missing; an empty one is there now"));
    }
    return Status::ok();
  }

  Status look_at_subfiles() {
    std::vector<wire::FoundSubfile> all;
    for (std::uint32_t server = 0; server < stores_.size(); ++server) {
      WEIR_TRY(const std::vector<storage::SubfileId> written, storage::Blocking(*stores_[server]).list());
      WEIR_TRY(std::vector<storage::SubfileId> ids, storage::Blocking(*stores_[server]).list_abouts());
      ids.insert(ids.end(), written.begin(), written.end());
      std::sort(ids.begin(), ids.end());
      ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
      for (const storage::SubfileId id : ids) all.push_back({server, id, {}, {}, false});
    }
    Offset done = 0;
    for (wire::FoundSubfile& one : all) {
      WEIR_RETURN_IF_ERROR(look_at(one));
      if (options_.progress) options_.progress(++done, std::ssize(all));
    }
    for (wire::FoundSubfile& one : all) by_data_[one.id.file].push_back(std::move(one));
    report_.subfiles = std::ssize(all);
    return Status::ok();
  }

  Status look_at(wire::FoundSubfile& one) {
    storage::Store& store = *stores_[one.server];
    const Result<storage::SubfileInfo> info = storage::Blocking(store).info(one.id);
    if (info.is_ok()) {
      one.info = *info;
    } else if (info.status().code() != ErrorCode::kCorrupt) {
      return info.status();  // it may be sound
    } else {
      one.is_damaged = true;
      find(Kind::kUnreadable, concat("server ", one.server, ": ", info.status().message()));
    }
    const auto kept = storage::Blocking(store).kept_about(one.id);
    if (!kept.is_ok() && kept.status().code() != ErrorCode::kCorrupt) return kept.status();
    Status status = kept.status();
    if (kept.is_ok() && *kept) {
      Result<wire::AboutT> about = wire::decode_about(**kept);
      status = about.status();
      if (about.is_ok()) status = wire::check_found_about(one.id, *about);
      if (status.is_ok()) one.about = std::make_shared<wire::AboutT>(std::move(*about));
    }
    if (!status.is_ok()) {
      find(Kind::kSidecar, concat("server ", one.server, ": what was kept of subfile ", one.id.element, " of data ",
                                  one.id.file, " is damaged: ", status.message()));
    }
    return Status::ok();
  }

  // ---------------------------------------------------------------- files

  Result<std::vector<wire::FoundFile>> put_together() {
    std::vector<wire::FoundFile> files;
    for (auto& [data, subfiles] : by_data_) {
      std::optional<wire::FoundFile> file =
          wire::put_file_together(data, subfiles, static_cast<std::uint32_t>(stores_.size()));
      if (!file) continue;  // damaged, and nothing known: found above
      for (const std::string& what : file->notes) find(Kind::kIncomplete, what);
      for (std::size_t i = 0; i < file->attributes.targets.size(); ++i) {
        const std::uint32_t target = file->attributes.targets[i];
        // An empty store that took the place of another has not what that had: so the old id stays, where it is known.
        const bool is_lost = missing_.contains(target) && !file->is_found[i];
        if (!is_lost) file->attributes.stores[i] = stores_[target]->id();
        if (is_lost) {
          find(Kind::kIncomplete,
               concat(file->name(), ": subfile ", i, " was on server ", target, ", whose store was missing"));
        } else if (!file->is_found[i] && i < wire::kDescribedAtOnce && !file->path.empty()) {
          find(Kind::kIncomplete, concat(file->name(), ": nothing is left of subfile ", i, ", on server ", target));
        }
      }
      if (file->path.empty()) WEIR_RETURN_IF_ERROR(set_lengths(*file, subfiles));
      files.push_back(std::move(*file));
    }
    return files;
  }

  // Of a file of which nothing is known: its subfiles one after the other are all of it.
  Status set_lengths(const wire::FoundFile& file, const std::vector<wire::FoundSubfile>& subfiles) {
    for (const wire::FoundSubfile& one : subfiles) {
      if (one.is_damaged) continue;
      storage::Store& store = *stores_[one.server];
      WEIR_RETURN_IF_ERROR(storage::Blocking(store).truncate(one.id, one.info.length, file.size));
      WEIR_RETURN_IF_ERROR(storage::Blocking(store).sync(one.id));
    }
    return Status::ok();
  }

  // ---------------------------------------------------------------- metadata

  Status make_metadata() {
    WEIR_TRY(std::vector<wire::FoundFile> files, put_together());
    const std::string path = internal::metadata_path(directory_);
    const std::string draft = path + ".rebuilding";
    std::error_code error;
    std::filesystem::remove_all(draft, error);
    if (error) return {ErrorCode::kIoError, concat("rebuild: cannot remove ", draft, ": ", error.message())};
    {
      WEIR_TRY(const std::unique_ptr<storage::KeyValue> key_value, storage::open_rocks_key_value(draft));
      storage::Batch label;
      label.put(std::string(internal::kLabelKey), storage::encode_label({label_.file_system, 0, label_.servers, true}));
      WEIR_RETURN_IF_ERROR(key_value->apply(label, true));
      WEIR_RETURN_IF_ERROR(fill(*key_value, std::move(files)));
    }
    WEIR_RETURN_IF_ERROR(sync_folder_entries(draft));
    std::filesystem::rename(draft, path, error);  // over an empty folder, or none
    if (error) return {ErrorCode::kIoError, concat("rebuild: cannot make ", path, ": ", error.message())};
    return sync_folder_entries(std::filesystem::path(path).parent_path().string());
  }

  Status fill(storage::KeyValue& key_value, std::vector<wire::FoundFile> files) {
    net::Identity who = net::Identity::of_this_process();
    WEIR_TRY(const std::unique_ptr<Metadata> metadata,
             Metadata::open(key_value, {.uid = who.uid, .gid = who.gid, .now_ns = {}}));
    metadata->set_target_count(label_.servers);
    FileNumber last = 0;
    for (const auto& [data, subfiles] : by_data_) last = std::max(last, data);
    for (const wire::FoundFile& file : files) last = std::max(last, file.attributes.file);
    WEIR_RETURN_IF_ERROR(metadata->skip_numbers(last));
    const wire::Names names = wire::name_files(files, {who.uid, who.gid});
    for (const std::string& what : names.collisions) find(Kind::kCollision, what);
    for (const std::string& what : names.lost) find(Kind::kLost, what);
    // Owners of directories may not be this user, who makes things in them all the same.
    who.uid = 0;
    for (const auto& [path, attributes] : names.directories) {
      WEIR_RETURN_IF_ERROR(add(*metadata, path, attributes, who));
      ++report_.directories;
    }
    for (std::size_t i = 0; i < files.size(); ++i) {
      WEIR_RETURN_IF_ERROR(add(*metadata, names.paths[i], files[i].attributes, who));
      ++report_.files;
    }
    return storage::sync_and_wait(key_value);
  }

  static Status add(Metadata& metadata, const std::string& path, const wire::AttributesT& attributes,
                    const net::Identity& who) {
    wire::AdoptT adopt;
    adopt.path = path;
    adopt.attributes = std::make_unique<wire::AttributesT>(attributes);
    return metadata.adopt_unchecked(adopt, who).status();
  }

  const std::string directory_;
  const RebuildOptions& options_;
  storage::Label label_;  // of one that is formed
  std::vector<std::unique_ptr<storage::Store>> stores_;
  std::set<std::uint32_t> missing_;
  std::map<FileNumber, std::vector<wire::FoundSubfile>> by_data_;
  RebuildReport report_;
};

}  // namespace

Result<RebuildReport> rebuild(const RebuildOptions& options) {
  WEIR_TRY(const storage::StoreSpec spec, storage::StoreSpec::parse(options.store));
  if (spec.is_memory()) return invalid_argument(concat("rebuild: store '", options.store, "' is not disk:DIR"));
  return Rebuild(spec.directory, options).run();
}

}  // namespace weir::server
