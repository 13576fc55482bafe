// How long callers wait: signs of life count, not total time.

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/net/internal/call_table.h>

namespace weir::net::internal {
namespace {

using namespace std::chrono_literals;
using Look = CallTable::Look;

class CallTableTest : public ::testing::Test {
 protected:
  CallId add(Clock::duration time, Clock::duration patience) {
    Call call;
    call.deadline = start + time;
    call.patience = patience;
    call.done = [](const Result<Reply>&) {};
    return table.add(this, std::move(call));
  }
  /// Nothing if the call is not due.
  std::optional<Look> look(CallId id, Clock::duration after) {
    if (table.due(start + after) != std::vector<CallId>{id}) return std::nullopt;
    return table.look_at(id, start + after);
  }

  const Clock::time_point start = Clock::now();
  CallTable table;
};

TEST_F(CallTableTest, WithoutPatienceADeadlineIsFinal) {
  const CallId id = add(10s, 0s);
  table.find(id)->has_sign = true;
  EXPECT_EQ(look(id, 9999ms), std::nullopt);
  EXPECT_EQ(look(id, 10s), Look::kExpired);
}

TEST_F(CallTableTest, ASilentServerIsAskedBeforeACallExpires) {
  const CallId id = add(10s, 10s);
  EXPECT_EQ(table.next_look(), start + 5s);
  EXPECT_EQ(look(id, 4999ms), std::nullopt);
  EXPECT_EQ(look(id, 5s), Look::kAsk);
  EXPECT_EQ(look(id, 9999ms), std::nullopt);
  EXPECT_EQ(look(id, 10s), Look::kExpired);
}

TEST_F(CallTableTest, EverySignOfLifeGivesTime) {
  const CallId id = add(10s, 10s);
  for (int round = 1; round < 100; ++round) {
    // Asked and answered, then bytes that move without asking.
    EXPECT_EQ(look(id, round * 10s - 5s), Look::kAsk);
    table.find(id)->has_sign = true;
    EXPECT_EQ(look(id, round * 10s), Look::kWait);
  }
  EXPECT_EQ(look(id, 995s), Look::kAsk);
  EXPECT_EQ(look(id, 1000s), Look::kExpired);
}

// It could not have seen an answer.
TEST_F(CallTableTest, ACallerThatWasStoppedAsksFirst) {
  const CallId id = add(10s, 10s);
  EXPECT_EQ(look(id, 1000s), Look::kAsk);
  EXPECT_EQ(table.next_look(), start + 1005s);
  table.find(id)->has_sign = true;
  EXPECT_EQ(look(id, 1005s), Look::kWait);
}

TEST_F(CallTableTest, CallsThatAreOverAreNotDue) {
  const CallId id = add(10s, 10s);
  EXPECT_EQ(look(id, 5s), Look::kAsk);
  table.finish(id, Status(ErrorCode::kUnavailable, "over"));
  EXPECT_TRUE(table.due(start + 1000s).empty());
  EXPECT_EQ(table.next_look(), Clock::time_point::max());
}

}  // namespace
}  // namespace weir::net::internal
