#pragma once

// For tests: speaks in frames over a socket, as a caller that has the key and does as it likes.

#include <algorithm>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/net/internal/handshake.h>
#include <weir/net/internal/socket_worker.h>

namespace weir::net::internal {

class SocketPeer {
 public:
  SocketPeer(const SocketAddress& address, const Key& key) {
    auto made = SocketWorker::create(
        [this](const Frame& frame, std::span<const std::byte> payload, const Link*) {
          came.push_back(frame.kind);
          last.assign(payload.begin(), payload.end());
        },
        {}, runtime::system_runtime());
    EXPECT_THAT(made, weir::testing::IsOk());
    worker_ = std::move(*made);
    auto link = worker_->connect(address, key);
    EXPECT_THAT(link, weir::testing::IsOk());
    link_ = std::move(*link);
    link_->set_on_failure([](const Status&) {});
  }
  /// Forgets what came before it, and it.
  bool await(FrameKind kind) {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (std::find(came.begin(), came.end(), kind) == came.end()) {
      if (Clock::now() > deadline) return false;
      if (!worker_->progress()) std::this_thread::yield();
    }
    came.clear();
    return true;
  }
  /// The one that came first is `ended_by` then.
  bool await_one_of(const std::vector<FrameKind>& kinds) {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    for (;;) {
      const auto found = std::find_first_of(came.begin(), came.end(), kinds.begin(), kinds.end());
      if (found != came.end()) {
        ended_by = *found;
        return true;
      }
      if (Clock::now() > deadline) return false;
      if (!worker_->progress()) std::this_thread::yield();
    }
  }
  void send(FrameKind kind, Bytes payload = {}, std::uint64_t call = 0) {
    Frame frame;
    frame.kind = kind;
    frame.call = call;
    link_->send(frame, std::move(payload));
  }
  /// Says hello and proves the key.  \returns the handshake
  CallerHandshake prove(const Key& key, const CallerHandshake::MakeCredential& make_credential = {}) {
    CallerHandshake handshake(key, Identity::of_this_process().host, kProtocolVersion);
    send(FrameKind::kHello, handshake.hello());
    EXPECT_TRUE(await(FrameKind::kChallenge));
    auto proof = handshake.prove(last, link_->channel(), make_credential);
    EXPECT_THAT(proof, weir::testing::IsOk());
    if (proof.is_ok()) send(FrameKind::kProof, *proof);
    return handshake;
  }
  /// \returns the number that its frames carry
  std::uint64_t introduce(const Key& key, const CallerHandshake::MakeCredential& make_credential = {}) {
    const CallerHandshake handshake = prove(key, make_credential);
    EXPECT_TRUE(await(FrameKind::kWelcome));
    link_->set_session(handshake.sessions().to_listener);
    return handshake.sessions().to_listener;
  }
  void set_session(std::uint64_t session) { link_->set_session(session); }

  std::vector<FrameKind> came;
  Bytes last;  ///< Payload of the last frame.
  FrameKind ended_by{};

 private:
  std::unique_ptr<SocketWorker> worker_;
  std::shared_ptr<Link> link_;
};

}  // namespace weir::net::internal
