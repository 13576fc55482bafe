#include <weir/mpiio/internal/datatype.h>

// What decode() says of a datatype is compared with the list of its bytes (type_samples.h), and the list with what
// MPI_Pack does.

#include <algorithm>
#include <array>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/oracle.h>
#include <weir/mpiio/internal/memory_map.h>
#include <weir/mpiio/internal/type_samples.h>

namespace weir::mpiio::internal {
namespace {

using namespace samples;  // NOLINT: all of it is for this file
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

// ---------------------------------------------------------------------------------------------------------------- checks

ByteOffsets bytes_of(const Typemap& map) {
  ByteOffsets bytes = layout::oracle::expand(map.falls);
  for (Offset& one : bytes) one += map.origin;
  return bytes;
}

void expect_typemap(const Result<Typemap>& map, const Listed& list) {
  ASSERT_THAT(map, IsOk());
  EXPECT_EQ(map->size, static_cast<Offset>(list.bytes.size()));
  EXPECT_EQ(map->lower_bound, list.lower);
  EXPECT_EQ(map->extent, list.extent());
  if (map->shape.is_ok()) {
    ASSERT_THAT(layout::check(map->falls), IsOk());
    ASSERT_EQ(bytes_of(*map), list.bytes);
  } else {
    EXPECT_TRUE(repeats(list.bytes)) << map->shape.message();
  }
  EXPECT_EQ(map->is_monotone, ascends(list.bytes));
  if (list.bytes.empty()) return;
  const auto [low, high] = std::minmax_element(list.bytes.begin(), list.bytes.end());
  EXPECT_EQ(map->origin, *low);
  EXPECT_EQ(map->true_extent, *high + 1 - *low);
  EXPECT_EQ(map->is_contiguous(), ascends(list.bytes) && map->true_extent == map->size);
}

void expect_memory(const Typemap& map, const Listed& list) {
  for (const Offset count : {0, 1, 2, 5}) {
    SCOPED_TRACE(concat("count ", count));
    const ByteOffsets expected = items(list, count);
    const auto memory = memory_map(count, map);
    ASSERT_THAT(memory, IsOk());
    EXPECT_EQ(memory->bytes, static_cast<Offset>(expected.size()));
    ASSERT_EQ(memory->direct.is_ok(), !repeats(expected)) << memory->direct.message();
    if (!memory->direct.is_ok()) continue;
    ByteOffsets found;
    for (Offset k = 0; k < memory->bytes; ++k)
      found.push_back(memory->shift + memory->element.unmap(k).value_or(-kMaxBytes));
    ASSERT_EQ(found, expected);
    const bool in_one =
        ascends(expected) && (expected.empty() || expected.back() - expected.front() + 1 == memory->bytes);
    EXPECT_EQ(memory->is_contiguous, in_one);
  }
}

void expect_view(const Typemap& map, const Listed& list) {
  constexpr Offset kDisp = 7;
  const auto etype = decode(MPI_BYTE, LeafSize::kNative);
  ASSERT_THAT(etype, IsOk());
  const auto view = view_element(kDisp, *etype, map);
  if (list.bytes.empty()) {
    ASSERT_THAT(view, IsOk());
    EXPECT_TRUE(view->is_empty());
    return;
  }
  const bool legal = list.extent() > 0 && ascends(list.bytes) && list.bytes.front() >= 0;
  ASSERT_EQ(view.is_ok(), legal) << view.status().message();
  if (!legal) return;
  ByteOffsets expected = items(list, 40);  // so many that items that interleave for ever would meet
  if (repeats(expected)) {                 // then there is only the first
    expected = list.bytes;
    EXPECT_EQ(view->limit(), static_cast<Offset>(expected.size()));
  }
  for (std::size_t k = 0; k < expected.size(); ++k) {
    ASSERT_EQ(view->unmap(static_cast<Offset>(k)), kDisp + expected[k]) << "byte " << k;
  }
}

/// The displacements of the bytes that MPI_Pack takes, in its order.
ByteOffsets packed_by_mpi(const Sample& sample) {
  const ByteOffsets& bytes = sample.native().bytes;
  if (bytes.empty()) return {};
  const auto [low, high] = std::minmax_element(bytes.begin(), bytes.end());
  const Offset base = *low;
  MPI_Datatype type = sample.type();
  MPI_Type_commit(&type);
  int room = 0;
  MPI_Pack_size(1, type, MPI_COMM_SELF, &room);
  ByteOffsets found(bytes.size(), base);
  for (const int shift : {0, 8, 16}) {  // each byte tells a part of where it lies
    std::vector<unsigned char> memory(static_cast<std::size_t>(*high - base + 1));
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<unsigned char>(i >> shift);
    std::vector<unsigned char> packed(static_cast<std::size_t>(room));
    int position = 0;
    MPI_Pack(memory.data() - base, 1, type, packed.data(), room, &position, MPI_COMM_SELF);
    EXPECT_EQ(position, static_cast<int>(bytes.size()));
    for (std::size_t k = 0; k < found.size(); ++k) found[k] += Offset{packed[k]} << shift;
  }
  return found;
}

void expect_all(const Sample& sample) {
  SCOPED_TRACE(sample.text());
  for (const LeafSize how : {LeafSize::kNative, LeafSize::kExternal32}) {
    SCOPED_TRACE(how == LeafSize::kNative ? "native" : "external32");
    const auto map = decode(sample.type(), how);
    ASSERT_NO_FATAL_FAILURE(expect_typemap(map, sample.listed(how)));
    ASSERT_NO_FATAL_FAILURE(expect_view(*map, sample.listed(how)));
    ASSERT_NO_FATAL_FAILURE(expect_memory(*map, sample.listed(how)));
  }
}

Typemap decoded(MPI_Datatype type) {
  auto map = decode(type, LeafSize::kNative);
  EXPECT_THAT(map, IsOk());
  return map.is_ok() ? *std::move(map) : Typemap{};
}

Offset nodes(const Sample& sample) { return layout::node_count(decoded(sample.type()).falls); }

// ----------------------------------------------------------------------------------------------------------------- cases

class RandomDatatypeTest : public ::testing::TestWithParam<bool> {};

// Each rank tries its share.
TEST_P(RandomDatatypeTest, AgreeWithListsOfBytesAndWithPack) {
  constexpr int kCases = 3000;
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int tried = 0;
  int packed = 0;
  int different = 0;
  std::string first_difference;
  for (int seed = rank; seed < kCases; seed += ranks) {
    SCOPED_TRACE(concat("seed ", seed));
    ++tried;
    Random random(static_cast<std::uint64_t>(seed));
    const Sample sample = Generator(random, GetParam()).make(static_cast<int>(random.between(0, 5)));
    if (sample.native().bytes.size() > 4000) continue;
    ASSERT_NO_FATAL_FAILURE(expect_all(sample));
    if (!sample.is_packable()) continue;
    ++packed;
    if (packed_by_mpi(sample) == sample.native().bytes) continue;
    if (different++ == 0) first_difference = concat("seed ", seed, ": ", sample.text());
  }
  EXPECT_GT(packed, tried / 3);
  EXPECT_EQ(different, 0) << "MPI_Pack takes other bytes: " << first_difference;
}

INSTANTIATE_TEST_SUITE_P(MemoryAndFile, RandomDatatypeTest, ::testing::Values(false, true),
                         [](const auto& param) { return param.param ? "Ascending" : "Any"; });

TEST(DatatypeTest, BasicTypesAndPairs) {
  expect_all(byte());
  expect_all(basic(MPI_WCHAR, 4, 2, "wchar"));
  expect_all(basic(MPI_LONG_DOUBLE, 16, 16, "long double"));
  expect_all(basic(MPI_C_DOUBLE_COMPLEX, 16, 16, "double complex"));
  expect_all(basic(MPI_LOGICAL, 4, 4, "logical"));
  expect_all(basic(MPI_OFFSET, 8, 8, "offset"));
  expect_all(basic(MPI_2INT, 8, 8, "2int"));
  expect_all(pair(MPI_FLOAT_INT, 4, 4, 4, 8, "float_int"));
  expect_all(pair(MPI_DOUBLE_INT, 8, 8, 8, 16, "double_int"));
  expect_all(pair(MPI_LONG_INT, 8, 4, 8, 16, "long_int"));
  expect_all(pair(MPI_SHORT_INT, 2, 2, 4, 8, "short_int"));
  expect_all(pair(MPI_LONG_DOUBLE_INT, 16, 16, 16, 32, "long_double_int"));
}

TEST(DatatypeTest, FortranTypesByPrecisionAndRange) {
  MPI_Datatype type;
  MPI_Type_create_f90_real(15, 307, &type);
  const Sample real = basic(type, 8, 8, "f90_real(15,307)");
  expect_all(real);
  expect_all(vector_of(real, 3, 1, 2));
  MPI_Type_create_f90_complex(6, 37, &type);
  expect_all(basic(type, 8, 8, "f90_complex(6,37)"));
  MPI_Type_create_f90_integer(9, &type);
  expect_all(basic(type, 4, 4, "f90_integer(9)"));
  MPI_Type_create_f90_real(6, MPI_UNDEFINED, &type);
  expect_all(basic(type, 4, 4, "f90_real(6,-)"));
}

TEST(DatatypeTest, RegularTypesCostTheSameWhateverTheirSize) {
  constexpr int kLarge = 1 << 20;
  MPI_Datatype type;
  const std::array sizes{kLarge, kLarge};
  const std::array subsizes{kLarge, 1};
  const std::array starts{0, 12345};
  MPI_Type_create_subarray(2, sizes.data(), subsizes.data(), starts.data(), MPI_ORDER_C, MPI_DOUBLE, &type);
  const Typemap map = decoded(type);
  EXPECT_EQ(layout::node_count(map.falls), 1);
  const auto view = view_element(0, decoded(MPI_DOUBLE), map);
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->unmap(8 * Offset{kLarge - 1}), 8 * (Offset{kLarge} * (kLarge - 1) + 12345));
  EXPECT_EQ(view->period(), 8 * Offset{kLarge} * kLarge);
  MPI_Type_free(&type);
}

TEST(DatatypeTest, NodesOfRegularTypes) {
  EXPECT_EQ(nodes(contiguous(int_type(), 1000)), 1);
  EXPECT_EQ(nodes(vector_of(int_type(), 1000, 2, 5)), 1);
  EXPECT_EQ(nodes(hvector(vector_of(int_type(), 10, 2, 5), 7, 1, 1000)), 2);
  EXPECT_EQ(nodes(subarray(int_type(), {9, 9, 9, 9}, {3, 4, 5, 6}, {1, 2, 3, 0}, MPI_ORDER_C)), 3);
  EXPECT_EQ(nodes(subarray(int_type(), {9, 9, 9, 9}, {3, 4, 5, 6}, {1, 2, 3, 0}, MPI_ORDER_FORTRAN)), 3);
  EXPECT_EQ(nodes(indexed_block(int_type(), 1, {0, 3, 6, 9, 12, 15})), 1);
  EXPECT_EQ(nodes(contiguous(pair(MPI_DOUBLE_INT, 8, 8, 8, 16, "double_int"), 1000)), 1);
  const Distribution cyclic{{64, 64}, {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_CYCLIC}, {4, 4}, {4, 4}, MPI_ORDER_C};
  EXPECT_EQ(nodes(darray(int_type(), cyclic, 5)), 2);
}

TEST(DatatypeTest, DarrayViewsOfAllProcessesCoverTheArrayOnce) {
  for (int seed = 0; seed < 300; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const Distribution dist = random_distribution(random, 3, 9);
    SCOPED_TRACE(concat("seed ", seed));
    const auto entries =
        static_cast<std::size_t>(std::accumulate(dist.sizes.begin(), dist.sizes.end(), 4, std::multiplies<>()));
    std::vector<int> seen(entries);
    for (int rank = 0; rank < dist.processes(); ++rank) {
      const Sample sample = darray(int_type(), dist, rank);
      const auto view = view_element(0, decoded(MPI_INT), decoded(sample.type()));
      ASSERT_THAT(view, IsOk());
      ASSERT_EQ(view->period(), static_cast<Offset>(entries));
      for (Offset y = 0; y < view->size(); ++y) ++seen[static_cast<std::size_t>(*view->unmap(y))];
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), static_cast<std::ptrdiff_t>(entries));
  }
}

