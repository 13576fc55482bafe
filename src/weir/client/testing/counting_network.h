#pragma once

// The machine's network, as one client uses it: counts its calls.  For tests only.
//
//   CountingNetwork network;
//   options.network = &network;
//   ... connect, use it
//   network.take().calls["tcp:..."]        since the last take()

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <weir/net/net.h>

namespace weir::client::internal {

class CountingNetwork final : public net::Network {
 public:
  struct Counts {
    std::map<std::string, int> calls;  ///< By the address of the server.
    std::size_t body_bytes = 0;        ///< In both directions.
    std::size_t longest_head = 0;      ///< Of a call.
  };

  /// What was counted since this was called last.  Answers count when they come.
  Counts take() {
    const std::lock_guard lock(state_->mutex);
    return std::exchange(state_->counts, {});
  }

  Result<std::unique_ptr<net::Caller>> make_caller(const net::Address& address,
                                                   const runtime::Runtime& runtime) override {
    WEIR_TRY(auto inner, net::system_network().make_caller(address, runtime));
    return std::unique_ptr<net::Caller>(std::make_unique<Caller>(std::move(inner), state_));
  }
  Result<std::unique_ptr<net::Listener>> listen(const net::Address& address, const net::Key& key, net::Handler& handler,
                                                const net::ListenOptions& options) override {
    return net::system_network().listen(address, key, handler, options);
  }

 private:
  struct State {
    std::mutex mutex;
    Counts counts;
  };

  class Connection final : public net::Connection {
   public:
    Connection(std::unique_ptr<net::Connection> inner, std::shared_ptr<State> state)
        : inner_(std::move(inner)), state_(std::move(state)) {}
    void call(net::Call call) override {
      {
        const std::lock_guard lock(state_->mutex);
        ++state_->counts.calls[inner_->address().text];
        state_->counts.body_bytes += call.body.size();
        state_->counts.longest_head = std::max(state_->counts.longest_head, call.head.size());
      }
      call.done = [state = state_, done = std::move(call.done)](Result<net::Reply> reply) {
        if (reply.is_ok()) {
          const std::lock_guard lock(state->mutex);
          state->counts.body_bytes += reply->body_bytes;
        }
        done(std::move(reply));
      };
      inner_->call(std::move(call));
    }
    [[nodiscard]] bool is_open() const override { return inner_->is_open(); }
    [[nodiscard]] const net::Address& address() const override { return inner_->address(); }

   private:
    std::unique_ptr<net::Connection> inner_;
    std::shared_ptr<State> state_;
  };

  class Caller final : public net::Caller {
   public:
    Caller(std::unique_ptr<net::Caller> inner, std::shared_ptr<State> state)
        : inner_(std::move(inner)), state_(std::move(state)) {}
    std::unique_ptr<net::Connection> connect(const net::Address& address, const net::Key& key,
                                             net::Deadline deadline) override {
      return std::make_unique<Connection>(inner_->connect(address, key, deadline), state_);
    }
    void progress() override { inner_->progress(); }
    void wait(net::Deadline deadline) override { inner_->wait(deadline); }
    void wake() override { inner_->wake(); }

   private:
    std::unique_ptr<net::Caller> inner_;
    std::shared_ptr<State> state_;
  };

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace weir::client::internal
