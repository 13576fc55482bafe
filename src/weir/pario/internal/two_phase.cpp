#include <weir/pario/internal/two_phase.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include <weir/layout/mapping.h>
#include <weir/layout/view_layout.h>
#include <weir/pario/view.h>

namespace weir::pario::internal {

using group::RankBuffers;

namespace {

// To find out whether two views have bytes in common.
constexpr layout::Budget kBudget{.runs = 2048, .steps = 32768};

Offset length(Range range) { return range.to - range.from; }

void grow(std::vector<std::byte>& buffer, Offset bytes) {
  if (static_cast<Offset>(buffer.size()) < bytes) buffer.resize(static_cast<std::size_t>(bytes));
}

// The bytes of all ranks one after the other, as long as `parts` say.  \returns bytes of all of them
Offset set_counts(RankBuffers& buffers, const std::vector<Range>& parts) {
  buffers.counts.assign(parts.size(), 0);
  buffers.starts.assign(parts.size(), 0);
  int at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    buffers.starts[i] = at;
    buffers.counts[i] = static_cast<int>(length(parts[i]));
    at += buffers.counts[i];
  }
  return at;
}

// Whether a byte of this rank's view is in that of a higher one; those of lower ranks find out themselves.
bool may_overlap(const std::vector<Packer>& views, std::size_t rank) {
  for (std::size_t other = rank + 1; other < views.size(); ++other) {
    if (views[rank].element().is_empty() || views[other].element().is_empty()) continue;
    const auto common = layout::intersect(views[rank].element(), views[other].element(), kBudget);
    if (!common.is_ok() || !common->is_empty()) return true;
  }
  return false;
}

}  // namespace

// ---------------------------------------------------------------- packing

void Packer::pack(transfer::Source strided, Range range, std::byte* packed) {
  if (!has_tried_gather_) {
    has_tried_gather_ = true;
    if (auto plan = transfer::Plan::gather(element_); plan.is_ok()) gather_ = std::move(plan).value();
  }
  if (gather_) return gather_->run(strided, {packed, range.from}, range);
  for (layout::SegmentCursor cursor(element_, range.from, range.to); const auto segment = cursor.next();) {
    std::memcpy(packed, static_cast<const std::byte*>(strided.data) + (segment->offset - strided.origin),
                static_cast<std::size_t>(segment->length));
    packed += segment->length;
  }
}

void Packer::unpack(const std::byte* packed, Range range, transfer::Target strided) {
  if (!has_tried_scatter_) {
    has_tried_scatter_ = true;
    if (auto plan = transfer::Plan::scatter(element_); plan.is_ok()) scatter_ = std::move(plan).value();
  }
  if (scatter_) return scatter_->run({packed, range.from}, strided, range);
  for (layout::SegmentCursor cursor(element_, range.from, range.to); const auto segment = cursor.next();) {
    std::memcpy(static_cast<std::byte*>(strided.data) + (segment->offset - strided.origin), packed,
                static_cast<std::size_t>(segment->length));
    packed += segment->length;
  }
}

void ProgramMemory::get(Range range, std::byte* packed) {
  if (range.from >= range.to) return;
  if (pieces) return pieces->pack({data, 0}, range, packed);
  std::memcpy(packed, data + range.from, static_cast<std::size_t>(length(range)));
}

void ProgramMemory::put(const std::byte* packed, Range range) {
  if (range.from >= range.to) return;
  if (pieces) return pieces->unpack(packed, range, {data, 0});
  std::memcpy(data + range.from, packed, static_cast<std::size_t>(length(range)));
}

// ---------------------------------------------------------------- ranks

Result<std::unique_ptr<Peers>> exchange_views(group::Group& group, const std::string& call,
                                              const layout::Element& mine) {
  const std::string text = mine.is_monotone() ? text_for_others(mine) : std::string();
  WEIR_TRY(const std::vector<std::string> texts, group.gather(call, text));
  auto peers = std::make_unique<Peers>();
  // The texts are the same on all ranks, and so is what they mean.
  for (const std::string& other : texts) {
    auto view = layout::from_text(other);
    if (other.empty() || !view.is_ok()) return std::unique_ptr<Peers>();
    peers->views.emplace_back(std::move(view).value());
  }
  const Offset overlaps = may_overlap(peers->views, static_cast<std::size_t>(group.rank())) ? 1 : 0;
  WEIR_TRY(const std::vector<Offset> all, group.gather(call, std::span(&overlaps, 1)));
  peers->are_disjoint = std::all_of(all.begin(), all.end(), [](Offset some) { return some == 0; });
  return peers;
}

TwoPhase::TwoPhase(group::Group& group, std::string call, Peers& peers, const std::vector<Share>& shares,
                   const Domains& domains, const client::View& file, std::shared_ptr<Buffers>& buffers)
    : group_(group),
      call_(std::move(call)),
      peers_(peers),
      shares_(shares),
      domains_(domains),
      file_(file),
      buffers_(buffers),
      rank_(group.rank()),
      size_(group.size()),
      of_others_(shares.size()),
      of_mine_(shares.size()) {
  if (!buffers_) buffers_ = std::make_shared<Buffers>();
}

// What a rank has of a window, in bytes of its view.
Range TwoPhase::part_of(int rank, Range window) const {
  const auto at = static_cast<std::size_t>(rank);
  const Share& share = shares_[at];
  const layout::Element& view = peers_.views[at].element();
  const Offset from = std::clamp(view.count_below(window.from), share.from, share.from + share.bytes);
  const Offset to = std::clamp(view.count_below(window.to), share.from, share.from + share.bytes);
  return {from, to};
}

