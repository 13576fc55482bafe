#include <weir/scalapack/internal/copy_arguments.h>

#include <functional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::scalapack::internal {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using weir::testing::IsOk;

// Four processes: A on all of them as 2 x 2, B on the first two as 1 x 2.
std::vector<CopyArguments> valid_calls() {
  std::vector<CopyArguments> calls(4, CopyArguments{8, 'd', 10, 12, {}, {}});
  for (int i = 0; i < 4; ++i) {
    CopyArguments& call = calls[static_cast<std::size_t>(i)];
    call.a = {20, 30, 3, 4, 0, 1, 11, 19, 2, 2, 12, i / 2, i % 2};
    if (i < 2) call.b = {10, 12, 5, 5, 0, 0, 1, 1, 1, 2, 10, 0, i};
  }
  return calls;
}

std::string complaint(const std::function<void(std::vector<CopyArguments>&)>& spoil) {
  std::vector<CopyArguments> calls = valid_calls();
  spoil(calls);
  const std::vector<int> ranks{10, 11, 12, 13};
  return check(calls, ranks).message();
}

TEST(CallTest, AcceptsAnExactFit) {
  const std::vector<CopyArguments> calls = valid_calls();
  EXPECT_THAT(check(calls, std::vector<int>{0, 1, 2, 3}), IsOk());
  EXPECT_EQ(known(calls, &CopyArguments::b).grid_columns, 2);
}

TEST(CallTest, NamesRanksAndValuesThatDiffer) {
  EXPECT_THAT(complaint([](auto& calls) { calls[2].m = 9; }),
              AllOf(HasSubstr("pdgemr2d: M differs"), HasSubstr("9 on rank 12"), HasSubstr("10 on ranks 10,11,13")));
  EXPECT_THAT(complaint([](auto& calls) { calls[3].type = 's'; }),
              AllOf(HasSubstr("pdgemr2d on ranks 10-12"), HasSubstr("psgemr2d on rank 13")));
  EXPECT_THAT(complaint([](auto& calls) { calls[1].b.row_block = 6; }),
              AllOf(HasSubstr("MB_ of the descriptor of B"), HasSubstr("5 on rank 10"), HasSubstr("6 on rank 11")));
  EXPECT_THAT(complaint([](auto& calls) { calls[0].a.first_row = 10; }), HasSubstr("the first row of A differs"));
}

TEST(CallTest, WhatOutsidersSayDoesNotCount) {
  std::vector<CopyArguments> calls = valid_calls();
  calls[3].b.row_block = 77;
  EXPECT_THAT(check(calls, std::vector<int>{0, 1, 2, 3}), IsOk());
}

TEST(CallTest, RefusesWhatIsOutside) {
  EXPECT_THAT(complaint([](auto& calls) {
                for (CopyArguments& call : calls) call.m = 11;
              }),
              HasSubstr("rows 11 to 21, columns 19 to 30 of A are not all inside its 20 x 30 numbers"));
  EXPECT_THAT(complaint([](auto& calls) {
                for (CopyArguments& call : calls) call.n = -1;
              }),
              HasSubstr("must not be negative"));
  EXPECT_THAT(complaint([](auto& calls) {
                for (CopyArguments& call : calls) call.a.row_source = 2;
              }),
              HasSubstr("RSRC_, CSRC_ of A are 2, 1, but its grid has 2 x 2"));
  EXPECT_THAT(complaint([](auto& calls) {
                for (CopyArguments& call : calls) call.a.column_block = 0;
              }),
              HasSubstr("blocks of 3 x 0"));
}

TEST(CallTest, RefusesGridsThatAreNotWhole) {
  EXPECT_THAT(complaint([](auto& calls) { calls[2].a = {}; }), HasSubstr("only 3 of the 4 processes of A's grid"));
  EXPECT_THAT(complaint([](auto& calls) { calls[2].a.my_row = 0; }),
              HasSubstr("ranks 10 and 12 both are process {0,0} of A"));
  EXPECT_THAT(complaint([](auto& calls) { calls[0].b = calls[1].b = {}; }),
              HasSubstr("no process is in the context of B"));
}

TEST(CallTest, RefusesShortLeadingDimensions) {
  // Rows 0-2, 6-8, 12-14, 18-19: eleven on the first row of processes, nine on the second.
  EXPECT_THAT(complaint([](auto& calls) { calls[3].a.leading_dimension = 9; }), ::testing::IsEmpty());
  EXPECT_THAT(complaint([](auto& calls) { calls[1].a.leading_dimension = 9; }),
              HasSubstr("LLD_ of A is 9 on rank 11, which holds 11 rows"));
}

}  // namespace
}  // namespace weir::scalapack::internal