TEST(DatatypeTest, ManyIrregularPieces) {
  constexpr int kPieces = 175'000;
  Random random(1);
  Addresses at;
  MPI_Aint next = 0;
  for (int i = 0; i < kPieces; ++i) {
    at.push_back(next);
    next += 4 * random.between(2, 50);
  }
  MPI_Datatype type;
  MPI_Type_create_hindexed_block(kPieces, 1, at.data(), MPI_INT, &type);
  const Typemap map = decoded(type);
  EXPECT_LE(layout::node_count(map.falls), kPieces);
  const auto view = view_element(0, decoded(MPI_INT), map);
  ASSERT_THAT(view, IsOk());
  for (int i = 0; i < kPieces; i += 997) ASSERT_EQ(view->unmap(4 * i), at[static_cast<std::size_t>(i)]);
  MPI_Type_free(&type);
}

TEST(DatatypeTest, SharedMembersDoNotMultiplyTheWork) {
  MPI_Datatype nested;
  MPI_Type_dup(MPI_INT, &nested);
#if defined(OMPI_MAJOR_VERSION)
  constexpr int kLevels =
      10;  // Open MPI gives a new handle for each member, so that nobody can see that they are the same
#else
  constexpr int kLevels = 40;  // 2^40 leaves if each member were decoded for itself
#endif
  for (int level = 0; level < kLevels; ++level) {
    const std::array lengths{1, 0, 1};
    const std::array<MPI_Aint, 3> at{0, 0, 0};
    const std::array types{nested, MPI_INT, nested};
    MPI_Datatype next;
    const std::array one{1, 0, 0};
    MPI_Type_create_struct(3, level < 4 ? lengths.data() : one.data(), at.data(), types.data(), &next);
    MPI_Type_free(&nested);
    nested = next;
  }
  EXPECT_EQ(decoded(nested).size, 4 * 16);
  MPI_Type_free(&nested);
}

