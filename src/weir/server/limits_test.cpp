#include <weir/server/limits.h>

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/server/internal/locks.h>
#include <weir/server/internal/peer_testing.h>
#include <weir/server/server.h>

namespace weir::server {
namespace {

using internal::Locks;
using internal::Peer;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

class GivenSettings final : public runtime::Settings {
 public:
  using Values = std::map<std::string, std::string>;
  explicit GivenSettings(Values values) : values_(std::move(values)) {}
  GivenSettings(const char* name, const char* value) : values_({{name, value}}) {}
  [[nodiscard]] std::string get(const char* name) const override {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string() : found->second;
  }

 private:
  std::map<std::string, std::string> values_;
};

TEST(LimitsTest, SettingsSayOtherwise) {
  const auto limits = Limits::from(GivenSettings(GivenSettings::Values{{"WEIR_LIMIT_CONNECTIONS", "100"},
                                                                       {"WEIR_LIMIT_USER_CONNECTIONS", "7"},
                                                                       {"WEIR_LIMIT_REQUESTS", "8"},
                                                                       {"WEIR_LIMIT_MEMORY", "1024"},
                                                                       {"WEIR_LIMIT_VIEWS", "9"},
                                                                       {"WEIR_LIMIT_LOCKS", "10"},
                                                                       {"WEIR_LIMIT_STALL", "11"}}),
                                   {});
  ASSERT_THAT(limits, IsOk());
  EXPECT_EQ(limits->net.connections, 100u);
  EXPECT_EQ(limits->net.user_connections, 7u);
  EXPECT_EQ(limits->net.requests, 8u);
  EXPECT_EQ(limits->net.request_bytes, std::size_t{1} << 30);
  EXPECT_EQ(limits->net.total_request_bytes, std::size_t{8} << 30);
  EXPECT_EQ(limits->net.unread_bytes, std::size_t{64} << 20);
  EXPECT_EQ(limits->views, 9u);
  EXPECT_EQ(limits->locks, 10u);
  EXPECT_EQ(limits->stall, std::chrono::seconds(11));
}

TEST(LimitsTest, WhatIsNotSetStays) {
  Limits before;
  before.net.request_bytes = 12345;
  before.stall = std::chrono::milliseconds(678);
  const auto limits = Limits::from(GivenSettings("WEIR_LIMIT_VIEWS", "9"), before);
  ASSERT_THAT(limits, IsOk());
  EXPECT_EQ(limits->net.request_bytes, 12345u);
  EXPECT_EQ(limits->stall, before.stall);
  EXPECT_EQ(limits->locks, before.locks);
}

TEST(LimitsTest, NonsenseIsRefused) {
  for (const char* value : {"0", "-1", "many", "10k", " 5", "99999999999999999999", "1e9"}) {
    EXPECT_THAT(Limits::from(GivenSettings("WEIR_LIMIT_LOCKS", value), {}),
                StatusIs(ErrorCode::kInvalidArgument, HasSubstr("WEIR_LIMIT_LOCKS")))
        << value;
  }
  EXPECT_THAT(Limits::from(GivenSettings("WEIR_LIMIT_MEMORY", "31"), {}), StatusIs(ErrorCode::kInvalidArgument));
}

TEST(LimitsTest, ConnectionsFitTheLimitOfOpenFiles) {
  Limits limits;
  limits.fit_connections(4096);
  EXPECT_EQ(limits.net.connections, 1024u);
  EXPECT_EQ(limits.net.user_connections, 512u);
  Limits given;
  given.net.connections = 5;
  given.fit_connections(4096);
  EXPECT_EQ(given.net.connections, 5u);
  EXPECT_EQ(given.net.user_connections, 2u);
}

TEST(LimitsTest, LocksOfOnePeerAreLimited) {
  Locks locks(3);
  const Locks::Holder holder{7, 0};
  std::vector<Status> told;
  const auto note = [&](const Status& status) { told.push_back(status); };
  for (Offset i = 0; i < 3; ++i) locks.lock(1, {10 * i, 10 * i + 1}, true, holder, note);
  locks.lock(1, {100, 101}, true, holder, note);
  ASSERT_EQ(told.size(), 4u);
  EXPECT_THAT(told[2], IsOk());
  EXPECT_THAT(told[3], StatusIs(ErrorCode::kNoSpace, HasSubstr("WEIR_LIMIT_LOCKS")));
  locks.lock(1, {100, 101}, true, {8, 0}, note);
  EXPECT_THAT(told[4], IsOk()) << "others have their own";
  // Those that wait count as well.
  locks.unlock(1, {0, 1}, holder);
  const Locks::Ticket waits = locks.lock(1, {100, 101}, true, holder, note);
  EXPECT_NE(waits, 0u);
  locks.lock(1, {200, 201}, true, holder, note);
  EXPECT_THAT(told[5], StatusIs(ErrorCode::kNoSpace));
  locks.cancel(waits, {ErrorCode::kTimedOut, "late"});
  locks.lock(1, {200, 201}, true, holder, note);
  EXPECT_THAT(told[7], IsOk());
  locks.drop(7);
  for (Offset i = 0; i < 3; ++i) locks.lock(1, {10 * i, 10 * i + 1}, true, holder, note);
  EXPECT_THAT(told.back(), IsOk()) << "all were given back";
  locks.drop(7);
  locks.drop(8);
  EXPECT_EQ(locks.size(), 0u);
}

class ServerLimitsTest : public ::testing::Test {
 protected:
  void start(const Limits& limits) {
    options.address = {concat("local:server-limits-test-", getpid(), "-", reinterpret_cast<std::uintptr_t>(this))};
    options.key = net::Key::random();
    options.capacity_bytes = Offset{64} << 20;
    options.limits = limits;
    auto started = Server::start(options);
    ASSERT_THAT(started, IsOk());
    server = std::move(*started);
  }
  static wire::RegisterViewT view(std::uint64_t number) {
    wire::RegisterViewT request;
    request.view = number;
    request.subfile = internal::subfile(5);
    return request;
  }

