#include <weir/simulation/simulation.h>

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::simulation {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using weir::testing::IsOk;

TEST(SimulationTest, TimePassesOnlyWhileAllSleep) {
  Simulation simulation(1);
  const TimePoint start = simulation.now();
  simulation.spawn("sleeper", [&] {
    simulation.runtime().executor->sleep_until(start + hours(3));
    EXPECT_EQ(simulation.now(), start + hours(3));
  });
  ASSERT_THAT(simulation.run(), IsOk());
  EXPECT_EQ(simulation.now(), start + hours(3));
}

TEST(SimulationTest, SleepersWakeInTheOrderOfTime) {
  Simulation simulation(2);
  std::vector<int> order;
  for (const int delay : {30, 10, 20}) {
    simulation.spawn("sleeper", [&simulation, &order, delay] {
      simulation.runtime().executor->sleep_until(simulation.now() + milliseconds(delay));
      order.push_back(delay);
    });
  }
  ASSERT_THAT(simulation.run(), IsOk());
  EXPECT_THAT(order, ElementsAre(10, 20, 30));
}

TEST(SimulationTest, EventsWakeAndTimeOut) {
  Simulation simulation(3);
  const auto event = simulation.runtime().executor->make_event();
  simulation.spawn("waits", [&] {
    EXPECT_FALSE(event->wait_until(simulation.now() + milliseconds(5)));
    EXPECT_TRUE(event->wait_until(simulation.now() + hours(1)));
    EXPECT_FALSE(event->wait_until(simulation.now()));
  });
  simulation.after(milliseconds(7), [&] { event->set(); });
  const TimePoint start = simulation.now();
  ASSERT_THAT(simulation.run(), IsOk());
  EXPECT_EQ(simulation.now(), start + milliseconds(7));
}

TEST(SimulationTest, ThreadsAreJoined) {
  Simulation simulation(4);
  bool has_ended = false;
  simulation.spawn("parent", [&] {
    auto thread = simulation.runtime().executor->start("child", [&] {
      simulation.runtime().executor->sleep_until(simulation.now() + milliseconds(1));
      has_ended = true;
    });
    thread.reset();
    EXPECT_TRUE(has_ended);
  });
  ASSERT_THAT(simulation.run(), IsOk());
  EXPECT_TRUE(has_ended);
}

TEST(SimulationTest, NamesFibersThatNothingCanWake) {
  Simulation simulation(5);
  const auto event = simulation.runtime().executor->make_event();
  simulation.spawn("hopeless", [&] { event->wait(); });
  EXPECT_THAT(simulation.run().message(), HasSubstr("hopeless"));
}

TEST(SimulationTest, EndsAtTheLimitOfVirtualTime) {
  Simulation simulation(6);
  simulation.spawn("endless", [&] {
    for (;;) simulation.runtime().executor->sleep_until(simulation.now() + milliseconds(1));
  });
  EXPECT_EQ(simulation.run(std::chrono::seconds(1)).code(), ErrorCode::kTimedOut);
}

std::uint64_t race(std::uint64_t seed) {
  Simulation simulation(seed);
  for (int fiber = 0; fiber < 5; ++fiber) {
    simulation.spawn("racer", [&simulation, fiber] {
      for (int step = 0; step < 10; ++step) {
        simulation.note(std::string(1, static_cast<char>('a' + fiber)));
        simulation.runtime().executor->sleep_until(simulation.now() + simulation.random_between({}, milliseconds(2)));
      }
    });
  }
  EXPECT_THAT(simulation.run(), IsOk());
  return simulation.trace_hash();
}

TEST(SimulationTest, OneSeedGivesOneTrace) {
  EXPECT_EQ(race(7), race(7));
  EXPECT_NE(race(7), race(8));
}

}  // namespace
}  // namespace weir::simulation
