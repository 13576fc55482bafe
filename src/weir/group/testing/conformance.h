#pragma once

// What every implementation of Group must do.  For tests only, not installed.
//
// Each case is run by all ranks of a group, at the same time.

#include <array>
#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/group/group.h>

namespace weir::group::testing {

inline void equal_values_agree(Group& group) {
  const std::uint64_t hash = hash_of({{"path", "/x"}, {"mode", "1"}});
  std::array<std::uint64_t, 4> words{hash, ~hash, static_cast<std::uint64_t>(group.rank()), group.blame(false)};
  ASSERT_THAT(group.greatest("test", words), weir::testing::IsOk());
  EXPECT_EQ(words[0], ~words[1]);
  EXPECT_EQ(words[2], static_cast<std::uint64_t>(group.size() - 1));
  EXPECT_EQ(words[3], 0u);
}

inline void words_have_no_sign(Group& group) {
  constexpr std::uint64_t kHighest = std::uint64_t{1} << 63;
  std::array<std::uint64_t, 1> word{group.rank() == group.size() - 1 ? kHighest + 5 : kHighest - 1};
  ASSERT_THAT(group.greatest("test", word), weir::testing::IsOk());
  EXPECT_EQ(word[0], kHighest + 5);
}

inline void ranks_that_differ_are_named(Group& group) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  const int last = group.size() - 1;
  if (last == 0) return;
  const std::string tail = group.rank() == last ? "odd" : "even";
  const std::vector<Term> terms{{"path", "/x"}, {"mode", tail}, {"layout", std::string(1000, 'l') + tail}};
  const std::uint64_t hash = hash_of(terms);
  std::array<std::uint64_t, 2> words{hash, ~hash};
  ASSERT_THAT(group.greatest("test", words), weir::testing::IsOk());
  EXPECT_NE(words[0], ~words[1]);
  const Result<std::string> text = group.differences("test", terms);
  ASSERT_THAT(text, weir::testing::IsOk());
  EXPECT_THAT(*text, AllOf(HasSubstr(concat(" mode: rank ", last == 1 ? 0 : last, ": ")),
                           HasSubstr(concat("rank ", last, ": odd")), ::testing::Not(HasSubstr("path"))));
  // They differ after what is shown.
  EXPECT_THAT(*text, AllOf(HasSubstr(" layout: rank "), HasSubstr("lll... (1003 characters, hash "),
                           HasSubstr("lll... (1004 characters, hash ")));
  EXPECT_LT(text->size(), 700u);
}

inline void the_error_of_the_lowest_rank_is_told(Group& group) {
  const int first = group.size() == 1 ? 0 : 1;  // and those above
  for (const std::size_t length : {0, 10, 5000}) {
    Status mine;
    if (group.rank() >= first) {
      mine = Status(ErrorCode::kNoSpace, concat("no ", group.rank(), std::string(length, '.')))
                 .with_detail(7 + group.rank());
    }
    std::array<std::uint64_t, 1> blame{group.blame(!mine.is_ok())};
    ASSERT_THAT(group.greatest("test", blame), weir::testing::IsOk());
    const Status failure = group.failure_of("test", blame[0], mine);
    EXPECT_EQ(failure.code(), ErrorCode::kNoSpace);
    EXPECT_EQ(failure.detail(), 7 + first);
    EXPECT_EQ(failure.message(), concat("on rank ", first, ": no ", first, std::string(length, '.')));
  }
}

inline void ranks_tell_each_other(Group& group) {
  const Offset rank = group.rank();
  const int last = group.size() - 1;
  const std::array<Offset, 2> mine{rank, -rank};
  const auto numbers = group.gather("test", mine);
  const auto texts = group.gather("test", std::string(static_cast<std::size_t>(rank), 'x'));
  ASSERT_THAT(numbers, weir::testing::IsOk());
  ASSERT_THAT(texts, weir::testing::IsOk());
  for (std::size_t i = 0; i < static_cast<std::size_t>(group.size()); ++i) {
    EXPECT_EQ((*numbers)[2 * i + 1], -static_cast<Offset>(i));
    EXPECT_EQ((*texts)[i], std::string(i, 'x'));
  }
  EXPECT_EQ(group.sum_below("test", rank + 1).value(), rank * (rank + 1) / 2);
  EXPECT_EQ(group.value_of("test", last, rank).value(), last);
}

inline void bytes_of_one_rank_reach_all(Group& group) {
  for (const std::size_t length : {0, 1, 1015, 1016, 1017, 100000}) {
    for (int root = 0; root < group.size(); ++root) {
      const std::string expected(length, static_cast<char>('a' + root));
      const auto bytes = group.bytes_of("test", root, group.rank() == root ? expected : "mine");
      ASSERT_THAT(bytes, weir::testing::IsOk());
      EXPECT_EQ(*bytes, expected);
    }
  }
}

// Each rank sends (3 * from + 5 * to) % 7 bytes, to some nothing; what it receives has gaps.
inline void bytes_are_exchanged(Group& group) {
  const auto count = [](int from, int to) { return (3 * from + 5 * to) % 7; };
  const auto byte = [](int from, int to, int k) { return static_cast<std::byte>(1 + (31 * from + 7 * to + k) % 250); };
  constexpr int kGap = 3;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::byte> sent;
    std::vector<std::byte> received(static_cast<std::size_t>((7 + kGap) * group.size()));
    RankBuffers out;
    RankBuffers in;
    for (int other = 0; other < group.size(); ++other) {
      out.counts.push_back(count(group.rank(), other));
      out.starts.push_back(static_cast<int>(sent.size()));
      for (int k = 0; k < out.counts.back(); ++k) sent.push_back(byte(group.rank(), other, k + round));
      in.counts.push_back(count(other, group.rank()));
      in.starts.push_back((7 + kGap) * other);
    }
    out.data = sent.data();
    in.data = received.data();
    ASSERT_THAT(group.exchange("test", out, in), weir::testing::IsOk());
    for (int other = 0; other < group.size(); ++other) {
      for (int k = 0; k < 7 + kGap; ++k) {
        const std::byte expected = k < count(other, group.rank()) ? byte(other, group.rank(), k + round) : std::byte{0};
        ASSERT_EQ(received[static_cast<std::size_t>((7 + kGap) * other + k)], expected) << other << " " << k;
      }
    }
  }
}

struct ConformanceCase {
  const char* name;
  void (*run)(Group& group);
  friend void PrintTo(const ConformanceCase& one, std::ostream* out) { *out << one.name; }
};

inline constexpr ConformanceCase kConformanceCases[] = {
    {"EqualValuesAgree", equal_values_agree},
    {"WordsHaveNoSign", words_have_no_sign},
    {"RanksThatDifferAreNamed", ranks_that_differ_are_named},
    {"TheErrorOfTheLowestRankIsTold", the_error_of_the_lowest_rank_is_told},
    {"RanksTellEachOther", ranks_tell_each_other},
    {"BytesOfOneRankReachAll", bytes_of_one_rank_reach_all},
    {"BytesAreExchanged", bytes_are_exchanged},
};

}  // namespace weir::group::testing
