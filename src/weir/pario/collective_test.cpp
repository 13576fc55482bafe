// How collective accesses are divided between ranks, and which way they go: no rank is asked.

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/pario/collective.h>

namespace weir::pario {
namespace {

using ::testing::HasSubstr;

constexpr Offset kMiB = Offset{1} << 20;

// Ranks that have every r-th piece of a file, which is dense.
std::vector<Share> interleaved(int ranks, Offset bytes_each, Offset piece) {
  std::vector<Share> shares;
  for (int rank = 0; rank < ranks; ++rank) {
    Share share;
    share.bytes = bytes_each;
    share.file = {rank * piece, ranks * bytes_each - (ranks - 1 - rank) * piece};
    share.messages = 4;
    share.pieces = bytes_each / piece;
    share.touched_bytes = piece >= 4096 ? bytes_each : ranks * bytes_each;
    shares.push_back(share);
  }
  return shares;
}

CollectiveFacts facts_for(int ranks, Offset bytes_each, Offset piece, bool is_write, bool is_on_disk) {
  CollectiveFacts facts;
  facts.is_write = is_write;
  facts.are_disjoint = true;
  facts.is_on_disk = is_on_disk;
  facts.targets = 4;
  facts.shares = interleaved(ranks, bytes_each, piece);
  facts.domains = divide(facts.shares, {.alignment = 4 * 65536});
  return facts;
}

TEST(DivideTest, WindowsHoldEveryByteOnce) {
  std::mt19937_64 random(7);
  const auto between = [&](Offset low, Offset high) {
    return std::uniform_int_distribution<Offset>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<Share> shares(static_cast<std::size_t>(between(1, 9)));
    for (Share& share : shares) {
      share.bytes = between(0, 1);
      share.file.from = between(0, 40 * kMiB);
      share.file.to = share.file.from + between(1, Offset{1} << between(0, 26));
    }
    shares.front().bytes = 1;
    Range hull{kMaxBytes, 0};
    for (const Share& share : shares) {
      if (share.bytes > 0) hull = {std::min(hull.from, share.file.from), std::max(hull.to, share.file.to)};
    }
    const DomainOptions options{.most_owners = static_cast<int>(between(0, 4)),
                                .window = between(0, 1) == 0 ? 0 : between(1, 3 * kMiB),
                                .alignment = between(1, 3) * 4096 * between(1, 100)};
    const Domains domains = divide(shares, options);
    ASSERT_EQ(domains.file.from, hull.from);
    ASSERT_EQ(domains.file.to, hull.to);
    ASSERT_LE(domains.owners, static_cast<int>(shares.size()));
    if (options.most_owners > 0) {
      ASSERT_LE(domains.owners, options.most_owners);
    }
    Offset at = hull.from;
    for (int owner = 0; owner < domains.owners; ++owner) {
      for (int turn = 0; turn < domains.rounds(); ++turn) {
        const Range window = domains.window_of(owner, turn);
        ASSERT_LE(window.from, window.to);
        ASSERT_LE(window.to - window.from, domains.window);
        if (window.from == window.to) continue;
        ASSERT_EQ(window.from, at) << "owner " << owner << " round " << turn;
        at = window.to;
      }
    }
    ASSERT_EQ(at, hull.to);
    const Range none = domains.window_of(domains.owners, 0);
    ASSERT_EQ(none.from, none.to);
  }
}

TEST(DivideTest, PartsStartWhereTheLayoutStartsAnew) {
  std::vector<Share> shares(4);
  for (Share& share : shares) {
    share.bytes = 1;
    share.file = {1000, 100 * kMiB};
  }
  const Offset period = 3 * 65536;
  const Domains domains = divide(shares, {.alignment = period});
  ASSERT_EQ(domains.owners, 4);
  for (int owner = 1; owner < 4; ++owner) {
    for (int round = 0; round < domains.rounds(); ++round) {
      const Range window = domains.window_of(owner, round);
      if (window.from == window.to) continue;
      EXPECT_EQ(window.from % period, 0);
    }
  }
}

TEST(DivideTest, SmallAccessesHaveOneOwner) {
  EXPECT_EQ(divide(interleaved(8, 100, 10), {}).owners, 1);
  EXPECT_EQ(divide(interleaved(8, 4 * kMiB, 8), {}).owners, 8);
}

TEST(ChooseTest, DisksWantTwoPhasesForFinePieces) {
  for (const bool is_write : {false, true}) {
    EXPECT_EQ(choose(facts_for(4, 16 * kMiB, 8, is_write, true), Method::kAuto).method, Method::kTwoPhase);
    EXPECT_EQ(choose(facts_for(4, 16 * kMiB, 512, is_write, true), Method::kAuto).method, Method::kTwoPhase);
  }
}

TEST(ChooseTest, LongPiecesGoAlone) {
  for (const bool is_write : {false, true}) {
    EXPECT_EQ(choose(facts_for(4, 16 * kMiB, 4 * kMiB, is_write, true), Method::kAuto).method, Method::kAlone);
    EXPECT_EQ(choose(facts_for(4, 16 * kMiB, 4 * kMiB, is_write, false), Method::kAuto).method, Method::kAlone);
  }
}

TEST(ChooseTest, MemoryTakesPiecesAsTheyAre) {
  for (const bool is_write : {false, true}) {
    EXPECT_EQ(choose(facts_for(4, 16 * kMiB, 512, is_write, false), Method::kAuto).method, Method::kAlone);
  }
}

TEST(ChooseTest, WishesAreGrantedWherePossible) {
  const CollectiveFacts facts = facts_for(4, 16 * kMiB, 4 * kMiB, true, true);
  EXPECT_EQ(choose(facts, Method::kTwoPhase).method, Method::kTwoPhase);
  EXPECT_EQ(choose(facts_for(4, 16 * kMiB, 8, true, true), Method::kAlone).method, Method::kAlone);
}

TEST(ChooseTest, WritesWithGapsOrOverlapsGoAlone) {
  CollectiveFacts gaps = facts_for(4, 16 * kMiB, 8, true, true);
  gaps.shares[1].bytes -= 8;
  CollectiveChoice choice = choose(gaps, Method::kTwoPhase);
  EXPECT_EQ(choice.method, Method::kAlone);
  EXPECT_THAT(choice.why, HasSubstr("gaps"));
  CollectiveFacts overlaps = facts_for(4, 16 * kMiB, 8, true, true);
  overlaps.are_disjoint = false;
  choice = choose(overlaps, Method::kTwoPhase);
  EXPECT_EQ(choice.method, Method::kAlone);
  EXPECT_THAT(choice.why, HasSubstr("in common"));
  gaps.is_write = overlaps.is_write = false;
  EXPECT_EQ(choose(gaps, Method::kTwoPhase).method, Method::kTwoPhase);
  EXPECT_EQ(choose(overlaps, Method::kTwoPhase).method, Method::kTwoPhase);
}

// Rounds are counted by int: of more than it holds, none would be made.
TEST(ChooseTest, TooManyRoundsGoAlone) {
  CollectiveFacts facts = facts_for(4, 16 * kMiB, 8, false, true);
  facts.shares[1].file.to = Offset{1} << 34;
  facts.domains = divide(facts.shares, {.most_owners = 1, .window = 1});
  const CollectiveChoice choice = choose(facts, Method::kTwoPhase);
  EXPECT_EQ(choice.method, Method::kAlone);
  EXPECT_THAT(choice.why, HasSubstr("too many rounds"));
}

TEST(ChooseTest, CostsDecide) {
  model::Io costs;
  costs.ranks.exchange_byte_seconds = 1e-6;
  EXPECT_EQ(choose(facts_for(4, 16 * kMiB, 8, true, true), Method::kAuto, costs).method, Method::kAlone);
  costs = {};
  costs.remote.request_seconds = 1;
  CollectiveFacts facts = facts_for(4, 16 * kMiB, 4 * kMiB, true, false);
  facts.shares[0].messages = 1000;
  EXPECT_EQ(choose(facts, Method::kAuto, costs).method, Method::kAlone);
  facts.place = model::Place::kOtherHost;
  EXPECT_EQ(choose(facts, Method::kAuto, costs).method, Method::kTwoPhase);
}

TEST(ChooseTest, MeasuredTimesCorrectPredictions) {
  CollectiveFacts facts = facts_for(4, 16 * kMiB, 512, true, true);
  const CollectiveChoice predicted = choose(facts, Method::kAuto);
  ASSERT_EQ(predicted.method, Method::kTwoPhase);
  EXPECT_EQ(predicted.predicted_seconds, predicted.two_phase_seconds);
  facts.factors = {0.5, 8};
  const CollectiveChoice corrected = choose(facts, Method::kAuto);
  EXPECT_EQ(corrected.method, Method::kAlone);
  EXPECT_EQ(corrected.predicted_seconds, predicted.alone_seconds);  // what is measured is compared with that
  EXPECT_EQ(corrected.alone_seconds, predicted.alone_seconds * 0.5);
  EXPECT_EQ(corrected.two_phase_seconds, predicted.two_phase_seconds * 8);
  EXPECT_THAT(corrected.why, HasSubstr(model::time_text(corrected.alone_seconds)));
}

TEST(ChooseTest, EveryMethodHasItsCorrections) {
  EXPECT_EQ(kind_of(Method::kAlone, false), model::Kind::kAloneRead);
  EXPECT_EQ(kind_of(Method::kAlone, true), model::Kind::kAloneWrite);
  EXPECT_EQ(kind_of(Method::kTwoPhase, false), model::Kind::kTwoPhaseRead);
  EXPECT_EQ(kind_of(Method::kTwoPhase, true), model::Kind::kTwoPhaseWrite);
}

TEST(ChooseTest, NamesAreReadAsTheyAreWritten) {
  for (const Method method : {Method::kAuto, Method::kAlone, Method::kTwoPhase}) {
    const Result<Method> parsed = parse_method(std::string(to_text(method)));
    ASSERT_TRUE(parsed.is_ok());
    EXPECT_EQ(*parsed, method);
  }
  EXPECT_THAT(parse_method("both").status().message(), HasSubstr("(auto, alone, two-phase)"));
}

}  // namespace
}  // namespace weir::pario
