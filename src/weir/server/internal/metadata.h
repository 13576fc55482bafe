#pragma once

// The namespace: directories, files, their attributes, layouts and targets, kept in a key-value store (records.h tells
// how).
//
// Nothing is cached but a counter, so whatever the store says after a crash is the truth.  Every change is one atomic
// batch; a call that fails has changed nothing, or (if the store itself failed while writing) all of it.
//
// Changes survive a crash of the process when a call returns, and a crash of the machine once a sync() that began later
// has ended: the service (metadata_service.h) says who waits for that.  Numbers are different: they are durable before
// they are used, or after a loss of power a new file would get the number of one that was forgotten, and show its
// bytes.
//
// Bytes of files are not here.  A change that takes subfiles from a file (removal, replacement, another layout) records
// them in the same batch as subfiles to be removed; Removals (removals.h) does that once the change is durable, and then
// forgets the record.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/base/result.h>
#include <weir/net/net.h>
#include <weir/runtime/runtime.h>
#include <weir/server/internal/quotas.h>
#include <weir/server/internal/records.h>
#include <weir/storage/key_value.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time.
class Metadata {
 public:
  struct Options {
    std::uint32_t uid = 0;  ///< Owner of the root directory, if it has to be made.
    std::uint32_t gid = 0;
    std::function<std::int64_t()> now_ns;                ///< Since 1970; unset: the system's clock.
    FileNumber numbers_at_a_time = FileNumber{1} << 16;  ///< Reserved by one durable write, before they are used.
    /// Runs a task on the thread of the object, soon; safe from any thread.  Unset: numbers are not reserved ahead, and
    /// a call that needs some waits for the disk.
    std::function<void(std::function<void()>)> post = {};
  };

  /// \pre `store` outlives the object.  \error what the store says; kCorrupt
  static Result<std::unique_ptr<Metadata>> open(storage::KeyValue& store, Options options);

  /// Targets are numbered from 0; files are placed on these from now on.
  void set_target_count(std::uint32_t count);

  using Identity = net::Identity;
  // Errors of all of them: kInvalidArgument (path), kNotFound, kNotDirectory, kPermission: name operation and path;
  // what the store says.  Of a file, `rights` are those of `who`.

  /// \param access  kMayRead | kMayWrite: what must be among the rights to a file
  Result<wire::AttributesT> lookup(const std::string& path, const Identity& who, std::uint32_t access = 0);
  /// Of a file that was found by its path once: it stays what it is when it is renamed.  Without rights.
  /// \error kNotFound
  Result<wire::AttributesT> lookup(FileNumber number);
  /// \error kExists if exclusive, kIsDirectory; kInvalidArgument if the layout is none, or targets do not fit it
  Result<wire::AttributesT> create(const wire::CreateT& request, const Identity& who);
  Result<wire::AttributesT> make_directory(const wire::MakeDirectoryT& request, const Identity& who);
  /// What was removed.  \error kNotEmpty; kIsDirectory, kNotDirectory if it is the other kind
  Result<wire::AttributesT> remove(const wire::RemoveT& request, const Identity& who);
  /// What was replaced; its `file` is 0 if there was nothing.  As rename() of POSIX: a file replaces a file, a
  /// directory an empty one.
  Result<wire::AttributesT> rename(const wire::RenameT& request, const Identity& who);
  Result<wire::ListingT> list(const wire::ListT& request, const Identity& who);
  Result<wire::AttributesT> set_attributes(const wire::SetAttributesT& request, const Identity& who);

  /// The file as it will be.  One that began earlier and did not end is forgotten: its end will say kStale.
  Result<wire::AttributesT> begin_relayout(const wire::BeginRelayoutT& request, const Identity& who);
  /// The file as it is now.  \error kStale if that relayout is not under way
  Result<wire::AttributesT> end_relayout(const wire::EndRelayoutT& request, const Identity& who);

  /// Subfiles to be removed that changes since the last call have recorded; as pending_removals() lists them.
  [[nodiscard]] std::vector<wire::AttributesT> take_new_removals() { return std::exchange(new_removals_, {}); }
  /// Subfiles to be removed: `data` and `targets` of each, by ascending data; `file`: its sidecars are to be written
  /// first, if it is not 0.
  Result<wire::ListingT> pending_removals(const wire::PendingRemovalsT& request);
  /// All subfiles of `data` are gone.
  Status forget_removal(FileNumber data);
  /// The path of a file, and what it is now.  \error kNotFound
  struct Named {
    std::string path;
    wire::AttributesT attributes;
  };
  Result<Named> named(FileNumber file);

