// Servers that lose answers, or send too little: what a client makes of that.

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/session.h>
#include <weir/layout/language.h>
#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::client {
namespace {

using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

layout::Partition one_subfile() { return *layout::parse("stripe(unit=4K, over=1)"); }

/// Knows one file; loses the answers to all other requests.
class ScriptedServer final : public net::Handler {
 public:
  ScriptedServer() : address{concat("local:scripted-", ::getpid(), "-", ++number_)} {
    auto made = net::system_network().listen(address, key, *this, {});
    EXPECT_THAT(made, IsOk());
    listener_ = std::move(*made);
    thread_ = std::thread([this] { listener_->run(); });
  }
  ~ScriptedServer() override {
    listener_->stop();
    thread_.join();
  }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  void handle(net::Request request) override {
    const auto head = wire::decode_request(request.head());
    ASSERT_THAT(head, IsOk());
    const wire::Operation operation = head->operation.type;
    {
      const std::lock_guard lock(mutex_);
      ++counts_[operation];
    }
    switch (operation) {
      case wire::Operation::Membership: return request.reply(wire::encode_reply(members(), 1));
      case wire::Operation::Lookup:
        if (knows_file) return request.reply(wire::encode_reply(attributes(), 1));
        return;
      case wire::Operation::Present:
      case wire::Operation::RegisterView:
        if (registers_late) return registrations_.push_back(std::move(request));
        return request.reply(wire::encode_reply(wire::DoneT{}, 1));
      case wire::Operation::WriteView:
        for (net::Request& first : std::exchange(registrations_, {})) {
          first.reply(wire::encode_reply(wire::DoneT{}, 1));
        }
        return request.reply(wire::encode_reply(wire::DoneT{}, 1));
      case wire::Operation::ReadView: {
        const wire::Range& range = *head->operation.AsReadView()->range;
        return request.reply(wire::encode_reply(wire::DoneT{}, 1), body(range.to() - range.from()));
      }
      case wire::Operation::ReadPieces: {
        Offset bytes = 0;
        for (const wire::Range& range : head->operation.AsReadPieces()->pieces) bytes += range.to() - range.from();
        return request.reply(wire::encode_reply(wire::DoneT{}, 1), body(bytes));
      }
      case wire::Operation::List:
      case wire::Operation::AllFiles: {
        wire::ListingT answer;  // never complete, and files without attributes
        for (const std::string& name : listed) {
          answer.entries.push_back(std::make_unique<wire::EntryT>());
          answer.entries.back()->name = name;
        }
        return request.reply(wire::encode_reply(std::move(answer), 1));
      }
      default: return;
    }
  }

  int count(wire::Operation operation) {
    const std::lock_guard lock(mutex_);
    return counts_[operation];
  }

  [[nodiscard]] Result<FileSystem> connect() const {
    ConnectOptions options;
    options.direct = false;
    WEIR_TRY(auto session, internal::Session::connect({address}, key, options));
    return FileSystem(std::move(session));
  }

  const net::Address address;
  const net::Key key = net::Key::random();
  std::atomic<bool> knows_file = false;
  std::atomic<bool> registers_late = false;  // capabilities and views: only when they are first written to
  std::atomic<Offset> missing_bytes = 0;     // of bodies
  std::vector<std::string> listed;           // set before anybody asks

 private:
  [[nodiscard]] wire::MembersT members() const {
    wire::MembersT answer;
    auto server = std::make_unique<wire::ServerT>();
    server->address = address.text;
    answer.servers.push_back(std::move(server));
    auto target = std::make_unique<wire::TargetT>();
    target->store_id = 7;
    answer.targets.push_back(std::move(target));
    return answer;
  }
  static wire::AttributesT attributes() {
    wire::AttributesT answer;
    answer.rights = 6;  // to read and to write
    answer.capability = {1, 2, 3};
    answer.file = 10;
    answer.data = 10;
    answer.layout = wire::to_bytes(one_subfile());
    answer.targets = {0};
    answer.stores = {7};
    return answer;
  }
  std::span<const std::byte> body(Offset bytes) {
    return std::span(bytes_).first(static_cast<std::size_t>(bytes - missing_bytes));
  }

