// Clients that write, read, sync, rename, remove and change layouts, while links are cut, servers lose power and clients
// die.  What they were told is kept by an oracle; in the end, a fresh client finds every file as the oracle allows it.
//
// A failure prints its seed; seeds that found a bug stay in kKeptSeeds.

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/log/log.h>
#include <weir/simulation/testing/oracle.h>
#include <weir/simulation/testing/seeds.h>
#include <weir/simulation/testing/world.h>

namespace weir::simulation {
namespace {

using std::chrono::milliseconds;
using weir::testing::IsOk;

constexpr Offset kFileBytes = 3000;
constexpr int kClients = 2;
constexpr int kFiles = 2;
constexpr Duration kMostTime = std::chrono::minutes(30);
// Room for both files on each disk, but not for a second copy of each, which a relayout makes.
constexpr Offset kSmallDiskBytes = 8192;
const char* const kRelayer = "relayer";
const char* const kFiller = "filler";

layout::Partition parsed(const std::string& text) {
  auto partition = layout::parse(text);
  EXPECT_THAT(partition, IsOk()) << text;
  return *partition;
}

/// What may go wrong in a scenario.
struct Scenario {
  const char* name;
  bool cuts = false;
  bool crashes = false;
  bool restarts = false;
  bool deaths = false;
  bool relayouts = false;  ///< Clients change layouts now and then.
  bool renames = false;
  bool faults = false;
  bool relayer = false;  ///< A process does nothing but change layouts, while the clients write.
  bool full = false;     ///< Disks are small, and a process fills them again and again.
};

constexpr std::array<Scenario, 13> kScenarios{{
    {.name = "calm", .relayouts = true, .renames = true},
    {.name = "cuts", .cuts = true},
    {.name = "crashes", .crashes = true},
    {.name = "restarts", .restarts = true, .relayouts = true},
    {.name = "relayouts under cuts", .cuts = true, .relayouts = true},
    {.name = "client deaths", .deaths = true, .relayouts = true},
    {.name = "names", .cuts = true, .crashes = true, .deaths = true, .renames = true},
    {.name = "disk faults", .restarts = true, .relayouts = true, .faults = true},
    {.name = "relayout under writes", .relayer = true},
    {.name = "disturbed relayout under writes", .cuts = true, .restarts = true, .deaths = true, .relayer = true},
    {.name = "full disks", .relayouts = true, .full = true},
    {.name = "full disks and crashes", .crashes = true, .restarts = true, .relayer = true, .full = true},
    {.name = "everything",
     .cuts = true,
     .crashes = true,
     .restarts = true,
     .deaths = true,
     .relayouts = true,
     .renames = true,
     .faults = true},
}};

/// How often runs came to what their scenario is about.
struct Reached {
  int writes_during_relayouts = 0;
  int writes_without_room = 0;
};

/// One run of a scenario.
class ScenarioRun {
 public:
  ScenarioRun(std::uint64_t seed, const Scenario& scenario, Reached& reached)
      : scenario_(scenario),
        world_(seed, {.disks_fail = scenario.faults,
                      .disk_bytes = scenario.full ? kSmallDiskBytes : storage::VolatileDisk::kUnlimited}),
        reached_(reached),
        owned_(kClients) {
    for (int i = 0; i < kFiles; ++i) oracles_.emplace_back(kFileBytes);
    unit_ = static_cast<Offset>(random(700) + 1);
    for (Offset at = 0; at < kFileBytes; ++at) owned_[owner_of(at)].push_back(at);
    world_.simulation().keep_trace(1000);
  }

  /// Empty if all went well.
  std::string run() {
    world_.simulation().spawn("main", [this] { main(); });
    if (const Status status = world_.simulation().run(kMostTime); !status.is_ok()) fail(status.message());
    return problems_;
  }
  [[nodiscard]] std::uint64_t trace_hash() { return world_.simulation().trace_hash(); }
  [[nodiscard]] std::string trace() { return world_.simulation().trace(); }

 private:
  // ---- small helpers

