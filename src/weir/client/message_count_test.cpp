// How many calls a client makes, and to whom: the data path never asks server 0, and small writes take one call.

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/testing/cluster.h>
#include <weir/client/testing/counting_network.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::CountingNetwork;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using weir::testing::IsOk;

// With a call's head, still short enough to travel in one frame.
constexpr std::size_t kSmallWriteBytes = 64 * 1024;
constexpr std::size_t kMostHead = 8 * 1024;

class MessageCountTest : public ::testing::TestWithParam<const char*> {
 protected:
  MessageCountTest() {
    // What is asked once for each session and file, and subfiles 0 and 1 on servers 1 and 2.
    EXPECT_THAT(fs_.make_directory("/directory"), IsOk());
    EXPECT_THAT(fs_.create("/file", *layout::parse("stripe(unit=64K, over=2)"), {.targets = {1, 2}}), IsOk());
    EXPECT_THAT(fs_.open("/file")->linear()->write(0, std::vector<std::byte>(kSmallWriteBytes)), IsOk());
    network_.take();
  }
  [[nodiscard]] std::string server(std::size_t number) const { return cluster_.addresses()[number].text; }

  [[nodiscard]] FileSystem connect() {
    ConnectOptions options;
    options.direct = false;
    options.network = &network_;
    return FileSystem(*internal::Session::connect(cluster_.addresses(), cluster_.key(), options));
  }

  Cluster cluster_{{.store = GetParam()}};
  CountingNetwork network_;
  const FileSystem fs_ = connect();
};

TEST_P(MessageCountTest, StatAsksServer0Once) {
  ASSERT_THAT(fs_.stat("/directory"), IsOk());
  EXPECT_THAT(network_.take().calls, ElementsAre(Pair(server(0), 1)));
  ASSERT_THAT(fs_.stat("/file"), IsOk());
  EXPECT_THAT(network_.take().calls, UnorderedElementsAre(Pair(server(0), 1), Pair(server(1), 2), Pair(server(2), 2)))
      << "the name; for each subfile, the capability and then its length, without waiting in between";
}

TEST_P(MessageCountTest, OpenAsksServer0OnceAndViewsNever) {
  const auto file = fs_.open("/file");
  ASSERT_THAT(file, IsOk());
  EXPECT_THAT(network_.take().calls, ElementsAre(Pair(server(0), 1)));
  const auto every_other = layout::Element::create({{0, 7, 0, 1, {}}}, {.disp = 0, .period = 16});
  const auto view = file->view(*every_other);
  ASSERT_THAT(view, IsOk());
  std::vector<std::byte> bytes(1000);
  ASSERT_THAT(view->write(0, bytes), IsOk());
  ASSERT_THAT(view->read(0, bytes), IsOk());
  ASSERT_THAT(file->size(), IsOk());
  EXPECT_EQ(network_.take().calls[server(0)], 0);
}

TEST_P(MessageCountTest, AViewWriteIsOneCallToEachServer) {
  const auto file = fs_.open("/file");
  const auto linear = file->linear();
  const auto every_other = layout::Element::create({{0, 7, 0, 1, {}}}, {.disp = 0, .period = 16});
  const auto strided = file->view(*every_other);
  const std::vector<std::byte> bytes(kSmallWriteBytes, std::byte{1});
  for (const View* view : {&*linear, &*strided}) {
    SCOPED_TRACE(view == &*linear ? "contiguous" : "strided");
    ASSERT_THAT(view->write(0, bytes), IsOk());  // registers the view
    network_.take();
    // Half of it is in the first 64 KiB of the file if the view is strided.
    const std::size_t in_one_subfile = view == &*linear ? bytes.size() : bytes.size() / 2;
    for (const std::size_t size : {std::size_t{1}, std::size_t{1000}, in_one_subfile}) {
      ASSERT_THAT(view->write(0, std::span(bytes).first(size)), IsOk());
      const CountingNetwork::Counts counts = network_.take();
      EXPECT_THAT(counts.calls, ElementsAre(Pair(server(1), 1))) << size << " bytes";
      EXPECT_EQ(counts.body_bytes, size);
      EXPECT_LE(counts.longest_head, kMostHead);
    }
  }
  ASSERT_THAT(strided->write(0, bytes), IsOk());
  EXPECT_THAT(network_.take().calls, UnorderedElementsAre(Pair(server(1), 1), Pair(server(2), 1)));
  ASSERT_THAT(linear->write(100, {}), IsOk());
  EXPECT_THAT(network_.take().calls, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Stores, MessageCountTest, ::testing::Values("memory", "disk"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace weir::client