  static inline std::atomic<int> number_ = 0;
  const net::Bytes bytes_ = net::Bytes(1 << 20, std::byte{1});
  std::mutex mutex_;
  std::map<wire::Operation, int> counts_;
  std::vector<net::Request> registrations_;  // the listener's thread's
  std::unique_ptr<net::Listener> listener_;
  std::thread thread_;
};

TEST(LostAnswerTest, WhatMustNotBeDoneTwiceIsAskedForOnce) {
  ScriptedServer server;
  const auto fs = server.connect();
  ASSERT_THAT(fs, IsOk());
  const auto is_lost = StatusIs(ErrorCode::kUnavailable);
  EXPECT_THAT(fs->remove("/x"), is_lost);
  EXPECT_EQ(server.count(wire::Operation::Remove), 1);
  EXPECT_THAT(fs->remove_directory("/x"), is_lost);
  EXPECT_EQ(server.count(wire::Operation::Remove), 2);
  EXPECT_THAT(fs->make_directory("/x"), is_lost);
  EXPECT_EQ(server.count(wire::Operation::MakeDirectory), 1);
  EXPECT_THAT(fs->rename("/x", "/y"), is_lost);
  EXPECT_EQ(server.count(wire::Operation::Rename), 1);
  EXPECT_THAT(fs->create("/x", one_subfile(), {.exclusive = true}), is_lost);
  EXPECT_EQ(server.count(wire::Operation::Create), 1);
  // Twice the same is the same.
  EXPECT_THAT(fs->create("/x", one_subfile(), {.exclusive = false}), is_lost);
  EXPECT_EQ(server.count(wire::Operation::Create), 3);
  EXPECT_THAT(fs->stat("/x"), is_lost);
  EXPECT_EQ(server.count(wire::Operation::Lookup), 2);
  server.knows_file = true;
  EXPECT_THAT(fs->relayout("/x", one_subfile()), is_lost);
  EXPECT_EQ(server.count(wire::Operation::BeginRelayout), 1);
}

// If the client awaited the answer to the registration, the write would never come.
TEST(FirstWriteTest, TakesOneRoundTrip) {
  ScriptedServer server;
  server.knows_file = true;
  server.registers_late = true;
  const auto fs = server.connect();
  ASSERT_THAT(fs, IsOk());
  const auto view = fs->open("/x")->linear();
  ASSERT_THAT(view, IsOk());
  EXPECT_EQ(view->report().messages, 0);
  const std::vector<std::byte> few(100);
  ASSERT_THAT(view->write(0, few), IsOk());
  EXPECT_EQ(view->report().messages, 2);
  ASSERT_THAT(view->write(0, few), IsOk());
  EXPECT_EQ(view->report().messages, 3);
  EXPECT_EQ(server.count(wire::Operation::Present), 1);
  EXPECT_EQ(server.count(wire::Operation::RegisterView), 1);
  EXPECT_EQ(server.count(wire::Operation::WriteView), 2);
}

TEST(ShortBodyTest, IsAnErrorHoweverItIsRead) {
  ScriptedServer server;
  server.knows_file = true;
  const auto fs = server.connect();
  ASSERT_THAT(fs, IsOk());
  const auto view = fs->open("/x")->linear();
  ASSERT_THAT(view, IsOk());
  std::vector<std::byte> memory(100'000);
  std::vector<std::byte> few(100);
  const std::vector<ReadPart> parts{{0, std::span(few).first(10)}, {50, std::span(few).subspan(10)}};
  ASSERT_THAT(view->read(0, memory), IsOk());
  ASSERT_THAT(view->read(parts), IsOk());
  for (const Offset missing : {Offset{1}, Offset{100}}) {
    server.missing_bytes = missing;
    EXPECT_THAT(view->read(0, memory), StatusIs(ErrorCode::kCorrupt, HasSubstr("bytes instead of 100000")));
    EXPECT_THAT(view->start_read(0, memory).wait(), StatusIs(ErrorCode::kCorrupt));
    EXPECT_THAT(view->read(parts), StatusIs(ErrorCode::kCorrupt, HasSubstr("bytes instead of 100")));
  }
  server.missing_bytes = 0;
  EXPECT_THAT(view->read(0, memory), IsOk());
}

// A client that copies a directory makes local files of what is listed.
TEST(HostileListTest, NamesThatLeadElsewhereAreRefused) {
  const std::vector<std::string> leading_elsewhere{"../key", "a/b", "/etc/passwd", "..", ".", "", {"a\0b", 3}};
  for (const std::string& name : leading_elsewhere) {
    SCOPED_TRACE(name);
    ScriptedServer server;
    server.listed = {name};
    const auto fs = server.connect();
    ASSERT_THAT(fs, IsOk());
    EXPECT_THAT(fs->list("/"), StatusIs(ErrorCode::kCorrupt));
  }
}

TEST(HostileListTest, ListsWithoutAnEndEnd) {
  ScriptedServer server;
  server.listed = {"a", "b"};
  const auto fs = server.connect();
  ASSERT_THAT(fs, IsOk());
  EXPECT_THAT(fs->list("/"), StatusIs(ErrorCode::kCorrupt, HasSubstr("not in order")));
  EXPECT_EQ(server.count(wire::Operation::List), 2);
}

TEST(HostileListTest, FilesWithoutAttributesAreRefused) {
  ScriptedServer server;
  server.listed = {"/a"};
  const auto fs = server.connect();
  ASSERT_THAT(fs, IsOk());
  EXPECT_THAT(fs->check(), StatusIs(ErrorCode::kCorrupt));
}

}  // namespace
}  // namespace weir::client
