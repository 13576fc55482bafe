// A server whose store waits for a disk: the event loop goes on meanwhile, and nothing gets out of order.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/server/internal/peer_testing.h>
#include <weir/server/internal/testing.h>
#include <weir/server/server.h>
#include <weir/storage/memory_store.h>

namespace weir::server {
namespace {

using internal::Peer;
using internal::subfile;
using internal::write_pieces;
using storage::SubfileId;
using testing::IsOk;
using testing::StatusIs;
using Bytes = std::vector<std::byte>;

/// Keeps operations of a store, while it is closed.
class Gate {
 public:
  void set_open(bool is_open) {
    const std::lock_guard lock(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
    if (is_open && opened_) opened_();
  }
  void await_somebody() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_ > 0; });
  }

  /// Files that were written, in the order in which the store was asked to.  Of the server's thread.
  std::vector<std::uint64_t> order;

  // Of the store.
  void call_when_open(std::function<void()> opened) {
    const std::lock_guard lock(mutex_);
    opened_ = std::move(opened);
  }
  /// False: it is closed, and somebody waits.
  bool pass() {
    const std::lock_guard lock(mutex_);
    if (is_open_) return true;
    ++waiting_;
    changed_.notify_all();
    return false;
  }
  void await_open() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> opened_;
  bool is_open_ = true;
  int waiting_ = 0;
};

/// Memory behind a gate.
class GatedStore final : public storage::Store {
 public:
  explicit GatedStore(Gate& gate) : gate_(gate), store_(std::move(*storage::make_memory_store({}))) {
    gate_.call_when_open([this] { loop_.load()->post([this] { release(); }); });
  }
  ~GatedStore() override { gate_.call_when_open({}); }

  void submit(storage::IoBatch batch, storage::Completion done) override {
    const bool moves_bytes = std::ranges::any_of(batch.operations, [](const storage::Operation& operation) {
      return std::holds_alternative<storage::op::Read>(operation.what) ||
             std::holds_alternative<storage::op::Write>(operation.what);
    });
    for (const storage::Operation& operation : batch.operations) {
      if (const auto* write = std::get_if<storage::op::Write>(&operation.what)) gate_.order.push_back(write->id.file);
    }
    if (!moves_bytes || gate_.pass()) return store_->submit(std::move(batch), std::move(done));
    held_.push_back({std::move(batch), std::move(done)});
  }
  /// As stores do with what they have begun.
  void stop() override {
    if (!held_.empty()) gate_.await_open();
    release();
  }
  storage::Loop* deliver_to(storage::Loop* loop) override { return loop_.exchange(loop); }
  [[nodiscard]] storage::Capabilities capabilities() const override { return {}; }
  [[nodiscard]] std::uint64_t id() const override { return store_->id(); }

 private:
  struct Held {
    storage::IoBatch batch;
    storage::Completion done;
  };
  void release() {
    for (Held& held : std::exchange(held_, {})) store_->submit(std::move(held.batch), std::move(held.done));
  }

  Gate& gate_;
  std::unique_ptr<storage::Store> store_;
  std::vector<Held> held_;
  std::atomic<storage::Loop*> loop_ = nullptr;  // also looked at by the thread that opens the gate
};

struct WaitingStoreTest : ::testing::Test {
  void SetUp() override {
    Options options;
    options.address = {concat("local:waiting-store-test-", getpid(), "-", reinterpret_cast<std::uintptr_t>(this))};
    options.key = key;
    auto started = Server::start(options, std::make_unique<GatedStore>(gate), storage::make_memory_key_value());
    ASSERT_THAT(started, IsOk());
    server = std::move(*started);
    peer.emplace(server->address(), key);
  }
  void TearDown() override { gate.set_open(true); }

