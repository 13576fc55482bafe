// Files that are written, read and renamed while they get another layout.

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/open_file.h>
#include <weir/client/internal/relayout.h>
#include <weir/client/internal/session.h>
#include <weir/client/testing/cluster.h>
#include <weir/client/testing/counting_network.h>
#include <weir/layout/language.h>
#include <weir/net/net.h>
#include <weir/wire/wire.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using internal::CountingNetwork;
using ::testing::HasSubstr;
using weir::testing::IsOk;
using weir::testing::StatusIs;

using Bytes = std::vector<std::byte>;

constexpr std::size_t kSize = std::size_t{4} << 20;

layout::Partition parsed_layout(const std::string& text) { return *layout::parse(text); }
layout::Partition wide() { return parsed_layout("stripe(unit=64K, over=3)"); }
layout::Partition narrow() { return parsed_layout("stripe(unit=4K, over=2)"); }

Bytes filled(std::size_t size, int value) { return Bytes(size, static_cast<std::byte>(value)); }

struct RelayoutCase {
  const char* name;
  const char* store;
  bool direct;
};
std::ostream& operator<<(std::ostream& out, const RelayoutCase& value) { return out << value.name; }

class RelayoutTest : public ::testing::TestWithParam<RelayoutCase> {
 protected:
  static ClusterOptions options() {
    ClusterOptions options;
    options.store = GetParam().store;
    options.direct = GetParam().direct;
    options.timeout = std::chrono::seconds(60);
    return options;
  }
};

Bytes contents(const FileSystem& fs, const std::string& path) {
  Bytes bytes(kSize);
  EXPECT_THAT(fs.open(path)->linear()->read(0, bytes), IsOk());
  return bytes;
}

// The write starts when all bytes have been copied: what went to the old layout then would be lost.
TEST_P(RelayoutTest, AWriteThatComesTooLateForTheCopyIsInTheNewLayout) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const FileSystem writer = cluster.connect();
  const Bytes before = filled(kSize, 1);
  const Bytes late = filled(kSize, 2);
  ASSERT_THAT(fs.create("/file", wide())->linear()->write(0, before), IsOk());
  const View view = *writer.open("/file")->linear();
  Bytes seen(kSize);
  ASSERT_THAT(view.read(0, seen), IsOk());  // mapped by now, where that is possible
  std::optional<Pending> pending;
  RelayoutOptions relayout;
  relayout.progress = [&](Offset done, Offset all) {
    if (done < all || pending) return;
    pending.emplace(view.start_write(0, late));
    EXPECT_THAT(writer.open("/file")->linear()->read(0, seen), IsOk()) << "readers go on";
    EXPECT_TRUE(seen == before);
  };
  ASSERT_THAT(fs.relayout("/file", narrow(), relayout), IsOk());
  ASSERT_TRUE(pending.has_value());
  EXPECT_THAT(pending->wait(), IsOk());
  EXPECT_TRUE(contents(fs, "/file") == late);
  EXPECT_EQ(writer.open("/file")->layout().element_count(), 2);
}

// A relayout that stands still, as seen by a client that does not wait for long.
TEST_P(RelayoutTest, WritersAreToldWhenItTakesTooLong) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  ConnectOptions hasty;
  hasty.direct = GetParam().direct;
  hasty.timeout = std::chrono::milliseconds(1000);
  const FileSystem writer(*internal::Session::connect(cluster.addresses(), cluster.key(), hasty));
  const Bytes before = filled(kSize, 1);
  ASSERT_THAT(fs.create("/file", wide())->linear()->write(0, before), IsOk());
  const File file = *writer.open("/file");
  const View view = *file.linear();
  const auto is_told = StatusIs(ErrorCode::kUnavailable, HasSubstr("layout change still in progress"));
  int calls = 0;
  RelayoutOptions relayout;
  relayout.progress = [&](Offset, Offset) {
    if (++calls > 1) return;
    EXPECT_THAT(view.write(0, filled(kSize, 9)), is_told);
    EXPECT_THAT(file.truncate(5), is_told);
    EXPECT_THAT(file.preallocate(5), is_told);
  };
  ASSERT_THAT(fs.relayout("/file", narrow(), relayout), IsOk());
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(contents(fs, "/file") == before);
  EXPECT_THAT(view.write(0, filled(kSize, 3)), IsOk());
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 3));
}

