#include <weir/scalapack/internal/planning.h>

#include <map>
#include <utility>

#include <weir/layout/mapping.h>
#include <weir/transfer/packing.h>

namespace weir::scalapack::internal {

namespace {

using layout::Element;
using layout::Mapping;
using transfer::End;
using transfer::Packing;

// What a process holds of one matrix.
struct LocalMatrix {
  Share rows;
  Share columns;
  Place place;

  [[nodiscard]] bool is_empty() const { return rows.count == 0 || columns.count == 0; }
};

// Row (or column) of the grid of A, and of B.
using Pair = std::pair<std::int32_t, std::int32_t>;

struct SharedColumns {
  ColumnRuns runs;
  Offset count = 0;
};

class Planner {
 public:
  Planner(std::span<const CopyArguments> calls, int me)
      : calls_(calls), me_(me), a_(known(calls, &CopyArguments::a)), b_(known(calls, &CopyArguments::b)) {}

  Result<Work> run() {
    WEIR_TRY(const LocalMatrix a, part(me_, &CopyArguments::a, a_));
    WEIR_TRY(const LocalMatrix b, part(me_, &CopyArguments::b, b_));
    work_.a = touched(a);
    work_.b = touched(b);
    const int ranks = static_cast<int>(calls_.size());
    // Everyone begins with another peer, so that not all wait for the same one.
    for (int i = 1; i < ranks && !b.is_empty(); ++i) WEIR_RETURN_IF_ERROR(receive((me_ + ranks - i) % ranks, b));
    for (int i = 1; i < ranks && !a.is_empty(); ++i) WEIR_RETURN_IF_ERROR(send((me_ + i) % ranks, a));
    if (!a.is_empty() && !b.is_empty()) WEIR_RETURN_IF_ERROR(copy(a, b));
    return std::move(work_);
  }

 private:
  [[nodiscard]] const CopyArguments& call(int rank) const { return calls_[static_cast<std::size_t>(rank)]; }

  // \error kOutOfRange if the local array reaches beyond 2^62 bytes.
  Result<LocalMatrix> part(int rank, Side CopyArguments::*side, const Side& known) const {
    const Side& mine = call(rank).*side;
    if (!mine.is_member()) return LocalMatrix{};
    LocalMatrix part{share_of(rows_of(known, call(rank).m), mine.my_row),
                     share_of(columns_of(known, call(rank).n), mine.my_column),
                     {}};
    part.place.stride = Offset{mine.leading_dimension} * call(rank).elem;
    WEIR_RETURN_IF_ERROR(checked_mul(part.columns.local_first + part.columns.count, part.place.stride).status());
    part.place.start = part.columns.local_first * part.place.stride + part.rows.local_first * call(rank).elem;
    return part;
  }

  [[nodiscard]] Touched touched(const LocalMatrix& part) const {
    if (part.is_empty()) return {};
    const Offset last_column = part.place.start + (part.columns.count - 1) * part.place.stride;
    return {part.place.start, last_column + part.rows.count * call(me_).elem};
  }

  // Both ends plan with the same mapping of the rows, so that they agree on the order in a message.
  Result<Mapping> make_rows(Pair pair) const {
    const CopyArguments& any = calls_[0];
    WEIR_TRY(const Element a, element_of(share_of(rows_of(a_, any.m), pair.first), any.m, any.elem));
    WEIR_TRY(const Element b, element_of(share_of(rows_of(b_, any.m), pair.second), any.m, any.elem));
    return layout::intersect(a, b, layout::Window{.file = {0, Offset{any.m} * any.elem}, .a = {}, .b = {}});
  }

  Result<SharedColumns> make_columns(Pair pair) const {
    const CopyArguments& any = calls_[0];
    WEIR_TRY(const Element a, element_of(share_of(columns_of(a_, any.n), pair.first), any.n, 1));
    WEIR_TRY(const Element b, element_of(share_of(columns_of(b_, any.n), pair.second), any.n, 1));
    auto runs = std::make_shared<std::vector<ColumnRun>>();
    Offset count = 0;
    layout::PieceCursor cursor(a, b, layout::Order::kA, layout::Window{.file = {0, any.n}, .a = {}, .b = {}});
    while (const std::optional<layout::Piece> piece = cursor.next()) {
      runs->push_back({count, piece->a, piece->b, piece->length});
      count += piece->length;
    }
    return SharedColumns{std::move(runs), count};
  }

