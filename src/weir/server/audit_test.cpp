// The audit log: what is written of a server, and of callers that want to fill the disk with it.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/base/testing/as_user.h>
#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/runtime/testing/set_clock.h>
#include <weir/server/internal/audit.h>
#include <weir/server/internal/peer_testing.h>
#include <weir/server/internal/testing.h>
#include <weir/server/server.h>

namespace weir::server::internal {
namespace {

using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;
using Json = nlohmann::json;

constexpr unsigned kStranger = 71009;

std::vector<Json> lines_of(const std::string& file) {
  std::vector<Json> lines;
  std::ifstream in(file);
  // One without its end is still being written.
  for (std::string line; std::getline(in, line) && !in.eof();) lines.push_back(Json::parse(line));
  return lines;
}

std::vector<Json> events(const std::vector<Json>& lines, const std::string& event) {
  std::vector<Json> found;
  for (const Json& line : lines) {
    if (line["event"] == event) found.push_back(line);
  }
  return found;
}

net::SignOn refused(const std::string& origin, const std::string& why = "the key is wrong") {
  return {.peer = 7, .origin = origin, .identity = {}, .status = {ErrorCode::kPermission, why}};
}

net::SignOn accepted(std::uint32_t uid, const std::string& host = "host") {
  net::Identity who;
  who.uid = uid;
  who.host = host;
  who.voucher = net::Identity::Voucher::kMunge;
  return {.peer = 8, .origin = "tcp:10.0.0.7:5000", .identity = who, .status = {}};
}

struct AuditTest : ::testing::Test {
  void SetUp() override {
    how.file = folder.path() + "/audit";
    how.server = 3;
    how.runtime.clock = &clock;
  }
  std::unique_ptr<Audit> open() { return std::move(Audit::open(how, access).value()); }

