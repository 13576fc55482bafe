#pragma once

// For the tests of whole servers: somebody who calls one.  Not installed.

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

struct Answer {
  Status status;
  wire::ReplyHeadT head;
};

/// One connection; calls and waits for the answer.
class Peer {
 public:
  Peer(const net::Address& address, const net::Key& key)
      : caller_(std::move(*net::system_network().make_caller(address, runtime::system_runtime()))),
        connection_(caller_->connect(address, key.for_clients(), net::Clock::now() + std::chrono::seconds(5))) {}

  std::shared_ptr<std::optional<Answer>> start(net::Bytes head, std::span<const std::byte> body = {},
                                               std::span<std::byte> sink = {}) {
    auto answer = std::make_shared<std::optional<Answer>>();
    connection_->call({std::move(head), body, sink, net::Clock::now() + std::chrono::seconds(20),
                       [answer](Result<net::Reply> reply) { *answer = decode(std::move(reply)); }});
    return answer;
  }
  Answer finish(const std::shared_ptr<std::optional<Answer>>& answer) {
    while (!*answer) {
      caller_->wait(net::Clock::now() + std::chrono::seconds(1));
      caller_->progress();
    }
    return std::move(**answer);
  }
  template <typename Table>
  Answer call(Table table, std::span<const std::byte> body = {}, std::span<std::byte> sink = {}) {
    return finish(start(wire::encode_request(std::move(table), 10'000), body, sink));
  }
  void disconnect() { connection_.reset(); }

 private:
  static Answer decode(Result<net::Reply> reply) {
    if (!reply.is_ok()) return {reply.status(), {}};
    Result<wire::ReplyHeadT> head = wire::decode_reply(reply->head);
    if (!head.is_ok()) return {head.status(), {}};
    if (const auto* failure = head->answer.AsFailure()) return {wire::to_status(*failure), {}};
    return {Status::ok(), std::move(*head)};
  }

  std::unique_ptr<net::Caller> caller_;
  std::unique_ptr<net::Connection> connection_;
};

inline std::unique_ptr<wire::Subfile> subfile(std::uint64_t file, std::uint32_t element = 0) {
  return std::make_unique<wire::Subfile>(file, element);
}

inline wire::ReadPiecesT read_pieces(std::uint64_t file, std::vector<wire::Range> pieces) {
  wire::ReadPiecesT request;
  request.subfile = subfile(file);
  request.pieces = std::move(pieces);
  return request;
}
inline wire::WritePiecesT write_pieces(std::uint64_t file, std::vector<wire::Range> pieces, Offset file_end = 0) {
  wire::WritePiecesT request;
  request.subfile = subfile(file);
  request.pieces = std::move(pieces);
  request.file_end = file_end;
  return request;
}

}  // namespace weir::server::internal
