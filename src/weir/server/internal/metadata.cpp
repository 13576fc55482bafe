#include <weir/server/internal/metadata.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <utility>

#include <weir/base/text.h>
#include <weir/server/internal/permission.h>
#include <weir/wire/found_files.h>
#include <weir/wire/path.h>

namespace weir::server::internal {

namespace {

constexpr FileNumber kLastNumber = FileNumber{1} << 62;

// Of one answer.  Layouts can be long: a page ends early rather than that its head gets too long.
constexpr std::size_t kMostEntries = 4096;
constexpr std::size_t kMostPageBytes = std::size_t{4} << 20;

std::size_t page_size(std::uint32_t limit) {
  return limit == 0 ? kMostEntries : std::min<std::size_t>(limit, kMostEntries);
}

Status error(ErrorCode code, std::string_view operation, std::string_view path, std::string_view why) {
  return {code, concat(operation, " ", wire::quoted_path(path), ": ", why)};
}

void append_entry(wire::ListingT& listing, std::size_t& page_bytes, std::string name, wire::AttributesT attributes) {
  page_bytes += name.size() + attributes.layout.size() + attributes.targets.size() * sizeof(std::uint32_t) +
                attributes.stores.size() * sizeof(std::uint64_t) + 128;
  auto entry = std::make_unique<wire::EntryT>();
  entry->name = std::move(name);
  entry->attributes = std::make_unique<wire::AttributesT>(std::move(attributes));
  listing.entries.push_back(std::move(entry));
}

std::string damaged(std::string_view what, std::string_view why) {
  return concat("metadata: ", what, " is damaged: ", why,
                "; restore the metadata from a copy, or rebuild it from the stores (weir fsck --rebuild)");
}

// What is stored under the key of a number must decode, and be of that number.
Result<Record> record_of(FileNumber number, std::string_view bytes) {
  Result<Record> record = decode_record(bytes);
  const std::string what = concat("the record of file ", number);
  if (!record.is_ok()) return corrupt(damaged(what, record.status().message()));
  if (record->attributes.file != number) {
    return corrupt(damaged(what, concat("it is of file ", record->attributes.file)));
  }
  return record;
}

Result<Record> record_at(std::string_view key, std::string_view bytes) {
  const Result<FileNumber> number = number_of_key(key);
  if (!number.is_ok()) return corrupt(damaged(concat("the key ", wire::quoted_path(key)), number.status().message()));
  return record_of(*number, bytes);
}

Result<wire::AttributesT> pending_of(FileNumber number, std::string_view bytes) {
  Result<wire::AttributesT> pending = decode_attributes(bytes);
  const std::string what = concat("the relayout of file ", number);
  if (!pending.is_ok()) return corrupt(damaged(what, pending.status().message()));
  if (pending->file != number) return corrupt(damaged(what, concat("it is of file ", pending->file)));
  return pending;
}

}  // namespace

struct Metadata::Ask {
  std::string_view operation;
  const std::string& path;
  const Identity& who;

  [[nodiscard]] Status error(ErrorCode code, std::string_view why) const {
    return internal::error(code, operation, path, why);
  }
  [[nodiscard]] Status denied(std::string_view why) const {
    return error(ErrorCode::kPermission, concat("user ", who.uid, " may not ", why));
  }
};

struct Metadata::Place {
  Record directory;
  std::string name;
  std::vector<FileNumber> ancestors;  // from the root to the directory
};

struct Metadata::Change {
  storage::Batch batch;
  std::vector<wire::AttributesT> removals;