TEST_P(RelayoutTest, OneThatFailsLetsWritersGoOn) {
  Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const FileSystem writer = cluster.connect();
  // Two servers have the file; the third, which is to have some of it, is down.
  ASSERT_THAT(fs.create("/file", narrow(), {.targets = {0, 1}})->linear()->write(0, filled(kSize, 1)), IsOk());
  const View view = *writer.open("/file")->linear();
  cluster.stop(2);
  EXPECT_THAT(fs.relayout("/file", wide(), {.targets = {0, 1, 2}, .progress = {}}), StatusIs(ErrorCode::kUnavailable));
  EXPECT_THAT(view.write(0, filled(kSize, 2)), IsOk());
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 2));
}

TEST_P(RelayoutTest, TwoAtOnceAreRefused) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const FileSystem other = cluster.connect();
  ASSERT_THAT(fs.create("/file", wide())->linear()->write(0, filled(kSize, 1)), IsOk());
  Status second;
  int calls = 0;
  RelayoutOptions relayout;
  relayout.progress = [&](Offset, Offset) {
    if (++calls == 1) second = other.relayout("/file", parsed_layout("stripe(unit=1K, over=3)"));
  };
  // The second took the place of the first before it failed, so the first may not end either: the old layout serves.
  EXPECT_THAT(fs.relayout("/file", narrow(), relayout), StatusIs(ErrorCode::kStale));
  EXPECT_THAT(second, StatusIs(ErrorCode::kUnavailable, HasSubstr("another relayout")));
  EXPECT_THAT(other.open("/file")->linear()->write(0, filled(kSize, 2)), IsOk());
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 2));
}

// Every writer has a slot of its own and stamps it again and again.  In the end, each slot has the last stamp that was
// said to be written.
TEST_P(RelayoutTest, NoWriteIsLostHoweverOftenTheLayoutChanges) {
  constexpr int kWriters = 3;
  constexpr int kTimes = 6;
  constexpr std::size_t kSlot = 200'000;  // in several subfiles of each layout
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.create("/file", wide())->linear()->write(0, filled(kSize, 0)), IsOk());
  std::atomic<bool> is_over{false};
  std::vector<int> last(kWriters, 0);
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; ++w) {
    writers.emplace_back([&, w] {
      const FileSystem mine = cluster.connect();
      const View view = *mine.open("/file")->linear();
      for (int stamp = 1; !is_over || stamp < 3; ++stamp) {
        ASSERT_THAT(view.write(static_cast<Offset>(kSlot) * w, filled(kSlot, 1 + stamp % 250)), IsOk());
        last[static_cast<std::size_t>(w)] = 1 + stamp % 250;
      }
    });
  }
  for (int i = 0; i < kTimes; ++i) EXPECT_THAT(fs.relayout("/file", i % 2 == 0 ? narrow() : wide()), IsOk());
  is_over = true;
  for (std::thread& writer : writers) writer.join();
  const Bytes all = contents(fs, "/file");
  for (std::size_t w = 0; w < kWriters; ++w) {
    const Bytes slot(all.begin() + static_cast<std::ptrdiff_t>(w * kSlot),
                     all.begin() + static_cast<std::ptrdiff_t>((w + 1) * kSlot));
    EXPECT_TRUE(slot == filled(kSlot, last[w])) << "writer " << w << ", stamp " << last[w];
  }
}

