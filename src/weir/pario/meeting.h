#pragma once

// Collective calls: all ranks make the same ones in the same order, or all of them get an error that says which ranks
// differ and how.
//
// A call that needs other ranks meets them: one small reduction if all is well.  A call that needs nothing of others is
// only noted, and does not wait: each rank keeps a digest of what it noted, and the next meeting compares the digests
// by the same reduction.  Only if they differ do ranks exchange their last calls, to name the first one that is not the
// same.  So a mistake is reported by the next call that meets: sync and close always do.
//
// After the limit of the group a missing rank is named (group/group.h), and every later call fails at once.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <weir/group/group.h>
#include <weir/pario/operation.h>

namespace weir::pario {

/// What an error of one rank means for the others.
enum class Together {
  kAllOrNone,  ///< All get it.
  kEach,       ///< Nothing.
};

class Meeting {
 public:
  Meeting(std::unique_ptr<group::Group> group, const CallNames& names) : group_(std::move(group)), names_(names) {}

  [[nodiscard]] group::Group& group() { return *group_; }
  [[nodiscard]] int rank() const { return group_->rank(); }
  [[nodiscard]] int size() const { return group_->size(); }
  [[nodiscard]] std::string_view name_of(Operation operation) const {
    return names_[static_cast<std::size_t>(operation)];
  }

  /// What any rank tells the others in a meeting: in, of this rank; out, whether any rank has set it.
  struct Flags {
    bool first = false;
    bool second = false;
  };
  /// All ranks call this with the same operation and terms.  `call`: for messages.  `mine` says whether this rank can
  /// do its part.
  Status meet(Operation operation, const std::string& call, const std::vector<group::Term>& terms, const Status& mine,
              Together together, Flags* flags = nullptr);
  /// A collective call that needs nothing of other ranks.  \error if ranks can no longer be met
  Status note(Operation operation, std::string_view call) {
    if (group_->is_broken()) return broken(call);
    if (size() > 1) remember(operation);
    return Status::ok();
  }

  /// After meeting for the last time: leaves the group, unless ranks made different calls, or could not be met.
  void leave(const std::string& call);

 private:
  void remember(Operation operation);
  [[nodiscard]] Status broken(std::string_view call) const;
  [[nodiscard]] std::string last_calls() const;
  Result<std::string> compare_calls(const std::string& call);

  static constexpr std::size_t kRemembered = 32;                    // calls
  static constexpr std::uint64_t kHashStart = 0xcbf29ce484222325u;  // FNV-1a

  std::unique_ptr<group::Group> group_;
  const CallNames& names_;
  // Of this rank's calls on the file:
  std::uint64_t calls_ = 0;            // noted ones included
  std::uint64_t digest_ = kHashStart;  // of all since the last meeting
  std::array<Operation, kRemembered> recent_{};
  std::uint64_t forgotten_ = 0;  // calls before this one are not in `recent_`

  bool is_same_call_ = true;  // in the last meeting
};

}  // namespace weir::pario
