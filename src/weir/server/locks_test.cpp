#include <weir/server/internal/locks.h>

#include <algorithm>
#include <map>
#include <optional>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/testing/generate.h>

namespace weir::server::internal {
namespace {

using layout::oracle::Random;
using testing::IsOk;
using testing::StatusIs;

constexpr Locks::Holder kA{1, 0};
constexpr Locks::Holder kB{2, 0};
constexpr Locks::Holder kC{3, 0};

/// What became of a request.
struct Outcome {
  std::optional<Status> status;
  Locks::Granted note() {
    return [this](const Status& told) {
      EXPECT_FALSE(status) << "answered twice";
      status = told;
    };
  }
  [[nodiscard]] bool is_granted() const { return status && status->is_ok(); }
};

TEST(LocksTest, ExclusiveLocksWaitForEachOtherWhereTheyOverlap) {
  Locks locks;
  Outcome a, b, apart;
  EXPECT_EQ(locks.lock(7, {0, 10}, true, kA, a.note()), 0u);
  EXPECT_NE(locks.lock(7, {9, 20}, true, kB, b.note()), 0u);
  EXPECT_EQ(locks.lock(7, {20, 30}, true, kC, apart.note()), 0u);
  EXPECT_TRUE(a.is_granted());
  EXPECT_FALSE(b.status);
  EXPECT_TRUE(locks.is_free(8, {0, 10}, true, kB));
  EXPECT_FALSE(locks.is_free(7, {0, 1}, false, kB));
  locks.unlock(7, {0, 10}, kA);
  EXPECT_TRUE(b.is_granted());
}

TEST(LocksTest, SharedLocksShareAndWritersAreNotStarved) {
  Locks locks;
  Outcome a, writer, b;
  locks.lock(7, {0, 10}, false, kA, a.note());
  locks.lock(7, {0, 10}, true, kB, writer.note());
  locks.lock(7, {0, 10}, false, kC, b.note());
  EXPECT_TRUE(a.is_granted());
  EXPECT_FALSE(writer.status);
  EXPECT_FALSE(b.status) << "it came after the writer";
  locks.unlock(7, {0, 10}, kA);
  EXPECT_TRUE(writer.is_granted());
  EXPECT_FALSE(b.status);
  locks.unlock(7, {0, 10}, kB);
  EXPECT_TRUE(b.is_granted());
}

TEST(LocksTest, CancellingOneThatWaitsLetsOthersThrough) {
  Locks locks;
  Outcome a, writer, b;
  locks.lock(7, {0, 10}, false, kA, a.note());
  const Locks::Ticket ticket = locks.lock(7, {0, 10}, true, kB, writer.note());
  locks.lock(7, {0, 10}, false, kC, b.note());
  locks.cancel(ticket, {ErrorCode::kTimedOut, "late"});
  EXPECT_THAT(*writer.status, StatusIs(ErrorCode::kTimedOut));
  EXPECT_TRUE(b.is_granted());
  locks.cancel(ticket, {ErrorCode::kTimedOut, "again"});
}

TEST(LocksTest, APeerThatGoesTakesItsLocksAlong) {
  Locks locks;
  Outcome a, waiting, b;
  locks.lock(7, {0, 10}, true, kA, a.note());
  locks.lock(7, {0, 10}, true, {1, 5}, waiting.note());
  locks.lock(7, {0, 10}, true, kB, b.note());
  locks.drop(1);
  EXPECT_THAT(*waiting.status, StatusIs(ErrorCode::kUnavailable));
  EXPECT_TRUE(b.is_granted());
  locks.drop(2);
  EXPECT_EQ(locks.size(), 0u);
}

TEST(LocksTest, UnlockingCutsHolesAndLockingReplaces) {
  Locks locks;
  Outcome a, again, b;
  locks.lock(7, {0, 30}, true, kA, a.note());
  locks.unlock(7, {10, 20}, kA);
  EXPECT_TRUE(locks.is_free(7, {10, 20}, true, kB));
  EXPECT_FALSE(locks.is_free(7, {9, 20}, true, kB));
  EXPECT_FALSE(locks.is_free(7, {10, 21}, true, kB));
  locks.lock(7, {25, 30}, false, kB, b.note());
  EXPECT_FALSE(b.status);
  locks.lock(7, {20, 30}, false, kA, again.note());
  EXPECT_TRUE(b.is_granted()) << "nothing exclusive is in the way any more";
  EXPECT_TRUE(locks.is_free(7, {20, 30}, false, kB));
  EXPECT_FALSE(locks.is_free(7, {0, 5}, false, kB));
}

/// Locks, byte by byte, as their holders know them from the answers they got, in the order of these answers.
struct ExpectedLocks {
  struct Asked {
    std::uint64_t peer;
    layout::Range range;
    bool exclusive;
  };
  std::map<std::uint64_t, std::map<Offset, bool>> held;  // peer -> byte -> exclusive
  std::map<int, Asked> waiting;                          // in the order of asking