  Options options;
  std::unique_ptr<Server> server;
};

TEST_F(ServerLimitsTest, ViewsOfOneConnectionAreLimited) {
  start({.views = 2});
  Peer peer(server->address(), options.key);
  for (std::uint64_t number = 1; number <= 2; ++number) EXPECT_THAT(peer.call(view(number)).status, IsOk());
  EXPECT_THAT(peer.call(view(3)).status, StatusIs(ErrorCode::kNoSpace, HasSubstr("WEIR_LIMIT_VIEWS")));
  Peer other(server->address(), options.key);
  EXPECT_THAT(other.call(view(3)).status, IsOk());
  wire::ForgetViewT forget;
  forget.view = 1;
  EXPECT_THAT(peer.call(std::move(forget)).status, IsOk());
  EXPECT_THAT(peer.call(view(3)).status, IsOk());
}

TEST_F(ServerLimitsTest, StatisticsTellTheLimits) {
  start({.views = 2, .locks = 3});
  Peer peer(server->address(), options.key);
  const internal::Answer answer = peer.call(wire::StatisticsT{});
  ASSERT_THAT(answer.status, IsOk());
  const wire::CountersT& told = *answer.head.answer.AsCounters();
  EXPECT_EQ(told.limit_views, 2u);
  EXPECT_EQ(told.limit_locks, 3u);
  EXPECT_GT(told.limit_connections, told.limit_user_connections);
  EXPECT_EQ(told.limit_stall_ms, 10'000u);
  EXPECT_EQ(told.refused_requests, 0u);
}

TEST_F(ServerLimitsTest, SettingsThatAreNoNumbersEndTheStart) {
  const GivenSettings settings("WEIR_LIMIT_STALL", "soon");
  options.runtime.settings = &settings;
  options.address = {concat("local:server-limits-test-", getpid())};
  options.key = net::Key::random();
  EXPECT_THAT(Server::start(options), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("WEIR_LIMIT_STALL")));
}

}  // namespace
}  // namespace weir::server
