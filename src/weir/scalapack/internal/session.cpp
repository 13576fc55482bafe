#include <weir/scalapack/internal/session.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include <weir/base/text.h>

namespace weir::scalapack::internal {

namespace {

using group::check_mpi;
using group::Group;

int forget(MPI_Comm, int, void* session, void*) {
  delete static_cast<Session*>(session);
  return MPI_SUCCESS;
}

// Handles of contexts are used again for other contexts, but a communicator takes what is attached to it along.
Result<int> attribute() {
  static int key = MPI_KEYVAL_INVALID;
  if (key == MPI_KEYVAL_INVALID) {
    WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key, nullptr),
                                   "p?gemr2d: MPI_Comm_create_keyval"));
  }
  return key;
}

bool wants_explanation() {
  static const bool wants = [] {
    const char* value = std::getenv("WEIR_EXPLAIN");
    return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
  }();
  return wants;
}

struct Total {
  Offset bytes = 0;
  std::size_t peers = 0;
};

Total total(const Traffic& traffic, bool is_send) {
  Total total;
  for (const Stream& stream : traffic.streams) {
    if (stream.is_send != is_send) continue;
    total.bytes += stream.bytes();
    ++total.peers;
  }
  return total;
}

std::string describe(const Side& side) {
  return concat(side.row_block, "x", side.column_block, " blocks on ", side.grid_rows, "x", side.grid_columns);
}

bool overlap(const void* a, Touched in_a, const void* b, Touched in_b) {
  const auto at_a = reinterpret_cast<std::intptr_t>(a);
  const auto at_b = reinterpret_cast<std::intptr_t>(b);
  return at_a + in_a.from < at_b + in_b.to && at_b + in_b.from < at_a + in_a.to;
}

}  // namespace

Result<Session*> Session::of(MPI_Comm comm) {
  WEIR_TRY(const int key, attribute());
  void* known = nullptr;
  int is_set = 0;
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_get_attr(comm, key, &known, &is_set), "p?gemr2d: MPI_Comm_get_attr"));
  if (is_set != 0) return static_cast<Session*>(known);
  WEIR_TRY(Group own, Group::duplicate(comm, "p?gemr2d"));
  std::unique_ptr<Session> session(new Session(std::move(own)));
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_set_attr(comm, key, session.get()), "p?gemr2d: MPI_Comm_set_attr"));
  return session.release();  // belongs to the communicator now
}

Result<Outcome> Session::run(const Call& call, const void* a, void* b) {
  WEIR_TRY(Plan * plan, find(call));
  if (plan == nullptr) {
    WEIR_TRY(plan, make(call));
  }
  if (!plan->exchange) return Outcome::kPassOn;
  WEIR_RETURN_IF_ERROR(execute(*plan, static_cast<const std::byte*>(a), static_cast<std::byte*>(b)));
  return Outcome::kDone;
}

Result<Session::Plan*> Session::find(const Call& call) {
  static_assert(kPlans <= 64);
  std::uint64_t met = 0;
  for (std::size_t i = 0; i < kPlans; ++i) {
    if (plans_[i] && plans_[i]->call == call) met |= std::uint64_t{1} << i;
  }
  std::uint64_t met_by_all = 0;
  WEIR_RETURN_IF_ERROR(
      check_mpi(MPI_Allreduce(&met, &met_by_all, 1, MPI_UINT64_T, MPI_BAND, group_.comm()), "p?gemr2d: MPI_Allreduce"));
  if (met_by_all == 0) return nullptr;
  return plans_[static_cast<std::size_t>(__builtin_ctzll(met_by_all))].get();
}

Result<std::vector<int>> Session::world_ranks() const {
  const auto size = static_cast<std::size_t>(group_.size());
  std::vector<int> here(size);
  std::vector<int> there(size);
  for (std::size_t i = 0; i < size; ++i) here[i] = static_cast<int>(i);
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Group world = MPI_GROUP_NULL;
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_group(group_.comm(), &group), "p?gemr2d: MPI_Comm_group"));
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "p?gemr2d: MPI_Comm_group"));
  const int code = MPI_Group_translate_ranks(group, group_.size(), here.data(), world, there.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  WEIR_RETURN_IF_ERROR(check_mpi(code, "p?gemr2d: MPI_Group_translate_ranks"));
  return there;
}

