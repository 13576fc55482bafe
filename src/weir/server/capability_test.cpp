#include <weir/server/internal/capability.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>

namespace weir::server::internal {
namespace {

using testing::IsOk;
using testing::StatusIs;

const Capability kExample{.rights = kMayRead | kOwns,
                          .uid = 4'000'000'000,
                          .file = std::uint64_t{1} << 61,
                          .data = 0x0102030405060708,
                          .source = 9,
                          .expires_ns = -1};

CapabilityKey key_of(int byte) {
  return *CapabilityKey::derive({std::vector<std::byte>(32, std::byte(byte)), net::Key::Holder::kServers});
}

TEST(CapabilityTest, ComesBackAsItWas) {
  const std::vector<std::uint8_t> sealed = key_of(7).seal(kExample);
  EXPECT_EQ(sealed.size(), kCapabilityBytes);
  EXPECT_EQ(key_of(7).open(sealed), kExample);
  EXPECT_EQ(key_of(7).open(key_of(7).seal({})), Capability{});
}

TEST(CapabilityTest, EveryFlippedBitIsFound) {
  const std::vector<std::uint8_t> sealed = key_of(7).seal(kExample);
  for (std::size_t bit = 0; bit < 8 * sealed.size(); ++bit) {
    std::vector<std::uint8_t> flipped = sealed;
    flipped[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    EXPECT_FALSE(key_of(7).open(flipped)) << "bit " << bit;
  }
}

TEST(CapabilityTest, EveryOtherLengthIsRefused) {
  std::vector<std::uint8_t> sealed = key_of(7).seal(kExample);
  for (std::size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_FALSE(key_of(7).open(std::span(sealed).first(size))) << size;
  }
  sealed.push_back(0);
  EXPECT_FALSE(key_of(7).open(sealed));
}

TEST(CapabilityTest, AnotherSecretSealsOthers) {
  EXPECT_FALSE(key_of(8).open(key_of(7).seal(kExample)));
  EXPECT_THAT(CapabilityKey::derive({}), StatusIs(ErrorCode::kInvalidArgument));
  EXPECT_THAT(CapabilityKey::derive(net::Key::random().for_clients()), StatusIs(ErrorCode::kInvalidArgument));
}

// Not a test: writes the seeds of capability_fuzz.cpp into the folder that WEIR_WRITE_SEEDS names.
TEST(CapabilityTest, WritesSeedsWhereAskedTo) {
  const char* folder = std::getenv("WEIR_WRITE_SEEDS");
  if (folder == nullptr) GTEST_SKIP() << "WEIR_WRITE_SEEDS is not set";
  const auto write = [&](const char* name, const Capability& capability) {
    const std::vector<std::uint8_t> bytes = key_of(7).seal(capability);
    std::ofstream(std::string(folder) + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  write("relayout", kExample);
  write("empty", {});
}

}  // namespace
}  // namespace weir::server::internal
