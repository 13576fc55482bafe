// Collective accesses that go by message: each rank alone, or all in two phases.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>

#include <weir/log/log.h>
#include <weir/mpiio/internal/file.h>
#include <weir/mpiio/internal/transfer.h>

namespace weir::mpiio::internal {

namespace {

using Clock = std::chrono::steady_clock;

// What a rank tells the others about its part.  From kWanted on, rank 0 speaks for all.
enum {
  kFrom,
  kBytes,
  kFirst,
  kEnd,
  kMessages,
  kPieces,
  kTouched,
  kIsBad,
  kWanted,
  kOwners,
  kWindow,
  kAlignment,
  kTargets,
  kIsOnDisk,
  kCount
};

Offset number_of(const Hints& hints, const std::string& key) {
  const auto text = hints.get(key);
  Offset value = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return std::clamp<Offset>(value, 0, std::numeric_limits<int>::max());
}

bool has_disk(const client::FileSystem& fs) {
  const auto usage = fs.usage();
  return usage.is_ok() && std::any_of(usage->begin(), usage->end(),
                                      [](const client::TargetUsage& target) { return target.store != "memory"; });
}

// However their views are: no two ranks reach for the same part of the file.
bool are_apart(std::vector<Share> shares) {
  std::sort(shares.begin(), shares.end(), [](const Share& x, const Share& y) { return x.file.from < y.file.from; });
  Offset end = 0;
  for (const Share& share : shares) {
    if (share.bytes == 0) continue;
    if (share.file.from < end) return false;
    end = share.file.to;
  }
  return true;
}

// What all ranks told, one after the other.
CollectiveFacts facts_of(bool is_write, bool are_disjoint, const std::vector<Offset>& told) {
  CollectiveFacts facts;
  facts.is_write = is_write;
  facts.are_disjoint = are_disjoint;
  facts.is_on_disk = told[kIsOnDisk] != 0;
  facts.targets = told[kTargets];
  bool is_empty = true;
  for (auto rank = told.begin(); rank != told.end(); rank += kCount) {
    facts.shares.push_back(
        {rank[kFrom], rank[kBytes], {rank[kFirst], rank[kEnd]}, rank[kMessages], rank[kPieces], rank[kTouched]});
    is_empty = is_empty && rank[kBytes] == 0;
  }
  if (is_empty) return facts;
  facts.are_disjoint = facts.are_disjoint || are_apart(facts.shares);
  facts.domains =
      divide(facts.shares,
             {.most_owners = static_cast<int>(told[kOwners]), .window = told[kWindow], .alignment = told[kAlignment]});
  return facts;
}

bool is_any_bad(const std::vector<Offset>& told) {
  for (auto rank = told.begin(); rank != told.end(); rank += kCount) {
    if (rank[kIsBad] != 0) return true;
  }
  return false;
}

}  // namespace

// Before the ranks meet.  What is asked here, the access itself would have to ask as well.
bool File::may_go_together(const Access& access, const Transfer& transfer) const {
  if (meeting_->size() == 1 || transfer.view().overlap) return false;
  Offset etypes = access.offset;
  {
    const std::lock_guard lock(mutex_);
    if (wanted_ == Method::kAlone || is_atomic_) return false;
    if (wanted_ == Method::kTwoPhase) return true;
    if (access.pointer != Pointer::kExplicit) etypes = access.pointer == Pointer::kIndividual ? position_ : 0;
  }
  const Result<Offset> from = checked_mul(etypes, transfer.view().etype_bytes);
  return from.is_ok() && transfer.may_be_shared(*from);
}

std::vector<Offset> File::describe_share(const Transfer& transfer, bool is_ready) const {
  std::vector<Offset> told(kCount);
  const Result<Share> share = transfer.share();
  if (!is_ready || !share.is_ok()) {
    told[kIsBad] = 1;
    return told;
  }
  told[kFrom] = share->from;
  told[kBytes] = share->bytes;
  told[kFirst] = share->file.from;
  told[kEnd] = share->file.to;
  told[kMessages] = share->messages;
  told[kPieces] = share->pieces;
  told[kTouched] = share->touched_bytes;
  if (meeting_->rank() != 0) return told;
  if (!collective_state_->is_on_disk) collective_state_->is_on_disk = has_disk(*fs_);
  const layout::Partition layout = data_->layout();
  told[kAlignment] = layout.period();
  told[kTargets] = std::min<Offset>(fs_->target_count(), layout.element_count());
  told[kIsOnDisk] = *collective_state_->is_on_disk ? 1 : 0;
  const std::lock_guard lock(mutex_);
  told[kWanted] = static_cast<Offset>(wanted_);
  told[kOwners] = number_of(hints_, "cb_nodes");
  told[kWindow] = number_of(hints_, "cb_buffer_size");
  return told;
}

// All ranks have met, and all of them may.  A rank that cannot go on says so, for the others wait for it.
Outcome File::access_together(const Access& access, Transfer& transfer, const Outcome& located, Offset from) {
  const std::string call = concat(access.call, " ", path_);
  const Outcome ready = located.is_ok() ? transfer.get_ready(from) : located;
  if (!collective_state_) collective_state_ = std::make_unique<CollectiveState>();
  if (!collective_state_->has_met) {
    WEIR_TRY(collective_state_->peers, introduce(*meeting_, call, transfer.view().element()));
    collective_state_->has_met = true;
    if (!collective_state_->peers) WEIR_LOG_INFO("{}: each rank goes alone: a view cannot be told to others", call);
  }
  if (!collective_state_->peers) return transfer.run_alone(ready);
  if (!collective_state_->whole) {
    if (const auto whole = data_->linear(); whole.is_ok()) collective_state_->whole = *whole;
  }
  const std::vector<Offset> mine = describe_share(transfer, ready.is_ok() && collective_state_->whole);
  WEIR_TRY(const std::vector<Offset> told, meeting_->gather(call, mine));
  if (is_any_bad(told)) return transfer.run_alone(ready);
  const CollectiveFacts facts = facts_of(access.is_write, collective_state_->peers->are_disjoint, told);
  const CollectiveChoice choice = choose(facts, static_cast<Method>(told[kWanted]));

  const Clock::time_point start = Clock::now();
  Outcome outcome;
  if (choice.method == Method::kTwoPhase) {
    outcome = transfer.run_together(*collective_state_->whole, [&](ProgramMemory& memory) {
      TwoPhase both(*meeting_, call, *collective_state_->peers, facts.shares, facts.domains, *collective_state_->whole,
                    collective_state_->buffers);
      const Outcome moved = access.is_write ? both.write(memory) : both.read(memory);
      return meet(access.call, {}, moved, Together::kAllOrNone);
    });
  } else {
    outcome = transfer.run_alone(ready);
  }
  const std::string why = concat(to_text(choice.method), ": ", choice.why);
  if (meeting_->rank() == 0) {
    if (trace::is_on && collective_state_->told[access.is_write ? 1 : 0] != choice.method) {
      collective_state_->told[access.is_write ? 1 : 0] = choice.method;
      trace::chosen(this, access.is_write ? "collective writes" : "collective reads",
                    std::string(to_text(choice.method)), choice.why);
    }
    const double taken = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    WEIR_LOG_INFO("{}: {}; took {} ms (hint weir_collective, or WEIR_COLLECTIVE, decides otherwise)", call, why, taken);
  }
  const std::lock_guard lock(mutex_);
  hints_.set("weir_collective_last", why);
  return outcome;
}

}  // namespace weir::mpiio::internal