  /// \param described  the file whose sidecars are to be written before
  void remove_subfiles(const wire::AttributesT& of, FileNumber described = 0) {
    if (of.is_directory) return;
    wire::AttributesT removal;
    removal.file = described;
    removal.data = of.data;
    removal.targets = of.targets;
    batch.put(removal_key(of.data), encode_attributes(removal));
    removals.push_back(std::move(removal));
  }
};

// ---------------------------------------------------------------- start, numbers, time

Result<std::unique_ptr<Metadata>> Metadata::open(storage::KeyValue& store, Options options) {
  std::unique_ptr<Metadata> metadata(new Metadata(store, std::move(options)));
  WEIR_RETURN_IF_ERROR(metadata->start());
  WEIR_RETURN_IF_ERROR(metadata->quotas_.load(store));
  return metadata;
}

Status Metadata::start() {
  WEIR_TRY(const std::optional<std::string> next, store_.get(kNextNumberKey));
  WEIR_TRY(const std::optional<std::string> root, store_.get(record_key(kRoot)));
  if (next.has_value() != root.has_value()) {
    return corrupt(damaged(next ? "the root directory" : "the counter of files", "it is missing"));
  }
  if (next) {
    WEIR_TRY(numbers_end_, decode_number(*next));
    next_number_ = numbers_end_;
    next_start_ = numbers_end_ / options_.numbers_at_a_time;
    return options_.post ? reserve_numbers() : Status::ok();
  }
  storage::Batch batch;
  Record record;
  record.parent = kRoot;
  record.attributes.file = kRoot;
  record.attributes.is_directory = true;
  record.attributes.mode = 0755;
  record.attributes.uid = options_.uid;
  record.attributes.gid = options_.gid;
  record.attributes.created_ns = record.attributes.changed_ns = now_ns();
  batch.put(record_key(kRoot), encode_record(record));
  next_number_ = kRoot + 1;
  numbers_end_ = next_number_ + options_.numbers_at_a_time;
  batch.put(std::string(kNextNumberKey), encode_number(numbers_end_));
  return store_.apply(batch, true);
}

void Metadata::set_target_count(std::uint32_t count) { target_count_ = std::max<std::uint32_t>(count, 1); }

// A number is never given out twice, not even if what it was for fails: the store may have it all the same.
Result<FileNumber> Metadata::take_number() {
  if (next_number_ >= numbers_end_) WEIR_RETURN_IF_ERROR(reserve_numbers());
  const FileNumber number = next_number_++;
  reserve_ahead();
  return number;
}

Status Metadata::reserve_numbers() {
  const FileNumber end = next_number_ + options_.numbers_at_a_time;
  storage::Batch batch;
  batch.put(std::string(kNextNumberKey), encode_number(end));
  WEIR_RETURN_IF_ERROR(store_.apply(batch, true));
  numbers_end_ = end;
  return Status::ok();
}

// Half of the numbers are left: more than are taken while the disk makes the next ones durable.  If it fails, the call
// that needs one tells.
void Metadata::reserve_ahead() {
  if (!options_.post || is_reserving_ || numbers_end_ - next_number_ > options_.numbers_at_a_time / 2) return;
  const FileNumber end = numbers_end_ + options_.numbers_at_a_time;
  storage::Batch batch;
  batch.put(std::string(kNextNumberKey), encode_number(end));
  if (!store_.apply(batch, false).is_ok()) return;
  is_reserving_ = true;
  store_.sync([this, end](const Status& status) {
    options_.post([this, end, is_durable = status.is_ok()] {
      is_reserving_ = false;
      if (is_durable) numbers_end_ = std::max(numbers_end_, end);
    });
  });
}

std::int64_t Metadata::now_ns() const {
  return options_.now_ns ? options_.now_ns() : runtime::system_runtime().clock->wall_ns();
}

void Metadata::touch(storage::Batch& batch, Record directory) const {
  directory.attributes.changed_ns = now_ns();
  batch.put(record_key(directory.attributes.file), encode_record(directory));
}

// ---------------------------------------------------------------- from paths to records

Result<Record> Metadata::load(FileNumber number) {
  WEIR_TRY(const std::optional<std::string> bytes, store_.get(record_key(number)));
  if (!bytes) return Status{ErrorCode::kNotFound, concat("metadata: there is no file number ", number)};
  return record_of(number, *bytes);
}

Result<std::optional<Record>> Metadata::find(const Record& directory, std::string_view name) {
  WEIR_TRY(const std::optional<std::string> entry, store_.get(entry_key(directory.attributes.file, name)));
  if (!entry) return std::optional<Record>{};
  WEIR_TRY(Record record, load_entry(directory.attributes.file, name, decode_number(*entry)));
  return std::optional<Record>(std::move(record));
}

// What an entry names must be there, and know it: otherwise one of the two is damaged.
Result<Record> Metadata::load_entry(FileNumber directory, std::string_view name, const Result<FileNumber>& number) {
  if (!number.is_ok()) {
    return corrupt(
        damaged(concat("entry ", wire::quoted_path(name), " of directory ", directory), number.status().message()));
  }
  WEIR_TRY(const std::optional<std::string> bytes, store_.get(record_key(*number)));
  if (!bytes) {
    return corrupt(damaged(concat("entry ", wire::quoted_path(name), " of directory ", directory),
                           concat("file ", *number, " has no record")));
  }
  WEIR_TRY(Record record, record_of(*number, *bytes));
  if (record.parent == directory && record.name == name) return record;
  return corrupt(damaged(
      concat("entry ", wire::quoted_path(name), " of directory ", directory),
      concat("file ", *number, " says that it is ", wire::quoted_path(record.name), " of directory ", record.parent)));
}

// One step down: what `name` is in `directory`, if the asker may look there.
Result<Record> Metadata::enter(const Ask& ask, const Record& directory, std::string_view name) {
  if (!directory.attributes.is_directory) {
    return ask.error(ErrorCode::kNotDirectory, concat(wire::quoted_path(directory.name), " is not a directory"));
  }
  if (!may(directory.attributes, ask.who, kMaySearch)) {
    return ask.denied(concat("search directory ", wire::quoted_path(directory.name)));
  }
  WEIR_TRY(std::optional<Record> found, find(directory, name));
  if (!found) return ask.error(ErrorCode::kNotFound, concat("there is no ", wire::quoted_path(name)));
  return *std::move(found);
}

Result<Record> Metadata::resolve(const Ask& ask) {
  WEIR_TRY(const std::vector<std::string_view> names, wire::split_path(ask.path));
  WEIR_TRY(Record record, load(kRoot));
  for (const std::string_view name : names) {
    WEIR_TRY(Record next, enter(ask, record, name));
    record = std::move(next);
  }
  return record;
}

// The directory that has or would have the last name of the path, which is not checked to be there.
Result<Metadata::Place> Metadata::locate(const Ask& ask) {
  WEIR_TRY(const std::vector<std::string_view> names, wire::split_path(ask.path));
  if (names.empty()) return ask.error(ErrorCode::kInvalidArgument, "the root directory is always there and stays");
  Place place;
  WEIR_TRY(place.directory, load(kRoot));
  place.ancestors.push_back(kRoot);
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    WEIR_TRY(Record next, enter(ask, place.directory, names[i]));
    place.directory = std::move(next);
    place.ancestors.push_back(place.directory.attributes.file);
  }
  if (!place.directory.attributes.is_directory) {
    return ask.error(ErrorCode::kNotDirectory, concat(wire::quoted_path(place.directory.name), " is not a directory"));
  }
  if (!may(place.directory.attributes, ask.who, kMaySearch)) return ask.denied("search its directory");
  place.name = names.back();
  return place;
}

