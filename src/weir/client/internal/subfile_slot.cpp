#include <weir/client/internal/subfile_slot.h>

#include <chrono>
#include <utility>
#include <vector>

#include <weir/log/log.h>
#include <weir/share/handover.h>

namespace weir::client::internal {

namespace {

constexpr std::chrono::seconds kHandoverTimeout{2};

share::Shown shown(const std::unique_ptr<wire::Descriptor>& descriptor) {
  if (!descriptor) return {};
  return {descriptor->number(), descriptor->device(), descriptor->file()};
}

Outgoing request_for(const Session& session, const SubfileSlot::Wanted& wanted, bool opens,
                     SubfileSlot::Fetched& cost) {
  const Target& target = wanted.target;
  wire::ShareT share;
  share.subfile = std::make_unique<wire::Subfile>(target.subfile.file, target.subfile.element);
  share.for_writing = true;
  share.expected_bytes = wanted.expected;
  share.opens = opens;
  share.declares = true;
  Outgoing call{
      target.server,    wire::encode_request(std::move(share), session.timeout_ms(), target.store), {}, {}, {},
      target.capability};
  ++cost.messages;
  cost.index_bytes += static_cast<std::int64_t>(call.head.size());
  return call;
}

// Null if there is no memory to share.
Result<std::shared_ptr<MappedSubfile>> map_answer(Session& session, const SubfileSlot::Wanted& wanted,
                                                  const Outgoing& call, SubfileSlot::Fetched& cost) {
  const std::uint32_t server = wanted.target.server;
  WEIR_TRY(wire::HandoverT handover, session.answer<wire::HandoverT>(call));
  if (!handover.possible) return std::shared_ptr<MappedSubfile>();
  const std::uint64_t generation = session.generation(server);
  share::Handed handed;
  if (handover.process != 0) {
    auto opened = share::open_memory(handover.process, shown(handover.memory), shown(handover.lifeline));
    if (opened.is_ok()) {
      handed = std::move(*opened);
    } else {
      WEIR_LOG_DEBUG("{}; by way of its socket from now on", opened.status().message());
      session.stop_opening_memory();
      Outgoing again = request_for(session, wanted, false, cost);
      session.run({&again, 1}, Repeat::kSafe);
      WEIR_TRY(handover, session.answer<wire::HandoverT>(again));
    }
  }
  if (!handed.memory.is_open()) {
    const auto deadline = session.options().runtime.clock->now() + kHandoverTimeout;
    WEIR_TRY(handed, share::fetch_memory(handover.socket, handover.token, deadline));
  }
  WEIR_TRY(auto lifeline, session.lifeline(server, handed.lifeline.get()));
  if (handover.verifies) session.note_verified_memory();
  return MappedSubfile::map(handed.memory.get(), std::move(lifeline), generation, handover.boot, handover.verifies);
}

}  // namespace

void SubfileSlot::take(Session& session, const Wanted& wanted, const Outgoing& call, Fetched& cost) {
  auto mapped = map_answer(session, wanted, call, cost);
  if (!mapped.is_ok()) {
    // Not an error of the access: messages still work, or say better what is wrong.
    WEIR_LOG_DEBUG("direct path to subfile {}.{}: {}", wanted.target.subfile.file, wanted.target.subfile.element,
                   mapped.status().message());
    return;
  }
  if (*mapped == nullptr) {
    is_impossible_ = true;
    return;
  }
  const std::lock_guard lock(mutex_);
  if (!mapped_ || mapped_->generation() != (*mapped)->generation()) mapped_ = std::move(mapped).value();
}

SubfileSlot::Fetched SubfileSlot::fetch(Session& session, std::span<const Wanted> wanted) {
  Fetched cost;
  std::vector<Outgoing> calls;
  for (const Wanted& one : wanted) calls.push_back(request_for(session, one, session.opens_memory(), cost));
  session.run(calls, Repeat::kSafe);
  for (std::size_t i = 0; i < calls.size(); ++i) wanted[i].slot->take(session, wanted[i], calls[i], cost);
  return cost;
}

std::shared_ptr<MappedSubfile> SubfileSlot::mapped() {
  const std::lock_guard lock(mutex_);
  return mapped_;
}

void SubfileSlot::note_unsealed(Offset from, Offset to) {
  const std::lock_guard lock(mutex_);
  unsealed_from_ = std::min(unsealed_from_, from);
  unsealed_to_ = std::max(unsealed_to_, to);
}

void SubfileSlot::seal() {
  std::shared_ptr<MappedSubfile> memory;
  Offset from = 0;
  Offset to = 0;
  {
    const std::lock_guard lock(mutex_);
    memory = mapped_;
    from = std::exchange(unsealed_from_, kMaxBytes);
    to = std::exchange(unsealed_to_, 0);
  }
  if (memory && memory->is_verified() && from < to) memory->seal(from, to);
}

SubfileSlot::Fetched SubfileSlot::memory(Session& session, const Target& target, Offset end, Offset bytes,
                                         Offset expected) {
  Fetched out;
  if (is_impossible() || end > share::kMappableBytes) return out;
  std::unique_lock lock(mutex_);
  // A server that was started again has other memory, and this one is nobody's.
  if (mapped_ && (mapped_->generation() != session.generation(target.server) || !mapped_->is_alive())) {
    mapped_.reset();
  }
  if (!mapped_) {
    lock.unlock();
    const model::Io& costs = session.costs();
    if (!costs.is_worth_mapping(bytes) &&
        small_uses_.fetch_add(1, std::memory_order_relaxed) < costs.uses_before_mapping()) {
      return out;
    }
    const Wanted wanted{this, target, expected};
    Outgoing call = request_for(session, wanted, session.opens_memory(), out);
    session.run({&call, 1}, Repeat::kSafe);
    take(session, wanted, call, out);
    lock.lock();
  }
  if (mapped_ && end > mapped_->room()) {
    auto longer = mapped_->longer(end);
    if (longer.is_ok()) mapped_ = std::move(longer).value();
  }
  out.memory = mapped_ && end <= mapped_->room() ? mapped_ : nullptr;
  return out;
}

bool SubfileSlot::is_worth_reserving(const model::Io& costs, Offset bytes) {
  return costs.is_worth_mapping(bytes) ||
         small_writes_.fetch_add(1, std::memory_order_relaxed) >= costs.uses_before_mapping();
}

}  // namespace weir::client::internal
