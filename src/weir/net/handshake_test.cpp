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

const std::string kHost = "boot/net:[1]";

/// Both ends, and what they have said.
struct HandshakePair {
  explicit HandshakePair(const Key& key) : HandshakePair(key, key) {}
  HandshakePair(const Key& caller_key, const Key& listener_key, Asks asks = Asks::kNothing)
      : caller(caller_key, kHost, kVersion), listener(listener_key, kVersion, asks) {}

  CallerHandshake caller;
  ListenerHandshake listener;
};

TEST(HandshakeTest, AgreesOnSessions) {
  HandshakePair pair(Key::random());
  const auto challenge = pair.listener.challenge(pair.caller.hello());
  ASSERT_THAT(challenge, IsOk());
  const auto proof = pair.caller.prove(*challenge);
  ASSERT_THAT(proof, IsOk());
  const auto claim = pair.listener.accept(*proof);
  ASSERT_THAT(claim, IsOk());
  EXPECT_EQ(claim->host, kHost);
  EXPECT_EQ(claim->credential, "");
  const Sessions one = pair.caller.sessions();
  const Sessions other = pair.listener.sessions();
  EXPECT_EQ(one.to_caller, other.to_caller);
  EXPECT_EQ(one.to_listener, other.to_listener);
  EXPECT_NE(one.to_caller, one.to_listener);
}

TEST(HandshakeTest, OnlyTheSecretMakesAServer) {
  const Key secret = Key::random();
  for (const bool is_server : {false, true}) {
    HandshakePair pair(is_server ? secret : secret.for_clients(), secret);
    const auto proof = pair.caller.prove(*pair.listener.challenge(pair.caller.hello()));
    ASSERT_THAT(proof, IsOk());
    const auto claim = pair.listener.accept(*proof);
    ASSERT_THAT(claim, IsOk());
    EXPECT_EQ(claim->is_server, is_server);
  }
}

// A client that says it has the secret proves the wrong key, also if it answers for a listener that it has made up.
TEST(HandshakeTest, AClientCannotActAsAServer) {
  const Key secret = Key::random();
  Key lie = secret.for_clients();
  lie.holder = Key::Holder::kServers;
  HandshakePair pair(lie, secret);
  const auto challenge = pair.listener.challenge(pair.caller.hello());
  ASSERT_THAT(challenge, IsOk());
  EXPECT_THAT(pair.caller.prove(*challenge), StatusIs(ErrorCode::kPermission));
  HandshakePair forged(lie);
  EXPECT_THAT(pair.listener.accept(*forged.caller.prove(*forged.listener.challenge(forged.caller.hello()))),
              StatusIs(ErrorCode::kPermission));
  // The other end of a connection of servers must have the secret, too.
  CallerHandshake server(secret, kHost, kVersion);
  ListenerHandshake impostor(lie, kVersion);
  EXPECT_THAT(server.prove(*impostor.challenge(server.hello())), StatusIs(ErrorCode::kPermission));
}

TEST(HandshakeTest, HellosNameAKeyThatThereIs) {
  ListenerHandshake listener(Key::random(), kVersion);
  Bytes hello = CallerHandshake(Key::random(), kHost, kVersion).hello();
  hello[8] = std::byte{2};
  EXPECT_THAT(listener.challenge(hello), StatusIs(ErrorCode::kCorrupt));
}