  /// Everything, by ascending number; `name` is the path.  A file with a relayout under way comes twice: as it is, then
  /// as it will be.
  Result<wire::ListingT> all_files(const wire::AllFilesT& request);

  /// A name for subfiles that no file has, or for a directory: for fsck.  `file` and `data` stay what they are where
  /// they are free, other attributes as well.  Durable.  \error kExists if the path or the data is a file's
  Result<wire::AttributesT> adopt(const wire::AdoptT& request, const Identity& who);
  /// The same for a rebuild, which knows that nothing else has the data, and makes all of it durable when it is done.
  Result<wire::AttributesT> adopt_unchecked(const wire::AdoptT& request, const Identity& who);
  /// No number up to this one is given to a file that is made.
  Status skip_numbers(FileNumber last);

  /// Whether `who` may read (write) the file with this number.  \error kNotFound, kPermission
  Status check_access(FileNumber file, const Identity& who, bool for_writing);

  /// Calls `done` once what was done so far survives a crash of the machine; see storage::KeyValue::sync().
  void sync(storage::KeyValue::Done done) { store_.sync(std::move(done)); }

  [[nodiscard]] Quotas& quotas() { return quotas_; }

 private:
  Metadata(storage::KeyValue& store, Options options)
      : store_(store), options_(std::move(options)), quotas_(options_.uid) {}

  /// What is asked, by whom, about what: for checks and messages.
  struct Ask;
  /// Where an entry is or would be.
  struct Place;
  /// Whether a change that gives somebody more files than allowed is refused.
  enum class Enforces : std::uint8_t { kNothing, kQuotas };

  Status start();
  Result<Record> load(FileNumber number);
  Result<std::optional<Record>> find(const Record& directory, std::string_view name);
  Result<Record> load_entry(FileNumber directory, std::string_view name, const Result<FileNumber>& number);
  Result<Record> enter(const Ask& ask, const Record& directory, std::string_view name);
  Result<Record> resolve(const Ask& ask);
  Result<Place> locate(const Ask& ask);
  Status check_change(const Ask& ask, const Place& place, const Record* taken_out);
  Result<bool> is_empty(FileNumber directory);
  Status check_replace(const Ask& ask, const Place& to, const Record& moved, const Record& replaced);

  Result<FileNumber> take_number();
  Status reserve_numbers();
  void reserve_ahead();
  Status check_data_is_free(const Ask& ask, FileNumber data);
  Result<wire::AttributesT> add(const Ask& ask, Place place, wire::AttributesT attributes);
  /// Under the number that the attributes have.
  Result<wire::AttributesT> put_new(Place place, wire::AttributesT attributes, Enforces enforces);
  template <typename Request>
  Status lay_out(const Ask& ask, const Request& request, wire::AttributesT& attributes);
  static Result<wire::AttributesT> with_rights(const Ask& ask, wire::AttributesT attributes, std::uint32_t access = 0);
  Status change_owner(const Ask& ask, const wire::SetAttributesT& request, wire::AttributesT& attributes);
  Result<std::string> path_of(const Record& record);
  void touch(storage::Batch& batch, Record directory) const;
  /// A batch, and the subfiles that it takes from files.
  struct Change;
  /// Applies a batch, and counts what it changes for owners of files, if anybody has a limit.
  Status commit(const storage::Batch& batch, Enforces enforces);
  /// Ends the relayout of the file that is under way, if there is one: its subfiles are to be removed.
  Status forget_relayout(Change& change, FileNumber file);
  Status apply(Change change);
  [[nodiscard]] std::int64_t now_ns() const;

  storage::KeyValue& store_;
  Options options_;
  Quotas quotas_;
  std::uint32_t target_count_ = 1;
  FileNumber next_number_ = 0;
  FileNumber numbers_end_ = 0;  // as the store has it, durably: after a crash, numbers go on from here
  bool is_reserving_ = false;   // ahead of use
  std::uint64_t next_start_ = 0;
  std::vector<wire::AttributesT> new_removals_;
};

}  // namespace weir::server::internal
