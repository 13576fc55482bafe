// Callers that talk to a server without our client, and present what they like.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/base/testing/as_user.h>
#include <weir/base/testing/matchers.h>
#include <weir/base/text.h>
#include <weir/runtime/testing/set_clock.h>
#include <weir/server/internal/access.h>
#include <weir/server/internal/peer_testing.h>
#include <weir/server/internal/testing.h>
#include <weir/server/server.h>
#include <weir/share/handover.h>
#include <weir/share/shared_memory.h>

namespace weir::server::internal {
namespace {

using ::testing::AllOf;
using testing::AsUser;
using ::testing::HasSubstr;
using testing::IsOk;
using testing::StatusIs;

constexpr unsigned kMia = 71001;
constexpr unsigned kTom = 71002;

/// A user at a connection of its own.
class UserAtServer {
 public:
  UserAtServer(unsigned id, const Options& options) : id_(id) {
    const AsUser user(id);
    peer_ = std::make_unique<Peer>(options.address, options.key);
    (void)peer_->call(wire::MembershipT{});  // connects
  }
  template <typename Table>
  Answer call(Table table, std::span<const std::byte> body = {}, std::span<std::byte> sink = {}) {
    const AsUser user(id_);
    return peer_->call(std::move(table), body, sink);
  }
  Status present(std::vector<std::uint8_t> capability) {
    wire::PresentT table;
    table.capability = std::move(capability);
    return call(std::move(table)).status;
  }
  Result<wire::AttributesT> attributes(Answer answer) {
    WEIR_RETURN_IF_ERROR(std::move(answer.status));
    return *answer.head.answer.AsAttributes();
  }
  template <typename Table>
  Result<wire::AttributesT> ask(Table table) {
    return attributes(call(std::move(table)));
  }
  Result<wire::AttributesT> lookup(const std::string& path, std::uint32_t access = 0) {
    wire::LookupT table;
    table.path = path;
    table.access = static_cast<std::uint8_t>(access);
    return ask(std::move(table));
  }
  Result<wire::AttributesT> lookup_open(const wire::AttributesT& file, std::vector<std::uint8_t> capability) {
    wire::LookupT table;
    table.file = file.file;
    table.capability = std::move(capability);
    return ask(std::move(table));
  }

 private:
  unsigned id_;
  std::unique_ptr<Peer> peer_;
};

struct AccessTest : ::testing::Test {
  void SetUp() override {
    if (!testing::can_act_as_others()) GTEST_SKIP() << "only root can act as other users";
    static int number = 0;
    options.address = {concat("local:access-test-", ::getpid(), "-", ++number)};
    options.key = net::Key::random();
    options.capacity_bytes = Offset{64} << 20;
    options.runtime.clock = &clock;
    auto started = Server::start(options);
    ASSERT_THAT(started, IsOk());
    server = std::move(*started);
    key = std::make_unique<CapabilityKey>(*CapabilityKey::derive(options.key));
    UserAtServer root(0, options);
    wire::SetAttributesT all;
    all.path = "/";
    all.set_mode = true;
    all.mode = 0777;
    ASSERT_THAT(root.call(std::move(all)).status, IsOk());
  }
  [[nodiscard]] Capability capability(std::uint64_t data, std::uint32_t rights, std::uint32_t uid = kTom) const {
    return {.rights = static_cast<std::uint8_t>(rights),
            .uid = uid,
            .file = data,
            .data = data,
            .source = 0,
            .expires_ns = clock.wall_ns() + 1};
  }

