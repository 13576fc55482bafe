// Plans against MPI_Pack and MPI_Unpack of the same pattern, in the same run, on one process: see docs/performance.md.
//
//   mpirun -n 1 mpi_pack_bench_<mpi> [--quick] [--json]

#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include <weir/base/text.h>
#include <weir/transfer/plan.h>
#include <weir/transfer/testing/ratio.h>

namespace weir::transfer {
namespace {

using internal::Line;
using internal::RatioOptions;
using layout::Element;
using layout::FallsSet;

constexpr double kWanted = 1.5;

template <typename T>
T expect(Result<T> result) {
  if (!result.is_ok()) {
    std::fprintf(stderr, "mpi_pack_bench: %s\n", std::string(result.status().message()).c_str());
    std::exit(2);
  }
  return std::move(result).value();
}

// One pattern, said in both languages.
struct Pattern {
  std::string name;
  FallsSet set;
  Offset extent;
  MPI_Datatype type;
};

Pattern strided(const std::string& name, Offset block, Offset stride, Offset count) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(static_cast<int>(count), static_cast<int>(block / 8), static_cast<int>(stride / 8), MPI_DOUBLE,
                  &type);
  return {name, {{0, block - 1, stride, count, {}}}, stride * count, type};
}

Pattern transposed(Offset n) {
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MPI_Type_vector(static_cast<int>(n), 1, static_cast<int>(n), MPI_DOUBLE, &column);
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_hvector(static_cast<int>(n), 1, 8, column, &type);
  MPI_Type_free(&column);
  const Offset bytes = n * n * 8;
  return {concat("transpose, ", n, " x ", n, " of 8 B"),
          {{0, bytes - n * 8 + 7, 8, n, {{0, 7, n * 8, n, {}}}}},
          bytes,
          type};
}

Pattern irregular(Offset pieces) {
  std::mt19937 random(1);
  FallsSet set;
  std::vector<int> displacements;
  Offset at = 0;
  for (Offset i = 0; i < pieces; ++i) {
    at += 4 * (1 + static_cast<Offset>(random() % 6));
    set.push_back({at, at + 3, 0, 1, {}});
    displacements.push_back(static_cast<int>(at / 4));
    at += 4;
  }
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_indexed_block(static_cast<int>(pieces), 1, displacements.data(), MPI_FLOAT, &type);
  return {concat(pieces, " irregular pieces of 4 B"), std::move(set), at, type};
}

// A box inside a three-dimensional array: rows in planes.
Pattern box(Offset edge, Offset part) {
  const int sizes[3] = {static_cast<int>(edge), static_cast<int>(edge), static_cast<int>(edge)};
  const int parts[3] = {static_cast<int>(part), static_cast<int>(part), static_cast<int>(part)};
  const int starts[3] = {0, 0, 0};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_DOUBLE, &type);
  const Offset row = edge * 8;
  const Offset plane = edge * row;
  const FallsSet rows{{0, part * 8 - 1, row, part, {}}};
  return {concat("box of ", part, "^3 in ", edge, "^3 of 8 B"),
          {{0, part * row - 1, plane, part, rows}},
          edge * plane,
          type};
}

std::vector<Pattern> patterns() {
  std::vector<Pattern> all;
  for (const Offset extent : {Offset{1} << 18, Offset{1} << 25}) {
    for (const Offset stride : {16, 32, 4096}) {
      all.push_back(
          strided(concat("8 B at stride ", stride, " in ", extent >> 10, " KiB"), 8, stride, extent / stride));
    }
    for (const Offset row : {64, 256, 1024, 4096}) {
      all.push_back(strided(concat("rows of ", row, " B in ", extent >> 10, " KiB"), row, 2 * row, extent / (2 * row)));
    }
  }
  all.push_back(transposed(1024));
  all.push_back(box(128, 64));
  all.push_back(irregular(175'000));
  return all;
}

void check_equal(const Pattern& pattern, const std::vector<std::byte>& ours, const std::vector<std::byte>& theirs) {
  if (ours == theirs) return;
  std::fprintf(stderr, "mpi_pack_bench: %s: MPI and the plan write different bytes\n", pattern.name.c_str());
  std::exit(1);
}

void measure(Pattern pattern, const RatioOptions& options, std::vector<Line>& lines) {
  MPI_Type_commit(&pattern.type);
  const Element element = expect(Element::create(pattern.set, {.disp = 0, .period = pattern.extent}));
  const layout::Budget budget{.runs = std::size_t{1} << 20, .steps = std::size_t{1} << 24};
  const Plan gather = expect(Plan::gather(element, budget));
  const Plan scatter = expect(Plan::scatter(element, budget));
  const Offset bytes = element.size();
  std::vector<std::byte> array(static_cast<std::size_t>(pattern.extent));
  for (std::size_t i = 0; i < array.size(); ++i) array[i] = static_cast<std::byte>(i * 31 >> 3);
  std::vector<std::byte> packed(static_cast<std::size_t>(bytes));

  const auto pack = [&] {
    int position = 0;
    MPI_Pack(array.data(), 1, pattern.type, packed.data(), static_cast<int>(bytes), &position, MPI_COMM_SELF);
  };
  const auto unpack = [&] {
    int position = 0;
    MPI_Unpack(packed.data(), static_cast<int>(bytes), &position, array.data(), 1, pattern.type, MPI_COMM_SELF);
  };
  const auto ours_pack = [&] { gather.run({array.data(), 0}, {packed.data(), 0}, {0, bytes}); };
  const auto ours_unpack = [&] { scatter.run({packed.data(), 0}, {array.data(), 0}, {0, bytes}); };

  pack();
  const std::vector<std::byte> expected = packed;
  std::memset(packed.data(), 0, packed.size());
  ours_pack();
  check_equal(pattern, packed, expected);
  lines.push_back({"pack, " + pattern.name, "MPI_Pack", internal::compare(ours_pack, pack, options), kWanted});

  std::memset(array.data(), 0, array.size());
  unpack();
  const std::vector<std::byte> expected_array = array;
  std::memset(array.data(), 0, array.size());
  ours_unpack();
  check_equal(pattern, array, expected_array);
  lines.push_back({"unpack, " + pattern.name, "MPI_Unpack", internal::compare(ours_unpack, unpack, options), kWanted});
  MPI_Type_free(&pattern.type);
}

}  // namespace
}  // namespace weir::transfer

int main(int argc, char** argv) {
  using namespace weir::transfer;
  MPI_Init(&argc, &argv);
  RatioOptions options{.turns = 15, .batch_seconds = 4e-4};
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--json") {
      json = true;
    } else if (argument == "--quick") {
      options = {.turns = 7, .batch_seconds = 2e-4};
    } else {
      std::fprintf(stderr, "usage: mpi_pack_bench [--quick] [--json]\n");
      MPI_Finalize();
      return 2;
    }
  }
  std::vector<Line> lines;
  for (Pattern& pattern : patterns()) measure(std::move(pattern), options, lines);
  if (json) {
    weir::transfer::internal::print_json(lines);
  } else {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    std::printf("%.*s\n", static_cast<int>(std::string_view(version).find_first_of("\n,")), version);
    weir::transfer::internal::print_table(lines);
  }
  MPI_Finalize();
  return 0;
}