TEST_P(RelayoutTest, AnOpenFileThatWasRenamedFollowsItsNewLayout) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const FileSystem writer = cluster.connect();
  ASSERT_THAT(fs.create("/old", wide())->linear()->write(0, filled(kSize, 1)), IsOk());
  const File file = *writer.open("/old");
  const View view = *file.linear();
  ASSERT_THAT(view.write(0, filled(kSize, 2)), IsOk());
  ASSERT_THAT(fs.rename("/old", "/new"), IsOk());
  ASSERT_THAT(fs.create("/old", wide()), IsOk()) << "another file of that name";
  ASSERT_THAT(fs.relayout("/new", narrow()), IsOk());
  EXPECT_THAT(view.write(0, filled(kSize, 3)), IsOk());
  EXPECT_TRUE(contents(fs, "/new") == filled(kSize, 3));
  EXPECT_THAT(fs.open("/old")->size(), weir::testing::IsOkAndHolds(0));
  ASSERT_THAT(fs.remove("/new"), IsOk());
  EXPECT_THAT(view.write(0, filled(kSize, 4)), StatusIs(ErrorCode::kStale, HasSubstr("removed")));
}

// Accesses that are started find out in several ways: before the first message, by its answer, or window by window.
TEST_P(RelayoutTest, AccessesThatAreStartedToARemovedFileFail) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const FileSystem other = cluster.connect();
  ASSERT_THAT(fs.create("/file", wide())->linear()->write(0, filled(kSize, 1)), IsOk());
  const View view = *other.open("/file")->linear();
  Bytes memory(kSize);
  ASSERT_THAT(view.read(0, memory), IsOk());
  ASSERT_THAT(fs.remove("/file"), IsOk());
  const auto is_removed = StatusIs(ErrorCode::kStale, HasSubstr("removed"));
  const auto fails = [&](Pending pending) {
    EXPECT_THAT(pending.wait(), is_removed);
    EXPECT_THAT(pending.wait(), is_removed) << "asked twice";
  };
  const layout::Element every_other = *layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 2});
  const auto half = static_cast<Offset>(kSize / 2);
  fails(view.start_read(0, memory));
  fails(view.start_write(0, memory));
  fails(view.start_read(0, half, Memory{memory.data(), every_other}));
  fails(view.start_write(0, half, ConstMemory{memory.data(), every_other}));
  Pending tested = view.start_read(0, memory);
  while (!tested.test()) std::this_thread::yield();
  EXPECT_THAT(tested.wait(), is_removed);
  static_cast<void>(view.start_read(0, memory));  // nobody waits
  EXPECT_THAT(view.read(0, memory), is_removed);
  EXPECT_THAT(view.write(0, memory), is_removed);
}

TEST_P(RelayoutTest, AnEmptyFileThatGetsAnotherLayoutIsFollowed) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const FileSystem writer = cluster.connect();
  ASSERT_THAT(fs.create("/file", wide()), IsOk());
  const View view = *writer.open("/file")->linear();
  ASSERT_THAT(fs.set_layout("/file", narrow()), IsOk());
  EXPECT_THAT(view.write(0, filled(kSize, 1)), IsOk());
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 1));
}

// A client that ends between its last two steps: nobody knows whether the new layout is the file's by now, so nothing
// is written to the old one until somebody has looked.
TEST_P(RelayoutTest, OneThatStoppedBeforeItsLastStepIsRepaired) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const File file = *fs.create("/file", narrow(), {.targets = {0, 1}});
  ASSERT_THAT(file.linear()->write(0, filled(kSize, 1)), IsOk());
  ConnectOptions hasty;
  hasty.direct = GetParam().direct;
  hasty.timeout = std::chrono::milliseconds(1000);
  const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), hasty);
  const View view = *FileSystem(session).open("/file")->linear();

  wire::LookupT lookup;
  lookup.path = "/file";
  const auto before = session->call<wire::AttributesT>(0, std::move(lookup));
  ASSERT_THAT(before, IsOk());
  wire::BeginRelayoutT begin;
  begin.path = "/file";
  begin.layout = wire::to_bytes(wide());
  const auto after = session->call<wire::AttributesT>(0, std::move(begin));
  ASSERT_THAT(after, IsOk());
  for (const auto action : {wire::FenceAction::Raise, wire::FenceAction::Confirm}) {
    for (std::uint32_t element = 0; element < 2; ++element) {
      wire::FenceT fence;
      fence.action = action;
      fence.subfile = std::make_unique<wire::Subfile>(before->data, element);
      fence.token = after->data;
      ASSERT_THAT(session->call<wire::DoneT>(before->targets[element], std::move(fence)), IsOk());
    }
  }
  EXPECT_THAT(view.write(0, filled(kSize, 2)),
              StatusIs(ErrorCode::kUnavailable, HasSubstr("layout change still in progress")));
  const auto report = fs.check({.repair = true, .progress = {}});
  ASSERT_THAT(report, IsOk());
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_TRUE(report->findings.front().kind == Finding::Kind::kRelayout && report->findings.front().is_repaired);
  EXPECT_THAT(view.write(0, filled(kSize, 2)), IsOk());
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 2));
}