// Whether the asker may add to the directory, or take `taken_out` out of it.
Status Metadata::check_change(const Ask& ask, const Place& place, const Record* taken_out) {
  if (!may(place.directory.attributes, ask.who, kMayWrite)) return ask.denied("write its directory");
  if (taken_out != nullptr && !may_take_out(place.directory.attributes, taken_out->attributes, ask.who)) {
    return ask.denied("take what belongs to others out of a directory with the sticky bit");
  }
  return Status::ok();
}

Result<bool> Metadata::is_empty(FileNumber directory) {
  bool empty = true;
  WEIR_RETURN_IF_ERROR(store_.scan(entry_prefix(directory), "", [&](std::string_view, std::string_view) {
    empty = false;
    return false;
  }));
  return empty;
}

Result<std::string> Metadata::path_of(const Record& record) {
  std::string path;
  Record at = record;
  FileNumber passed = 0;  // damaged records can form a circle, which comes back to it
  for (std::uint64_t steps = 1; at.attributes.file != kRoot; ++steps) {
    path = concat('/', at.name, path);
    if (at.parent == passed) {
      return corrupt(concat("metadata: directory ", passed, " is below itself: the records are damaged"));
    }
    if (std::has_single_bit(steps)) passed = at.parent;
    WEIR_TRY(Record up, load(at.parent));
    at = std::move(up);
  }
  return path.empty() ? std::string("/") : path;
}

// ---------------------------------------------------------------- look-up, create, remove

// Of a file: what the asker may do with its bytes.
Result<wire::AttributesT> Metadata::with_rights(const Ask& ask, wire::AttributesT attributes, std::uint32_t access) {
  if (attributes.is_directory) return attributes;
  const std::uint8_t all = rights_of(attributes, ask.who);
  if ((access & ~std::uint32_t{all} & kMayRead) != 0) return ask.denied("read it");
  if ((access & ~std::uint32_t{all} & kMayWrite) != 0) return ask.denied("write it");
  attributes.rights = all;
  return attributes;
}

Result<wire::AttributesT> Metadata::lookup(const std::string& path, const Identity& who, std::uint32_t access) {
  const Ask ask{"lookup", path, who};
  WEIR_TRY(Record record, resolve(ask));
  return with_rights(ask, std::move(record.attributes), access);
}

Result<wire::AttributesT> Metadata::lookup(FileNumber number) {
  WEIR_TRY(Record record, load(number));
  return std::move(record.attributes);
}

