// One view, many threads.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using weir::testing::IsOk;

struct ThreadsCase {
  const char* name;
  const char* store;
  bool direct;
};
class ThreadsTest : public ::testing::TestWithParam<ThreadsCase> {};

TEST_P(ThreadsTest, OneViewIsUsedByMany) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kSlot = 100'000;
  constexpr int kRounds = 10;
  ClusterOptions options;
  options.store = GetParam().store;
  options.direct = GetParam().direct;
  const Cluster cluster(options);
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", *layout::parse("stripe(unit=4K, over=3)"));
  const View view = *file.linear();
  const layout::Element every_other = *layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 2});
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto at = static_cast<Offset>(t * kSlot);
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<std::byte> bytes(2 * kSlot, static_cast<std::byte>(10 * t + static_cast<std::size_t>(round)));
        std::vector<std::byte> back(kSlot);
        switch (round % 3) {
          case 0: ASSERT_THAT(view.write(at, std::span(bytes).first(kSlot)), IsOk()); break;
          case 1: ASSERT_THAT(view.start_write(at, std::span(bytes).first(kSlot)).wait(), IsOk()); break;
          default: ASSERT_THAT(view.write(at, kSlot, ConstMemory{bytes.data(), every_other}), IsOk()); break;
        }
        const Status read = round % 2 == 0 ? view.read(at, back) : view.start_read(at, back).wait();
        ASSERT_THAT(read, IsOk());
        ASSERT_TRUE(std::equal(back.begin(), back.end(), bytes.begin())) << t << " " << round;
        const Status synced = round == kRounds / 2 ? file.sync() : Status::ok();
        ASSERT_THAT(synced, IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(file.size(), weir::testing::IsOkAndHolds(static_cast<Offset>(kThreads * kSlot)));
  EXPECT_GE(view.report().calls, static_cast<std::int64_t>(2 * kThreads * kRounds));
}

INSTANTIATE_TEST_SUITE_P(Ways, ThreadsTest,
                         ::testing::Values(ThreadsCase{"MemoryDirect", "memory", true},
                                           ThreadsCase{"Memory", "memory", false}, ThreadsCase{"Disk", "disk", true}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::client