// The fence of a server fell while bytes were copied, and somebody wrote: that must not be lost.
TEST_P(RelayoutTest, OneWhoseFencesFellIsNotDone) {
  if (std::string(GetParam().store) != "disk") GTEST_SKIP() << "memory does not outlive a restart";
  Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const FileSystem writer = cluster.connect();
  ASSERT_THAT(fs.create("/file", narrow(), {.targets = {1, 2}})->linear()->write(0, filled(kSize, 1)), IsOk());
  ASSERT_THAT(fs.open("/file")->sync(), IsOk());
  RelayoutOptions relayout;
  int calls = 0;
  relayout.progress = [&](Offset done, Offset all) {
    if (done < all || ++calls > 1) return;
    for (const int server : {1, 2}) {
      cluster.stop(server);
      cluster.start(server);
    }
    EXPECT_THAT(writer.open("/file")->linear()->write(0, filled(kSize, 2)), IsOk());
  };
  EXPECT_THAT(fs.relayout("/file", wide(), relayout), StatusIs(ErrorCode::kStale, HasSubstr("may have been written")));
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 2));
  EXPECT_EQ(fs.open("/file")->layout().element_count(), 2);
}

// ---------------------------------------------------------------- servers move the bytes

TEST_P(RelayoutTest, BytesDoNotPassTheClient) {
  const Cluster cluster(options());
  CountingNetwork network;
  ConnectOptions counted;
  counted.direct = false;
  counted.network = &network;
  const FileSystem fs(*internal::Session::connect(cluster.addresses(), cluster.key(), counted));
  Bytes bytes(kSize);
  for (std::size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 4096);
  ASSERT_THAT(fs.create("/file", wide())->linear()->write(0, bytes), IsOk());
  ASSERT_EQ(network.take().body_bytes, kSize) << "counts";
  ASSERT_THAT(fs.relayout("/file", narrow()), IsOk());
  // Short pieces, in another order: by registered views.
  ASSERT_THAT(fs.relayout("/file", parsed_layout("hpf(shape=[2048,256], elem=8, dist=(*,BLOCK), grid=[1,3], order=F)")),
              IsOk());
  ASSERT_THAT(fs.relayout("/file", parsed_layout("tiles(shape=[2048,256], elem=8, tile=[100,30], over=5)")), IsOk());
  EXPECT_EQ(network.take().body_bytes, 0u);
  EXPECT_TRUE(contents(fs, "/file") == bytes);
}

TEST_P(RelayoutTest, HolesStayHoles) {
  const Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  const auto end = static_cast<Offset>(16 * kSize);
  ASSERT_THAT(fs.create("/file", wide())->linear()->write(end, filled(1, 1)), IsOk());
  ASSERT_THAT(fs.relayout("/file", narrow()), IsOk());
  const Result<Stat> stat = fs.stat("/file");
  ASSERT_THAT(stat, IsOk());
  EXPECT_EQ(stat->size, end + 1);
  Offset stored = 0;
  for (const Stat::Subfile& subfile : stat->subfiles) stored += subfile.stored_bytes;
  EXPECT_LE(stored, end / 4);
}