Result<wire::AttributesT> Metadata::add(const Ask& ask, Place place, wire::AttributesT attributes) {
  WEIR_TRY(attributes.file, take_number());
  if (!attributes.is_directory) attributes.data = attributes.file, attributes.epoch = 1;
  attributes.uid = ask.who.uid;
  attributes.gid = ask.who.gid;
  attributes.created_ns = attributes.changed_ns = now_ns();
  Result<wire::AttributesT> added = put_new(std::move(place), std::move(attributes), Enforces::kQuotas);
  if (added.status().code() == ErrorCode::kQuota) return ask.error(ErrorCode::kQuota, added.status().message());
  return added;
}

Result<wire::AttributesT> Metadata::put_new(Place place, wire::AttributesT attributes, Enforces enforces) {
  storage::Batch batch;
  attributes.mode &= kModeBits;
  const FileNumber directory = place.directory.attributes.file;
  batch.put(entry_key(directory, place.name), encode_number(attributes.file));
  const Record record{directory, place.name, std::move(attributes)};
  batch.put(record_key(record.attributes.file), encode_record(record));
  touch(batch, std::move(place.directory));
  WEIR_RETURN_IF_ERROR(commit(batch, enforces));
  return record.attributes;
}

Result<wire::AttributesT> Metadata::create(const wire::CreateT& request, const Identity& who) {
  const Ask ask{"create", request.path, who};
  WEIR_TRY(Place place, locate(ask));
  WEIR_TRY(std::optional<Record> there, find(place.directory, place.name));
  if (there) {
    if (request.exclusive) return ask.error(ErrorCode::kExists, "it is there already");
    if (there->attributes.is_directory) return ask.error(ErrorCode::kIsDirectory, "it is a directory");
    return with_rights(ask, std::move(there->attributes), request.access);
  }
  WEIR_RETURN_IF_ERROR(check_change(ask, place, nullptr));
  wire::AttributesT attributes;
  attributes.mode = request.mode;
  WEIR_RETURN_IF_ERROR(lay_out(ask, request, attributes));
  WEIR_TRY(attributes, add(ask, std::move(place), std::move(attributes)));
  attributes.rights = kMayRead | kMayWrite | kOwns;  // whatever the mode says
  return attributes;
}

Result<wire::AttributesT> Metadata::make_directory(const wire::MakeDirectoryT& request, const Identity& who) {
  const Ask ask{"make directory", request.path, who};
  WEIR_TRY(Place place, locate(ask));
  WEIR_TRY(const std::optional<Record> there, find(place.directory, place.name));
  if (there) return ask.error(ErrorCode::kExists, "it is there already");
  WEIR_RETURN_IF_ERROR(check_change(ask, place, nullptr));
  wire::AttributesT attributes;
  attributes.is_directory = true;
  attributes.mode = request.mode;
  return add(ask, std::move(place), std::move(attributes));
}

Result<wire::AttributesT> Metadata::remove(const wire::RemoveT& request, const Identity& who) {
  const Ask ask{"remove", request.path, who};
  WEIR_TRY(Place place, locate(ask));
  WEIR_TRY(Record record, enter(ask, place.directory, place.name));
  WEIR_RETURN_IF_ERROR(check_change(ask, place, &record));
  const FileNumber number = record.attributes.file;
  if (record.attributes.is_directory && !request.directory) {
    return ask.error(ErrorCode::kIsDirectory, "it is a directory: remove it as one");
  }
  if (!record.attributes.is_directory && request.directory) {
    return ask.error(ErrorCode::kNotDirectory, "it is a file: remove it as one");
  }
  if (record.attributes.is_directory) {
    WEIR_TRY(const bool empty, is_empty(number));
    if (!empty) return ask.error(ErrorCode::kNotEmpty, "the directory is not empty");
  }
  Change change;
  change.batch.erase(entry_key(place.directory.attributes.file, place.name));
  change.batch.erase(record_key(number));
  change.remove_subfiles(record.attributes);
  WEIR_RETURN_IF_ERROR(forget_relayout(change, number));
  touch(change.batch, std::move(place.directory));
  change.batch.frees_room = true;
  WEIR_RETURN_IF_ERROR(apply(std::move(change)));
  return std::move(record.attributes);
}

// ---------------------------------------------------------------- subfiles to be removed

Status Metadata::forget_relayout(Change& change, FileNumber file) {
  WEIR_TRY(const std::optional<std::string> bytes, store_.get(relayout_key(file)));
  if (!bytes) return Status::ok();
  WEIR_TRY(const wire::AttributesT pending, pending_of(file, *bytes));
  change.batch.erase(relayout_key(file));
  change.remove_subfiles(pending);
  return Status::ok();
}