  // Peers in the same row, or column, of a grid share rows, or columns.
  Result<const Mapping*> rows(int from, int to) {
    const Pair pair{call(from).a.my_row, call(to).b.my_row};
    auto found = row_maps_.find(pair);
    if (found == row_maps_.end()) {
      WEIR_TRY(Mapping mapping, make_rows(pair));
      found = row_maps_.emplace(pair, std::move(mapping)).first;
    }
    return &found->second;
  }

  Result<SharedColumns> columns(int from, int to) {
    const Pair pair{call(from).a.my_column, call(to).b.my_column};
    auto found = columns_.find(pair);
    if (found == columns_.end()) {
      WEIR_TRY(SharedColumns shared, make_columns(pair));
      found = columns_.emplace(pair, std::move(shared)).first;
    }
    return found->second;
  }

  const Packing& packing(Pair pair, const Mapping& mapping, End end) {
    auto& packings = end == End::kA ? packs_ : unpacks_;
    auto found = packings.find(pair);
    if (found == packings.end()) found = packings.emplace(pair, Packing::create(mapping, end)).first;
    return found->second;
  }

  Status add_stream(int from, int to, End end, const Place& place) {
    WEIR_TRY(const Mapping* mapping, rows(from, to));
    if (mapping->is_empty()) return Status::ok();
    WEIR_TRY(SharedColumns shared, columns(from, to));
    if (shared.count == 0) return Status::ok();
    const Packing& packed = packing({call(from).a.my_row, call(to).b.my_row}, *mapping, end);
    const bool is_send = end == End::kA;
    WEIR_RETURN_IF_ERROR(checked_mul(packed.bytes, shared.count).status());
    auto& streams = is_send ? work_.traffic.sends : work_.traffic.receives;
    streams.push_back({is_send ? to : from, is_send, packed.bytes, shared.count, packed.plan,
                       is_send ? packed.a_direct : packed.b_direct, std::move(shared.runs), place});
    return Status::ok();
  }

  Status send(int peer, const LocalMatrix& mine) {
    WEIR_TRY(const LocalMatrix theirs, part(peer, &CopyArguments::b, b_));
    if (theirs.is_empty()) return Status::ok();
    return add_stream(me_, peer, End::kA, mine.place);
  }

  Status receive(int peer, const LocalMatrix& mine) {
    WEIR_TRY(const LocalMatrix theirs, part(peer, &CopyArguments::a, a_));
    if (theirs.is_empty()) return Status::ok();
    return add_stream(peer, me_, End::kB, mine.place);
  }

  Status copy(const LocalMatrix& a, const LocalMatrix& b) {
    WEIR_TRY(const Mapping* mapping, rows(me_, me_));
    if (mapping->is_empty()) return Status::ok();
    WEIR_TRY(SharedColumns shared, columns(me_, me_));
    if (shared.count == 0) return Status::ok();
    WEIR_TRY(transfer::Plan copy, transfer::Plan::copy(*mapping));
    const Range range{0, a.rows.count * call(me_).elem};
    work_.traffic.local =
        LocalCopy{mapping->bytes(), shared.count, std::move(copy), range, std::move(shared.runs), a.place, b.place};
    return Status::ok();
  }

  std::span<const CopyArguments> calls_;
  int me_;
  const Side& a_;
  const Side& b_;
  Work work_;
  std::map<Pair, Mapping> row_maps_;
  std::map<Pair, Packing> packs_;
  std::map<Pair, Packing> unpacks_;
  std::map<Pair, SharedColumns> columns_;
};

}  // namespace

Result<Work> plan(std::span<const CopyArguments> calls, int me) { return Planner(calls, me).run(); }

}  // namespace weir::scalapack::internal
