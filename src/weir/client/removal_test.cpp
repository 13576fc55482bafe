// Subfiles of files that were removed or replaced: server 0 removes them, whatever becomes of the client, of other
// servers, and of itself.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/session.h>
#include <weir/client/testing/cluster.h>
#include <weir/layout/language.h>
#include <weir/storage/faulty_store.h>
#include <weir/storage/memory_store.h>
#include <weir/wire/wire.h>

namespace weir::client {
namespace {

using internal::Cluster;
using internal::ClusterOptions;
using weir::testing::IsOk;
using weir::testing::StatusIs;

constexpr std::size_t kRemovedBytes = 100'000;

layout::Partition over_three() { return *layout::parse("stripe(unit=4K, over=3)"); }

Offset subfiles_of(const FileSystem& fs, std::size_t server) { return fs.usage()->at(server).subfiles; }

void expect_soon_removed(const FileSystem& fs) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (Result<CheckReport> report = fs.check(); report->pending_removals > 0; report = fs.check()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  EXPECT_TRUE(fs.check()->findings.empty());
}

class RemovalTest : public ::testing::TestWithParam<const char*> {
 protected:
  static ClusterOptions options() {
    ClusterOptions options;
    options.store = GetParam();
    return options;
  }
  void make(const std::string& path) {
    ASSERT_THAT(fs.create(path, over_three(), {.targets = {0, 1, 2}}), IsOk());
    ASSERT_THAT(fs.open(path)->linear()->write(0, std::vector<std::byte>(kRemovedBytes, std::byte{1})), IsOk());
    ASSERT_THAT(fs.open(path)->sync(), IsOk());
  }

