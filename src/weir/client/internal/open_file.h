#pragma once

// A file that is open: what it is called, and its attributes as last seen.

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <weir/client/internal/session.h>
#include <weir/client/internal/subfile_slot.h>
#include <weir/client/internal/unsynced.h>
#include <weir/layout/partition.h>

namespace weir::client::internal {

/// Rights to the bytes of a file, as wire::Attributes has them.
inline constexpr std::uint8_t kToWrite = 2;
inline constexpr std::uint8_t kToRead = 4;

/// A file with one layout: after a relayout it is another.  \threadsafety Safe from any thread.
class Incarnation {
 public:
  /// \error kIsDirectory, kCorrupt
  static Result<std::shared_ptr<Incarnation>> create(
      const Session& session, const std::string& path, const wire::AttributesT& attributes,
      std::shared_ptr<Unsynced> unsynced = std::make_shared<Unsynced>(0));

  [[nodiscard]] std::uint64_t file() const { return file_; }
  [[nodiscard]] std::uint64_t data() const { return data_; }
  [[nodiscard]] const layout::Partition& layout() const { return layout_; }
  [[nodiscard]] std::uint32_t element_count() const { return static_cast<std::uint32_t>(targets_.size()); }
  [[nodiscard]] const std::vector<std::uint32_t>& targets() const { return targets_; }
  [[nodiscard]] std::uint32_t server_of(std::uint32_t element) const { return servers_[element]; }
  /// The store that its bytes are in; 0: not known.
  [[nodiscard]] std::uint64_t store_of(std::uint32_t element) const {
    return element < stores_.size() ? stores_[element] : 0;
  }
  [[nodiscard]] storage::SubfileId subfile(std::uint32_t element) const { return {data_, element}; }
  /// Of the file, whatever layout it has.
  [[nodiscard]] const std::shared_ptr<Unsynced>& unsynced() const { return unsynced_; }
  SubfileSlot& slot(std::uint32_t element);
  /// Where all subfiles are; asked once, as soon as every server has answered.
  enum class Place : std::uint8_t {
    kUnknown,
    kKept,          ///< Some are on a store that keeps bytes beyond a crash.
    kMemory,        ///< In memory, but not all on this host.
    kMemoryOfHost,  ///< In memory of this host.
  };
  Place place(Session& session);
  /// Seals what this process has written to mapped memory.
  void seal();

  /// As they were when the file was looked up.
  [[nodiscard]] const wire::AttributesT& attributes() const { return attributes_; }
  /// For calls about its subfiles.
  [[nodiscard]] Capability& capability() { return capability_; }
  /// Its attributes, for another process of the same user.
  [[nodiscard]] wire::AttributesT description() const;
  /// Whether its stores were told what is known of it.
  [[nodiscard]] bool is_described() const { return is_described_.load(std::memory_order_relaxed); }
  void note_described() { is_described_.store(true, std::memory_order_relaxed); }

 private:
  Incarnation(const Session& session, const wire::AttributesT& attributes, layout::Partition layout,
              std::shared_ptr<Unsynced> unsynced);

  std::uint64_t file_;
  std::uint64_t data_;
  layout::Partition layout_;
  std::vector<std::uint32_t> targets_;
  std::vector<std::uint32_t> servers_;  // that have them
  std::vector<std::uint64_t> stores_;
  wire::AttributesT attributes_;  // without the capability
  Capability capability_;
  std::atomic<bool> is_described_{false};
  std::shared_ptr<Unsynced> unsynced_;
  std::atomic<Place> place_{Place::kUnknown};
  std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::unique_ptr<SubfileSlot>> slots_;
};

/// As the wire has it, in a call's table.
inline std::unique_ptr<wire::Subfile> to_wire(storage::SubfileId id) {
  return std::make_unique<wire::Subfile>(id.file, id.element);
}

/// A call to every subfile of a file: `make(element)` is the table for one.
template <typename Make>
std::vector<Outgoing> calls_to_subfiles(const Session& session, Incarnation& file, Make make) {
  std::vector<Outgoing> calls;
  calls.reserve(file.element_count());
  for (std::uint32_t element = 0; element < file.element_count(); ++element) {
    calls.push_back({file.server_of(element),
                     wire::encode_request(make(element), session.timeout_ms(), file.store_of(element)),
                     {},
                     {},
                     {},
                     &file.capability()});
  }
  return calls;
}

/// How long an access waits for a file that is being given a new layout.
struct Patience {
  net::Deadline deadline;
  std::chrono::milliseconds pause{1};  ///< The next one.
  std::chrono::milliseconds waited{0};
  std::chrono::milliseconds next_look{100};  ///< When it has waited for so long: at who holds the fences.
  std::string reason{};                      ///< As the server has it.
};

/// \threadsafety Safe from any thread.
class OpenFile {
 public:
  OpenFile(std::shared_ptr<Session> session, std::string path, std::shared_ptr<Incarnation> incarnation);

