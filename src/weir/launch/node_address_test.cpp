#include <weir/launch/internal/node_address.h>

#include <gtest/gtest.h>

namespace weir::launch {
namespace {

using internal::address_of_node;

TEST(NodeAddressTest, IsThatOfTheName) {
  EXPECT_EQ(address_of_node("192.0.2.7", "127.0.0.1"), "192.0.2.7");
  EXPECT_EQ(address_of_node("2001:db8::7", "127.0.0.1"), "[2001:db8::7]");
}

TEST(NodeAddressTest, IsTheNameIfNothingElseIsKnown) {
  EXPECT_EQ(address_of_node("127.0.1.1", ""), "127.0.1.1");
  EXPECT_EQ(address_of_node("127.0.1.1", "127.0.0.1"), "127.0.1.1");
  EXPECT_EQ(address_of_node("127.0.1.1", "no address"), "127.0.1.1");
  EXPECT_EQ(address_of_node("no-such-name.invalid", "::1"), "no-such-name.invalid");
}

}  // namespace
}  // namespace weir::launch