/// The first time that progress is told, but before all is done.
struct Midway {
  explicit Midway(std::function<void()> what) : run(std::move(what)) {
    options.progress = [this](Offset done, Offset all) {
      if (has_run || done >= all) return;
      has_run = true;
      run();
    };
  }
  std::function<void()> run;
  RelayoutOptions options;
  bool has_run = false;
};

constexpr std::size_t kLongSize = 10 * kSize;  // more than is pulled at a time

TEST_P(RelayoutTest, OneWhosePullingServerDiesIsNotDone) {
  Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.create("/file", narrow(), {.targets = {0, 1}})->linear()->write(0, filled(kLongSize, 1)), IsOk());
  Midway midway([&] { cluster.stop(2); });
  midway.options.targets = {2, 0};
  const Status status = fs.relayout("/file", parsed_layout("stripe(unit=64K, over=2)"), midway.options);
  EXPECT_TRUE(midway.has_run);
  EXPECT_THAT(status, StatusIs(ErrorCode::kUnavailable, HasSubstr("server 2")));
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 1));
  EXPECT_THAT(fs.open("/file")->linear()->write(0, filled(kLongSize, 2)), IsOk()) << "writers go on";
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 2));
  // What it had pulled goes when it is back; with a store in memory it is gone already.
  cluster.start(2);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (fs.check()->pending_removals > 0) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  EXPECT_EQ(fs.usage()->at(2).subfiles, 0);
  EXPECT_TRUE(fs.check()->findings.empty());
}

TEST_P(RelayoutTest, OneOfWhoseOldServersDiesIsNotDone) {
  Cluster cluster(options());
  const FileSystem fs = cluster.connect();
  ASSERT_THAT(fs.create("/file", narrow(), {.targets = {1, 2}})->linear()->write(0, filled(kLongSize, 1)), IsOk());
  ASSERT_THAT(fs.open("/file")->sync(), IsOk());
  Midway midway([&] { cluster.stop(1); });
  midway.options.targets = {0, 2};
  const Status status = fs.relayout("/file", parsed_layout("stripe(unit=64K, over=2)"), midway.options);
  EXPECT_TRUE(midway.has_run);
  EXPECT_THAT(status, StatusIs(ErrorCode::kUnavailable, HasSubstr("server 1")));
  EXPECT_EQ(layout::print(fs.open("/file")->layout()), layout::print(narrow()));
  cluster.start(1);
  if (std::string(GetParam().store) != "disk") return;  // memory does not outlive a restart
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 1));
  EXPECT_THAT(fs.open("/file")->linear()->write(0, filled(kSize, 2)), IsOk());
}

/// Begins a relayout of /file, of two subfiles, and goes as far as to confirm its fences.
class Confirmed {
 public:
  explicit Confirmed(const Cluster& cluster)
      : session_(*internal::Session::connect(cluster.addresses(), cluster.key(), {})) {
    wire::LookupT lookup;
    lookup.path = "/file";
    before = *session_->call<wire::AttributesT>(0, std::move(lookup));
    wire::BeginRelayoutT begin;
    begin.path = "/file";
    begin.layout = wire::to_bytes(wide());
    after = *session_->call<wire::AttributesT>(0, std::move(begin));
    for (const auto action : {wire::FenceAction::Raise, wire::FenceAction::Confirm}) fence(action);
  }
  void fence(wire::FenceAction action) {
    for (std::uint32_t element = 0; element < 2; ++element) {
      wire::FenceT table;
      table.action = action;
      table.subfile = std::make_unique<wire::Subfile>(before.data, element);
      table.token = after.data;
      EXPECT_THAT(session_->call<wire::DoneT>(before.targets[element], std::move(table)), IsOk());
    }
  }
  Status end(bool commit) {
    wire::EndRelayoutT table;
    table.file = before.file;
    table.data = after.data;
    table.commit = commit;
    return session_->call<wire::AttributesT>(0, std::move(table)).status();
  }

  wire::AttributesT before;
  wire::AttributesT after;