  [[nodiscard]] const std::string& path() const { return path_; }
  /// To its bytes, as long as it is open.
  [[nodiscard]] std::uint8_t rights() const { return rights_; }
  [[nodiscard]] Session& session() const { return *session_; }
  [[nodiscard]] const std::shared_ptr<Session>& shared_session() const { return session_; }
  [[nodiscard]] std::shared_ptr<Incarnation> incarnation() const;

  /// What the file is now that `stale` was found to be stale.  If that is still what it is, it is being given a new
  /// layout, and must not be written meanwhile: pauses.  \error kStale if it was removed; kUnavailable if it was not
  /// done by the deadline
  Result<std::shared_ptr<Incarnation>> await_change(const std::shared_ptr<Incarnation>& stale, Patience& patience);

  /// Runs `work(incarnation)`; again if the layout was found to be stale.
  template <typename Work>
  Status run(Work work) {
    Patience patience{session_->deadline()};
    for (auto current = incarnation();;) {
      Status status = work(*current);
      if (status.code() != ErrorCode::kStale) return status;
      patience.reason = status.message();
      WEIR_TRY(current, await_change(current, patience));
    }
  }

  Result<Offset> size();
  Status truncate(Offset size);
  Status preallocate(Offset size);
  /// Bytes and name.  \error kIoError if a server was started again since it got bytes that were not synced: names both
  Status sync();
  /// Only the last; asks only servers that have such bytes.  The same as sync() where memory has checksums.
  Status check_kept();
  /// All of its bytes are in memory of this host that this process may map.
  bool is_in_memory_here();
  /// Looks whether it has another layout by now.
  Status refresh() { return refresh(incarnation()).status(); }
  /// As another process has found it.  \error kStale if it is another file
  Status refresh(const wire::AttributesT& attributes);

 private:
  [[nodiscard]] bool are_alive(Incarnation& file, const std::vector<std::uint64_t>& noted);
  Result<std::shared_ptr<Incarnation>> refresh(const std::shared_ptr<Incarnation>& stale);
  Result<std::shared_ptr<Incarnation>> replace(const std::shared_ptr<Incarnation>& stale,
                                               const wire::AttributesT& attributes);
  Status cut(Incarnation& file, Offset size);
  /// Runs calls that change the file.
  Status run_changes(Incarnation& file, std::span<Outgoing> calls);
  Status check_boots(const std::vector<std::uint64_t>& noted);
  [[nodiscard]] Status lost(const std::vector<std::uint32_t>& servers) const;

  std::shared_ptr<Session> session_;
  std::string path_;
  const std::uint8_t rights_;
  mutable std::mutex mutex_;
  std::shared_ptr<Incarnation> incarnation_;
  std::atomic<bool> is_name_durable_{false};  // once it is, it stays: only Create is answered before it is durable
};

/// Ends relayouts of the file that have lost their client just before their last step: whether they were done is
/// decided, and fences that nobody needs any more are lowered.  Nothing if there is none.
Status end_abandoned_relayouts(Session& session, Incarnation& file);

/// The largest end of the file that its subfiles know.
Result<Offset> size_of(Session& session, Incarnation& file);

/// Bytes of a subfile that a file of `size` bytes can have: all offsets of bytes below `size` are less.
Offset room_for(const layout::Element& element, Offset size);

}  // namespace weir::client::internal
