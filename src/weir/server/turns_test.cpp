#include <weir/server/internal/turns.h>

#include <string>

#include <gtest/gtest.h>

namespace weir::server::internal {
namespace {

constexpr storage::SubfileId kSubfile{1, 0};
using Kind = Turns::Kind;

struct TurnsTest : ::testing::Test {
  void take(Kind kind, char name) {
    turns.take(kSubfile, kind, [this, name] { begun += name; });
  }
  Turns turns;
  std::string begun;
};

TEST_F(TurnsTest, OneAloneKeepsAllOthersWaiting) {
  take(Kind::kAlone, 'a');
  take(Kind::kAlone, 'b');
  take(Kind::kTogether, 'c');
  EXPECT_EQ(begun, "a");
  turns.leave(kSubfile);
  EXPECT_EQ(begun, "ab");
  turns.leave(kSubfile);
  EXPECT_EQ(begun, "abc");
  turns.leave(kSubfile);
  EXPECT_EQ(turns.size(), 0U);
}

TEST_F(TurnsTest, SomeWorkTogetherButNobodyOvertakesOneThatWantsToBeAlone) {
  take(Kind::kTogether, 'a');
  take(Kind::kTogether, 'b');
  take(Kind::kAlone, 'c');
  take(Kind::kTogether, 'd');
  EXPECT_EQ(begun, "ab");
  turns.leave(kSubfile);
  EXPECT_EQ(begun, "ab") << "one is still at work";
  turns.leave(kSubfile);
  EXPECT_EQ(begun, "abc");
  turns.leave(kSubfile);
  EXPECT_EQ(begun, "abcd");
  turns.leave(kSubfile);
  EXPECT_EQ(turns.size(), 0U);
}

TEST_F(TurnsTest, SubfilesDoNotWaitForEachOther) {
  take(Kind::kAlone, 'a');
  turns.take({2, 0}, Kind::kAlone, [this] { begun += 'b'; });
  EXPECT_EQ(begun, "ab");
}

TEST_F(TurnsTest, ManyThatLeaveAtOnceDoNotPileUp) {
  int done = 0;
  take(Kind::kAlone, 'a');
  for (int i = 0; i < 100'000; ++i) {
    turns.take(kSubfile, Kind::kAlone, [&] {
      ++done;
      turns.leave(kSubfile);
    });
  }
  turns.leave(kSubfile);
  EXPECT_EQ(done, 100'000);
  EXPECT_EQ(turns.size(), 0U);
}

}  // namespace
}  // namespace weir::server::internal