TEST(DatatypeTest, DeepNestingOfBasicSteps) {
  std::vector<Sample> chain;
  chain.push_back(dup(int_type()));
  for (int level = 0; level < 500; ++level) {
    chain.push_back(level % 3 == 0   ? contiguous(chain.back(), 1)
                    : level % 3 == 1 ? hindexed(chain.back(), {1}, {level % 2})
                                     : resized(chain.back(), 0, 2000));
  }
  expect_all(chain.back());
}

int deleted_attributes = 0;
int count_deleted(MPI_Datatype, int, void*, void*) {
  ++deleted_attributes;
  return MPI_SUCCESS;
}

TEST(DatatypeTest, DecodingKeepsNoHandles) {
  int key = 0;
  MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, count_deleted, &key, nullptr);
  MPI_Datatype inner;
  MPI_Type_vector(3, 1, 2, MPI_INT, &inner);
  MPI_Type_set_attr(inner, key, nullptr);
  MPI_Datatype outer;
  MPI_Type_contiguous(3, inner, &outer);
  deleted_attributes = 0;
  MPI_Type_free(&inner);
  decoded(outer);
  MPI_Type_free(&outer);
  EXPECT_EQ(deleted_attributes, 1);
  MPI_Type_free_keyval(&key);
}

TEST(DatatypeTest, LongWaysBackwardsAndRepeatedBytesArePacked) {
  const Sample backwards = vector_of(int_type(), 1000, 1, -1);
  const auto listed = memory_map(1, decoded(backwards.type()));
  ASSERT_THAT(listed, IsOk());
  ASSERT_THAT(listed->direct, IsOk());
  EXPECT_EQ(listed->shift + *listed->element.unmap(0), 0);
  EXPECT_EQ(listed->shift + *listed->element.unmap(3999), -4 * 999 + 3);

  MPI_Datatype type;
  MPI_Type_vector(1 << 20, 1, -1, MPI_INT, &type);
  const auto longer = memory_map(1, decoded(type));
  MPI_Type_free(&type);
  ASSERT_THAT(longer, IsOk());
  EXPECT_EQ(longer->bytes, Offset{4} << 20);
  EXPECT_THAT(longer->direct, StatusIs(ErrorCode::kTooComplex, HasSubstr("backwards")));

  const Sample same = hvector(int_type(), 3, 1, 0);
  const auto repeated = memory_map(2, decoded(same.type()));
  ASSERT_THAT(repeated, IsOk());
  EXPECT_EQ(repeated->bytes, 24);
  EXPECT_THAT(repeated->direct, StatusIs(ErrorCode::kInvalidArgument, HasSubstr("occurs twice")));
}

