// Collective accesses that go by message: each rank alone, or all in two phases.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <weir/log/log.h>
#include <weir/pario/file.h>
#include <weir/pario/internal/transfer.h>

namespace weir::pario {

using internal::CollectiveState;
using internal::ProgramMemory;
using internal::Transfer;
using internal::TwoPhase;

namespace {

constexpr double kFactorUnit = 1 << 20;

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
  kWindowBytes,
  kAlignment,
  kTargets,
  kIsOnDisk,
  kIsRemote,
  kAloneFactor,  // in units of 1 / kFactorUnit
  kTwoPhaseFactor,
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

bool has_remote(const client::FileSystem& fs) {
  // Nobody needs to ask servers where they are if that makes no difference.
  if (fs.costs().remote == fs.costs().server) return false;
  const std::vector<std::string> hosts = fs.target_hosts();
  return std::any_of(hosts.begin(), hosts.end(),
                     [](const std::string& host) { return host != client::FileSystem::this_host(); });
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
CollectiveFacts facts_of(bool is_write, bool are_disjoint, const std::vector<Offset>& told, const model::Io& costs) {
  CollectiveFacts facts;
  facts.is_write = is_write;
  facts.are_disjoint = are_disjoint;
  facts.is_on_disk = told[kIsOnDisk] != 0;
  facts.place = told[kIsRemote] != 0 ? model::Place::kOtherHost : model::Place::kThisHost;
  facts.targets = told[kTargets];
  facts.factors = {static_cast<double>(told[kAloneFactor]) / kFactorUnit,
                   static_cast<double>(told[kTwoPhaseFactor]) / kFactorUnit};
  bool is_empty = true;
  for (auto rank = told.begin(); rank != told.end(); rank += kCount) {
    facts.shares.push_back(
        {rank[kFrom], rank[kBytes], {rank[kFirst], rank[kEnd]}, rank[kMessages], rank[kPieces], rank[kTouched]});
    is_empty = is_empty && rank[kBytes] == 0;
  }
  if (is_empty) return facts;
  facts.are_disjoint = facts.are_disjoint || are_apart(facts.shares);
  facts.domains = divide(
      facts.shares,
      {.most_owners = static_cast<int>(told[kOwners]), .window = told[kWindowBytes], .alignment = told[kAlignment]},
      costs);
  return facts;
}

// All ranks must choose alike: from what rank 0 knows of its machine.
Result<model::Io> costs_of_first(group::Group& group, const std::string& call, const model::Io& mine) {
  static_assert(std::is_trivially_copyable_v<model::Io>);
  std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  WEIR_TRY(bytes, group.bytes_of(call, 0, std::move(bytes)));
  model::Io costs;
  if (bytes.size() != sizeof costs) return corrupt(concat(call, ": rank 0 runs another version of Weir"));
  std::memcpy(&costs, bytes.data(), sizeof costs);
  return costs;
}

bool is_any_bad(const std::vector<Offset>& told) {
  for (auto rank = told.begin(); rank != told.end(); rank += kCount) {
    if (rank[kIsBad] != 0) return true;
  }
  return false;
}

}  // namespace

// Before the ranks meet.  What is asked here, the access itself would have to ask as well.
bool File::may_go_together(const AccessRequest& access, const Transfer& transfer) const {
  if (ranks() == 1 || transfer.view().overlap) return false;
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

std::vector<Offset> File::describe_share(bool is_write, const Transfer& transfer, bool is_ready) const {
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
  if (rank() != 0) return told;
  if (!collective_state_->is_on_disk) collective_state_->is_on_disk = has_disk(*fs_);
  const layout::Partition layout = data_->layout();
  told[kAlignment] = layout.period();
  told[kTargets] = std::min<Offset>(fs_->target_count(), layout.element_count());
  told[kIsOnDisk] = *collective_state_->is_on_disk ? 1 : 0;
  told[kIsRemote] = has_remote(*fs_) ? 1 : 0;
  const model::Corrections::Factors factors = corrections_.factors(
      kind_of(Method::kAlone, is_write), kind_of(Method::kTwoPhase, is_write), share->bytes * ranks(), clock().now());
  told[kAloneFactor] = std::llround(factors.first * kFactorUnit);
  told[kTwoPhaseFactor] = std::llround(factors.second * kFactorUnit);
  const std::lock_guard lock(mutex_);
  told[kWanted] = static_cast<Offset>(wanted_);
  told[kOwners] = number_of(hints_, "cb_nodes");
  told[kWindowBytes] = number_of(hints_, "cb_buffer_size");
  return told;
}

// All ranks have met, and all of them may.  A rank that cannot go on says so, for the others wait for it.
Status File::access_together(const AccessRequest& access, Mode mode, Transfer& transfer, const Status& located,
                             Offset from) {
  const std::string call = concat(access.call, " ", path_);
  const Status ready = located.is_ok() ? transfer.get_ready(from) : located;
  if (!collective_state_) collective_state_ = std::make_unique<CollectiveState>();
  if (!collective_state_->has_met) {
    WEIR_TRY(collective_state_->peers, internal::exchange_views(meeting_.group(), call, transfer.view().element()));
    collective_state_->has_met = true;
    if (!collective_state_->peers) WEIR_LOG_INFO("{}: each rank goes alone: a view cannot be told to others", call);
  }
  if (!collective_state_->peers) return transfer.run_alone(ready);
  if (!collective_state_->whole) {
    if (const auto whole = data_->linear(); whole.is_ok()) collective_state_->whole = *whole;
  }
  const std::vector<Offset> mine = describe_share(access.is_write, transfer, ready.is_ok() && collective_state_->whole);
  WEIR_TRY(const std::vector<Offset> told, meeting_.group().gather(call, mine));
  if (is_any_bad(told)) return transfer.run_alone(ready);
  if (!costs_) {
    WEIR_TRY(costs_, costs_of_first(meeting_.group(), call, fs_->costs()));
  }
  const CollectiveFacts facts = facts_of(access.is_write, collective_state_->peers->are_disjoint, told, *costs_);
  const CollectiveChoice choice = choose(facts, static_cast<Method>(told[kWanted]), *costs_);

  const runtime::TimePoint start = clock().now();
  Status status;
  if (choice.method == Method::kTwoPhase) {
    status = transfer.run_together(*collective_state_->whole, [&](ProgramMemory& memory) {
      TwoPhase both(meeting_.group(), call, *collective_state_->peers, facts.shares, facts.domains,
                    *collective_state_->whole, collective_state_->buffers);
      const Status moved = access.is_write ? both.write(memory) : both.read(memory);
      return meet(collective_access(mode, access.pointer, access.is_write), call, {}, moved, Together::kAllOrNone);
    });
  } else {
    status = transfer.run_alone(ready);
  }
  const std::string why = concat(to_text(choice.method), ": ", choice.why);
  if (rank() == 0) {
    const runtime::TimePoint end = clock().now();
    const double taken = std::chrono::duration<double>(end - start).count();
    if (status.is_ok()) {
      corrections_.note(kind_of(choice.method, access.is_write), facts.shares.front().bytes * ranks(),
                        choice.predicted_seconds, taken, end);
    }
    Method& told_method = collective_state_->told[access.is_write ? 1 : 0];
    if (is_observed() && told_method != choice.method) {
      told_method = choice.method;
      options_.observer->chosen(access.is_write ? "collective writes" : "collective reads",
                                std::string(to_text(choice.method)),
                                concat(choice.why, "; took ", model::time_text(taken)));
    }
    WEIR_LOG_INFO("{}: {}; took {} (hint weir_collective, or WEIR_COLLECTIVE, decides otherwise)", call, why,
                  model::time_text(taken));
  }
  const std::lock_guard lock(mutex_);
  hints_.set("weir_collective_last", why);
  return status;
}

}  // namespace weir::pario