  Locks::Granted answer(int step) {
    return [this, step](const Status& status) {
      ASSERT_TRUE(waiting.contains(step)) << "answered twice";
      const Asked asked = waiting.at(step);
      waiting.erase(step);
      if (!status.is_ok()) return;
      for (Offset x = asked.range.from; x < asked.range.to; ++x) held[asked.peer][x] = asked.exclusive;
    };
  }

  [[nodiscard]] bool is_in_the_way(std::uint64_t peer, layout::Range range, bool exclusive) const {
    for (const auto& [other, bytes] : held) {
      if (other == peer) continue;
      for (const auto& [byte, is_exclusive] : bytes) {
        if (byte >= range.from && byte < range.to && (exclusive || is_exclusive)) return true;
      }
    }
    return false;
  }

  void check() const {
    for (const auto& [peer, bytes] : held) {
      for (const auto& [byte, exclusive] : bytes) {
        ASSERT_FALSE(is_in_the_way(peer, {byte, byte + 1}, exclusive)) << "two hold byte " << byte;
      }
    }
    for (auto one = waiting.begin(); one != waiting.end(); ++one) {
      const Asked& asked = one->second;
      const bool behind_another = std::any_of(waiting.begin(), one, [&](const auto& before) {
        const Asked& earlier = before.second;
        return earlier.peer != asked.peer && (earlier.exclusive || asked.exclusive) &&
               earlier.range.from < asked.range.to && asked.range.from < earlier.range.to;
      });
      ASSERT_TRUE(behind_another || is_in_the_way(asked.peer, asked.range, asked.exclusive))
          << "request " << one->first << " waits for nothing";
    }
  }
};

TEST(LocksTest, NoTwoHoldersEverConflictAndNobodyWaitsForNothing) {
  layout::oracle::for_cases(500, [](Random& random) {
    Locks locks;
    ExpectedLocks expected;
    for (int step = 0; step < 60 && !::testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(step);
      const auto peer = static_cast<std::uint64_t>(random.between(1, 4));
      const Offset from = random.between(0, 15);
      const layout::Range range{from, random.between(from + 1, 16)};
      if (random.chance(50)) {
        const bool exclusive = random.chance(50);
        expected.waiting[step] = {peer, range, exclusive};
        locks.lock(1, range, exclusive, {peer, 0}, expected.answer(step));
      } else if (random.chance(80)) {
        for (Offset x = range.from; x < range.to; ++x) expected.held[peer].erase(x);
        locks.unlock(1, range, {peer, 0});
      } else {
        expected.held.erase(peer);
        locks.drop(peer);
      }
      expected.check();
    }
    for (std::uint64_t peer = 1; peer <= 4; ++peer) {
      expected.held.erase(peer);
      locks.drop(peer);
      expected.check();
    }
    EXPECT_TRUE(expected.waiting.empty());
    EXPECT_EQ(locks.size(), 0u);
  });
}

}  // namespace
}  // namespace weir::server::internal
