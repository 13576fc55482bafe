#include <weir/redist/internal/shared_routes.h>

#include <random>

#include <weir/base/environment.h>
#include <weir/base/text.h>
#include <weir/redist/internal/agreement.h>

namespace weir::redist::internal {

namespace {

// The beginning of an outbox: count, then receiver and offset of each ring.
struct Entry {
  std::int64_t receiver;
  std::int64_t offset;
};

struct Directory {
  std::int64_t count;
  Entry entries[1];
};

Offset directory_bytes(std::size_t rings) {
  const auto bytes = static_cast<Offset>(sizeof(std::int64_t) + rings * sizeof(Entry));
  return ceil_div(bytes, kRingLine) * kRingLine;
}

bool is_switched_off() { return environment("WEIR_REDIST_SHARED") == "0"; }

// A number that no other group of ranks on any of the hosts uses now.
Result<std::int64_t> agree_on_number(Group& group) {
  std::random_device device;
  const std::uint64_t bits = (std::uint64_t{device()} << 32 | device()) >> 1;
  return least(group, static_cast<std::int64_t>(bits));
}

Result<SharedMemory> make_outbox(const std::string& name, std::span<const RingWish> wishes) {
  Offset bytes = directory_bytes(wishes.size());
  for (const RingWish& wish : wishes) bytes += Ring::bytes_of(wish.shape);
  return SharedMemory::create(name, bytes);
}

std::vector<std::optional<Ring>> make_rings(std::byte* memory, std::span<const RingWish> wishes) {
  std::vector<std::optional<Ring>> rings;
  auto* directory = reinterpret_cast<Directory*>(memory);
  Offset at = directory_bytes(wishes.size());
  directory->count = static_cast<std::int64_t>(wishes.size());
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    directory->entries[i] = {wishes[i].receiver, at};
    rings.emplace_back(Ring::make(memory + at, wishes[i].shape));
    at += Ring::bytes_of(wishes[i].shape);
  }
  return rings;
}

std::optional<Ring> join_ring(const SharedMemory& inbox, int receiver) {
  const auto* directory = reinterpret_cast<const Directory*>(inbox.data());
  for (std::int64_t i = 0; i < directory->count; ++i) {
    if (directory->entries[i].receiver == receiver) return Ring::join(inbox.data() + directory->entries[i].offset);
  }
  return std::nullopt;
}

}  // namespace

Result<SharedRoutes> SharedRoutes::connect(Group& group, std::span<const RingWish> sends, std::span<const int> senders,
                                           std::string_view host) {
  WEIR_TRY(const std::int64_t number, agree_on_number(group));
  const auto name_of = [&](int rank) { return concat("/weir-", number, '-', host, '-', rank); };
  // A rank where it is switched off takes part in the collective steps and is found by nobody.
  const bool is_on = !is_switched_off();
  SharedRoutes routes;
  if (is_on && !sends.empty()) {
    if (Result<SharedMemory> outbox = make_outbox(name_of(group.rank()), sends); outbox.is_ok()) {
      routes.outbox_ = *std::move(outbox);
      routes.sends_ = make_rings(routes.outbox_.data(), sends);
    }
  }
  WEIR_RETURN_IF_ERROR(agree(group, Status::ok()));  // all outboxes are there
  for (const int sender : senders) {
    routes.receives_.emplace_back();
    if (!is_on) continue;
    Result<SharedMemory> inbox = SharedMemory::open(name_of(sender));
    if (!inbox.is_ok()) continue;
    routes.receives_.back() = join_ring(*inbox, group.rank());
    routes.inboxes_.push_back(*std::move(inbox));
  }
  WEIR_RETURN_IF_ERROR(agree(group, Status::ok()));  // all have joined who will
  routes.outbox_.remove_name();
  for (std::optional<Ring>& ring : routes.sends_) {
    if (!ring->is_joined()) ring.reset();
  }
  return routes;
}

}  // namespace weir::redist::internal