  auto start_write(std::uint64_t file, std::int64_t timeout_ms = 10'000) {
    return peer->start(wire::encode_request(write_pieces(file, {{0, static_cast<Offset>(bytes.size())}}), timeout_ms),
                       bytes);
  }
  template <typename Table>
  auto start(Table table) {
    return peer->start(wire::encode_request(std::move(table), 10'000));
  }

  const net::Key key = net::Key::random();
  Gate gate;  // longer than the server, which waits for it
  std::unique_ptr<Server> server;
  std::optional<Peer> peer;
  const Bytes bytes = Bytes(1 << 20, std::byte{7});
  const Bytes twice = Bytes(2 << 20, std::byte{8});
};

TEST_F(WaitingStoreTest, OthersAreAnsweredWhileItIsAtWork) {
  gate.set_open(false);
  const auto written = start_write(1);
  gate.await_somebody();
  Peer other(server->address(), key);
  EXPECT_THAT(other.call(wire::MembershipT{}).status, IsOk());
  EXPECT_FALSE(written->has_value());
  gate.set_open(true);
  EXPECT_THAT(peer->finish(written).status, IsOk());
}

TEST_F(WaitingStoreTest, NothingIsWrittenForCallersThatGaveUp) {
  gate.set_open(false);
  const auto first = start_write(1);
  gate.await_somebody();
  Peer gone(server->address(), key);
  for (const std::uint64_t file : {std::uint64_t{1}, std::uint64_t{2}}) {
    static_cast<void>(gone.start(
        wire::encode_request(write_pieces(file, {{0, 2 * static_cast<Offset>(bytes.size())}}), 10'000), twice));
  }
  // One that is answered comes after them: they wait for the store, not for the event loop.
  EXPECT_THAT(gone.call(wire::MembershipT{}).status, IsOk());
  gone.disconnect();
  EXPECT_THAT(peer->call(wire::MembershipT{}).status, IsOk());
  gate.set_open(true);
  EXPECT_THAT(peer->finish(first).status, IsOk());
  for (const std::uint64_t file : {std::uint64_t{1}, std::uint64_t{2}}) {
    wire::InspectT inspect;
    inspect.subfile = subfile(file);
    const internal::Answer info = peer->call(std::move(inspect));
    ASSERT_THAT(info.status, IsOk());
    EXPECT_EQ(info.head.answer.AsSubfileInfo()->length, file == 1 ? static_cast<Offset>(bytes.size()) : 0);
  }
}

// A disk may take longer than clients told that they would wait: as long as they do, the call goes on.
TEST_F(WaitingStoreTest, SlowStoresAreNoErrors) {
  constexpr int kTimeoutMs = 1;
  gate.set_open(false);
  const auto first = start_write(1, kTimeoutMs);
  const auto second = start_write(1, kTimeoutMs);
  const auto third = start_write(2, kTimeoutMs);
  gate.await_somebody();
  EXPECT_THAT(peer->call(wire::MembershipT{}).status, IsOk());
  std::this_thread::sleep_for(std::chrono::milliseconds(10 * kTimeoutMs));  // that is how slow it is
  gate.set_open(true);
  for (const auto& write : {first, second, third}) EXPECT_THAT(peer->finish(write).status, IsOk());
}

// One client keeps the store busy with thousands of requests; that of another goes to the store among the first.
TEST_F(WaitingStoreTest, ThousandsOfRequestsOfOneDoNotKeepAnotherFromTheStore) {
  constexpr std::uint64_t kMany = 3000;
  gate.set_open(false);
  const Bytes small(16, std::byte{1});
  std::vector<std::shared_ptr<std::optional<internal::Answer>>> answers;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    answers.push_back(peer->start(wire::encode_request(write_pieces(1000 + i, {{0, 16}}), 10'000), small));
  }
  EXPECT_THAT(peer->call(wire::MembershipT{}).status, IsOk());  // all have come
  Peer other(server->address(), key);
  const auto written = other.start(wire::encode_request(write_pieces(1, {{0, 16}}), 10'000), small);
  EXPECT_THAT(other.call(wire::MembershipT{}).status, IsOk());
  gate.set_open(true);
  EXPECT_THAT(other.finish(written).status, IsOk());
  for (const auto& answer : answers) EXPECT_THAT(peer->finish(answer).status, IsOk());
  const auto place = std::find(gate.order.begin(), gate.order.end(), 1u) - gate.order.begin();
  EXPECT_LT(place, 700) << "of " << gate.order.size();
}

TEST_F(WaitingStoreTest, WhatComesAfterARemovalFindsTheSubfileRemoved) {
  gate.set_open(false);
  const auto before = start_write(1);
  gate.await_somebody();
  wire::RemoveSubfileT remove;
  remove.subfile = subfile(1);
  const auto removed = start(std::move(remove));
  EXPECT_THAT(peer->call(wire::MembershipT{}).status, IsOk());
  const auto after = start_write(1);
  EXPECT_THAT(peer->call(wire::MembershipT{}).status, IsOk());
  gate.set_open(true);
  EXPECT_THAT(peer->finish(before).status, IsOk());
  EXPECT_THAT(peer->finish(removed).status, IsOk());
  EXPECT_THAT(peer->finish(after).status, StatusIs(ErrorCode::kStale));
}

TEST_F(WaitingStoreTest, StoppingAnswersWhatTheStoreIsAtWorkOn) {
  gate.set_open(false);
  const auto first = start_write(1);
  const auto second = start_write(1);
  gate.await_somebody();
  EXPECT_THAT(peer->call(wire::MembershipT{}).status, IsOk());
  std::thread stopper([this] { server->stop(); });
  gate.set_open(true);
  EXPECT_THAT(peer->finish(first).status, IsOk());
  EXPECT_THAT(peer->finish(second).status, IsOk());
  stopper.join();
}

TEST_F(WaitingStoreTest, StoppingWaitsForWorkOfThoseWhoAreGone) {
  gate.set_open(false);
  Bytes sink(1 << 20);
  static_cast<void>(peer->start(wire::encode_request(internal::read_pieces(1, {{0, 1 << 20}}), 10'000), {}, sink));
  gate.await_somebody();
  peer.reset();
  std::thread stopper([this] { server.reset(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // to come as far as it can
  gate.set_open(true);
  stopper.join();
}

}  // namespace
}  // namespace weir::server
