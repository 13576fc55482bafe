// Locks as users other than this one ask for them.

#include <atomic>
#include <optional>

#include <gtest/gtest.h>

#include <weir/net/request.h>
#include <weir/server/internal/metadata_service.h>
#include <weir/server/internal/testing.h>

namespace weir::server::internal {
namespace {

using testing::IsOk;
using testing::StatusIs;

/// A call by whom the test says; keeps the answer.
class TestRequest : public net::Request::Impl {
 public:
  TestRequest(net::Identity who, std::optional<Status>& answer) : who_(std::move(who)), answer_(answer) {}
  [[nodiscard]] std::span<const std::byte> head() const override { return {}; }
  [[nodiscard]] std::size_t body_bytes() const override { return 0; }
  [[nodiscard]] net::PeerId peer() const override { return 1; }
  [[nodiscard]] const net::Identity& identity() const override { return who_; }
  [[nodiscard]] std::shared_ptr<const std::atomic<bool>> is_wanted() const override { return is_wanted_; }
  void receive(std::span<std::byte>, std::function<void(Status)>) override {}
  void reply(net::Bytes head, std::span<const std::byte>, std::function<void()>) override {
    const auto decoded = wire::decode_reply(head);
    ASSERT_THAT(decoded, IsOk());
    const wire::FailureT* failure = decoded->answer.AsFailure();
    answer_ = failure == nullptr ? Status::ok() : wire::to_status(*failure);
  }

 private:
  net::Identity who_;
  std::optional<Status>& answer_;
  std::shared_ptr<std::atomic<bool>> is_wanted_ = std::make_shared<std::atomic<bool>>(true);
};

TEST(LockPermissionTest, ExclusiveLocksNeedTheRightToWrite) {
  const net::Identity owner = user(1000, 100);
  const net::Identity reader = user(1002, 300);
  const auto store = storage::make_memory_key_value();
  const auto metadata = Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = {}});
  ASSERT_THAT(metadata, IsOk());
  (*metadata)->set_target_count(2);
  const auto file = (*metadata)->create(create_request("/x", 0644), owner);
  const auto secret = (*metadata)->create(create_request("/y", 0600), owner);
  ASSERT_THAT(file, IsOk());
  ASSERT_THAT(secret, IsOk());
  const auto caller = net::system_network().make_caller({"local:unused"}, runtime::system_runtime());
  ASSERT_THAT(caller, IsOk());
  Peers peers({}, **caller);
  Removals removals(**metadata, peers, {});
  const auto key = CapabilityKey::derive(net::Key::random());
  ASSERT_THAT(key, IsOk());
  const AccessControl access({.key = *key, .uid = 1000, .clock = runtime::system_runtime().clock});
  MetadataService service(
      **metadata, removals, access, *runtime::system_runtime().clock,
      [](net::Clock::time_point, const std::function<void()>&) {}, [](const std::function<void()>& task) { task(); });
  wire::CountersT counters;
  const auto lock = [&](const net::Identity& who, std::uint64_t number, bool exclusive) {
    std::optional<Status> answer;
    wire::LockT request;
    request.file = number;
    request.range = std::make_unique<wire::Range>(0, 10);
    request.exclusive = exclusive;
    request.owner = 5;
    wire::RequestHeadT head;
    head.operation.Set(std::move(request));
    EXPECT_TRUE(service.handle(std::make_shared<ServerCall>(ServerCall{
        net::Request(std::make_unique<TestRequest>(who, answer)), std::move(head), net::Clock::now(), counters})));
    EXPECT_TRUE(answer.has_value());
    service.drop(1);
    return answer.value_or(Status::ok());
  };
  EXPECT_THAT(lock(owner, file->file, true), IsOk());
  EXPECT_THAT(lock(reader, file->file, false), IsOk());
  EXPECT_THAT(lock(reader, file->file, true), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(lock(reader, secret->file, false), StatusIs(ErrorCode::kPermission));
}

}  // namespace
}  // namespace weir::server::internal
