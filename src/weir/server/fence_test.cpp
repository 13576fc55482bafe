// Fences whose client or server is gone, or that cannot be kept; and writes that must leave what is around them alone.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/testing/temporary_directory.h>
#include <weir/base/text.h>
#include <weir/layout/binary.h>
#include <weir/server/internal/peer_testing.h>
#include <weir/server/server.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/memory_store.h>

namespace weir::server {
namespace {

using internal::Peer;
using internal::read_pieces;
using internal::subfile;
using internal::write_pieces;
using testing::IsOk;
using testing::StatusIs;
using wire::FenceAction;
using Bytes = std::vector<std::byte>;

wire::FenceT fence_of(std::uint64_t file, FenceAction action, std::uint64_t token) {
  wire::FenceT fence;
  fence.action = action;
  fence.subfile = subfile(file);
  fence.token = token;
  return fence;
}

Options options_for(const std::string& store) {
  static int number = 0;
  Options options;
  options.address = {concat("local:fence-test-", ::getpid(), "-", ++number)};
  options.key = net::Key::random();
  options.store = store;
  options.capacity_bytes = Offset{64} << 20;
  options.fence_grace = std::chrono::milliseconds(0);
  return options;
}

std::unique_ptr<Server> start(const Options& options) {
  auto started = Server::start(options);
  EXPECT_THAT(started, IsOk());
  return started.is_ok() ? std::move(*started) : nullptr;
}

wire::SubfileInfoT inspect(Peer& peer, std::uint64_t file) {
  wire::InspectT request;
  request.subfile = subfile(file);
  internal::Answer answer = peer.call(std::move(request));
  EXPECT_THAT(answer.status, IsOk());
  return answer.status.is_ok() ? *answer.head.answer.AsSubfileInfo() : wire::SubfileInfoT();
}

std::map<std::uint64_t, std::uint64_t> listed_fences(Peer& peer) {
  const internal::Answer answer = peer.call(wire::ListSubfilesT{});
  EXPECT_THAT(answer.status, IsOk());
  std::map<std::uint64_t, std::uint64_t> tokens;
  for (const wire::FencedSubfile& one : answer.head.answer.AsSubfiles()->fences) tokens[one.file()] = one.token();
  return tokens;
}

TEST(FenceTest, IsShownAndAbandonedWhenItsClientHasLeft) {
  const Options options = options_for("memory");
  const auto server = start(options);
  Peer client(server->address(), options.key);
  Peer mover(server->address(), options.key);
  EXPECT_EQ(inspect(client, 9).fence, 0u);
  for (const FenceAction action : {FenceAction::Raise, FenceAction::Confirm}) {
    ASSERT_THAT(mover.call(fence_of(9, action, 77)).status, IsOk());
  }
  EXPECT_EQ(inspect(client, 9).fence, 77u);
  EXPECT_FALSE(inspect(client, 9).fence_abandoned) << "its client is there";
  EXPECT_EQ(listed_fences(client), (std::map<std::uint64_t, std::uint64_t>{{9, 77}}));
  ASSERT_THAT(client.call(fence_of(9, FenceAction::Leave, 78)).status, IsOk());
  EXPECT_FALSE(inspect(client, 9).fence_abandoned) << "that of another";
  ASSERT_THAT(mover.call(fence_of(9, FenceAction::Leave, 77)).status, IsOk());
  EXPECT_TRUE(inspect(client, 9).fence_abandoned);
  EXPECT_THAT(client.call(write_pieces(9, {{0, 1}}), Bytes(1)).status, StatusIs(ErrorCode::kStale)) << "it still is up";
  ASSERT_THAT(client.call(fence_of(9, FenceAction::Lower, 77)).status, IsOk());
  EXPECT_TRUE(listed_fences(client).empty());
  EXPECT_THAT(client.call(write_pieces(9, {{0, 1}}), Bytes(1)).status, IsOk());
}

TEST(FenceTest, IsAbandonedAfterARestart) {
  const testing::TemporaryDirectory directory;
  const Options options = options_for(concat("disk:", directory.path()));
  auto server = start(options);
  {
    Peer mover(server->address(), options.key);
    for (const FenceAction action : {FenceAction::Raise, FenceAction::Confirm}) {
      ASSERT_THAT(mover.call(fence_of(9, action, 77)).status, IsOk());
    }
  }
  server.reset();
  server = start(options);
  Peer client(server->address(), options.key);
  const wire::SubfileInfoT info = inspect(client, 9);
  EXPECT_EQ(info.fence, 77u);
  EXPECT_TRUE(info.fence_abandoned);
}

// Whatever operation of the store fails: a fence that was not kept is not confirmed, so it falls when its client goes.
TEST(FenceTest, ThatCannotBeKeptIsNotConfirmed) {
  int failed_confirmations = 0;
  for (int n = 0; n < 20; ++n) {
    const auto faults = std::make_shared<storage::Faults>(storage::FaultOptions{.fail_at = n});
    auto memory = storage::make_memory_store({});
    ASSERT_THAT(memory, IsOk());
    const Options options = options_for("memory");
    auto started = Server::start(options, std::make_unique<storage::FaultyStore>(std::move(*memory), faults),
                                 storage::make_memory_key_value());
    if (!started.is_ok()) continue;
    Peer client((*started)->address(), options.key);
    Peer mover((*started)->address(), options.key);
    const Status raised = mover.call(fence_of(9, FenceAction::Raise, 77)).status;
    const Status confirmed = mover.call(fence_of(9, FenceAction::Confirm, 77)).status;
    if (!faults->fired()) break;
    if (!raised.is_ok() || confirmed.is_ok()) continue;
    ++failed_confirmations;
    EXPECT_THAT(confirmed, StatusIs(ErrorCode::kIoError));
    mover.disconnect();
    const auto deadline = net::Clock::now() + std::chrono::seconds(10);
    while (inspect(client, 9).fence != 0 && net::Clock::now() < deadline) {
    }
    EXPECT_EQ(inspect(client, 9).fence, 0u);
    EXPECT_THAT(client.call(write_pieces(9, {{0, 1}}), Bytes(1)).status, IsOk());
  }
  EXPECT_EQ(failed_confirmations, 1);
}

std::vector<std::uint8_t> encoded(const layout::FallsSet& falls) {
  const Bytes bytes = layout::encode(falls);
  const auto* begin = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {begin, begin + bytes.size()};
}

std::unique_ptr<wire::BandT> band(const layout::FallsSet& view, const layout::FallsSet& bytes) {
  auto one = std::make_unique<wire::BandT>();
  one->view = encoded(view);
  one->view_period = 8;
  one->subfile = encoded(bytes);
  one->subfile_period = 8;
  return one;
}

// Two bands that overlap have as many bytes as the window, but do not cover it: what is in between stays as it was in
// the file, not as it was in the buffer that an earlier window used.
TEST(WindowTest, BytesAroundHostileBandsStay) {
  for (const bool is_disk : {false, true}) {
    const testing::TemporaryDirectory directory;
    const Options options = options_for(is_disk ? concat("disk:", directory.path()) : "memory");
    const auto server = start(options);
    Peer client(server->address(), options.key);
    const Bytes junk(8, std::byte{'j'});
    const Bytes old(8, std::byte{'o'});
    ASSERT_THAT(client.call(write_pieces(1, {{0, 2}, {3, 5}, {6, 10}}), junk).status, IsOk());
    ASSERT_THAT(client.call(write_pieces(2, {{0, 8}}), old).status, IsOk());
    wire::RegisterViewT view;
    view.view = 5;
    view.subfile = subfile(2);
    view.bands.push_back(band({{0, 3, 0, 1, {}}}, {{0, 0, 2, 4, {}}}));                    // bytes 0, 2, 4, 6
    view.bands.push_back(band({{4, 7, 0, 1, {}}}, {{0, 0, 2, 3, {}}, {7, 7, 0, 1, {}}}));  // bytes 0, 2, 4, 7
    ASSERT_THAT(client.call(std::move(view)).status, IsOk());
    wire::WriteViewT write;
    write.view = 5;
    write.range = std::make_unique<wire::Range>(0, 8);
    const Bytes fresh(8, std::byte{'n'});
    ASSERT_THAT(client.call(std::move(write), fresh).status, IsOk());
    Bytes back(8);
    ASSERT_THAT(client.call(read_pieces(2, {{0, 8}}), {}, back).status, IsOk());
    std::string text;
    for (const std::byte one : back) text += static_cast<char>(one);
    EXPECT_EQ(text, "nonononn") << (is_disk ? "disk" : "memory");
  }
}

}  // namespace
}  // namespace weir::server