  std::uint64_t random(std::uint64_t below) { return world_.simulation().random(below); }
  bool one_in(std::uint64_t in) { return world_.simulation().one_in(in); }
  void sleep(Duration time) { world_.simulation().runtime().executor->sleep_until(world_.simulation().now() + time); }
  void note(int client, std::string_view what) { world_.simulation().note(concat(client_name(client), " ", what)); }
  void fail(const std::string& why) {
    world_.simulation().note(concat("WRONG: ", why));
    if (problems_.size() < 2000) problems_ += concat(why, "\n");
  }
  [[nodiscard]] std::size_t owner_of(Offset at) const { return static_cast<std::size_t>(at / unit_ % kClients); }
  [[nodiscard]] layout::Partition views() const {
    return parsed(concat("stripe(unit=", unit_, ", over=", kClients, ")"));
  }
  static std::string file_name(int file) { return concat("/file-", file); }
  static std::string client_name(int client) { return concat("client-", client); }

  layout::Partition random_layout() {
    switch (random(4)) {
      case 0: return parsed(concat("stripe(unit=", random(300) + 1, ", over=", random(3) + 1, ")"));
      case 1: return parsed("hpf(shape=[60,50], elem=1, dist=(*,BLOCK), grid=[1,3])");
      case 2: return parsed("tiles(shape=[60,50], elem=1, tile=[7,9], over=3)");
      default: return parsed("hpf(shape=[50,60], elem=1, dist=(CYCLIC(3),BLOCK), grid=[1,2])");
    }
  }

  /// Errors that a client may get while others cut, crash, fill disks and relay out.
  [[nodiscard]] bool is_expected(const Status& status) const {
    switch (status.code()) {
      case ErrorCode::kNoSpace: return scenario_.full || scenario_.faults;
      case ErrorCode::kUnavailable:
      case ErrorCode::kTimedOut:
      case ErrorCode::kStale:
      case ErrorCode::kIoError: return !is_calm();
      default: return false;
    }
  }
  void expect(const Status& status, const std::string& what) {
    if (status.is_ok()) return;
    world_.simulation().note(concat(what, ": ", status.message()));
    if (!is_expected(status)) fail(concat(what, ": ", status.message()));
  }
  [[nodiscard]] bool is_calm() const {
    return !scenario_.cuts && !scenario_.crashes && !scenario_.restarts && !scenario_.deaths && !scenario_.faults;
  }

  // ---- the fibers

  void main() {
    if (const Status status = world_.start_all(); !status.is_ok()) return fail(status.message());
    {
      const auto fs = world_.connect("maker");
      if (!fs.is_ok()) return fail(fs.status().message());
      for (int i = 0; i < kFiles; ++i) {
        const auto file = fs->create(file_name(i), random_layout());
        if (!file.is_ok()) return fail(file.status().message());
        expect(file->sync(), "sync of a new file");
      }
    }
    running_ = kClients;
    for (int i = 0; i < kClients; ++i) world_.simulation().spawn(client_name(i), [this, i] { client(i); });
    if (scenario_.relayer) spawn_helper([this] { relayer(); });
    if (scenario_.full) spawn_helper([this] { filler(); });
    disturb();
    settle();
    verify();
    world_.stop_all();
  }

  void disturb() {
    while (running_ > 0) {
      sleep(world_.simulation().random_between(milliseconds(1), milliseconds(60)));
      if (is_calm()) continue;
      const int server = static_cast<int>(random(static_cast<std::uint64_t>(world_.server_count())));
      switch (random(4)) {
        case 0:
          if (scenario_.cuts) cut();
          break;
        case 1:
          if (scenario_.crashes && world_.is_up(server)) {
            ++crashes_;
            for (Oracle& oracle : oracles_) oracle.crash();
            for (auto& [name, state] : names_) state = state == Name::kMade ? Name::kUnknown : state;
            world_.crash(server);
            sleep(world_.simulation().random_between({}, milliseconds(500)));
            start(server);
          }
          break;
        case 2:
          if (scenario_.restarts && world_.is_up(server)) {
            world_.simulation().note(concat("stop ", World::name_of(server)));
            world_.stop(server);
            world_.simulation().note(concat("stopped ", World::name_of(server)));
            sleep(world_.simulation().random_between({}, milliseconds(300)));
            start(server);
          }
          break;
        default:
          if (scenario_.relayer && scenario_.deaths && one_in(2)) {
            world_.network().kill_at(kRelayer, random(40));
          } else if (scenario_.deaths && one_in(3)) {
            world_.network().kill_at(client_name(static_cast<int>(random(kClients))), random(40));
          }
          break;
      }
    }
  }

