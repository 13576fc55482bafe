#include <weir/scalapack/internal/copy_arguments.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <weir/base/ranks.h>

namespace weir::scalapack::internal {

namespace {

struct SideField {
  const char* name;
  std::int32_t Side::*value;
};

// What all processes of a grid must agree on.
constexpr std::array kCommon{
    SideField{"the number of rows of the grid", &Side::grid_rows},
    SideField{"the number of columns of the grid", &Side::grid_columns},
    SideField{"M_ of the descriptor", &Side::rows},
    SideField{"N_ of the descriptor", &Side::columns},
    SideField{"MB_ of the descriptor", &Side::row_block},
    SideField{"NB_ of the descriptor", &Side::column_block},
    SideField{"RSRC_ of the descriptor", &Side::row_source},
    SideField{"CSRC_ of the descriptor", &Side::column_source},
    SideField{"the first row", &Side::first_row},
    SideField{"the first column", &Side::first_column},
};

class Checker {
 public:
  Checker(std::span<const CopyArguments> calls, std::span<const int> ranks) : calls_(calls), ranks_(ranks) {}

  Status run() const {
    WEIR_RETURN_IF_ERROR(same("the routine", everyone(), [](const CopyArguments& call) { return call.type; }));
    WEIR_RETURN_IF_ERROR(same("M", everyone(), [](const CopyArguments& call) { return call.m; }));
    WEIR_RETURN_IF_ERROR(same("N", everyone(), [](const CopyArguments& call) { return call.n; }));
    if (calls_[0].m < 0 || calls_[0].n < 0) {
      return fail(
          concat("the submatrix has ", calls_[0].m, " x ", calls_[0].n, " numbers: M and N must not be negative"));
    }
    WEIR_RETURN_IF_ERROR(run("A", &CopyArguments::a));
    return run("B", &CopyArguments::b);
  }

 private:
  using Members = std::vector<std::size_t>;

  Status fail(const std::string& text) const {
    return invalid_argument(concat("p", std::string(1, static_cast<char>(calls_[0].type)), "gemr2d: ", text));
  }

  Members everyone() const {
    Members members(calls_.size());
    for (std::size_t i = 0; i < members.size(); ++i) members[i] = i;
    return members;
  }

  Members members_of(Side CopyArguments::*side) const {
    Members members;
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if ((calls_[i].*side).is_member()) members.push_back(i);
    }
    return members;
  }

  template <typename Get>
  Status same(const std::string& what, const Members& members, Get get) const {
    std::map<std::int32_t, std::vector<int>> by_value;
    for (const std::size_t i : members) by_value[get(calls_[i])].push_back(ranks_[i]);
    if (by_value.size() <= 1) return Status::ok();
    std::string text = what + " differs between processes:";
    for (const auto& [value, holders] : by_value) {
      const std::string shown =
          what == "the routine" ? concat("p", std::string(1, static_cast<char>(value)), "gemr2d") : concat(value);
      text += concat(" ", shown, " on rank", holders.size() == 1 ? " " : "s ", list_ranks(holders), ",");
    }
    text.back() = ';';
    return fail(text + " pass the same on every process that holds the matrix");
  }

  Status run(const char* matrix, Side CopyArguments::*side) const {
    const Members members = members_of(side);
    if (members.empty()) {
      return fail(concat("no process is in the context of ", matrix,
                         ": pass its descriptor on the processes of its grid, and CTXT_ = -1 on the others only"));
    }
    for (const SideField& field : kCommon) {
      WEIR_RETURN_IF_ERROR(same(concat(field.name, " of ", matrix), members,
                                [&](const CopyArguments& call) { return call.*side.*field.value; }));
    }
    const Side& known = calls_[members.front()].*side;
    WEIR_RETURN_IF_ERROR(ranges(matrix, known));
    WEIR_RETURN_IF_ERROR(grid(matrix, members, side, known));
    return leading_dimensions(matrix, members, side);
  }

  Status ranges(const char* matrix, const Side& side) const {
    const CopyArguments& call = calls_[0];
    if (side.row_block < 1 || side.column_block < 1) {
      return fail(concat(matrix, " has blocks of ", side.row_block, " x ", side.column_block,
                         ": MB_ and NB_ must be positive"));
    }
    if (side.row_source < 0 || side.row_source >= side.grid_rows || side.column_source < 0 ||
        side.column_source >= side.grid_columns) {
      return fail(concat("RSRC_, CSRC_ of ", matrix, " are ", side.row_source, ", ", side.column_source,
                         ", but its grid has ", side.grid_rows, " x ", side.grid_columns,
                         " processes, counted from 0"));
    }
    const Offset last_row = Offset{side.first_row} - 1 + call.m;
    const Offset last_column = Offset{side.first_column} - 1 + call.n;
    if (side.first_row < 1 || side.first_column < 1 || last_row > side.rows || last_column > side.columns) {
      return fail(concat("rows ", side.first_row, " to ", last_row, ", columns ", side.first_column, " to ",
                         last_column, " of ", matrix, " are not all inside its ", side.rows, " x ", side.columns,
                         " numbers, counted from 1"));
    }
    return Status::ok();
  }

  // Every process of the grid takes part, once.
  Status grid(const char* matrix, const Members& members, Side CopyArguments::*side, const Side& known) const {
    std::map<std::pair<std::int32_t, std::int32_t>, int> holders;
    for (const std::size_t i : members) {
      const Side& mine = calls_[i].*side;
      const auto [at, is_new] = holders.emplace(std::pair(mine.my_row, mine.my_column), ranks_[i]);
      if (is_new) continue;
      return fail(concat("ranks ", at->second, " and ", ranks_[i], " both are process {", mine.my_row, ",",
                         mine.my_column, "} of ", matrix, ": their descriptors name different contexts"));
    }
    const Offset expected = Offset{known.grid_rows} * known.grid_columns;
    if (static_cast<Offset>(members.size()) == expected) return Status::ok();
    return fail(concat("only ", members.size(), " of the ", expected, " processes of ", matrix,
                       "'s grid are in the context of the call: it must hold all processes of both matrices"));
  }

  Status leading_dimensions(const char* matrix, const Members& members, Side CopyArguments::*side) const {
    for (const std::size_t i : members) {
      const Side& mine = calls_[i].*side;
      const Dealing whole{mine.rows, 0, mine.row_block, mine.grid_rows, mine.row_source};
      const Offset held = share_of(whole, mine.my_row).count;
      if (held <= mine.leading_dimension) continue;
      return fail(concat("LLD_ of ", matrix, " is ", mine.leading_dimension, " on rank ", ranks_[i], ", which holds ",
                         held, " rows: it must be at least that"));
    }
    return Status::ok();
  }

  std::span<const CopyArguments> calls_;
  std::span<const int> ranks_;
};

}  // namespace

Status check(std::span<const CopyArguments> calls, std::span<const int> ranks) { return Checker(calls, ranks).run(); }

const Side& known(std::span<const CopyArguments> calls, Side CopyArguments::*side) {
  return *std::find_if(calls.begin(), calls.end(), [side](const CopyArguments& call) {
    return (call.*side).is_member();
  }).*side;
}

Dealing rows_of(const Side& side, std::int32_t m) {
  return {m, side.first_row - 1, side.row_block, side.grid_rows, side.row_source};
}

Dealing columns_of(const Side& side, std::int32_t n) {
  return {n, side.first_column - 1, side.column_block, side.grid_columns, side.column_source};
}

}  // namespace weir::scalapack::internal
