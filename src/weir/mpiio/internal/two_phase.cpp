#include <weir/mpiio/internal/two_phase.h>

#include <algorithm>
#include <cstring>

#include <weir/layout/mapping.h>
#include <weir/layout/view_layout.h>

namespace weir::mpiio::internal {

namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 20;  // of a view, for other ranks
// To find out whether two views have bytes in common.
constexpr layout::Budget kBudget{.runs = 2048, .steps = 32768};

Offset length(Range range) { return range.to - range.from; }

void grow(std::vector<std::byte>& buffer, Offset bytes) {
  if (static_cast<Offset>(buffer.size()) < bytes) buffer.resize(static_cast<std::size_t>(bytes));
}

// Parcels one after the other, of so many bytes each.
void pile(Parcels& parcels, const std::vector<Range>& parts) {
  parcels.counts.assign(parts.size(), 0);
  parcels.starts.assign(parts.size(), 0);
  int at = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parcels.starts[i] = at;
    parcels.counts[i] = static_cast<int>(length(parts[i]));
    at += parcels.counts[i];
  }
}

Offset sum(const Parcels& parcels) { return Offset{parcels.starts.back()} + parcels.counts.back(); }

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

Result<std::unique_ptr<Peers>> introduce(Meeting& meeting, const std::string& call, const layout::Element& mine) {
  std::string text = mine.is_monotone() ? layout::to_text(mine) : std::string();
  if (text.size() > kLongestText) text.clear();
  WEIR_TRY(const std::vector<std::string> texts, meeting.gather(call, text));
  auto peers = std::make_unique<Peers>();
  // The texts are the same on all ranks, and so is what they mean.
  for (const std::string& other : texts) {
    auto view = layout::from_text(other);
    if (other.empty() || !view.is_ok()) return std::unique_ptr<Peers>();
    peers->views.emplace_back(std::move(view).value());
  }
  const Offset overlaps = may_overlap(peers->views, static_cast<std::size_t>(meeting.rank())) ? 1 : 0;
  WEIR_TRY(const std::vector<Offset> all, meeting.gather(call, std::span(&overlaps, 1)));
  peers->are_disjoint = std::all_of(all.begin(), all.end(), [](Offset some) { return some == 0; });
  return peers;
}

TwoPhase::TwoPhase(Meeting& meeting, std::string call, Peers& peers, const std::vector<Share>& shares,
                   const Domains& domains, const client::View& file, std::shared_ptr<Buffers>& buffers)
    : meeting_(meeting),
      call_(std::move(call)),
      peers_(peers),
      shares_(shares),
      domains_(domains),
      file_(file),
      buffers_(buffers),
      rank_(meeting.rank()),
      size_(meeting.size()),
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
  pile(with_owners_, of_mine_);
  pile(with_ranks_, of_others_);
}

Status TwoPhase::exchange(Parcels& from, Parcels& to) {
  from.data = buffers_->outgoing.data();
  to.data = buffers_->incoming.data();
  Status status = meeting_.exchange(call_, from, to);
  if (!status.is_ok())
    new std::shared_ptr<Buffers>(std::move(buffers_));  // NOLINT: lost on purpose, MPI may still use them
  return status;
}

Outcome TwoPhase::write(ProgramMemory& memory) {
  Status status;
  client::Pending under_way[2];
  const auto finish = [&](client::Pending& pending) {
    const Status ended = pending.wait();
    if (status.is_ok()) status = ended;
  };
  const Offset start = shares_[static_cast<std::size_t>(rank_)].from;
  for (int round = 0; round < domains_.rounds(); ++round) {
    lay_out(round);
    grow(buffers_->outgoing, sum(with_owners_));
    grow(buffers_->incoming, sum(with_ranks_));
    for (std::size_t i = 0; i < of_mine_.size(); ++i) {
      memory.get({of_mine_[i].from - start, of_mine_[i].to - start},
                 buffers_->outgoing.data() + with_owners_.starts[i]);
    }
    WEIR_PASS(exchange(with_owners_, with_ranks_));
    if (length(window_) == 0) continue;
    std::vector<std::byte>& window = buffers_->windows[round % 2];
    finish(under_way[round % 2]);
    grow(window, length(window_));
    for (std::size_t i = 0; i < of_others_.size(); ++i) {
      if (length(of_others_[i]) == 0) continue;
      peers_.views[i].unpack(buffers_->incoming.data() + with_ranks_.starts[i], of_others_[i],
                             {window.data(), window_.from});
    }
    if (!status.is_ok()) continue;
    under_way[round % 2] = file_.start_write(
        window_.from, std::span<const std::byte>(window.data(), static_cast<std::size_t>(length(window_))));
  }
  for (client::Pending& pending : under_way) finish(pending);
  return status;
}

Outcome TwoPhase::read(ProgramMemory& memory) {
  Status status;
  client::Pending under_way[2];
  const auto start_reading = [&](int round) {
    const Range range = domains_.window_of(rank_, round);
    if (length(range) == 0) return;
    std::vector<std::byte>& window = buffers_->windows[round % 2];
    grow(window, length(range));
    under_way[round % 2] =
        file_.start_read(range.from, std::span<std::byte>(window.data(), static_cast<std::size_t>(length(range))));
  };
  const Offset start = shares_[static_cast<std::size_t>(rank_)].from;
  start_reading(0);
  for (int round = 0; round < domains_.rounds(); ++round) {
    lay_out(round);
    grow(buffers_->outgoing, sum(with_ranks_));
    grow(buffers_->incoming, sum(with_owners_));
    const Status ended = under_way[round % 2].wait();
    under_way[round % 2] = {};
    if (status.is_ok()) status = ended;
    if (round + 1 < domains_.rounds()) start_reading(round + 1);
    for (std::size_t i = 0; i < of_others_.size(); ++i) {
      if (length(of_others_[i]) == 0) continue;
      peers_.views[i].pack({buffers_->windows[round % 2].data(), window_.from}, of_others_[i],
                           buffers_->outgoing.data() + with_ranks_.starts[i]);
    }
    WEIR_PASS(exchange(with_ranks_, with_owners_));
    for (std::size_t i = 0; i < of_mine_.size(); ++i) {
      memory.put(buffers_->incoming.data() + with_owners_.starts[i],
                 {of_mine_[i].from - start, of_mine_[i].to - start});
    }
  }
  return status;
}

}  // namespace weir::mpiio::internal
