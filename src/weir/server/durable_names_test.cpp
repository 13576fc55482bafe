// Who waits until names are durable, and who does not; and what is left of them when the power fails.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/server/internal/metadata.h>
#include <weir/server/internal/peer_testing.h>
#include <weir/server/internal/testing.h>
#include <weir/server/server.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/memory_store.h>
#include <weir/storage/volatile_store.h>

namespace weir::server {
namespace {

using internal::Answer;
using internal::create_request;
using internal::directory_request;
using internal::FileNumber;
using internal::layout_bytes;
using internal::Metadata;
using internal::Peer;
using internal::record_key;
using internal::remove_request;
using internal::rename_request;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr std::chrono::seconds kNamesDeadline{20};

/// A map whose syncs end when the test says so.
class HeldSyncs {
 public:
  void add(storage::KeyValue::Done done) {
    {
      const std::lock_guard lock(mutex_);
      if (is_open_) return done(Status::ok());
      held_.push_back(std::move(done));
    }
    changed_.notify_all();
  }
  /// False if it does not come to that.
  bool wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kNamesDeadline, [&] { return held_.size() == count; });
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  void release(const Status& status) {
    std::vector<storage::KeyValue::Done> released;
    {
      const std::lock_guard lock(mutex_);
      released = std::exchange(held_, {});
    }
    for (const auto& done : released) done(status);
  }
  /// From now on, none is held.
  void open() {
    {
      const std::lock_guard lock(mutex_);
      is_open_ = true;
    }
    release(Status::ok());
  }

  std::atomic<bool> last_frees_room{false};  ///< Of the batch that was applied last.

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<storage::KeyValue::Done> held_;
  bool is_open_ = false;
};

class HoldingKeyValue final : public storage::KeyValue {
 public:
  explicit HoldingKeyValue(std::shared_ptr<HeldSyncs> held) : held_(std::move(held)) {}
  Result<std::optional<std::string>> get(std::string_view key) override { return map_->get(key); }
  Status scan(std::string_view prefix, std::string_view after,
              const std::function<bool(std::string_view, std::string_view)>& visit) override {
    return map_->scan(prefix, after, visit);
  }
  Status apply(const storage::Batch& batch, bool) override {
    held_->last_frees_room = batch.frees_room;
    return map_->apply(batch, false);
  }
  void sync(Done done) override { held_->add(std::move(done)); }