Status Metadata::commit(const storage::Batch& batch, Enforces enforces) {
  if (!quotas_.is_active()) return store_.apply(batch, false);
  WEIR_TRY(const Quotas::Change change, quotas_.examine(batch, enforces == Enforces::kQuotas));
  Status status = store_.apply(batch, false);
  status.is_ok() ? quotas_.accept(change) : quotas_.doubt();
  return status;
}

Status Metadata::apply(Change change) {
  WEIR_RETURN_IF_ERROR(commit(change.batch, Enforces::kNothing));
  std::move(change.removals.begin(), change.removals.end(), std::back_inserter(new_removals_));
  return Status::ok();
}

Result<wire::ListingT> Metadata::pending_removals(const wire::PendingRemovalsT& request) {
  wire::ListingT listing;
  listing.is_complete = true;
  Status status;
  std::size_t page_bytes = 0;
  const std::size_t most = page_size(request.limit);
  const std::string after = request.after == 0 ? std::string() : removal_key(request.after);
  WEIR_RETURN_IF_ERROR(store_.scan(kRemovalPrefix, after, [&](std::string_view, std::string_view value) {
    if (listing.entries.size() == most || page_bytes > kMostPageBytes) {
      listing.is_complete = false;
      return false;
    }
    Result<wire::AttributesT> removal = decode_attributes(value);
    if (!removal.is_ok()) status = corrupt(damaged("a list of subfiles to be removed", removal.status().message()));
    if (removal.is_ok()) append_entry(listing, page_bytes, {}, std::move(*removal));
    return status.is_ok();
  }));
  WEIR_RETURN_IF_ERROR(std::move(status));
  return listing;
}

Status Metadata::forget_removal(FileNumber data) {
  storage::Batch batch;
  batch.erase(removal_key(data));
  batch.frees_room = true;
  return store_.apply(batch, false);
}

Result<Metadata::Named> Metadata::named(FileNumber file) {
  WEIR_TRY(Record record, load(file));
  WEIR_TRY(std::string path, path_of(record));
  return Named{std::move(path), std::move(record.attributes)};
}

// ---------------------------------------------------------------- rename

Status Metadata::check_replace(const Ask& ask, const Place& to, const Record& moved, const Record& replaced) {
  WEIR_RETURN_IF_ERROR(check_change(ask, to, &replaced));
  if (replaced.attributes.is_directory != moved.attributes.is_directory) {
    return replaced.attributes.is_directory ? ask.error(ErrorCode::kIsDirectory, "a file cannot replace a directory")
                                            : ask.error(ErrorCode::kNotDirectory, "a directory cannot replace a file");
  }
  if (!replaced.attributes.is_directory) return Status::ok();
  WEIR_TRY(const bool empty, is_empty(replaced.attributes.file));
  return empty ? Status::ok() : ask.error(ErrorCode::kNotEmpty, "the directory to be replaced is not empty");
}

Result<wire::AttributesT> Metadata::rename(const wire::RenameT& request, const Identity& who) {
  const Ask ask_from{"rename", request.from, who};
  const Ask ask_to{"rename to", request.to, who};
  WEIR_TRY(Place from, locate(ask_from));
  WEIR_TRY(Place to, locate(ask_to));
  WEIR_TRY(Record moved, enter(ask_from, from.directory, from.name));
  WEIR_TRY(std::optional<Record> replaced, find(to.directory, to.name));
  const FileNumber number = moved.attributes.file;
  if (replaced && replaced->attributes.file == number) return wire::AttributesT{};
  WEIR_RETURN_IF_ERROR(check_change(ask_from, from, &moved));
  WEIR_RETURN_IF_ERROR(check_change(ask_to, to, nullptr));
  if (std::find(to.ancestors.begin(), to.ancestors.end(), number) != to.ancestors.end()) {
    return ask_to.error(ErrorCode::kInvalidArgument,
                        concat("that is below the directory ", wire::quoted_path(request.from)));
  }
  if (replaced) WEIR_RETURN_IF_ERROR(check_replace(ask_to, to, moved, *replaced));

  Change change;
  storage::Batch& batch = change.batch;
  const FileNumber old_directory = from.directory.attributes.file;
  const FileNumber new_directory = to.directory.attributes.file;
  batch.erase(entry_key(old_directory, from.name));
  if (replaced) {
    batch.erase(record_key(replaced->attributes.file));
    change.remove_subfiles(replaced->attributes);
    WEIR_RETURN_IF_ERROR(forget_relayout(change, replaced->attributes.file));
  }
  batch.put(entry_key(new_directory, to.name), encode_number(number));
  moved.parent = new_directory;
  moved.name = to.name;
  moved.attributes.changed_ns = now_ns();  // what is told about the file from now on is newer than what was
  batch.put(record_key(number), encode_record(moved));
  if (old_directory != new_directory) touch(batch, std::move(from.directory));
  touch(batch, std::move(to.directory));
  WEIR_RETURN_IF_ERROR(apply(std::move(change)));
  return replaced ? std::move(replaced->attributes) : wire::AttributesT{};
}

