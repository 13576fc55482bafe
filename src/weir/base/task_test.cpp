#include <weir/base/task.h>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir {
namespace {

/// Suspends its awaiters until resume_all().
struct Parking {
  std::vector<std::coroutine_handle<>> parked;

  struct Spot {
    Parking& parking;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> task) const { parking.parked.push_back(task); }
    void await_resume() const noexcept {}
  };
  Spot wait() { return Spot{*this}; }
  void resume_all() {
    while (!parked.empty()) {
      const auto some = std::exchange(parked, {});
      for (const std::coroutine_handle<> task : some) task.resume();
    }
  }
};

Task<Status> odd_ones_wait(Parking& parking, int number) {
  if (number % 2 == 1) co_await parking.wait();
  if (number == 5) co_return invalid_argument("five");
  co_return Status::ok();
}

Task<Result<int>> count_to(Parking& parking, int end) {
  int count = 0;
  for (int i = 0; i < end; ++i) {
    WEIR_CO_RETURN_IF_ERROR(co_await odd_ones_wait(parking, i));
    ++count;
  }
  co_return count;
}

TEST(TaskTest, GoesOnWhereWhatItWaitedForEnds) {
  Parking parking;
  std::vector<Result<int>> results;
  for (const int end : {1, 4, 9}) {
    const std::string captured(100, 'x');  // lives as long as the task
    start([&parking, end, captured] { return count_to(parking, captured.size() == 100 ? end : 0); },
          [&results](Result<int> result) { results.push_back(std::move(result)); });
  }
  EXPECT_EQ(results.size(), 1u) << "the one that never waits";
  parking.resume_all();
  ASSERT_EQ(results.size(), 3u);
  EXPECT_THAT(results[0], testing::IsOkAndHolds(1));
  EXPECT_THAT(results[1], testing::IsOkAndHolds(4));
  EXPECT_THAT(results[2], testing::StatusIs(ErrorCode::kInvalidArgument));
}

Task<Result<int>> add_up(Parking& parking, int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) {
    WEIR_CO_RETURN_IF_ERROR(co_await odd_ones_wait(parking, 0));
    ++sum;
  }
  co_return sum;
}

TEST(TaskTest, ManyThatNeverWaitNeedNoStack) {
  Parking parking;
  int sum = 0;
  start([&] { return add_up(parking, 1'000'000); }, [&](const Result<int>& result) { sum = *result; });
  EXPECT_EQ(sum, 1'000'000);
}

Task<Status> pass(TaskMutex& mutex, Parking& parking, std::vector<int>& order, int number) {
  const TaskMutex::Guard guard = co_await mutex.lock();
  order.push_back(number);
  co_await parking.wait();
  order.push_back(number);
  co_return Status::ok();
}

TEST(TaskMutexTest, LetsOnePassAtATimeInOrder) {
  TaskMutex mutex;
  Parking parking;
  std::vector<int> order;
  for (const int number : {1, 2, 3}) {
    start([&, number] { return pass(mutex, parking, order, number); }, [](const Status&) {});
  }
  EXPECT_EQ(order, (std::vector{1}));
  parking.resume_all();
  EXPECT_EQ(order, (std::vector{1, 1, 2, 2, 3, 3}));
}

}  // namespace
}  // namespace weir