  void start(int server) {
    if (const Status status = world_.start(server); !status.is_ok()) fail(status.message());
  }

  void cut() {
    std::vector<std::string> everybody;
    for (int i = 0; i < world_.server_count(); ++i) everybody.push_back(World::name_of(i));
    for (int i = 0; i < kClients; ++i) everybody.push_back(client_name(i));
    const std::string one = everybody[random(everybody.size())];
    const std::string other = everybody[random(everybody.size())];
    if (one == other) return;
    world_.network().cut(one, other);
    sleep(world_.simulation().random_between({}, one_in(4) ? milliseconds(6000) : milliseconds(50)));
    world_.network().heal(one, other);
  }

  // Everything works again, and what was abandoned has been given up.
  void settle() {
    world_.network().heal_all();
    world_.mend_disks();
    if (scenario_.faults) world_.stop_all();
    if (const Status status = world_.start_all(); !status.is_ok()) fail(status.message());
    while (helpers_ > 0) sleep(milliseconds(10));
    sleep(std::chrono::seconds(30));
  }

  void verify() {
    const auto fs = world_.connect("verifier");
    if (!fs.is_ok()) return fail(concat("the verifier cannot connect: ", fs.status().message()));
    for (int i = 0; i < kFiles; ++i) verify_file(*fs, i);
    for (const auto& [name, state] : names_) {
      const ErrorCode code = fs->stat(name).status().code();
      const bool is_there = code == ErrorCode::kOk;
      if (!is_there && code != ErrorCode::kNotFound) fail(concat(name, ": ", fs->stat(name).status().message()));
      if (state == Name::kThere && !is_there) fail(concat(name, " was lost"));
      if (state == Name::kGone && is_there) fail(concat(name, " came back"));
    }
    const auto report = fs->check({.repair = true, .read_data = true, .progress = {}});
    if (!report.is_ok()) return fail(concat("check: ", report.status().message()));
    for (const client::Finding& finding : report->findings) {
      const bool is_left_over =
          finding.kind == client::Finding::Kind::kOrphan || finding.kind == client::Finding::Kind::kRelayout;
      if (is_calm() || !is_left_over) fail(concat("check found: ", finding.what));
    }
    if (scenario_.full && is_calm()) verify_room(*fs);
  }

  // Nothing keeps room that it does not need: the files can be written as a whole, and without files disks are empty.
  void verify_room(const client::FileSystem& fs) {
    const std::vector<std::byte> bytes(kFileBytes, std::byte{1});
    for (int i = 0; i < kFiles; ++i) {
      const auto file = fs.open(file_name(i));
      if (!file.is_ok()) return fail(file.status().message());
      const auto view = file->linear();
      if (!view.is_ok()) return fail(view.status().message());
      if (const Status status = view->write(0, bytes); !status.is_ok()) fail(concat("in the end: ", status.message()));
    }
    for (int i = 0; i < kFiles; ++i) {
      if (const Status status = fs.remove(file_name(i)); !status.is_ok()) fail(status.message());
    }
    sleep(std::chrono::seconds(30));
    const auto usage = fs.usage();
    if (!usage.is_ok()) return fail(usage.status().message());
    for (const client::TargetUsage& target : *usage) {
      if (target.used_bytes == 0 && target.subfiles == 0) continue;
      fail(concat("without files, target ", target.target, " keeps ", target.used_bytes, " bytes of ", target.subfiles,
                  " subfiles"));
    }
  }