 private:
  std::shared_ptr<internal::Session> session_;
};

/// Writes a byte to a subfile of a file as it was.
Status write_old(internal::Session& session, const wire::AttributesT& file, std::uint32_t element) {
  wire::WritePiecesT write;
  write.subfile = std::make_unique<wire::Subfile>(file.data, element);
  write.pieces.emplace_back(0, 1);
  const std::byte byte{9};
  internal::Outgoing call{file.targets[element], wire::encode_request(std::move(write), 10'000), {&byte, 1}, {}, {}};
  return session.run_all({&call, 1});
}

class AbandonedTest : public RelayoutTest {
 protected:
  AbandonedTest() : cluster(soon()), fs(cluster.connect()) {
    EXPECT_THAT(fs.create("/file", narrow(), {.targets = {0, 1}})->linear()->write(0, filled(kSize, 1)), IsOk());
    EXPECT_THAT(fs.open("/file")->sync(), IsOk());
  }
  static ClusterOptions soon() {
    ClusterOptions soon = options();
    soon.fence_grace = std::chrono::milliseconds(0);
    return soon;
  }

  Cluster cluster;
  const FileSystem fs;
};

TEST_P(AbandonedTest, TheNextWriterCancelsARelayoutThatLostItsClient) {
  const View view = *fs.open("/file")->linear();
  { const Confirmed gone(cluster); }
  EXPECT_THAT(view.write(0, filled(kSize, 2)), IsOk());
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 2));
  const auto report = fs.check();
  ASSERT_THAT(report, IsOk());
  EXPECT_TRUE(report->findings.empty());
  EXPECT_THAT(fs.relayout("/file", wide()), IsOk());
}

TEST_P(AbandonedTest, WritersLeaveARelayoutAloneWhoseClientIsThere) {
  ConnectOptions hasty;
  hasty.direct = GetParam().direct;
  hasty.timeout = std::chrono::milliseconds(400);  // longer than the first look at fences
  const FileSystem writer(*internal::Session::connect(cluster.addresses(), cluster.key(), hasty));
  Confirmed live(cluster);
  EXPECT_THAT(writer.open("/file")->linear()->write(0, filled(kSize, 2)), StatusIs(ErrorCode::kUnavailable));
  EXPECT_THAT(live.end(true), IsOk()) << "was not cancelled";
}

// Its client could not tell every server that it was cancelled; or one was down when it did.
TEST_P(AbandonedTest, FencesThatWereLeftUpAreFoundAndLowered) {
  {
    Confirmed left(cluster);
    ASSERT_THAT(left.end(false), IsOk());
    left.fence(wire::FenceAction::Leave);
  }
  const auto found = fs.check();
  ASSERT_THAT(found, IsOk());
  ASSERT_EQ(found->findings.size(), 2u);
  for (const Finding& finding : found->findings) {
    EXPECT_TRUE(finding.kind == Finding::Kind::kRelayout && !finding.is_repaired);
    EXPECT_THAT(finding.what, HasSubstr("/file: server "));
  }
  const auto repaired = fs.check({.repair = true, .progress = {}});
  ASSERT_THAT(repaired, IsOk());
  for (const Finding& finding : repaired->findings) EXPECT_TRUE(finding.is_repaired) << finding.what;
  EXPECT_TRUE(fs.check()->findings.empty());
  EXPECT_THAT(fs.open("/file")->linear()->write(0, filled(kSize, 2)), IsOk());
}

TEST_P(AbandonedTest, TheNextWriterLowersFencesThatWereLeftUp) {
  {
    Confirmed left(cluster);
    ASSERT_THAT(left.end(false), IsOk());
  }
  EXPECT_THAT(fs.open("/file")->linear()->write(0, filled(kSize, 2)), IsOk());
  EXPECT_TRUE(fs.check()->findings.empty());
}