  Cluster cluster{options()};
  const FileSystem fs = cluster.connect();
};

TEST_P(RemovalTest, SpaceIsFreeWhenARemovalReturns) {
  make("/x");
  make("/y");
  for (std::size_t server = 0; server < 3; ++server) ASSERT_EQ(subfiles_of(fs, server), 2);
  ASSERT_THAT(fs.rename("/x", "/y"), IsOk());
  for (std::size_t server = 0; server < 3; ++server) EXPECT_EQ(subfiles_of(fs, server), 1);
  ASSERT_THAT(fs.remove("/y"), IsOk());
  for (std::size_t server = 0; server < 3; ++server) EXPECT_EQ(subfiles_of(fs, server), 0);
  EXPECT_EQ(fs.check()->pending_removals, 0);
}

TEST_P(RemovalTest, AClientThatDiesLeavesNothing) {
  make("/x");
  {
    const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
    wire::RemoveT remove;
    remove.path = "/x";
    net::Call call;
    call.head = wire::encode_request(std::move(remove), 10'000);
    call.done = [](const Result<net::Reply>&) {};
    session->start({0, std::move(call)});
    // Server 0 has it: calls of a connection come in order.
    ASSERT_THAT(session->call<wire::MembersT>(0, wire::MembershipT{}), IsOk());
  }
  expect_soon_removed(fs);
  for (std::size_t server = 0; server < 3; ++server) EXPECT_EQ(subfiles_of(fs, server), 0);
}

TEST_P(RemovalTest, AServerThatIsDownIsNotWaitedForAndLosesItsSubfilesLater) {
  make("/x");
  cluster.stop(2);
  ASSERT_THAT(fs.remove("/x"), IsOk());
  EXPECT_THAT(fs.stat("/x"), StatusIs(ErrorCode::kNotFound));
  const Result<CheckReport> report = fs.check({.repair = true, .progress = {}});
  ASSERT_THAT(report, IsOk());
  EXPECT_EQ(report->pending_removals, 1);
  for (const Finding& finding : report->findings) EXPECT_EQ(finding.kind, Finding::Kind::kUnknown) << finding.what;
  cluster.start(2);
  expect_soon_removed(fs);
  EXPECT_EQ(subfiles_of(fs, 2), 0);
}

TEST_P(RemovalTest, ARestartOfServer0ForgetsNothing) {
  if (std::string(GetParam()) != "disk") GTEST_SKIP() << "memory does not outlive a restart";
  make("/x");
  make("/y");
  cluster.stop(2);
  ASSERT_THAT(fs.remove("/x"), IsOk());
  cluster.stop(0);
  cluster.start(0);
  EXPECT_EQ(fs.check()->pending_removals, 1);
  cluster.start(2);
  expect_soon_removed(fs);
  for (std::size_t server = 0; server < 3; ++server) EXPECT_EQ(subfiles_of(fs, server), 1) << "of /y";
}

TEST_P(RemovalTest, DataThatIsBeingRemovedIsNotAdopted) {
  make("/x");
  const auto session = *internal::Session::connect(cluster.addresses(), cluster.key(), {});
  wire::LookupT lookup;
  lookup.path = "/x";
  const auto file = session->call<wire::AttributesT>(0, std::move(lookup));
  ASSERT_THAT(file, IsOk());
  cluster.stop(2);
  ASSERT_THAT(fs.remove("/x"), IsOk());
  wire::AdoptT adopt;
  adopt.path = "/back";
  adopt.attributes = std::make_unique<wire::AttributesT>(*file);
  EXPECT_THAT(session->call<wire::AttributesT>(0, std::move(adopt)), StatusIs(ErrorCode::kExists));
}

INSTANTIATE_TEST_SUITE_P(Stores, RemovalTest, ::testing::Values("memory", "disk"),
                         [](const auto& each) { return std::string(each.param); });

// Every operation of stores and metadata fails once while a file is removed and another replaced; then server 0 starts
// again.  Names and bytes are there together, or gone together.
TEST(RemovalFaultTest, AFailureAtAnyStepLeavesNoOrphans) {
  using storage::FaultOptions;
  using storage::Faults;
  for (const FaultOptions::When when : {FaultOptions::When::kBefore, FaultOptions::When::kAfter}) {
    int start = -1;  // operations before the removals
    for (int step = 0;; ++step) {
      SCOPED_TRACE(step);
      ASSERT_LT(step, 200);
      const std::vector<std::shared_ptr<storage::Store>> stores{*storage::make_memory_store({}),
                                                                *storage::make_memory_store({})};
      const std::shared_ptr<storage::KeyValue> names = storage::make_memory_key_value();
      const auto faults = std::make_shared<Faults>(
          FaultOptions{.fail_at = start < 0 ? FaultOptions::kNever : start + step, .when = when});
      const auto make = [&](const std::shared_ptr<Faults>& with) {
        return [&, with](int server) {
          return Cluster::Stores{std::make_unique<storage::FaultyStore>(stores[static_cast<std::size_t>(server)], with),
                                 server == 0 ? std::make_unique<storage::FaultyKeyValue>(names, with) : nullptr};
        };
      };
      {
        const Cluster cluster({.servers = 2}, make(faults));
        const FileSystem fs = cluster.connect();
        for (const char* path : {"/a", "/b", "/c"}) {
          ASSERT_THAT(fs.create(path, *layout::parse("stripe(unit=4, over=2)"))
                          ->linear()
                          ->write(0, std::vector<std::byte>(100, std::byte{1})),
                      IsOk());
        }
        if (start < 0) {
          start = faults->count();
          step = -1;
          continue;
        }
        (void)fs.remove("/a");
        (void)fs.rename("/b", "/c");
      }
      const Cluster cluster({.servers = 2}, make(std::make_shared<Faults>(FaultOptions{})));
      const FileSystem fs = cluster.connect();
      expect_soon_removed(fs);
      const Offset files = std::ssize(*fs.list("/"));
      EXPECT_EQ(subfiles_of(fs, 0), files);
      EXPECT_EQ(subfiles_of(fs, 1), files);
      if (!faults->fired()) {
        EXPECT_EQ(files, 1);
        EXPECT_GT(step, 5);
        break;
      }
    }
  }
}

}  // namespace
}  // namespace weir::client
