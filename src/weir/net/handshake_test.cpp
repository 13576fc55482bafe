// The handshake against ends that lie, repeat, or have another key.

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/net/internal/handshake.h>

namespace weir::net::internal {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using ::testing::Not;
using testing::StatusIs;

constexpr std::uint32_t kVersion = 3;

Identity some_identity() { return {.uid = 1000, .gid = 1001, .groups = {4, 27}, .host = "boot/net:[1]"}; }

/// Both ends, and what they have said.
struct HandshakePair {
  explicit HandshakePair(const Key& key) : HandshakePair(key, key) {}
  HandshakePair(const Key& caller_key, const Key& listener_key)
      : caller(caller_key, some_identity(), kVersion), listener(listener_key, kVersion) {}

  CallerHandshake caller;
  ListenerHandshake listener;
};

TEST(HandshakeTest, TellsWhoCallsAndAgreesOnSessions) {
  HandshakePair pair(Key::random());
  const auto challenge = pair.listener.challenge(pair.caller.hello());
  ASSERT_THAT(challenge, IsOk());
  const auto proof = pair.caller.prove(*challenge);
  ASSERT_THAT(proof, IsOk());
  const auto identity = pair.listener.accept(*proof);
  ASSERT_THAT(identity, IsOk());
  EXPECT_EQ(identity->uid, 1000u);
  EXPECT_EQ(identity->gid, 1001u);
  EXPECT_EQ(identity->groups, (std::vector<std::uint32_t>{4, 27}));
  EXPECT_EQ(identity->host, "boot/net:[1]");
  const Sessions one = pair.caller.sessions();
  const Sessions other = pair.listener.sessions();
  EXPECT_EQ(one.to_caller, other.to_caller);
  EXPECT_EQ(one.to_listener, other.to_listener);
  EXPECT_NE(one.to_caller, one.to_listener);
}

TEST(HandshakeTest, AnotherKeyIsSeenByBothEnds) {
  HandshakePair pair(Key::random(), Key::random());
  const auto challenge = pair.listener.challenge(pair.caller.hello());
  ASSERT_THAT(challenge, IsOk());
  EXPECT_THAT(pair.caller.prove(*challenge), StatusIs(ErrorCode::kPermission, HasSubstr("another key")));
  // A caller that answers all the same, with the key it has, to a listener it has made up.
  const Key wrong = Key::random();
  HandshakePair forged(wrong);
  const auto forged_challenge = forged.listener.challenge(forged.caller.hello());
  const auto forged_proof = forged.caller.prove(*forged_challenge);
  ASSERT_THAT(forged_proof, IsOk());
  EXPECT_THAT(pair.listener.accept(*forged_proof), StatusIs(ErrorCode::kPermission));
}

TEST(HandshakeTest, ProofsOfOtherConnectionsAreWorthless) {
  const Key key = Key::random();
  HandshakePair heard(key);
  const auto proof = heard.caller.prove(*heard.listener.challenge(heard.caller.hello()));
  ASSERT_THAT(proof, IsOk());
  // Hello and proof, said again as they were heard.
  ListenerHandshake listener(key, kVersion);
  ASSERT_THAT(listener.challenge(heard.caller.hello()), IsOk());
  EXPECT_THAT(listener.accept(*proof), StatusIs(ErrorCode::kPermission));
}

TEST(HandshakeTest, ChallengesAreNotProofs) {
  // A caller without the key could ask a listener for a MAC and give it back.
  const Key key = Key::random();
  HandshakePair pair(key);
  const auto challenge = pair.listener.challenge(pair.caller.hello());
  ASSERT_THAT(challenge, IsOk());
  const std::span<const std::byte> mac = std::span(*challenge).subspan(4 + kNonceBytes);
  EXPECT_THAT(pair.listener.accept(mac), StatusIs(ErrorCode::kPermission));
}

TEST(HandshakeTest, EveryDamagedBitIsSeen) {
  const Key key = Key::random();
  HandshakePair pair(key);
  const Bytes challenge = *pair.listener.challenge(pair.caller.hello());
  for (std::size_t bit = 0; bit < 8 * challenge.size(); ++bit) {
    Bytes damaged = challenge;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THAT(pair.caller.prove(damaged), Not(IsOk())) << bit;
  }
  const Bytes proof = *pair.caller.prove(challenge);
  for (std::size_t bit = 0; bit < 8 * proof.size(); ++bit) {
    Bytes damaged = proof;
    damaged[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_THAT(pair.listener.accept(damaged), StatusIs(ErrorCode::kPermission)) << bit;
  }
  for (std::size_t size = 0; size < proof.size(); ++size)
    EXPECT_THAT(pair.listener.accept(std::span(proof).first(size)), Not(IsOk())) << size;
  EXPECT_THAT(pair.listener.accept(proof), IsOk());
}

TEST(HandshakeTest, MessagesOutOfTurnAreRefused) {
  const Key key = Key::random();
  HandshakePair pair(key);
  const Bytes hello = pair.caller.hello();
  EXPECT_THAT(pair.listener.accept(Bytes(100)), StatusIs(ErrorCode::kCorrupt));
  const Bytes proof = *pair.caller.prove(*pair.listener.challenge(hello));
  EXPECT_THAT(pair.listener.challenge(hello), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(pair.listener.accept(proof), IsOk());
  EXPECT_THAT(pair.listener.accept(proof), StatusIs(ErrorCode::kCorrupt)) << "a proof counts once";
}

TEST(HandshakeTest, OtherVersionsAreNamed) {
  const Key key = Key::random();
  CallerHandshake newer(key, some_identity(), kVersion + 1);
  ListenerHandshake listener(key, kVersion);
  const auto challenge = listener.challenge(newer.hello());
  EXPECT_THAT(challenge, StatusIs(ErrorCode::kInvalidArgument, HasSubstr("version 4")));
  EXPECT_THAT(newer.read_refusal(listener.refuse(challenge.status())),
              StatusIs(ErrorCode::kInvalidArgument, HasSubstr("server version 3")));
  // Later versions may say more in their hello.
  Bytes longer = newer.hello();
  longer.resize(longer.size() + 100);
  EXPECT_THAT(listener.challenge(longer), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(HandshakeTest, RefusalsAreReadWithCare) {
  const CallerHandshake caller(Key::random(), some_identity(), kVersion);
  EXPECT_THAT(caller.read_refusal({}), StatusIs(ErrorCode::kUnavailable));
  Bytes refusal = ListenerHandshake(Key::random(), kVersion).refuse({ErrorCode::kPermission, "go\x1b[2J\n\xff"});
  EXPECT_THAT(caller.read_refusal(refusal), StatusIs(ErrorCode::kPermission, HasSubstr("go?[2J??")));
  refusal.resize(100'000, std::byte{'x'});
  EXPECT_LT(caller.read_refusal(refusal).message().size(), 1000u);
}

TEST(HandshakeTest, IdentitiesKeepTheLimits) {
  Identity identity = some_identity();
  identity.groups.assign(5000, 7);
  identity.host.assign(5000, 'h');
  const auto shortened = decode_identity(encode(identity));
  ASSERT_THAT(shortened, IsOk());
  EXPECT_EQ(shortened->groups.size(), 1024u);
  EXPECT_EQ(shortened->host.size(), 255u);
  Bytes bytes = encode(some_identity());
  bytes[11] = std::byte{0xff};  // groups without number
  EXPECT_THAT(decode_identity(bytes), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(decode_identity(std::span(bytes).first(11)), StatusIs(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace weir::net::internal