// One that was committed is not undone, and its old subfiles are not opened for those who have not noticed.
TEST_P(AbandonedTest, ACommittedRelayoutStays) {
  const View view = *fs.open("/file")->linear();
  wire::AttributesT before;
  {
    Confirmed done(cluster);
    before = done.before;
    ASSERT_THAT(done.end(true), IsOk());
  }
  EXPECT_THAT(view.write(0, filled(kSize, 2)), IsOk());
  EXPECT_EQ(fs.open("/file")->layout().element_count(), 3);
  EXPECT_TRUE(contents(fs, "/file") == filled(kSize, 2));
  const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
  EXPECT_THAT(write_old(*session, before, 0), StatusIs(ErrorCode::kStale));
}

// The same for a writer that looked up the file before the commit, and looks at its fences after it.
TEST_P(AbandonedTest, OldSubfilesOfACommittedRelayoutAreNeverWritten) {
  const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
  const auto before = *internal::look_up(*session, "/file");
  const auto old_file = *internal::Incarnation::create(*session, "/file", before);
  {
    Confirmed done(cluster);
    ASSERT_THAT(done.end(true), IsOk());
  }
  for (std::uint32_t element = 0; element < 2; ++element) {
    EXPECT_THAT(write_old(*session, before, element), StatusIs(ErrorCode::kStale)) << element;
  }
  EXPECT_THAT(internal::end_abandoned_relayouts(*session, *old_file), IsOk());
  for (std::uint32_t element = 0; element < 2; ++element) {
    EXPECT_THAT(write_old(*session, before, element), StatusIs(ErrorCode::kStale)) << element;
  }
  EXPECT_EQ(fs.open("/file")->layout().element_count(), 3);
}

// A server was down at the commit, and comes back with its old subfile: that is fenced until server 0 has removed it.
TEST_P(AbandonedTest, OldSubfilesOnAServerThatWasDownGoWhenItIsBack) {
  if (std::string(GetParam().store) != "disk") GTEST_SKIP() << "memory does not outlive a restart";
  const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
  wire::AttributesT before;
  {
    Confirmed done(cluster);
    before = done.before;
    cluster.stop(1);
    ASSERT_THAT(done.end(true), IsOk()) << "the client does not wait for a server that is down";
  }
  cluster.start(1);
  EXPECT_THAT(write_old(*session, before, 1), StatusIs(ErrorCode::kStale)) << "fenced, or gone";
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (fs.check()->pending_removals > 0) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  EXPECT_THAT(write_old(*session, before, 1), StatusIs(ErrorCode::kStale));
  EXPECT_TRUE(fs.check()->findings.empty());
}

TEST_P(AbandonedTest, FencesOfRemovedFilesAreDropped) {
  ASSERT_THAT(fs.create("/empty", narrow(), {.targets = {0, 1}}), IsOk());
  ASSERT_THAT(fs.rename("/empty", "/file"), IsOk()) << "in the place of the one with bytes";
  {
    const Confirmed gone(cluster);
    const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
    wire::RemoveT remove;
    remove.path = "/file";
    ASSERT_THAT(session->call<wire::AttributesT>(0, std::move(remove)), IsOk());
    for (std::uint32_t server = 0; server < 3; ++server) {
      const auto listed = session->call<wire::SubfilesT>(server, wire::ListSubfilesT{});
      ASSERT_THAT(listed, IsOk());
      EXPECT_TRUE(listed->fences.empty() && listed->subfiles.empty()) << server;
    }
  }
  EXPECT_TRUE(fs.check()->findings.empty());
}

INSTANTIATE_TEST_SUITE_P(Ways, AbandonedTest,
                         ::testing::Values(RelayoutCase{"MemoryDirect", "memory", true},
                                           RelayoutCase{"Disk", "disk", true}),
                         [](const auto& each) { return std::string(each.param.name); });

INSTANTIATE_TEST_SUITE_P(Ways, RelayoutTest,
                         ::testing::Values(RelayoutCase{"MemoryDirect", "memory", true},
                                           RelayoutCase{"Memory", "memory", false}, RelayoutCase{"Disk", "disk", true}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace weir::client