 private:
  std::unique_ptr<storage::KeyValue> map_ = storage::make_memory_key_value();
  std::shared_ptr<HeldSyncs> held_;
};

class DurableNamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Options options;
    options.key = key_;
    options.address = {concat("local:durable-names-", ::getpid())};
    auto store = storage::make_memory_store({.capacity_bytes = 1 << 24, .pool_regions = 0});
    ASSERT_THAT(store.status(), IsOk());
    auto server = Server::start(options, std::move(*store), std::make_unique<HoldingKeyValue>(held_));
    ASSERT_THAT(server.status(), IsOk());
    server_ = std::move(*server);
    peer_ = std::make_unique<Peer>(server_->address(), key_);
  }
  void TearDown() override { held_->open(); }

  wire::AttributesT make(const std::string& path) {
    Answer answer = peer_->call(create_request(path));
    EXPECT_THAT(answer.status, IsOk());
    return answer.head.answer.AsAttributes() != nullptr ? *answer.head.answer.AsAttributes() : wire::AttributesT{};
  }
  wire::LookupT lookup(const std::string& path) {
    wire::LookupT request;
    request.path = path;
    return request;
  }
  /// Not answered until names are durable, while the server goes on; then with what came of that.
  template <typename Request>
  void expect_waits(const char* what, const Request& request, bool fails) {
    SCOPED_TRACE(what);
    const auto answer = peer_->start(wire::encode_request(Request(request), 10'000));
    peer_->call(lookup("/"));  // sends what is to be sent
    ASSERT_TRUE(held_->wait_for(1));
    Peer other(server_->address(), key_);
    EXPECT_THAT(other.call(lookup("/")).status, IsOk()) << "others wait";
    peer_->call(lookup("/"));
    EXPECT_FALSE(answer->has_value()) << "answered before it is durable";
    held_->release(fails ? Status(ErrorCode::kIoError, "the disk is gone") : Status::ok());
    if (fails) {
      EXPECT_THAT(peer_->finish(answer).status, StatusIs(ErrorCode::kIoError, "the disk is gone"));
    } else {
      EXPECT_THAT(peer_->finish(answer).status, IsOk());
    }
  }

  net::Key key_ = net::Key::random();
  std::shared_ptr<HeldSyncs> held_ = std::make_shared<HeldSyncs>();
  std::unique_ptr<Server> server_;
  std::unique_ptr<Peer> peer_;
};

TEST_F(DurableNamesTest, ChangesAreAnsweredWhenTheyAreDurable) {
  const wire::AttributesT made = make("/a");
  make("/b");
  EXPECT_EQ(held_->count(), 0U) << "create waits: its caller syncs";
  expect_waits("make directory", directory_request("/d"), false);
  expect_waits("rename", rename_request("/a", "/d/a"), false);
  expect_waits("replacing rename", rename_request("/b", "/d/a"), false);
  wire::SetAttributesT mode;
  mode.path = "/d";
  mode.set_mode = true;
  mode.mode = 0700;
  expect_waits("set attributes", mode, false);
  const wire::AttributesT file = make("/c");
  wire::BeginRelayoutT begin;
  begin.path = "/c";
  begin.layout = layout_bytes("stripe(unit=2, over=1)");
  expect_waits("begin relayout", begin, false);
  wire::EndRelayoutT end;
  end.file = file.file;
  end.data = file.data + 1;
  end.commit = true;
  expect_waits("end relayout", end, false);
  expect_waits("remove", remove_request("/c"), false);
  expect_waits("sync names", wire::SyncNamesT{}, false);
  EXPECT_NE(made.file, 0U);
}

TEST_F(DurableNamesTest, OnlyRemovalsUseWhatIsKeptForAFullDisk) {
  held_->open();
  make("/a");
  EXPECT_FALSE(held_->last_frees_room);
  EXPECT_THAT(peer_->call(directory_request("/d")).status, IsOk());
  EXPECT_FALSE(held_->last_frees_room);
  EXPECT_THAT(peer_->call(remove_request("/a")).status, IsOk());
  EXPECT_TRUE(held_->last_frees_room);
}

TEST_F(DurableNamesTest, AFailedSyncFailsThoseWhoWait) {
  make("/a");
  expect_waits("remove", remove_request("/a"), true);
  expect_waits("sync names", wire::SyncNamesT{}, true);
}

TEST_F(DurableNamesTest, WhatIsRefusedWaitsForNothing) {
  EXPECT_THAT(peer_->call(remove_request("/none")).status, StatusIs(ErrorCode::kNotFound));
  EXPECT_EQ(held_->count(), 0U);
}

TEST_F(DurableNamesTest, AServerThatStopsAnswersThoseWhoWait) {
  const auto answer = peer_->start(wire::encode_request(directory_request("/d"), 10'000));
  peer_->call(lookup("/"));
  ASSERT_TRUE(held_->wait_for(1));
  held_->open();
  server_->stop();
  EXPECT_THAT(peer_->finish(answer).status, IsOk());
}

// ---- bytes of all subfiles

// What could not be synced is due again; what was, is not.
TEST(SyncSubfilesTest, SyncsWhatWasWrittenSinceUntilItSucceeds) {
  const net::Key key = net::Key::random();
  int before_sync = storage::FaultOptions::kNever;
  for (int round = 0; round < 2; ++round) {
    const auto faults = std::make_shared<storage::Faults>(storage::FaultOptions{.fail_at = before_sync});
    const std::shared_ptr<storage::Store> disk = std::make_shared<storage::VolatileStore>(
        std::make_shared<storage::Power>(), std::make_shared<storage::VolatileDisk>());
    Options options;
    options.key = key;
    options.address = {concat("local:sync-subfiles-", ::getpid(), "-", round)};
    auto server = Server::start(options, std::make_unique<storage::FaultyStore>(disk, faults), nullptr);
    ASSERT_THAT(server.status(), IsOk());
    Peer peer((*server)->address(), key);
    const std::vector<std::byte> bytes(10, std::byte{1});
    for (const std::uint64_t file : {7, 8}) {
      ASSERT_THAT(peer.call(internal::write_pieces(file, {{0, 10}}, 10), bytes).status, IsOk());
    }
    before_sync = faults->count();
    if (round == 0) {
      EXPECT_THAT(peer.call(wire::SyncSubfilesT{}).status, IsOk());
      EXPECT_EQ(faults->count(), before_sync + 2);
    } else {
      EXPECT_THAT(peer.call(wire::SyncSubfilesT{}).status, StatusIs(ErrorCode::kIoError));
      EXPECT_EQ(faults->count(), before_sync + 2) << "one that fails does not keep others from it";
      EXPECT_THAT(peer.call(wire::SyncSubfilesT{}).status, IsOk());
      EXPECT_EQ(faults->count(), before_sync + 3);
    }
    const int all = faults->count();
    EXPECT_THAT(peer.call(wire::SyncSubfilesT{}).status, IsOk());
    EXPECT_EQ(faults->count(), all) << "nothing was written since";
  }
}

// ---- numbers

TEST(DurableNumbersTest, NoNumberComesAgainAfterALossOfPower) {
  const net::Identity ada = internal::user(1000);
  std::mt19937_64 random{1};
  for (int cut_at = 0;; ++cut_at) {
    SCOPED_TRACE(cut_at);
    ASSERT_LT(cut_at, 200);
    const auto table = std::make_shared<storage::VolatileTable>();
    const auto power = std::make_shared<storage::Power>(cut_at);
    std::set<FileNumber> used;
    const auto use = [&](const std::shared_ptr<storage::Power>& with, const char* prefix) {
      storage::VolatileKeyValue map(with, table);
      const auto metadata = Metadata::open(map, {.uid = 1000, .gid = 100, .now_ns = {}, .numbers_at_a_time = 3});
      if (!metadata.is_ok()) return;
      for (int i = 0; i < 8; ++i) {
        const auto made = (*metadata)->create(create_request(concat(prefix, i)), ada);
        if (!made.is_ok()) return;
        EXPECT_TRUE(used.insert(made->file).second) << made->file << " was used before";
        wire::BeginRelayoutT begin;
        begin.path = concat(prefix, i);
        begin.layout = layout_bytes("stripe(unit=2, over=1)");
        const auto pending = (*metadata)->begin_relayout(begin, ada);
        if (!pending.is_ok()) return;
        EXPECT_TRUE(used.insert(pending->data).second) << pending->data << " was used before";
      }
    };
    use(power, "/a");
    table->survive(storage::Survival::kNothing, random);
    use(std::make_shared<storage::Power>(), "/b");
    EXPECT_GE(used.size(), 16U) << "it does not start again";
    if (!power->was_cut() || HasFailure()) break;
  }
}

TEST(RelayoutNamesTest, ARelayoutGoesWithItsFile) {
  const net::Identity ada = internal::user(1000);
  const std::unique_ptr<storage::KeyValue> store = storage::make_memory_key_value();
  const auto metadata = Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = {}});
  ASSERT_THAT(metadata, IsOk());
  for (const char* path : {"/removed", "/replaced", "/new"}) {
    ASSERT_THAT((*metadata)->create(create_request(path), ada), IsOk());
    wire::BeginRelayoutT begin;
    begin.path = path;
    begin.layout = layout_bytes("stripe(unit=2, over=1)");
    ASSERT_THAT((*metadata)->begin_relayout(begin, ada), IsOk());
  }
  ASSERT_THAT((*metadata)->remove(remove_request("/removed"), ada), IsOk());
  internal::expect_consistent(*store);
  ASSERT_THAT((*metadata)->rename(rename_request("/new", "/replaced"), ada), IsOk());
  internal::expect_consistent(*store);
}

// ---- damage

TEST(DamagedNamesTest, WhatContradictsItselfIsNamed) {
  const net::Identity ada = internal::user(1000);
  const std::unique_ptr<storage::KeyValue> store = storage::make_memory_key_value();
  const auto metadata = Metadata::open(*store, {.uid = 1000, .gid = 100, .now_ns = {}});
  ASSERT_THAT(metadata, IsOk());
  const auto x = (*metadata)->create(create_request("/x"), ada);
  const auto y = (*metadata)->create(create_request("/y"), ada);
  ASSERT_THAT(x, IsOk());
  ASSERT_THAT(y, IsOk());
  const auto replace = [&](const std::string& key, const std::optional<std::string>& value) {
    const auto before = store->get(key);
    storage::Batch batch;
    value ? batch.put(key, *value) : batch.erase(key);
    EXPECT_THAT(store->apply(batch, false), IsOk());
    return *before;
  };
  const auto expect_named = [&](const std::string& what) {
    const auto is_named = StatusIs(ErrorCode::kCorrupt, AllOf(HasSubstr(what), HasSubstr("weir fsck --rebuild")));
    EXPECT_THAT((*metadata)->lookup("/x", ada), is_named);
    EXPECT_THAT((*metadata)->list(internal::list_request("/"), ada), is_named);
  };
  const std::string entry = internal::entry_key(internal::kRoot, "x");
  const std::string of_x = record_key(x->file);

  auto kept = replace(of_x, std::nullopt);
  expect_named("has no record");
  replace(of_x, store->get(record_key(y->file))->value());
  expect_named(concat("the record of file ", x->file));
  EXPECT_THAT((*metadata)->all_files({}), StatusIs(ErrorCode::kCorrupt, HasSubstr(concat("file ", x->file))));
  replace(of_x, kept->substr(0, 5));
  expect_named(concat("the record of file ", x->file));
  replace(of_x, kept);
  EXPECT_THAT((*metadata)->lookup("/x", ada), IsOk());

  kept = replace(entry, internal::encode_number(y->file));
  expect_named("entry \"x\" of directory 1");
  replace(entry, "short");
  expect_named("entry \"x\" of directory 1");
  replace(entry, kept);

  wire::EndRelayoutT end;
  end.file = x->file;
  replace(internal::relayout_key(x->file), "nonsense");
  EXPECT_THAT((*metadata)->end_relayout(end, ada),
              StatusIs(ErrorCode::kCorrupt, HasSubstr(concat("the relayout of file ", x->file))));
  EXPECT_THAT((*metadata)->all_files({}), StatusIs(ErrorCode::kCorrupt, HasSubstr("the relayout of file")));
  replace(internal::relayout_key(x->file), internal::encode_attributes(*y));
  EXPECT_THAT((*metadata)->end_relayout(end, ada), StatusIs(ErrorCode::kCorrupt));

  replace(std::string(internal::kNextNumberKey), std::nullopt);
  EXPECT_THAT(Metadata::open(*store, {}), StatusIs(ErrorCode::kCorrupt, HasSubstr("counter of files")));
}

}  // namespace
}  // namespace weir::server
