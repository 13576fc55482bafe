#include <weir/scalapack/internal/plan_cache.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <weir/base/text.h>

namespace weir::scalapack::internal {

namespace {

using mpi::check_mpi;
using mpi::Communicator;

int forget(MPI_Comm, int, void* cache, void*) {
  delete static_cast<PlanCache*>(cache);
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

struct Total {
  Offset bytes = 0;
  std::size_t peers = 0;
};

Total total(const std::vector<ColumnStream>& streams) {
  Total total{0, streams.size()};
  for (const ColumnStream& stream : streams) total.bytes += stream.bytes();
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

PlanCache::PlanCache(mpi::Communicator group, const runtime::Runtime& with)
    : group_(std::move(group)), clock_(*with.clock) {
  const std::string value = with.settings->get("WEIR_EXPLAIN");
  is_explained_ = !value.empty() && value != "0";
}

Result<PlanCache*> PlanCache::of(MPI_Comm comm, const runtime::Runtime& with) {
  WEIR_TRY(const int key, attribute());
  void* known = nullptr;
  int is_set = 0;
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_get_attr(comm, key, &known, &is_set), "p?gemr2d: MPI_Comm_get_attr"));
  if (is_set != 0) return static_cast<PlanCache*>(known);
  WEIR_TRY(Communicator own, Communicator::duplicate(comm, "p?gemr2d", {.clock = with.clock}));
  std::unique_ptr<PlanCache> cache(new PlanCache(std::move(own), with));
  WEIR_RETURN_IF_ERROR(check_mpi(MPI_Comm_set_attr(comm, key, cache.get()), "p?gemr2d: MPI_Comm_set_attr"));
  return cache.release();  // belongs to the communicator now
}

Result<Outcome> PlanCache::run(const CopyArguments& call, const void* a, void* b) {
  WEIR_TRY(Plan * plan, find(call));
  if (plan == nullptr) {
    WEIR_TRY(plan, make(call));
  }
  if (!plan->exchange) return Outcome::kPassOn;
  WEIR_RETURN_IF_ERROR(execute(*plan, static_cast<const std::byte*>(a), static_cast<std::byte*>(b)));
  return Outcome::kDone;
}

Result<PlanCache::Plan*> PlanCache::find(const CopyArguments& call) {
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

Result<std::vector<int>> PlanCache::world_ranks() const {
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

Result<PlanCache::Plan*> PlanCache::make(const CopyArguments& call) {
  const runtime::TimePoint start = clock_.now();
  std::vector<CopyArguments> calls(static_cast<std::size_t>(group_.size()));
  constexpr int kInts = sizeof(CopyArguments) / sizeof(std::int32_t);
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
    plan->exchange = std::make_unique<MatrixExchange>(group_, pool_, std::move(work->traffic));
  }
  if (group_.rank() == 0 && is_explained_) {
    explain(*plan, known(calls, &CopyArguments::a), known(calls, &CopyArguments::b), clock_.now() - start);
  }
  std::unique_ptr<Plan>& slot = plans_[plans_made_++ % kPlans];
  slot = std::move(plan);
  return slot.get();
}

Status PlanCache::execute(Plan& plan, const std::byte* a, std::byte* b) {
  if (!overlap(a, plan.a, b, plan.b)) return plan.exchange->run(a, b);
  // A copy within one array: what is written would still have to be read, so read it first.
  const auto size = static_cast<std::size_t>(plan.a.to - plan.a.from);
  const BufferPool::Buffer aside = pool_.try_take(size);
  if (!aside) return {ErrorCode::kIoError, concat("p?gemr2d: no memory for ", size, " bytes of buffers")};
  std::memcpy(aside.data(), a + plan.a.from, size);
  return plan.exchange->run(aside.data() - plan.a.from, b);
}

void PlanCache::explain(const Plan& plan, const Side& a, const Side& b, runtime::Duration time) const {
  const CopyArguments& call = plan.call;
  const std::string what = concat("weir: p", std::string(1, static_cast<char>(call.type)), "gemr2d: ", call.m, " x ",
                                  call.n, " numbers of ", call.elem, " bytes, ", describe(a), " -> ", describe(b));
  if (!plan.exchange) {
    std::fprintf(stderr, "%s: too complicated, passed on to ScaLAPACK\n", what.c_str());
    return;
  }
  const Traffic& traffic = plan.exchange->traffic();
  const Total sends = total(traffic.sends);
  const Total receives = total(traffic.receives);
  std::fprintf(
      stderr,
      "%s: the first process sends %lld bytes to %zu, receives %lld from %zu, copies %lld; buffers %lld bytes; "
      "planned in %.0f us\n",
      what.c_str(), static_cast<long long>(sends.bytes), sends.peers, static_cast<long long>(receives.bytes),
      receives.peers, static_cast<long long>(traffic.local ? traffic.local->bytes() : 0),
      static_cast<long long>(plan.exchange->buffer_bytes()), std::chrono::duration<double, std::micro>(time).count());
}

}  // namespace weir::scalapack::internal