  void verify_file(const client::FileSystem& fs, int number) {
    const auto file = fs.open(file_name(number));
    if (!file.is_ok()) return fail(concat(file_name(number), ": ", file.status().message()));
    const auto view = file->linear();
    if (!view.is_ok()) return fail(view.status().message());
    std::vector<std::byte> bytes(kFileBytes);
    if (const Status status = view->read(0, bytes); !status.is_ok()) return fail(status.message());
    for (Offset at = 0; at < kFileBytes; ++at) {
      if (const auto wrong =
              oracles_[static_cast<std::size_t>(number)].check(at, bytes[static_cast<std::size_t>(at)])) {
        return fail(concat("in the end, ", file_name(number), ": ", *wrong));
      }
    }
  }

  void client(int number) {
    int steps = 30 + static_cast<int>(random(40));
    while (steps > 0) {
      auto fs = world_.connect(client_name(number));
      if (!fs.is_ok()) {
        expect(fs.status(), "connect");
        revive(number);
        --steps;
        sleep(milliseconds(20));
        continue;
      }
      session(number, *fs, steps);
      revive(number);
    }
    --running_;
  }

  // A new process takes the place of one that was killed.
  void revive(int number) { revive(client_name(number)); }
  void revive(const std::string& process) {
    if (world_.network().is_alive(process)) return;
    sleep(milliseconds(5));
    world_.network().revive(process);
  }

  /// A process beside the clients, which ends after them.
  void spawn_helper(std::function<void()> body) {
    ++helpers_;
    world_.simulation().spawn("helper", [this, body = std::move(body)] {
      body();
      --helpers_;
    });
  }

  void relayer() {
    while (running_ > 0) {
      const auto fs = world_.connect(kRelayer);
      expect(fs.status(), "connect");
      while (fs.is_ok() && running_ > 0 && world_.network().is_alive(kRelayer)) {
        relayout(*fs, static_cast<int>(random(kFiles)));
        sleep(world_.simulation().random_between({}, milliseconds(is_calm() ? 20 : 100)));
      }
      sleep(milliseconds(5));
      revive(kRelayer);
    }
    world_.network().spare(kRelayer);
  }

  void filler() {
    while (running_ > 0) {
      const auto fs = world_.connect(kFiller);
      expect(fs.status(), "connect");
      if (fs.is_ok()) fill(*fs);
      sleep(world_.simulation().random_between({}, milliseconds(100)));
    }
    // What a crash or a timeout has left of it.
    for (;;) {
      const auto fs = world_.connect(kFiller);
      const Status status = fs.is_ok() ? fs->remove("/filler") : fs.status();
      if (status.is_ok() || status.code() == ErrorCode::kNotFound) return;
      expect(status, "the last remove");
      sleep(milliseconds(50));
    }
  }

  // Until a disk is full, and gives the room back.
  void fill(const client::FileSystem& fs) {
    const auto file = fs.create("/filler", parsed("stripe(unit=100, over=3)"));
    expect(file.status(), "create");
    if (!file.is_ok()) return;
    const auto view = file->linear();
    expect(view.status(), "view");
    if (!view.is_ok()) return;
    const std::vector<std::byte> bytes(random(2000) + 1, std::byte{0xEE});
    Status status;
    for (Offset at = 0; status.is_ok() && at < 4 * kSmallDiskBytes; at += static_cast<Offset>(bytes.size())) {
      status = view->write(at, bytes);
    }
    world_.simulation().note(concat("filled: ", status.message()));
    expect(status, "fill");
    sleep(world_.simulation().random_between({}, milliseconds(100)));
    status = fs.remove("/filler");
    if (status.code() != ErrorCode::kNotFound) expect(status, "remove of the filler");
  }

  struct OpenFile {
    client::File file;
    client::View view;
    bool is_written = false;
  };

  void session(int number, const client::FileSystem& fs, int& steps) {
    std::vector<std::optional<OpenFile>> open(kFiles);
    const layout::Element element = *views().element(static_cast<std::uint32_t>(number));
    for (; steps > 0 && world_.network().is_alive(client_name(number)); --steps) {
      const std::size_t which = random(kFiles);
      if (!open[which]) {
        const auto file = fs.open(file_name(static_cast<int>(which)));
        expect(file.status(), "open");
        if (!file.is_ok()) continue;
        const auto view = file->view(element);
        expect(view.status(), "view");
        if (view.is_ok()) open[which] = OpenFile{*file, *view};
        continue;
      }
      step(number, fs, static_cast<int>(which), open[which]);
    }
    for (std::size_t i = 0; i < open.size(); ++i) {
      if (open[i]) sync(number, static_cast<int>(i), *open[i], true);
    }
  }