TEST(KeyTest, KeysAreDerivedOneWayEachForItsPurpose) {
  const Key secret = Key::random();
  const Key clients = secret.for_clients();
  EXPECT_EQ(secret.holder, Key::Holder::kServers);
  EXPECT_EQ(clients.holder, Key::Holder::kClients);
  EXPECT_EQ(clients.bytes.size(), 32u);
  EXPECT_EQ(clients.bytes, secret.for_clients().bytes);
  EXPECT_EQ(clients.for_clients().bytes, clients.bytes);
  EXPECT_NE(clients.bytes, secret.bytes);
  EXPECT_NE(secret.derive(Key::Purpose::kCapabilities), clients.bytes);
  EXPECT_NE(Key::random().for_clients().bytes, clients.bytes);
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
  const std::span<const std::byte> mac = std::span(*challenge).subspan(4 + kNonceBytes + 1);
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
  CallerHandshake newer(key, kHost, kVersion + 1);
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
  const CallerHandshake caller(Key::random(), kHost, kVersion);
  EXPECT_THAT(caller.read_refusal({}), StatusIs(ErrorCode::kUnavailable));
  Bytes refusal = ListenerHandshake(Key::random(), kVersion).refuse({ErrorCode::kPermission, "go\x1b[2J\n\xff"});
  EXPECT_THAT(caller.read_refusal(refusal), StatusIs(ErrorCode::kPermission, HasSubstr("go?[2J??")));
  refusal.resize(100'000, std::byte{'x'});
  EXPECT_LT(caller.read_refusal(refusal).message().size(), 1000u);
}

TEST(HandshakeTest, ACredentialIsForOneConnection) {
  const Key secret = Key::random();
  const Bytes channel(32, std::byte{1});
  HandshakePair pair(secret.for_clients(), secret, Asks::kCredential);
  const Bytes challenge = *pair.listener.challenge(pair.caller.hello());
  Bytes payload;
  const auto make = [&](std::span<const std::byte> bytes) -> Result<std::string> {
    payload.assign(bytes.begin(), bytes.end());
    return std::string("MUNGE:abc:");
  };
  const auto proof = pair.caller.prove(challenge, channel, make);
  ASSERT_THAT(proof, IsOk());
  const auto claim = pair.listener.accept(*proof);
  ASSERT_THAT(claim, IsOk());
  EXPECT_EQ(claim->host, kHost);
  EXPECT_EQ(claim->credential, "MUNGE:abc:");
  EXPECT_EQ(payload, pair.listener.binding(channel));
  // A listener that passes messages on has another channel to each of the two.
  EXPECT_NE(payload, pair.listener.binding(Bytes(32, std::byte{2})));
  EXPECT_NE(payload, pair.listener.binding({}));
  HandshakePair other(secret.for_clients(), secret, Asks::kCredential);
  (void)other.listener.challenge(other.caller.hello());
  EXPECT_NE(payload, other.listener.binding(channel));
}

TEST(HandshakeTest, CallersWithoutMungeAreToldThatItIsNeeded) {
  const Key secret = Key::random();
  const auto fail = [](std::span<const std::byte>) -> Result<std::string> {
    return Status(ErrorCode::kUnavailable, "no daemon");
  };
  HandshakePair pair(secret.for_clients(), secret, Asks::kCredential);
  const Bytes challenge = *pair.listener.challenge(pair.caller.hello());
  EXPECT_THAT(pair.caller.prove(challenge, {}, fail),
              StatusIs(ErrorCode::kPermission, ::testing::AllOf(HasSubstr("MUNGE"), HasSubstr("no daemon"))));
  // Servers are not asked.
  HandshakePair servers(secret, secret, Asks::kCredential);
  EXPECT_THAT(servers.caller.prove(*servers.listener.challenge(servers.caller.hello()), {}, fail), IsOk());
}

TEST(HandshakeTest, ClaimsKeepTheLimits) {
  const Claim claim{.host = std::string(5000, 'h'), .credential = "MUNGE:abc:"};
  const Bytes bytes = encode(claim);
  const auto shortened = decode_claim(bytes);
  ASSERT_THAT(shortened, IsOk());
  EXPECT_EQ(shortened->host.size(), 255u);
  EXPECT_EQ(shortened->credential, claim.credential);
  for (std::size_t size = 0; size < 256; ++size)
    EXPECT_THAT(decode_claim(std::span(bytes).first(size)), StatusIs(ErrorCode::kCorrupt)) << size;
  EXPECT_THAT(decode_claim(encode({.host = "h", .credential = std::string(4097, 'c')})), StatusIs(ErrorCode::kCorrupt));
  EXPECT_THAT(decode_claim(encode({.host = "h", .credential = std::string("a\0b", 3)})), StatusIs(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace weir::net::internal