void TwoPhase::lay_out(int round) {
  window_ = domains_.window_of(rank_, round);
  for (int other = 0; other < size_; ++other) {
    const auto at = static_cast<std::size_t>(other);
    of_others_[at] = part_of(other, window_);
    of_mine_[at] = part_of(rank_, domains_.window_of(other, round));
  }
  to_owners_bytes_ = set_counts(with_owners_, of_mine_);
  from_ranks_bytes_ = set_counts(with_ranks_, of_others_);
  // What stays on this rank needs no message.
  const auto me = static_cast<std::size_t>(rank_);
  with_owners_.counts[me] = 0;
  with_ranks_.counts[me] = 0;
}

Status TwoPhase::exchange(const RankBuffers& out, const RankBuffers& in) {
  Status status = group_.exchange(call_, out, in);
  if (!status.is_ok()) new std::shared_ptr<Buffers>(std::move(buffers_));  // NOLINT: lost on purpose
  return status;
}

// Byte 0 is the first of this rank's share.
Range TwoPhase::in_memory(Range of_view) const {
  const Offset start = shares_[static_cast<std::size_t>(rank_)].from;
  return {of_view.from - start, of_view.to - start};
}

// What goes to the owners of this round: from where it is if it is in one piece there.
void TwoPhase::pack_for_owners(ProgramMemory& memory) {
  const bool fits = shares_[static_cast<std::size_t>(rank_)].bytes <= std::numeric_limits<int>::max();
  if (!memory.pieces && fits) {
    with_owners_.data = memory.data;
    for (std::size_t i = 0; i < of_mine_.size(); ++i) {
      with_owners_.starts[i] = static_cast<int>(in_memory(of_mine_[i]).from);
    }
    return;
  }
  grow(buffers_->outgoing, to_owners_bytes_);
  with_owners_.data = buffers_->outgoing.data();
  for (std::size_t i = 0; i < of_mine_.size(); ++i) {
    memory.get(in_memory(of_mine_[i]), with_owners_.data + with_owners_.starts[i]);
  }
}

Status TwoPhase::write(ProgramMemory& memory) {
  Status status;
  client::Pending under_way[2];
  const auto finish = [&](client::Pending& pending) {
    const Status ended = pending.wait();
    if (status.is_ok()) status = ended;
  };
  const auto me = static_cast<std::size_t>(rank_);
  for (int round = 0; round < domains_.rounds(); ++round) {
    lay_out(round);
    pack_for_owners(memory);
    grow(buffers_->incoming, from_ranks_bytes_);
    with_ranks_.data = buffers_->incoming.data();
    WEIR_RETURN_IF_ERROR(exchange(with_owners_, with_ranks_));
    if (length(window_) == 0) continue;
    std::vector<std::byte>& window = buffers_->windows[round % 2];
    finish(under_way[round % 2]);
    grow(window, length(window_));
    for (std::size_t i = 0; i < of_others_.size(); ++i) {
      if (length(of_others_[i]) == 0) continue;
      const RankBuffers& from = i == me ? with_owners_ : with_ranks_;
      peers_.views[i].unpack(from.data + from.starts[i], of_others_[i], {window.data(), window_.from});
    }
    if (!status.is_ok()) continue;
    const auto bytes = static_cast<std::size_t>(length(window_));
    under_way[round % 2] = file_.start_write(window_.from, std::span<const std::byte>(window.data(), bytes));
  }
  for (client::Pending& pending : under_way) finish(pending);
  return status;
}

void TwoPhase::start_reading(int round, client::Pending& pending) {
  const Range range = domains_.window_of(rank_, round);
  pending = {};
  if (length(range) == 0) return;
  std::vector<std::byte>& window = buffers_->windows[round % 2];
  grow(window, length(range));
  const auto bytes = static_cast<std::size_t>(length(range));
  pending = file_.start_read(range.from, std::span<std::byte>(window.data(), bytes));
}

Status TwoPhase::read(ProgramMemory& memory) {
  Status status;
  client::Pending under_way[2];
  const auto me = static_cast<std::size_t>(rank_);
  start_reading(0, under_way[0]);
  for (int round = 0; round < domains_.rounds(); ++round) {
    lay_out(round);
    grow(buffers_->outgoing, from_ranks_bytes_);
    grow(buffers_->incoming, to_owners_bytes_);
    with_ranks_.data = buffers_->outgoing.data();
    with_owners_.data = buffers_->incoming.data();
    const Status ended = under_way[round % 2].wait();
    if (status.is_ok()) status = ended;
    if (round + 1 < domains_.rounds()) start_reading(round + 1, under_way[(round + 1) % 2]);
    const transfer::Source window{buffers_->windows[round % 2].data(), window_.from};
    for (std::size_t i = 0; i < of_others_.size(); ++i) {
      if (length(of_others_[i]) == 0) continue;
      std::byte* const place = i == me && !memory.pieces ? memory.data + in_memory(of_others_[i]).from
                               : i == me                 ? with_owners_.data + with_owners_.starts[i]
                                                         : with_ranks_.data + with_ranks_.starts[i];
      peers_.views[i].pack(window, of_others_[i], place);
    }
    WEIR_RETURN_IF_ERROR(exchange(with_ranks_, with_owners_));
    for (std::size_t i = 0; i < of_mine_.size(); ++i) {
      if (i == me && !memory.pieces) continue;
      memory.put(with_owners_.data + with_owners_.starts[i], in_memory(of_mine_[i]));
    }
  }
  return status;
}

}  // namespace weir::pario::internal