  void step(int number, const client::FileSystem& fs, int file, std::optional<OpenFile>& open) {
    switch (random(12)) {
      case 0: return sync(number, file, *open, false);
      case 1:
        sync(number, file, *open, true);
        open.reset();
        return;
      case 2:
        if (scenario_.relayouts && one_in(2)) relayout(fs, file);
        return;
      case 3:
      case 4:
        if (scenario_.renames) change_names(number, fs);
        return;
      case 5:
      case 6:
      case 7: return read(number, file, *open);
      default: return write(number, file, *open);
    }
  }

  // Of several at a time, all may be refused.
  void relayout(const client::FileSystem& fs, int file) {
    const int before = ++relayouts_begun_;
    const bool is_first = ++relayouts_running_ == 1;
    const layout::Partition layout = random_layout();
    world_.simulation().note(concat("relayout of ", file_name(file), " to ", layout::print(layout)));
    const Status status = fs.relayout(file_name(file), layout);
    world_.simulation().note(concat("relayout of ", file_name(file), " ended: ", status.message()));
    --relayouts_running_;
    if (is_first && before == relayouts_begun_) return expect(status, "relayout");
  }

  struct Extent {
    Offset from;
    Offset bytes;
  };
  Extent random_extent(int number) {
    const auto all = static_cast<Offset>(owned_[static_cast<std::size_t>(number)].size());
    const auto from = static_cast<Offset>(random(static_cast<std::uint64_t>(all)));
    const Offset most = std::min(all - from, one_in(3) ? all : Offset{40});
    return {from, static_cast<Offset>(random(static_cast<std::uint64_t>(most)) + 1)};
  }

  void write(int number, int file, OpenFile& open) {
    const Extent extent = random_extent(number);
    std::vector<std::byte> bytes(static_cast<std::size_t>(extent.bytes));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random(256));
    note(number, concat("writes ", extent.bytes, " at ", extent.from, " of ", file_name(file)));
    const bool has_met_relayout = relayouts_running_ > 0;
    const int crashes_before = crashes_;
    const Status status = open.view.write(extent.from, bytes);
    if (status.is_ok() && (has_met_relayout || relayouts_running_ > 0)) ++reached_.writes_during_relayouts;
    if (status.code() == ErrorCode::kNoSpace) ++reached_.writes_without_room;
    note(number, status.is_ok() ? "has written" : "has failed to write");
    expect(status, "write");
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const Offset at = owned_[static_cast<std::size_t>(number)][static_cast<std::size_t>(extent.from) + i];
      oracles_[static_cast<std::size_t>(file)].write(at, bytes[i], status.is_ok(), crashes_ != crashes_before);
    }
    open.is_written = true;
  }