// ---------------------------------------------------------------- lists

Result<wire::ListingT> Metadata::list(const wire::ListT& request, const Identity& who) {
  const Ask ask{"list", request.path, who};
  WEIR_TRY(const Record directory, resolve(ask));
  if (!directory.attributes.is_directory) return ask.error(ErrorCode::kNotDirectory, "it is a file");
  if (!may(directory.attributes, who, kMayRead)) return ask.denied("read it");
  const std::string prefix = entry_prefix(directory.attributes.file);
  struct Found {
    std::string name;
    Result<FileNumber> number;
  };
  std::vector<Found> found;
  // One more than asked for tells whether that was all.
  const std::size_t most = page_size(request.limit) + 1;
  WEIR_RETURN_IF_ERROR(store_.scan(prefix, request.after.empty() ? std::string() : prefix + request.after,
                                   [&](std::string_view key, std::string_view value) {
                                     found.push_back({std::string(key.substr(prefix.size())), decode_number(value)});
                                     return found.size() < most;
                                   }));
  wire::ListingT listing;
  listing.is_complete = found.size() < most;
  if (!listing.is_complete) found.pop_back();
  std::size_t page_bytes = 0;
  for (Found& one : found) {
    if (page_bytes > kMostPageBytes) {
      listing.is_complete = false;
      break;
    }
    WEIR_TRY(Record record, load_entry(directory.attributes.file, one.name, one.number));
    append_entry(listing, page_bytes, std::move(one.name), std::move(record.attributes));
  }
  return listing;
}

Result<wire::ListingT> Metadata::all_files(const wire::AllFilesT& request) {
  wire::ListingT listing;
  listing.is_complete = true;
  std::vector<Result<Record>> found;
  const std::size_t most = page_size(request.limit) + 1;
  std::size_t scanned_bytes = 0;
  WEIR_RETURN_IF_ERROR(
      store_.scan(kRecordPrefix, record_key(request.after), [&](std::string_view key, std::string_view value) {
        found.push_back(record_at(key, value));
        scanned_bytes += value.size();
        return found.size() < most && scanned_bytes < kMostPageBytes;
      }));
  if (found.size() == most || scanned_bytes >= kMostPageBytes) {
    listing.is_complete = false;
    if (found.size() > 1) found.pop_back();
  }
  std::size_t page_bytes = 0;
  for (Result<Record>& one : found) {
    WEIR_TRY(Record record, std::move(one));
    WEIR_TRY(const std::string path, path_of(record));
    const FileNumber record_file = record.attributes.file;
    WEIR_TRY(const std::optional<std::string> relayout, store_.get(relayout_key(record_file)));
    append_entry(listing, page_bytes, path, std::move(record.attributes));
    if (!relayout) continue;
    WEIR_TRY(wire::AttributesT pending, pending_of(record_file, *relayout));
    append_entry(listing, page_bytes, path, std::move(pending));
  }
  return listing;
}

// ---------------------------------------------------------------- files that were lost

Status Metadata::skip_numbers(FileNumber last) {
  if (last < next_number_) return Status::ok();
  const FileNumber end = last + 1 + options_.numbers_at_a_time;
  storage::Batch batch;
  batch.put(std::string(kNextNumberKey), encode_number(end));
  WEIR_RETURN_IF_ERROR(store_.apply(batch, true));
  next_number_ = last + 1;
  numbers_end_ = end;
  return Status::ok();
}

// Two files with the same data would be removed together.
Status Metadata::check_data_is_free(const Ask& ask, FileNumber data) {
  Status status;
  const auto look = [&](const wire::AttributesT& attributes) {
    if (!attributes.is_directory && attributes.data == data) {
      status = ask.error(ErrorCode::kExists, concat("data ", data, " is that of file ", attributes.file));
    }
    return status.is_ok();
  };
  WEIR_RETURN_IF_ERROR(store_.scan(kRecordPrefix, "", [&](std::string_view, std::string_view value) {
    const Result<Record> record = decode_record(value);
    if (!record.is_ok()) status = record.status();
    return record.is_ok() && look(record->attributes);
  }));
  WEIR_RETURN_IF_ERROR(std::move(status));
  WEIR_TRY(const std::optional<std::string> removal, store_.get(removal_key(data)));
  if (removal) return ask.error(ErrorCode::kExists, concat("data ", data, " is being removed"));
  WEIR_RETURN_IF_ERROR(store_.scan("r", "", [&](std::string_view, std::string_view value) {
    const Result<wire::AttributesT> pending = decode_attributes(value);
    if (!pending.is_ok()) status = pending.status();
    return pending.is_ok() && look(*pending);
  }));
  return status;
}