  testing::SetClock clock;
  Options options;
  std::unique_ptr<Server> server;
  std::unique_ptr<CapabilityKey> key;
};

constexpr std::uint64_t kData = 900'001;
constexpr std::uint64_t kOther = 900'002;

template <typename Table>
Table on_subfile() {
  Table table;
  table.subfile = subfile(kData);
  return table;
}

wire::RegisterViewT whole_view() {
  auto table = on_subfile<wire::RegisterViewT>();
  table.view = 1;
  const auto all = layout::Element::create({{0, 0, 0, 1, {}}}, {.disp = 0, .period = 1});
  table.bands.push_back(wire::to_band(*all, *all));
  return table;
}

std::vector<std::uint8_t> about_of_user(std::uint32_t uid) {
  wire::AboutT about;
  about.path = "/x";
  about.attributes = std::make_unique<wire::AttributesT>();
  about.attributes->file = about.attributes->data = kData;
  about.attributes->uid = uid;
  return wire::encode_about(about);
}

constexpr std::uint32_t kNobodys = 1 << 30;  // of operations that no capability allows

struct DataOperation {
  const char* name;
  std::uint32_t needs;
  std::function<Status(UserAtServer&)> run;
};

std::vector<DataOperation> data_operations() {
  static std::byte bytes[4] = {};
  static std::byte sink[4] = {};
  std::vector<DataOperation> all;
  const auto add = [&all](const char* name, std::uint32_t needs, std::function<Status(UserAtServer&)> run) {
    all.push_back({name, needs, std::move(run)});
  };
  add("RegisterView", 0, [](UserAtServer& user) { return user.call(whole_view()).status; });
  add("ReadView", kMayRead, [](UserAtServer& user) {
    wire::ReadViewT table;
    table.view = 1;
    table.range = std::make_unique<wire::Range>(0, 4);
    if (Status status = user.call(whole_view()).status; !status.is_ok()) return status;
    return user.call(std::move(table), {}, sink).status;
  });
  add("WriteView", kMayWrite, [](UserAtServer& user) {
    wire::WriteViewT table;
    table.view = 1;
    table.range = std::make_unique<wire::Range>(0, 4);
    if (Status status = user.call(whole_view()).status; !status.is_ok()) return status;
    return user.call(std::move(table), bytes).status;
  });
  add("ReadPieces", kMayRead, [](UserAtServer& user) {
    return user.call(read_pieces(kData, {{0, 4}}), {}, sink).status;
  });
  add("WritePieces", kMayWrite, [](UserAtServer& user) {
    return user.call(write_pieces(kData, {{0, 4}}), bytes).status;
  });
  add("WritePieces, without bytes", kMayWrite,
      [](UserAtServer& user) { return user.call(write_pieces(kData, {}, 100)).status; });
  add("Truncate", kMayWrite, [](UserAtServer& user) { return user.call(on_subfile<wire::TruncateT>()).status; });
  add("Reserve", kMayWrite, [](UserAtServer& user) {
    auto table = on_subfile<wire::ReserveT>();
    table.range = std::make_unique<wire::Range>(0, 4);
    return user.call(std::move(table)).status;
  });
  add("Sync", 0, [](UserAtServer& user) { return user.call(on_subfile<wire::SyncT>()).status; });
  add("Inspect", 0, [](UserAtServer& user) { return user.call(on_subfile<wire::InspectT>()).status; });
  add("Share", 0, [](UserAtServer& user) { return user.call(on_subfile<wire::ShareT>()).status; });
  add("Fence", kMayWrite, [](UserAtServer& user) {
    auto table = on_subfile<wire::FenceT>();
    table.action = wire::FenceAction::Lower;
    return user.call(std::move(table)).status;
  });
  add("Describe", kOwns, [](UserAtServer& user) {
    auto table = on_subfile<wire::DescribeT>();
    table.about = about_of_user(kTom);
    return user.call(std::move(table)).status;
  });
  add("Describe, as another's", kNobodys, [](UserAtServer& user) {
    auto table = on_subfile<wire::DescribeT>();
    table.about = about_of_user(kMia);
    return user.call(std::move(table)).status;
  });
  add("Pull", kNobodys, [](UserAtServer& user) {  // from what the capability does not say
    wire::PullT table;
    table.to = std::make_unique<wire::AttributesT>();
    table.from = std::make_unique<wire::AttributesT>();
    table.to->data = kData;
    table.from->data = kOther;
    table.range = std::make_unique<wire::Range>(0, 4);
    return user.call(std::move(table)).status;
  });
  add("RemoveSubfile", kNobodys,
      [](UserAtServer& user) { return user.call(on_subfile<wire::RemoveSubfileT>()).status; });
  add("ListSubfiles", kNobodys, [](UserAtServer& user) { return user.call(wire::ListSubfilesT{}).status; });
  add("AllFiles", kNobodys, [](UserAtServer& user) { return user.call(wire::AllFilesT{}).status; });
  add("PendingRemovals", kNobodys, [](UserAtServer& user) { return user.call(wire::PendingRemovalsT{}).status; });
  add("Adopt", kNobodys, [](UserAtServer& user) {
    wire::AdoptT table;
    table.path = "/adopted";
    table.attributes = std::make_unique<wire::AttributesT>();
    return user.call(std::move(table)).status;
  });
  return all;
}

TEST_F(AccessTest, EachOperationNeedsItsRight) {
  for (const DataOperation& operation : data_operations()) {
    SCOPED_TRACE(operation.name);
    for (std::uint32_t rights = 0; rights < 16; ++rights) {
      if ((rights & 1) != 0) continue;
      SCOPED_TRACE(concat("rights ", rights));
      UserAtServer user(kTom, options);
      ASSERT_THAT(user.present(key->seal(capability(kData, rights))), IsOk());
      const bool may = (operation.needs & ~rights) == 0;
      EXPECT_EQ(operation.run(user).code(), may ? ErrorCode::kOk : ErrorCode::kPermission);
    }
  }
}

TEST_F(AccessTest, CountsAreForTheUserOfTheServers) {
  for (const unsigned id : {kTom, 0U}) {
    SCOPED_TRACE(id);
    UserAtServer user(id, options);
    const Answer answer = user.call(wire::StatisticsT{});
    ASSERT_THAT(answer.status, IsOk());
    const wire::CountersT& counters = *answer.head.answer.AsCounters();
    EXPECT_EQ(counters.requests > 0, id == 0);
    EXPECT_EQ(counters.peers > 0, id == 0);
    EXPECT_TRUE(counters.squashes_root) << "how callers are let in is for all of them";
  }
}

TEST_F(AccessTest, NothingGoesWithoutAGoodCapability) {
  constexpr std::uint32_t kAll = kMayRead | kMayWrite | kOwns;
  for (const DataOperation& operation : data_operations()) {
    SCOPED_TRACE(operation.name);
    {
      UserAtServer user(kTom, options);
      EXPECT_THAT(operation.run(user), StatusIs(ErrorCode::kPermission)) << "none at all";
    }
    {
      UserAtServer user(kTom, options);
      EXPECT_THAT(user.present(key->seal(capability(kOther, kAll))), IsOk());
      EXPECT_THAT(operation.run(user), StatusIs(ErrorCode::kPermission)) << "another file's, or of another layout";
    }
    {
      UserAtServer user(kTom, options);
      EXPECT_THAT(user.present(key->seal(capability(kData, kAll, kMia))), StatusIs(ErrorCode::kPermission));
      EXPECT_THAT(operation.run(user), StatusIs(ErrorCode::kPermission)) << "another user's";
    }
    {
      UserAtServer user(kTom, options);
      const CapabilityKey forged = *CapabilityKey::derive(net::Key::random());
      EXPECT_THAT(user.present(forged.seal(capability(kData, kAll))), StatusIs(ErrorCode::kPermission));
      EXPECT_THAT(operation.run(user), StatusIs(ErrorCode::kPermission)) << "made with another secret";
    }
    if (operation.needs == kNobodys) continue;
    UserAtServer user(kTom, options);
    EXPECT_THAT(user.present(key->seal(capability(kData, kAll))), IsOk());
    EXPECT_THAT(operation.run(user), IsOk());
    clock.advance(std::chrono::nanoseconds(1));
    EXPECT_THAT(operation.run(user), StatusIs(ErrorCode::kStale, HasSubstr("look the file up again"))) << "expired";
    EXPECT_THAT(user.present(key->seal(capability(kData, kAll))), IsOk());
    EXPECT_THAT(operation.run(user), IsOk());
  }
}

TEST_F(AccessTest, RootNeedsNone) {
  for (const DataOperation& operation : data_operations()) {
    SCOPED_TRACE(operation.name);
    UserAtServer root(0, options);
    EXPECT_NE(operation.run(root).code(), ErrorCode::kPermission);
    if (std::string_view(operation.name) == "RemoveSubfile") break;  // what follows is about all files
  }
}

TEST_F(AccessTest, RefusalsSayWhatIsMissing) {
  UserAtServer user(kTom, options);
  EXPECT_THAT(user.call(read_pieces(kData, {{0, 4}})).status,
              StatusIs(ErrorCode::kPermission, AllOf(HasSubstr(std::to_string(kTom)), HasSubstr("read"),
                                                     HasSubstr(std::to_string(kData)), HasSubstr("open the file"))));
  ASSERT_THAT(user.present(key->seal(capability(kData, kMayRead))), IsOk());
  EXPECT_THAT(user.call(write_pieces(kData, {})).status,
              StatusIs(ErrorCode::kPermission, AllOf(HasSubstr("write"), HasSubstr(std::to_string(kData)))));
}

TEST_F(AccessTest, AFileThatIsOpenTwiceHasTheRightsOfBoth) {
  UserAtServer user(kTom, options);
  const std::vector<std::uint8_t> old = key->seal(capability(kData, kMayWrite));
  ASSERT_THAT(user.present(old), IsOk());
  ASSERT_THAT(user.present(key->seal(capability(kData, kMayRead))), IsOk());
  EXPECT_THAT(user.call(write_pieces(kData, {})).status, IsOk());
  // Those that have expired add nothing, whichever came first.
  clock.advance(std::chrono::nanoseconds(1));
  ASSERT_THAT(user.present(key->seal(capability(kData, kMayRead))), IsOk());
  EXPECT_THAT(user.call(write_pieces(kData, {})).status, StatusIs(ErrorCode::kPermission));
  ASSERT_THAT(user.present(old), IsOk());
  EXPECT_THAT(user.call(write_pieces(kData, {})).status, StatusIs(ErrorCode::kPermission));
}

TEST_F(AccessTest, WhatIsForgottenIsPresentedAgain) {
  UserAtServer user(kTom, options);
  ASSERT_THAT(user.present(key->seal(capability(kData, kMayWrite))), IsOk());
  for (std::size_t i = 0; i < AccessControl::kMostPresented - 1; ++i) {
    ASSERT_THAT(user.present(key->seal(capability(1'000'000 + i, 0))), IsOk());
  }
  EXPECT_THAT(user.call(write_pieces(kData, {})).status, IsOk());
  ASSERT_THAT(user.present(key->seal(capability(kOther, 0))), IsOk());
  EXPECT_THAT(user.call(write_pieces(kData, {})).status, StatusIs(ErrorCode::kStale));
  ASSERT_THAT(user.present(key->seal(capability(kData, kMayWrite))), IsOk());
  EXPECT_THAT(user.call(write_pieces(kData, {})).status, IsOk());
}

TEST_F(AccessTest, CapabilitiesFollowTheModeAtTheTimeOfTheLookup) {
  UserAtServer mia(kMia, options);
  UserAtServer tom(kTom, options);
  const auto made = mia.ask(create_request("/x", 0604, true, "stripe(unit=4, over=1)"));
  ASSERT_THAT(made, IsOk());
  const auto held = tom.lookup("/x");
  ASSERT_THAT(held, IsOk());
  EXPECT_EQ(held->rights, kMayRead);
  EXPECT_THAT(tom.lookup("/x", kMayWrite), StatusIs(ErrorCode::kPermission, HasSubstr("write")));
  ASSERT_THAT(tom.present(held->capability), IsOk());
  EXPECT_THAT(tom.call(read_pieces(made->data, {{0, 0}})).status, IsOk());
  EXPECT_THAT(tom.call(write_pieces(made->data, {})).status, StatusIs(ErrorCode::kPermission));

  wire::SetAttributesT set;
  set.path = "/x";
  set.set_mode = true;
  set.mode = 0600;
  ASSERT_THAT(mia.call(set).status, IsOk());
  EXPECT_THAT(tom.call(read_pieces(made->data, {{0, 0}})).status, IsOk()) << "it is still open";
  EXPECT_EQ(tom.lookup("/x")->rights, 0);
  EXPECT_THAT(tom.lookup("/x", kMayRead), StatusIs(ErrorCode::kPermission));
  UserAtServer later(kTom, options);
  ASSERT_THAT(later.present(tom.lookup("/x")->capability), IsOk());
  EXPECT_THAT(later.call(read_pieces(made->data, {{0, 0}})).status, StatusIs(ErrorCode::kPermission));

  // It expires, and is renewed without another look at the mode; but not for somebody else, or for another file.
  clock.advance(kCapabilityLifetime);
  EXPECT_THAT(tom.call(read_pieces(made->data, {{0, 0}})).status, StatusIs(ErrorCode::kStale));
  const auto renewed = tom.lookup_open(*made, held->capability);
  ASSERT_THAT(renewed, IsOk());
  EXPECT_EQ(renewed->rights, kMayRead);
  ASSERT_THAT(tom.present(renewed->capability), IsOk());
  EXPECT_THAT(tom.call(read_pieces(made->data, {{0, 0}})).status, IsOk());
  EXPECT_THAT(mia.lookup_open(*made, held->capability), StatusIs(ErrorCode::kPermission));
  EXPECT_THAT(tom.lookup_open(*made, {}), StatusIs(ErrorCode::kPermission));
  const auto other = mia.ask(create_request("/y", 0600, true, "stripe(unit=4, over=1)"));
  ASSERT_THAT(other, IsOk());
  EXPECT_THAT(tom.lookup_open(*other, held->capability), StatusIs(ErrorCode::kPermission));
}

TEST_F(AccessTest, PullsOnlyFromTheLayoutThatTheRelayoutReplaces) {
  UserAtServer mia(kMia, options);
  UserAtServer tom(kTom, options);
  const auto secret = mia.ask(create_request("/secret", 0600, true, "stripe(unit=4, over=1)"));
  const auto own = tom.ask(create_request("/own", 0600, true, "stripe(unit=4, over=1)"));
  ASSERT_THAT(secret, IsOk());
  ASSERT_THAT(own, IsOk());
  wire::BeginRelayoutT begin;
  begin.path = "/own";
  begin.layout = layout_bytes("stripe(unit=8, over=1)");
  const auto after = tom.ask(begin);
  ASSERT_THAT(after, IsOk());
  ASSERT_THAT(tom.present(after->capability), IsOk());
  const auto pull_from = [&](const wire::AttributesT& from) {
    wire::PullT pull;
    pull.to = std::make_unique<wire::AttributesT>(*after);
    pull.from = std::make_unique<wire::AttributesT>(from);
    pull.range = std::make_unique<wire::Range>(0, 4);
    return tom.call(std::move(pull)).status;
  };
  EXPECT_THAT(pull_from(*secret), StatusIs(ErrorCode::kPermission, HasSubstr("relayout")));
  EXPECT_THAT(pull_from(*own), IsOk());
}

// ---------------------------------------------------------------- mapped memory

struct SharedSubfile {
  bool is_possible = false;
  bool is_shown = false;  // descriptors of the server
  Descriptor memory;
};

SharedSubfile share_with(UserAtServer& user, unsigned id) {
  auto table = on_subfile<wire::ShareT>();
  table.for_writing = true;
  table.opens = true;
  table.expected_bytes = Offset{1} << 20;
  const Answer answer = user.call(std::move(table));
  EXPECT_THAT(answer.status, IsOk());
  const wire::HandoverT& handover = *answer.head.answer.AsHandover();
  SharedSubfile shared{handover.possible, handover.process != 0, {}};
  if (handover.token.empty()) return shared;
  const AsUser as(id);
  auto fetched = share::fetch_memory(handover.socket, handover.token,
                                     runtime::system_runtime().clock->now() + std::chrono::seconds(5));
  EXPECT_THAT(fetched, IsOk());
  if (fetched.is_ok()) shared.memory = std::move(fetched->memory);
  return shared;
}

TEST_F(AccessTest, MemoryIsReadOnlyForReaders) {
  UserAtServer user(kTom, options);
  ASSERT_THAT(user.present(key->seal(capability(kData, kMayRead))), IsOk());
  const SharedSubfile shared = share_with(user, kTom);
  ASSERT_TRUE(shared.is_possible);
  EXPECT_FALSE(shared.is_shown);
  ASSERT_TRUE(shared.memory.is_open());
  const auto bytes = static_cast<std::size_t>(share::kDataStart);
  const AsUser as(kTom);
  void* base = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, shared.memory.get(), 0);
  ASSERT_NE(base, MAP_FAILED);
  EXPECT_EQ(::mprotect(base, bytes, PROT_READ | PROT_WRITE), -1);
  ::munmap(base, bytes);
  EXPECT_EQ(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shared.memory.get(), 0), MAP_FAILED);
  EXPECT_EQ(::pwrite(shared.memory.get(), "x", 1, 0), -1);
  EXPECT_NE(::ftruncate(shared.memory.get(), 0), 0);
  const std::string path = concat("/proc/self/fd/", shared.memory.get());
  const Descriptor again(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const Descriptor to_write(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(to_write.is_open());
  EXPECT_NE(::fchmod(shared.memory.get(), 0666), 0);
}

TEST_F(AccessTest, MemoryIsForWritersAndNobodyElse) {
  {
    UserAtServer user(kTom, options);
    ASSERT_THAT(user.present(key->seal(capability(kData, kMayWrite))), IsOk());
    EXPECT_FALSE(share_with(user, kTom).is_possible) << "what can be written can be read";
  }
  UserAtServer user(kTom, options);
  ASSERT_THAT(user.present(key->seal(capability(kData, kMayRead | kMayWrite))), IsOk());
  const SharedSubfile shared = share_with(user, kTom);
  ASSERT_TRUE(shared.is_possible);
  EXPECT_FALSE(shared.is_shown) << "descriptors are shown to those only who could trace the server";
  ASSERT_TRUE(shared.memory.is_open());
  EXPECT_EQ(::fcntl(shared.memory.get(), F_GETFL) & O_ACCMODE, O_RDWR);
}

}  // namespace
}  // namespace weir::server::internal
