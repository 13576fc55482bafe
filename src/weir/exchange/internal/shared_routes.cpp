#include <weir/exchange/internal/shared_routes.h>

#include <array>

#include <weir/base/text.h>

namespace weir::exchange::internal {

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

// A number that no other group of ranks on any of the hosts uses now.
Result<std::uint64_t> agree_on_number(mpi::Communicator& group, std::string_view call, runtime::Random& random) {
  std::array<std::uint64_t, 1> number{random.next()};
  WEIR_RETURN_IF_ERROR(group.greatest(call, number));
  return number[0];
}

// Returns when all ranks are here.
Status await_all(mpi::Communicator& group, std::string_view call) {
  std::array<std::uint64_t, 1> nothing{0};
  return group.greatest(call, nothing);
}

Result<SharedMemory> make_outbox(const std::string& name, std::span<const RingRequest> requests) {
  Offset bytes = directory_bytes(requests.size());
  for (const RingRequest& request : requests) bytes += Ring::bytes_of(request.shape);
  return SharedMemory::create(name, bytes);
}

std::vector<std::optional<Ring>> make_rings(std::byte* memory, std::span<const RingRequest> requests) {
  std::vector<std::optional<Ring>> rings;
  auto* directory = reinterpret_cast<Directory*>(memory);
  Offset at = directory_bytes(requests.size());
  directory->count = static_cast<std::int64_t>(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    directory->entries[i] = {requests[i].receiver, at};
    rings.emplace_back(Ring::make(memory + at, requests[i].shape));
    at += Ring::bytes_of(requests[i].shape);
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

Result<SharedRoutes> SharedRoutes::connect(mpi::Communicator& group, std::string_view call,
                                           std::span<const RingRequest> sends, std::span<const int> senders,
                                           const Sharing& sharing) {
  WEIR_TRY(const std::uint64_t number, agree_on_number(group, call, *sharing.random));
  const auto name_of = [&](int rank) { return concat("/weir-", number, '-', sharing.host, '-', rank); };
  const bool is_on = sharing.is_on;
  SharedRoutes routes;
  if (is_on && !sends.empty()) {
    if (Result<SharedMemory> outbox = make_outbox(name_of(group.rank()), sends); outbox.is_ok()) {
      routes.outbox_ = *std::move(outbox);
      routes.sends_ = make_rings(routes.outbox_.data(), sends);
    }
  }
  WEIR_RETURN_IF_ERROR(await_all(group, call));  // all outboxes are there
  for (const int sender : senders) {
    routes.receives_.emplace_back();
    if (!is_on) continue;
    Result<SharedMemory> inbox = SharedMemory::open(name_of(sender));
    if (!inbox.is_ok()) continue;
    routes.receives_.back() = join_ring(*inbox, group.rank());
    routes.inboxes_.push_back(*std::move(inbox));
  }
  WEIR_RETURN_IF_ERROR(await_all(group, call));  // all have joined who will
  routes.outbox_.remove_name();
  for (std::optional<Ring>& ring : routes.sends_) {
    if (!ring->is_joined()) ring.reset();
  }
  return routes;
}

}  // namespace weir::exchange::internal