Result<wire::AttributesT> Metadata::adopt(const wire::AdoptT& request, const Identity& who) {
  const Ask ask{"adopt", request.path, who};
  if (!request.attributes->is_directory) WEIR_RETURN_IF_ERROR(check_data_is_free(ask, request.attributes->data));
  return adopt_unchecked(request, who);
}

Result<wire::AttributesT> Metadata::adopt_unchecked(const wire::AdoptT& request, const Identity& who) {
  const Ask ask{"adopt", request.path, who};
  WEIR_TRY(Place place, locate(ask));
  WEIR_TRY(const std::optional<Record> there, find(place.directory, place.name));
  if (there) return ask.error(ErrorCode::kExists, "it is there already");
  WEIR_RETURN_IF_ERROR(check_change(ask, place, nullptr));
  wire::AttributesT attributes = *request.attributes;
  attributes.rights = 0;
  attributes.capability.clear();
  if (!attributes.is_directory) {
    wire::CreateT shape;
    shape.layout = attributes.layout;
    shape.targets = attributes.targets;
    const std::vector<std::uint64_t> stores = attributes.stores;
    WEIR_RETURN_IF_ERROR(lay_out(ask, shape, attributes));
    attributes.stores = stores;
    if (attributes.data == 0) return ask.error(ErrorCode::kInvalidArgument, "there is no data 0");
  }
  if (attributes.data > kLastNumber || attributes.file > kLastNumber) {
    return ask.error(ErrorCode::kInvalidArgument, concat("numbers of files are at most ", kLastNumber));
  }
  WEIR_RETURN_IF_ERROR(skip_numbers(std::max(attributes.file, attributes.data)));
  WEIR_TRY(const std::optional<std::string> taken, store_.get(record_key(attributes.file)));
  if (attributes.file == 0 || taken) {
    WEIR_TRY(attributes.file, take_number());
  }
  return put_new(std::move(place), std::move(attributes), Enforces::kNothing);
}

Status Metadata::check_access(FileNumber file, const Identity& who, bool for_writing) {
  WEIR_TRY(const Record record, load(file));
  if (may(record.attributes, who, for_writing ? kMayWrite : kMayRead)) return Status::ok();
  return {ErrorCode::kPermission, concat("user ", who.uid, " may not ", for_writing ? "write" : "read", " file ",
                                         wire::quoted_path(record.name))};
}

// ---------------------------------------------------------------- attributes and layouts

// Checks a layout and places its subfiles.  Files start on one target after the other, so that many small ones, of
// which only the first subfile has bytes, do not all meet on the first target.
template <typename Request>
Status Metadata::lay_out(const Ask& ask, const Request& request, wire::AttributesT& attributes) {
  const Result<layout::Partition> partition = wire::to_partition(request.layout);
  if (!partition.is_ok()) {
    return ask.error(ErrorCode::kInvalidArgument, concat("not a layout: ", partition.status().message()));
  }
  if (const Status status = partition->validate(); !status.is_ok()) {
    return {status.code(), concat(ask.operation, " ", wire::quoted_path(ask.path), ": ", status.message()),
            status.location()};
  }
  const Offset subfiles = partition->element_count();
  if (subfiles > wire::kMostSubfiles) {
    return ask.error(ErrorCode::kInvalidArgument,
                     concat("a layout of ", subfiles, " subfiles; at most ", wire::kMostSubfiles));
  }
  std::vector<std::uint32_t> targets = request.targets;
  if (targets.empty()) {
    const std::uint64_t start = next_start_++;
    for (Offset i = 0; i < subfiles; ++i) {
      targets.push_back(static_cast<std::uint32_t>((start + static_cast<std::uint64_t>(i)) % target_count_));
    }
  }
  if (std::ssize(targets) != subfiles) {
    return ask.error(ErrorCode::kInvalidArgument,
                     concat(targets.size(), " targets for ", subfiles,
                            " subfiles: one for each is needed, or none to have them chosen"));
  }
  for (const std::uint32_t target : targets) {
    if (target >= target_count_) {
      return ask.error(ErrorCode::kInvalidArgument, concat("there is no target ", target,
                                                           ": those of this file system are 0 to ", target_count_ - 1));
    }
  }
  attributes.layout = request.layout;
  attributes.stores.clear();
  for (const std::uint32_t target : targets) {
    attributes.stores.push_back(target < request.stores.size() ? request.stores[target] : 0);
  }
  attributes.targets = std::move(targets);
  return Status::ok();
}

