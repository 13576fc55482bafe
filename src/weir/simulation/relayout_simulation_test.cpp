// A relayout whose client, or one of its servers, dies after any number of messages: afterwards the file holds what was
// written, has the old layout or the new one, and can be written.

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/simulation/testing/world.h>

namespace weir::simulation {
namespace {

using std::chrono::seconds;
using weir::testing::IsOk;

constexpr std::size_t kRelayoutBytes = 5000;
const char* const kOldLayout = "stripe(unit=100, over=3)";
const char* const kNewLayout = "stripe(unit=37, over=2)";

std::vector<std::byte> pattern(int version) {
  std::vector<std::byte> bytes(kRelayoutBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 7 + i / 256 + static_cast<std::size_t>(version));
  return bytes;
}

Status write_all(const client::FileSystem& fs, int version) {
  WEIR_TRY(const client::File file, fs.open("/file"));
  WEIR_TRY(const client::View view, file.linear());
  WEIR_RETURN_IF_ERROR(view.write(0, pattern(version)));
  return file.sync();
}

Status make_file(const client::FileSystem& fs) {
  WEIR_TRY(const layout::Partition layout, layout::parse(kOldLayout));
  WEIR_RETURN_IF_ERROR(fs.create("/file", layout).status());
  return write_all(fs, 0);
}

void expect_bytes(const client::FileSystem& fs, int version) {
  const auto file = fs.open("/file");
  ASSERT_THAT(file, IsOk());
  const auto view = file->linear();
  ASSERT_THAT(view, IsOk());
  std::vector<std::byte> bytes(kRelayoutBytes);
  ASSERT_THAT(view->read(0, bytes), IsOk());
  EXPECT_TRUE(bytes == pattern(version));
}

/// The relayout of a file while `process` dies at its `message`-th message.  \returns false once it dies no more
bool relayout_with_death(const std::string& process, std::uint64_t message) {
  World world(message + 1);
  bool has_died = false;
  world.simulation().keep_trace(100);
  world.simulation().spawn("main", [&] {
    ASSERT_THAT(world.start_all(), IsOk());
    {
      const auto maker = world.connect("maker");
      ASSERT_THAT(maker, IsOk());
      ASSERT_THAT(make_file(*maker), IsOk());
    }
    world.network().kill_at(process, message);
    Status status;
    {
      const auto fs = world.connect("client");
      status = fs.is_ok() ? fs->relayout("/file", *layout::parse(kNewLayout)) : fs.status();
    }
    world.network().spare(process);
    has_died = !world.network().is_alive(process);
    if (!has_died) {
      EXPECT_THAT(status, IsOk());
    }
    // A machine that is cut off for good is switched off, and started again.
    for (int i = 0; i < world.server_count(); ++i) {
      if (!world.network().is_alive(World::name_of(i))) {
        world.crash(i);
        ASSERT_THAT(world.start(i), IsOk());
      }
    }
    world.simulation().runtime().executor->sleep_until(world.simulation().now() + seconds(30));
    const auto heir = world.connect("heir");
    ASSERT_THAT(heir, IsOk());
    expect_bytes(*heir, 0);
    EXPECT_THAT(write_all(*heir, 1), IsOk());
    expect_bytes(*heir, 1);
    const auto stat = heir->stat("/file");
    ASSERT_THAT(stat, IsOk());
    const std::string layout = layout::print(*stat->layout);
    EXPECT_TRUE(layout == kOldLayout || layout == kNewLayout) << layout;
    if (!has_died) {
      EXPECT_EQ(layout, kNewLayout);
    }
    world.stop_all();
  });
  EXPECT_THAT(world.simulation().run(), IsOk());
  if (::testing::Test::HasFailure())
    ADD_FAILURE() << process << " dies at message " << message << "\n" << world.simulation().trace();
  return has_died && !::testing::Test::HasFailure();
}

class RelayoutSimulationTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RelayoutSimulationTest, SurvivesDeathAtEveryMessage) {
  std::uint64_t message = 0;
  while (relayout_with_death(GetParam(), message)) ++message;
  EXPECT_GT(message, 5U);
}

INSTANTIATE_TEST_SUITE_P(Who, RelayoutSimulationTest, ::testing::Values("client", "server-0", "server-1", "server-2"),
                         [](const auto& who) {
                           std::string name = who.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace weir::simulation