Result<Session::Plan*> Session::make(const Call& call) {
  const double start = MPI_Wtime();
  std::vector<Call> calls(static_cast<std::size_t>(group_.size()));
  constexpr int kInts = sizeof(Call) / sizeof(std::int32_t);
  WEIR_RETURN_IF_ERROR(
      check_mpi(MPI_Allgather(&call, kInts, MPI_INT32_T, calls.data(), kInts, MPI_INT32_T, group_.comm()),
                "p?gemr2d: MPI_Allgather"));
  WEIR_TRY(const std::vector<int> ranks, world_ranks());
  WEIR_RETURN_IF_ERROR(check(calls, ranks));

  auto plan = std::make_unique<Plan>(Plan{call, nullptr, {}, {}});
  Result<Work> work = internal::plan(calls, group_.rank());
  int is_planned = work.is_ok() ? 1 : 0;
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Allreduce(MPI_IN_PLACE, &is_planned, 1, MPI_INT, MPI_MIN, group_.comm()),
                                 "p?gemr2d: MPI_Allreduce"));
  if (is_planned != 0) {
    plan->a = work->a;
    plan->b = work->b;
    plan->exchange = std::make_unique<Exchange>(group_.comm(), group_.size(), std::move(work->traffic));
  }
  if (group_.rank() == 0 && wants_explanation()) {
    explain(*plan, known(calls, &Call::a), known(calls, &Call::b), MPI_Wtime() - start);
  }
  std::unique_ptr<Plan>& slot = plans_[plans_made_++ % kPlans];
  slot = std::move(plan);
  return slot.get();
}

Status Session::reserve(std::size_t bytes) {
  if (bytes <= buffer_bytes_) return Status::ok();
  buffer_.reset(new (std::nothrow) std::byte[bytes]);
  buffer_bytes_ = buffer_ ? bytes : 0;
  if (buffer_) return Status::ok();
  return {ErrorCode::kIoError, concat("p?gemr2d: no memory for ", bytes, " bytes of buffers")};
}

Status Session::execute(Plan& plan, const std::byte* a, std::byte* b) {
  const auto buffer = static_cast<std::size_t>(plan.exchange->buffer_bytes());
  if (!overlap(a, plan.a, b, plan.b)) {
    WEIR_RETURN_IF_ERROR(reserve(buffer));
    return plan.exchange->run(a, b, {buffer_.get(), buffer});
  }
  // A copy within one array: what is written would still have to be read, so read it first.
  const auto size = static_cast<std::size_t>(plan.a.to - plan.a.from);
  WEIR_RETURN_IF_ERROR(reserve(buffer + size));
  std::byte* const aside = buffer_.get() + buffer;
  std::memcpy(aside, a + plan.a.from, size);
  return plan.exchange->run(aside - plan.a.from, b, {buffer_.get(), buffer});
}

void Session::explain(const Plan& plan, const Side& a, const Side& b, double seconds) const {
  const Call& call = plan.call;
  const std::string what = concat("weir: p", std::string(1, static_cast<char>(call.type)), "gemr2d: ", call.m, " x ",
                                  call.n, " numbers of ", call.elem, " bytes, ", describe(a), " -> ", describe(b));
  if (!plan.exchange) {
    std::fprintf(stderr, "%s: too complicated, passed on to ScaLAPACK\n", what.c_str());
    return;
  }
  const Traffic& traffic = plan.exchange->traffic();
  const Total sends = total(traffic, true);
  const Total receives = total(traffic, false);
  std::fprintf(
      stderr,
      "%s: the first process sends %lld bytes to %zu, receives %lld from %zu, copies %lld; buffers %lld bytes; "
      "planned in %.0f us\n",
      what.c_str(), static_cast<long long>(sends.bytes), sends.peers, static_cast<long long>(receives.bytes),
      receives.peers, static_cast<long long>(traffic.local ? traffic.local->bytes() : 0),
      static_cast<long long>(plan.exchange->buffer_bytes()), seconds * 1e6);
}

}  // namespace weir::scalapack::internal