TEST(DatatypeTest, ViewsThatTheStandardForbids) {
  const Typemap one_int = decoded(MPI_INT);
  const auto refused = [&](const Sample& filetype) {
    return view_element(0, one_int, decoded(filetype.type())).status();
  };
  EXPECT_THAT(view_element(-1, one_int, one_int),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("displacement is negative")));
  EXPECT_THAT(view_element(0, decoded(contiguous(byte(), 0).type()), one_int),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("etype has no bytes")));
  EXPECT_THAT(refused(hindexed(int_type(), {1}, {-4})), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("negative")));
  EXPECT_THAT(refused(hindexed(int_type(), {1, 1}, {8, 0})),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("decrease")));
  EXPECT_THAT(refused(hindexed(int_type(), {1, 1}, {0, 2})), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(refused(resized(int_type(), 0, 0)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("extent")));
  EXPECT_THAT(refused(resized(int_type(), 0, -8)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("extent")));
  EXPECT_THAT(refused(contiguous(byte(), 6)), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("whole etypes")));
  EXPECT_THAT(view_element(kMaxBytes, one_int, one_int), StatusIs(ErrorCode::kOutOfRange));
  EXPECT_THAT(decode(MPI_DATATYPE_NULL, LeafSize::kNative), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("NULL")));
}

