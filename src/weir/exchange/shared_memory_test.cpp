// Memory that processes share, and rings in it.

#include <csignal>
#include <random>

#include <sys/resource.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/exchange/internal/shared_memory.h>
#include <weir/exchange/internal/shared_ring.h>

namespace weir::exchange::internal {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

std::string own_name(const char* what) { return concat("/weir-test-", what, '-', ::getpid()); }

TEST(SharedMemoryTest, IsFoundByNameUntilTheNameIsRemoved) {
  const std::string name = own_name("name");
  auto made = SharedMemory::create(name, 5000);
  ASSERT_THAT(made, IsOk());
  EXPECT_THAT(SharedMemory::create(name, 5000), StatusIs(ErrorCode::kIoError, HasSubstr("exists")));
  auto found = SharedMemory::open(name);
  ASSERT_THAT(found, IsOk());
  EXPECT_EQ(found->bytes(), 5000);
  made->data()[4999] = std::byte{7};
  EXPECT_EQ(found->data()[4999], std::byte{7});
  made->remove_name();
  EXPECT_THAT(SharedMemory::open(name), StatusIs(ErrorCode::kIoError, HasSubstr(name)));
  found->data()[0] = std::byte{9};  // those who have it keep it
  EXPECT_EQ(made->data()[0], std::byte{9});
}

// Too little room for all of it: no bus error later, but an error now, and nothing left behind.
TEST(SharedMemoryTest, RefusesMoreThanThereIs) {
  const std::string name = own_name("large");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto made = SharedMemory::create(name, 2 << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(made, StatusIs(ErrorCode::kIoError, HasSubstr(name)));
  EXPECT_THAT(SharedMemory::open(name), StatusIs(ErrorCode::kIoError, HasSubstr(name)));
}

TEST(SharedRingTest, FillsAndEmptiesInTurn) {
  const RingShape shape{100, 128, 3};
  alignas(kRingLine) static std::byte memory[4096];
  ASSERT_LE(Ring::bytes_of(shape), static_cast<Offset>(sizeof memory));
  Ring sender = Ring::make(memory, shape);
  EXPECT_FALSE(sender.is_joined());
  Ring receiver = Ring::join(memory);
  EXPECT_TRUE(sender.is_joined());
  EXPECT_EQ(receiver.shape().slot_bytes, 100);
  EXPECT_EQ(receiver.slot_to_empty(), nullptr);
  std::uint8_t written = 0;
  std::uint8_t read = 0;
  std::mt19937 random(5);
  for (int i = 0; i < 1000; ++i) {
    if (random() % 2 == 0) {
      std::byte* slot = sender.slot_to_fill();
      ASSERT_EQ(slot == nullptr, static_cast<std::uint8_t>(written - read) == 3);
      if (slot == nullptr) continue;
      slot[99] = static_cast<std::byte>(written++);
      sender.fill();
    } else {
      const std::byte* slot = receiver.slot_to_empty();
      ASSERT_EQ(slot == nullptr, written == read);
      if (slot == nullptr) continue;
      EXPECT_EQ(slot[99], static_cast<std::byte>(read++));
      receiver.empty();
    }
  }
}

}  // namespace
}  // namespace weir::exchange::internal