  void read(int number, int file, OpenFile& open) {
    const Extent extent = random_extent(number);
    std::vector<std::byte> bytes(static_cast<std::size_t>(extent.bytes));
    note(number, concat("reads ", extent.bytes, " at ", extent.from, " of ", file_name(file)));
    const Status status = open.view.read(extent.from, bytes);
    expect(status, "read");
    if (!status.is_ok()) return;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const Offset at = owned_[static_cast<std::size_t>(number)][static_cast<std::size_t>(extent.from) + i];
      if (const auto wrong = oracles_[static_cast<std::size_t>(file)].check(at, bytes[i])) {
        return fail(concat(client_name(number), " reads ", file_name(file), ": ", *wrong));
      }
    }
  }

  // What others wrote, or this client before it was killed, is not this session's to settle.
  void sync(int number, int file, OpenFile& open, bool is_close) {
    if (!open.is_written) return;
    note(number, concat("syncs ", file_name(file)));
    Status status = open.file.sync();
    note(number, status.is_ok() ? "has synced" : "has failed to sync");
    if (status.is_ok() && is_close) status = open.file.close();
    expect(status, "sync");
    oracles_[static_cast<std::size_t>(file)].sync(owned_[static_cast<std::size_t>(number)], status.is_ok());
  }

  // Each client has names of its own.
  void change_names(int number, const client::FileSystem& fs) {
    const std::string name = concat("/name-", number, "-", random(3));
    const std::string other = concat("/name-", number, "-", random(3));
    Name& state = names_[name];
    switch (random(3)) {
      case 0: {
        const auto file = fs.create(name, random_layout());
        expect(file.status(), "create");
        if (state == Name::kThere) return;
        state = Name::kUnknown;
        if (!file.is_ok()) return;
        state = Name::kMade;
        const Status synced = file->sync();
        expect(synced, "sync of a name");
        if (synced.is_ok() && state == Name::kMade) state = Name::kThere;
        return;
      }
      case 1: {
        const Name before = std::exchange(state, Name::kUnknown);
        const Status status = fs.remove(name);
        if (status.code() != ErrorCode::kNotFound) expect(status, "remove");
        if (status.code() == ErrorCode::kNotFound && before == Name::kThere) fail(concat(name, " is not there"));
        if (status.is_ok() || status.code() == ErrorCode::kNotFound) state = Name::kGone;
        return;
      }
      default: {
        if (name == other) return;
        Name& target = names_[other];
        const Name before = std::exchange(state, Name::kUnknown);
        const Name before_target = std::exchange(target, Name::kUnknown);
        const Status status = fs.rename(name, other);
        if (status.code() == ErrorCode::kNotFound) {
          if (before == Name::kThere) fail(concat(name, " is not there to be renamed"));
          state = Name::kGone;
          target = before_target;
          return;
        }
        expect(status, "rename");
        if (!status.is_ok()) return;
        state = Name::kGone;
        target = Name::kThere;
        return;
      }
    }
  }

  enum class Name { kGone, kMade, kThere, kUnknown };

  const Scenario& scenario_;
  World world_;
  Reached& reached_;
  Offset unit_ = 1;
  std::vector<std::vector<Offset>> owned_;  // bytes of a file, by client
  std::vector<Oracle> oracles_;             // by file
  std::map<std::string, Name> names_;
  int running_ = 0;
  int relayouts_begun_ = 0;
  int relayouts_running_ = 0;
  int helpers_ = 0;
  int crashes_ = 0;
  std::string problems_;
};

/// Lines of servers that lose power are no news here.
class QuietLog : public ::testing::Environment {
 public:
  void SetUp() override { log::set_level(log::Level::kOff); }
};
const ::testing::Environment* const kQuietLog = ::testing::AddGlobalTestEnvironment(new QuietLog);

class FileSystemSimulationTest : public ::testing::TestWithParam<Scenario> {};

// Of runs that failed once.
struct KeptSeed {
  std::string_view scenario;
  std::uint64_t seed;
};
constexpr KeptSeed kKeptSeeds[] = {
    {"calm", 11}, {"restarts", 132}, {"restarts", 193}, {"disk faults", 138}, {"full disks and crashes", 172}};

TEST_P(FileSystemSimulationTest, LosesNothingThatWasReportedDone) {
  const Scenario& scenario = GetParam();
  std::vector<std::uint64_t> kept;
  for (const KeptSeed& one : kKeptSeeds) {
    if (one.scenario == scenario.name) kept.push_back(one.seed);
  }
  Reached reached;
  const bool is_costly = std::string_view(scenario.name) != "everything";
  const std::vector<std::uint64_t> seeds = chosen_seeds(std::move(kept));
  run_seeds(seeds, is_costly,
            [&](std::uint64_t seed) { return std::make_unique<ScenarioRun>(seed, scenario, reached); });
  if (seeds.size() < 8) return;
  if (scenario.relayer) {
    EXPECT_GT(reached.writes_during_relayouts, 0);
  }
  if (scenario.full) {
    EXPECT_GT(reached.writes_without_room, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FileSystemSimulationTest, ::testing::ValuesIn(kScenarios), [](const auto& scenario) {
  std::string name = scenario.param.name;
  std::erase(name, ' ');
  return name;
});

}  // namespace
}  // namespace weir::simulation
