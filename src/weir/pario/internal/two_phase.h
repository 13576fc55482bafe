#pragma once

// A collective access in two phases; see collective.h.  Views ascend, so what a rank has of a contiguous part of the
// file is contiguous in its view: it is sent as it is, and only the part's owner puts pieces in place.

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <weir/client/file_system.h>
#include <weir/group/group.h>
#include <weir/pario/collective.h>
#include <weir/transfer/plan.h>

namespace weir::pario::internal {

/// An element that is packed and unpacked again and again: by a plan, or piece by piece if it is too irregular for one.
class Packer {
 public:
  explicit Packer(layout::Element element) : element_(std::move(element)) {}
  [[nodiscard]] const layout::Element& element() const { return element_; }

  /// Bytes `range` of the element, to and from where it is strided.
  void pack(transfer::Source strided, Range range, std::byte* packed);
  void unpack(const std::byte* packed, Range range, transfer::Target strided);

 private:
  layout::Element element_;
  std::optional<transfer::Plan> gather_;
  std::optional<transfer::Plan> scatter_;
  bool has_tried_gather_ = false;
  bool has_tried_scatter_ = false;
};

/// What ranks know of each other's views.
struct Peers {
  std::vector<Packer> views;  ///< By rank.
  bool are_disjoint = false;
};
/// Collective, after meeting.  Null, on all ranks, if a view does not ascend or has too many parts to be told to
/// others.
Result<std::unique_ptr<Peers>> exchange_views(group::Group& group, const std::string& call,
                                              const layout::Element& mine);

/// A program's memory, in one piece or not.
struct ProgramMemory {
  std::byte* data = nullptr;
  std::optional<Packer> pieces;  ///< Nothing: bytes follow each other.

  void get(Range range, std::byte* packed);
  void put(const std::byte* packed, Range range);
};

/// Buffers that are used again by the next access.
struct Buffers {
  std::vector<std::byte> outgoing;
  std::vector<std::byte> incoming;
  std::vector<std::byte> windows[2];
};

/// What ranks keep for it from access to access, as long as their views stay.
struct CollectiveState {
  bool has_met = false;
  std::unique_ptr<Peers> peers;       ///< Null: two phases cannot be.
  std::optional<client::View> whole;  ///< Byte x of the file at offset x.
  Method told[2] = {};                ///< In the trace: reads, writes.
  std::optional<bool> is_on_disk;     ///< Only rank 0 knows.
  std::shared_ptr<Buffers> buffers;
};

class TwoPhase {
 public:
  /// All of these must stay.  `file`: all of it, byte x at offset x.  `buffers` are lost if ranks do not come:
  /// others may still use them.
  TwoPhase(group::Group& group, std::string call, Peers& peers, const std::vector<Share>& shares,
           const Domains& domains, const client::View& file, std::shared_ptr<Buffers>& buffers);

  /// Collective.  What goes wrong with the file is told by each owner; all ranks take part to the end.
  Status write(ProgramMemory& memory);
  Status read(ProgramMemory& memory);

 private:
  [[nodiscard]] Range part_of(int rank, Range window) const;
  [[nodiscard]] Range in_memory(Range of_view) const;
  void lay_out(int round);
  void pack_for_owners(ProgramMemory& memory);
  void start_reading(int round, client::Pending& pending);
  Status exchange(const group::RankBuffers& out, const group::RankBuffers& in);

  group::Group& group_;
  std::string call_;
  Peers& peers_;
  const std::vector<Share>& shares_;
  const Domains& domains_;
  const client::View& file_;
  std::shared_ptr<Buffers>& buffers_;
  int rank_;
  int size_;
  Range window_;                    // mine, of this round
  std::vector<Range> of_others_;    // by rank: what it has of my window, in bytes of its view
  std::vector<Range> of_mine_;      // by owner: what I have of its window, in bytes of my view
  group::RankBuffers with_owners_;  // on this rank's side
  group::RankBuffers with_ranks_;   // on the side of an owner
  Offset to_owners_bytes_ = 0;      // what stays here included
  Offset from_ranks_bytes_ = 0;
};

}  // namespace weir::pario::internal