  TemporaryDirectory folder;
  testing::SetClock clock;
  AccessControl access{
      AccessControl::Options{.key = *CapabilityKey::derive(net::Key::random()), .uid = 0, .clock = &clock}};
  Audit::Options how;
};

TEST(UtcTextTest, WritesDatesOfAllTimes) {
  EXPECT_EQ(utc_text(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(utc_text(std::int64_t{1'800'000'000} * 1'000'000'000 + 5), "2027-01-15T08:00:00.000000005Z");
  EXPECT_EQ(utc_text(-1), "1969-12-31T23:59:59.999999999Z");
}

TEST_F(AuditTest, SignOnsSayWhoAndWhoSaysSo) {
  auto audit = open();
  audit->signed_on(accepted(4711));
  audit->signed_on(refused("tcp:10.0.0.8:6000"));
  audit.reset();
  const std::vector<Json> lines = lines_of(how.file);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["time"], "2027-01-15T08:00:00.000000000Z");
  EXPECT_EQ(lines[0]["server"], 3);
  EXPECT_EQ(lines[0]["event"], "sign-on");
  EXPECT_EQ(lines[0]["uid"], 4711);
  EXPECT_EQ(lines[0]["by"], "munge");
  EXPECT_EQ(lines[0]["origin"], "tcp:10.0.0.7:5000");
  EXPECT_EQ(lines[0]["outcome"], "accepted");
  EXPECT_EQ(lines[1]["outcome"], "refused");
  EXPECT_EQ(lines[1]["reason"], "the key is wrong");
  EXPECT_FALSE(lines[1].contains("uid")) << "nobody vouches for it";
}

TEST_F(AuditTest, TheFileIsForItsOwnerOnly) {
  open()->signed_on(accepted(1));
  struct stat info {};
  ASSERT_EQ(::stat(how.file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(AuditTest, HostileTextsAreOneLineOfJsonEach) {
  auto audit = open();
  audit->signed_on(accepted(1, "evil\",\n\"uid\":0,\xff\xc3\x28\x01"));
  audit->signed_on(accepted(2, std::string(1 << 20, '\n')));
  audit.reset();
  const std::vector<Json> lines = lines_of(how.file);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["uid"], 1);
  EXPECT_THAT(lines[0]["host"].get<std::string>(), HasSubstr("evil\",\n\"uid\":0,"));
  EXPECT_LT(lines[1].dump().size(), 8192u);
}

TEST_F(AuditTest, AFloodOfRefusalsIsCounted) {
  auto audit = open();
  for (int i = 0; i < 10'000; ++i) audit->signed_on(refused(concat("tcp:10.0.0.9:", i)));
  audit->signed_on(refused("tcp:10.0.0.10:1"));
  audit->signed_on(accepted(5));
  audit.reset();
  const std::vector<Json> lines = lines_of(how.file);
  EXPECT_EQ(events(lines, "sign-on").size(), how.most_refusals_of_source + 2) << "others are written all the same";
  const std::vector<Json> counts = events(lines, "summary");
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts[0]["source"], "tcp:10.0.0.9");
  EXPECT_EQ(counts[0]["count"], 10'000 - how.most_refusals_of_source);
}

TEST_F(AuditTest, ManySourcesOfRefusalsAreBounded) {
  auto audit = open();
  for (int i = 0; i < 100'000; ++i)
    audit->signed_on(refused(concat("tcp:10.", i / 65536, ".", i / 256, ".", i % 256, ":1")));
  audit.reset();
  const std::vector<Json> lines = lines_of(how.file);
  EXPECT_LE(lines.size(), how.most_refusals + how.most_sources + 1);
  std::uint64_t counted = events(lines, "sign-on").size();
  for (const Json& one : events(lines, "summary")) counted += one["count"].get<std::uint64_t>();
  EXPECT_EQ(counted, 100'000u);
}

TEST_F(AuditTest, CountsAreWrittenWhenTheWindowEnds) {
  how.window = std::chrono::seconds(0);
  how.most_refusals_of_source = 0;
  auto audit = open();
  audit->signed_on(refused("tcp:10.0.0.9:1"));
  while (lines_of(how.file).empty()) std::this_thread::yield();
  EXPECT_EQ(lines_of(how.file)[0]["count"], 1);
}

TEST_F(AuditTest, LinesThatFindNoRoomAreCounted) {
  how.most_queued_bytes = 0;
  auto audit = open();
  for (int i = 0; i < 5; ++i) audit->signed_on(accepted(1));
  EXPECT_TRUE(lines_of(how.file).empty());
  audit.reset();
  const std::vector<Json> lines = lines_of(how.file);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["event"], "lost");
  EXPECT_EQ(lines[0]["count"], 5);
}

TEST_F(AuditTest, AFileThatWasMovedAwayIsMadeAgain) {
  auto audit = open();
  audit->signed_on(accepted(1));
  while (lines_of(how.file).empty()) std::this_thread::yield();
  std::filesystem::rename(how.file, how.file + ".1");
  audit->signed_on(accepted(2));
  audit.reset();
  ASSERT_EQ(lines_of(how.file + ".1").size(), 1u);
  ASSERT_EQ(lines_of(how.file).size(), 1u);
  EXPECT_EQ(lines_of(how.file)[0]["uid"], 2);
}

TEST_F(AuditTest, OnlyRegularFilesWithAnAbsolutePathAreWritten) {
  how.file = "audit";
  EXPECT_THAT(Audit::open(how, access), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("absolute")));
  how.file = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(how.file.c_str(), 0600), 0);
  EXPECT_FALSE(Audit::open(how, access).is_ok()) << "it would block";
  how.file = folder.path() + "/link";
  ASSERT_EQ(::symlink((folder.path() + "/elsewhere").c_str(), how.file.c_str()), 0);
  EXPECT_FALSE(Audit::open(how, access).is_ok());
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/elsewhere"));
}

// ---------------------------------------------------------------- of a server

struct AuditedServerTest : ::testing::Test {
  void SetUp() override {
    static int number = 0;
    options.address = {concat("local:audit-test-", ::getpid(), "-", ++number)};
    options.key = net::Key::random();
    options.capacity_bytes = Offset{16} << 20;
    options.audit_file = folder.path() + "/audit";
    auto started = Server::start(options);
    ASSERT_THAT(started, IsOk());
    server = std::move(*started);
  }
  std::vector<Json> stopped() {
    server.reset();
    return lines_of(options.audit_file);
  }

  TemporaryDirectory folder;
  Options options;
  std::unique_ptr<Server> server;
};

wire::SetAttributesT mode_change(const std::string& path, std::uint32_t mode) {
  wire::SetAttributesT change;
  change.path = path;
  change.set_mode = true;
  change.mode = mode;
  return change;
}

TEST_F(AuditedServerTest, ChangesOfPermissionsAndWhatAdministratorsDoAreWritten) {
  {
    Peer peer(options.address, options.key);
    ASSERT_THAT(peer.call(create_request("/a")).status, IsOk());
    ASSERT_THAT(peer.call(mode_change("/a", 0640)).status, IsOk());
    wire::SetAttributesT owner;
    owner.path = "/a";
    owner.set_owner = true;
    owner.uid = ::geteuid();
    owner.gid = ::getegid();
    ASSERT_THAT(peer.call(std::move(owner)).status, IsOk());
    wire::RemoveSubfileT removal;
    removal.subfile = subfile(99, 1);
    ASSERT_THAT(peer.call(std::move(removal)).status, IsOk());
    wire::FenceT fence;
    fence.subfile = subfile(98);
    fence.action = wire::FenceAction::Lower;
    ASSERT_THAT(peer.call(std::move(fence)).status, IsOk());
  }
  const std::vector<Json> lines = stopped();
  const std::vector<Json> signed_on = events(lines, "sign-on");
  ASSERT_EQ(signed_on.size(), 1u);
  EXPECT_EQ(signed_on[0]["by"], "kernel");
  EXPECT_EQ(signed_on[0]["uid"], ::geteuid());
  const std::vector<Json> changes = events(lines, "change");
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0]["path"], "/a");
  EXPECT_EQ(changes[0]["mode"], "0640");
  EXPECT_EQ(changes[0]["outcome"], "done");
  EXPECT_EQ(changes[1]["owner"], ::geteuid());
  const std::vector<Json> administered = events(lines, "administer");
  ASSERT_EQ(administered.size(), 2u);
  EXPECT_EQ(administered[0]["operation"], "RemoveSubfile");
  EXPECT_EQ(administered[0]["data"], 99);
  EXPECT_EQ(administered[0]["subfile"], 1);
  EXPECT_EQ(administered[1]["action"], "Lower");
}

TEST_F(AuditedServerTest, RefusalsAreWrittenAndFloodsCounted) {
  if (!testing::can_act_as_others()) GTEST_SKIP() << "only root can act as other users";
  constexpr int kAttempts = 300;
  {
    const testing::AsUser user(kStranger);
    Peer peer(options.address, options.key);
    for (int i = 0; i < kAttempts; ++i)
      EXPECT_THAT(peer.call(mode_change("/", 0777)).status, StatusIs(ErrorCode::kPermission));
    EXPECT_THAT(peer.call(write_pieces(77, {{0, 4}}), std::vector<std::byte>(4)).status,
                StatusIs(ErrorCode::kPermission));
  }
  const std::vector<Json> lines = stopped();
  const std::vector<Json> refusals = events(lines, "refusal");
  ASSERT_FALSE(refusals.empty());
  EXPECT_LT(refusals.size(), kAttempts / 2);
  EXPECT_EQ(refusals[0]["operation"], "SetAttributes");
  EXPECT_EQ(refusals[0]["uid"], kStranger);
  EXPECT_EQ(refusals[0]["outcome"], "refused");
  EXPECT_THAT(refusals[0]["reason"].get<std::string>(), HasSubstr("belongs to another"));
  std::uint64_t counted = refusals.size();
  for (const Json& one : events(lines, "summary")) counted += one["count"].get<std::uint64_t>();
  EXPECT_EQ(counted, kAttempts + 1u);
}

TEST_F(AuditedServerTest, CallersWithoutTheKeyAreWritten) {
  {
    Peer peer(options.address, net::Key::random());
    EXPECT_FALSE(peer.call(wire::MembershipT{}).status.is_ok());
  }
  const std::vector<Json> signed_on = events(stopped(), "sign-on");
  ASSERT_EQ(signed_on.size(), 1u);
  EXPECT_EQ(signed_on[0]["outcome"], "refused");
}

TEST(AuditedSocketTest, WhoComesThroughAPortIsWrittenWithItsAddress) {
  TemporaryDirectory folder;
  Options options;
  options.address = {"tcp:127.0.0.1:0"};
  options.key = net::Key::random();
  options.capacity_bytes = Offset{16} << 20;
  options.audit_file = folder.path() + "/audit";
  auto server = Server::start(options);
  ASSERT_THAT(server, IsOk());
  {
    Peer peer((*server)->address(), options.key);
    EXPECT_THAT(peer.call(wire::MembershipT{}).status, IsOk());
    Peer stranger((*server)->address(), net::Key::random());
    EXPECT_FALSE(stranger.call(wire::MembershipT{}).status.is_ok());
  }
  while (lines_of(options.audit_file).size() < 2) std::this_thread::yield();
  server->reset();
  const std::vector<Json> lines = lines_of(options.audit_file);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["outcome"], "accepted");
  EXPECT_EQ(lines[0]["origin"], concat("process ", ::getpid()));
  EXPECT_EQ(lines[1]["outcome"], "refused");
  EXPECT_EQ(lines[1]["by"], "kernel") << "the kernel knows the user, though not the key";
}

}  // namespace
}  // namespace weir::server::internal