TEST(DatatypeTest, FiletypesThatInterleaveWithTheirNextItem) {
  const Sample filetype = resized(indexed_block(byte(), 1, {0, 5}), 0, 2);
  const auto view = view_element(100, decoded(MPI_BYTE), decoded(filetype.type()));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->unmap(0), 100);
  EXPECT_EQ(view->unmap(1), 105);
  EXPECT_EQ(view->unmap(2), 102);
  EXPECT_EQ(view->unmap(2'000'001), 2'000'105);
  EXPECT_EQ(view->map(107), 3);
}

TEST(DatatypeTest, OfFiletypesThatOverlapWithTheirNextItemOnlyTheFirst) {
  for (const Sample& filetype :
       {resized(contiguous(int_type(), 2), 0, 4), resized(indexed_block(int_type(), 1, {0, 2}), 0, 8)}) {
    const auto view = view_element(100, decoded(MPI_INT), decoded(filetype.type()));
    ASSERT_THAT(view, IsOk());
    EXPECT_EQ(view->limit(), 8);
    EXPECT_EQ(view->unmap(0), 100);
    EXPECT_EQ(view->unmap(8), std::nullopt);
  }
}

TEST(DatatypeTest, ViewsKeepTheirDisplacementWhereTheyCan) {
  const Sample second_half = subarray(int_type(), {4}, {2}, {2}, MPI_ORDER_C);
  const auto view = view_element(10, decoded(MPI_INT), decoded(second_half.type()));
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->disp(), 10);
  EXPECT_EQ(view->period(), 16);
  EXPECT_EQ(view->unmap(0), 18);
}

#if MPI_VERSION >= 4
TEST(DatatypeTest, LargeCounts) {
  constexpr MPI_Count kMany = MPI_Count{1} << 33;
  MPI_Datatype type;
  MPI_Type_vector_c(kMany, 2, 3, MPI_SHORT, &type);
  Typemap map = decoded(type);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, 3, 6, kMany, {}}}));
  MPI_Type_free(&type);

  const std::array<MPI_Count, 2> lengths{kMany, 1};
  const std::array<MPI_Count, 2> at{0, 2 * kMany};
  MPI_Type_create_hindexed_c(2, lengths.data(), at.data(), MPI_BYTE, &type);
  map = decoded(type);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, kMany - 1, 0, 1, {}}, {2 * kMany, 2 * kMany, 0, 1, {}}}));
  MPI_Type_free(&type);

  const std::array<MPI_Count, 2> sizes{kMany, 8};
  const std::array<MPI_Count, 2> subsizes{kMany, 2};
  const std::array<MPI_Count, 2> starts{0, 5};
  MPI_Type_create_subarray_c(2, sizes.data(), subsizes.data(), starts.data(), MPI_ORDER_C, MPI_BYTE, &type);
  map = decoded(type);
  EXPECT_EQ(map.origin, 5);
  EXPECT_EQ(map.extent, 8 * kMany);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, 1, 8, kMany, {}}}));
  MPI_Type_free(&type);

  const std::array kinds{MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC};
  const std::array arguments{MPI_DISTRIBUTE_DFLT_DARG, 2};
  const std::array grid{2, 2};
  MPI_Type_create_darray_c(4, 3, 2, sizes.data(), kinds.data(), arguments.data(), grid.data(), MPI_ORDER_C, MPI_BYTE,
                           &type);
  map = decoded(type);
  EXPECT_EQ(map.origin, 4 * kMany + 2);
  EXPECT_EQ(map.falls, (layout::FallsSet{{0, 1, 4, kMany, {}}}));
  MPI_Type_free(&type);

  MPI_Type_create_resized_c(MPI_BYTE, -kMany, 2 * kMany, &type);
  map = decoded(type);
  EXPECT_EQ(map.lower_bound, -kMany);
  EXPECT_EQ(map.extent, 2 * kMany);
  MPI_Type_free(&type);
}
#endif

}  // namespace
}  // namespace weir::mpiio::internal