Status Metadata::change_owner(const Ask& ask, const wire::SetAttributesT& request, wire::AttributesT& attributes) {
  const bool may_give = is_superuser(ask.who) || (is_owner(attributes, ask.who) && request.uid == attributes.uid &&
                                                  is_in_group(ask.who, request.gid));
  if (!may_give) return ask.denied(concat("give it to user ", request.uid, ", group ", request.gid));
  attributes.uid = request.uid;
  attributes.gid = request.gid;
  return Status::ok();
}

Result<wire::AttributesT> Metadata::set_attributes(const wire::SetAttributesT& request, const Identity& who) {
  const Ask ask{request.layout.empty() ? "set attributes of" : "set layout of", request.path, who};
  WEIR_TRY(Record record, resolve(ask));
  wire::AttributesT& attributes = record.attributes;
  Change change;
  if ((request.touch || !request.layout.empty()) && !is_owner(attributes, who) && !may(attributes, who, kMayWrite)) {
    return ask.denied("write it");
  }
  if (request.set_mode) {
    if (!is_owner(attributes, who)) return ask.denied("change its mode: it belongs to another");
    attributes.mode = request.mode & kModeBits;
  }
  if (request.set_owner) WEIR_RETURN_IF_ERROR(change_owner(ask, request, attributes));
  if (!request.layout.empty()) {
    if (attributes.is_directory) return ask.error(ErrorCode::kIsDirectory, "directories have no layout");
    // Empty, but clients that have the file open with the old layout are told before they write.
    change.remove_subfiles(attributes);
    WEIR_RETURN_IF_ERROR(lay_out(ask, request, attributes));
    WEIR_TRY(attributes.data, take_number());
    ++attributes.epoch;
    WEIR_RETURN_IF_ERROR(forget_relayout(change, attributes.file));
  }
  attributes.changed_ns = now_ns();
  change.batch.put(record_key(attributes.file), encode_record(record));
  WEIR_RETURN_IF_ERROR(apply(std::move(change)));
  return with_rights(ask, std::move(attributes));
}

Result<wire::AttributesT> Metadata::begin_relayout(const wire::BeginRelayoutT& request, const Identity& who) {
  const Ask ask{"relayout", request.path, who};
  WEIR_TRY(Record record, resolve(ask));
  if (record.attributes.is_directory) return ask.error(ErrorCode::kIsDirectory, "directories have no layout");
  if (!may(record.attributes, who, kMayWrite)) return ask.denied("write it");
  Change change;
  wire::AttributesT pending = std::move(record.attributes);
  WEIR_RETURN_IF_ERROR(lay_out(ask, request, pending));
  WEIR_TRY(pending.data, take_number());
  ++pending.epoch;
  WEIR_RETURN_IF_ERROR(forget_relayout(change, pending.file));
  change.batch.put(relayout_key(pending.file), encode_attributes(pending));
  WEIR_RETURN_IF_ERROR(apply(std::move(change)));
  return with_rights(ask, std::move(pending));
}

Result<wire::AttributesT> Metadata::end_relayout(const wire::EndRelayoutT& request, const Identity& who) {
  WEIR_RETURN_IF_ERROR(check_access(request.file, who, true));
  WEIR_TRY(Record record, load(request.file));
  WEIR_TRY(const std::optional<std::string> bytes, store_.get(relayout_key(request.file)));
  wire::AttributesT pending;
  if (bytes) {
    WEIR_TRY(pending, pending_of(request.file, *bytes));
  }
  if (!bytes || pending.data != request.data) {
    return Status{ErrorCode::kStale,
                  concat("relayout of ", wire::quoted_path(record.name), " (file ", request.file, "): the one to ",
                         request.data, " is not under way; another began, or it has ended")};
  }
  Change change;
  change.batch.erase(relayout_key(request.file));
  if (!request.commit) {
    change.remove_subfiles(pending);
  } else {
    // While old subfiles with sidecars are left, the sidecars of the new ones must not say that a relayout is under way.
    change.remove_subfiles(record.attributes, request.file);
    // Mode and owner may have changed since it began: only what the relayout is about is taken over.
    record.attributes.layout = std::move(pending.layout);
    record.attributes.targets = std::move(pending.targets);
    record.attributes.stores = std::move(pending.stores);
    record.attributes.data = pending.data;
    record.attributes.epoch = pending.epoch;
    record.attributes.changed_ns = now_ns();
    change.batch.put(record_key(request.file), encode_record(record));
  }
  WEIR_RETURN_IF_ERROR(apply(std::move(change)));
  return std::move(record.attributes);
}

}  // namespace weir::server::internal
