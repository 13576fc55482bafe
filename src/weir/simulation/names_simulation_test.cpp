// Two clients that create, rename, remove, open and write files under the same few names, while links are cut, servers
// start again and clients die.  What they were told must fit one order of their operations, each of which takes effect at
// once, between its call and its answer; and no file ever shows bytes of another.
//
// A file is known by its layout: stripe(unit=K, over=3) is file K, and all that is ever written to it is byte K.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/layout/language.h>
#include <weir/simulation/testing/seeds.h>
#include <weir/simulation/testing/world.h>

namespace weir::simulation {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kSharedNames = 3;
constexpr std::size_t kNamedBytes = 1000;
constexpr int kRacers = 2;
constexpr Duration kMostRaceTime = std::chrono::minutes(30);
constexpr std::size_t kMostNameSteps = 60;  // of all racers: the order is searched with a word of bits
constexpr int kMostUnanswered = 5;          // of each racer: the search tries every subset of them

/// What a client did to names, and what it was told.
struct NameStep {
  enum class What { kCreate, kRename, kRemove, kOpen };
  enum class Answer { kDone, kNotFound, kExists, kNothing };
  What what = What::kOpen;
  std::size_t name = 0;
  std::size_t to = 0;  // of a rename
  int file = 0;        // that was created, or found
  Answer answer = Answer::kNothing;
  int begun = 0;
  int ended = 0;
};

using Named = std::array<int, kSharedNames>;  // the file of each name; 0: none

/// Whether a step can have been told that with these names; changes them as it does.
bool take_effect(const NameStep& step, Named& named) {
  int& here = named[step.name];
  const bool is_done = step.answer == NameStep::Answer::kDone;
  const bool knows_nothing = step.answer == NameStep::Answer::kNothing;
  switch (step.what) {
    case NameStep::What::kCreate:
      if (here != 0) return knows_nothing || step.answer == NameStep::Answer::kExists;
      here = step.file;
      return is_done || knows_nothing;
    case NameStep::What::kRename:
      if (here == 0) return knows_nothing || step.answer == NameStep::Answer::kNotFound;
      if (step.to != step.name) named[step.to] = std::exchange(here, 0);
      return is_done || knows_nothing;
    case NameStep::What::kRemove:
      if (here == 0) return knows_nothing || step.answer == NameStep::Answer::kNotFound;
      here = 0;
      return is_done || knows_nothing;
    case NameStep::What::kOpen:  // one that was told nothing explains nothing
      if (here == 0) return step.answer == NameStep::Answer::kNotFound;
      return is_done && here == step.file;
  }
  return false;
}

/// Searches an order of steps that explains what was told.  A step whose client was told nothing may have taken effect
/// at any time since it began, or never.
class OrderSearch {
 public:
  explicit OrderSearch(const std::vector<NameStep>& steps) : steps_(steps) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (steps_[i].answer != NameStep::Answer::kNothing) must_ |= bit(i);
    }
  }
  bool finds_one() { return search(0, {}); }

 private:
  static std::uint64_t bit(std::size_t step) { return std::uint64_t{1} << step; }

  bool search(std::uint64_t taken, const Named& named) {
    if ((taken & must_) == must_) return true;
    if (!seen_.emplace(taken, named).second) return false;
    int first_end = INT32_MAX;  // of those that must still come: what begins later comes after it
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if ((must_ & ~taken & bit(i)) != 0) first_end = std::min(first_end, steps_[i].ended);
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if ((taken & bit(i)) != 0 || steps_[i].begun > first_end) continue;
      Named after = named;
      if (!take_effect(steps_[i], after)) continue;
      if ((must_ & bit(i)) == 0 && after == named) continue;  // as if it never took effect
      if (search(taken | bit(i), after)) return true;
    }
    return false;
  }

  const std::vector<NameStep>& steps_;
  std::uint64_t must_ = 0;
  std::set<std::pair<std::uint64_t, Named>> seen_;
};

struct RaceScenario {
  const char* name;
  bool cuts = false;
  bool restarts = false;
  bool deaths = false;
};

class NameRace {
 public:
  NameRace(std::uint64_t seed, const RaceScenario& scenario) : scenario_(scenario), world_(seed) {
    world_.simulation().keep_trace(1000);
  }

  /// Empty if all went well.
  std::string run() {
    world_.simulation().spawn("main", [this] { main(); });
    if (const Status status = world_.simulation().run(kMostRaceTime); !status.is_ok()) fail(status.message());
    return problems_;
  }
  [[nodiscard]] std::uint64_t trace_hash() { return world_.simulation().trace_hash(); }
  [[nodiscard]] std::string trace() { return world_.simulation().trace(); }

 private:
  std::uint64_t random(std::uint64_t below) { return world_.simulation().random(below); }
  void sleep(Duration time) { world_.simulation().runtime().executor->sleep_until(world_.simulation().now() + time); }
  void fail(const std::string& why) {
    if (problems_.size() < 2000) problems_ += concat(why, "\n");
  }
  [[nodiscard]] bool is_calm() const { return !scenario_.cuts && !scenario_.restarts && !scenario_.deaths; }
  static std::string racer_name(int racer) { return concat("racer-", racer); }
  // One of them in another directory.
  static std::string path_of(std::size_t name) { return name == 0 ? "/d/shared" : concat("/shared-", name); }

  void main() {
    if (const Status status = world_.start_all(); !status.is_ok()) return fail(status.message());
    {
      const auto fs = world_.connect("maker");
      if (!fs.is_ok()) return fail(fs.status().message());
      if (const Status status = fs->make_directory("/d"); !status.is_ok()) return fail(status.message());
    }
    running_ = kRacers;
    for (int i = 0; i < kRacers; ++i) world_.simulation().spawn(racer_name(i), [this, i] { racer(i); });
    disturb();
    world_.network().heal_all();
    if (const Status status = world_.start_all(); !status.is_ok()) fail(status.message());
    sleep(std::chrono::seconds(30));
    verify();
    world_.stop_all();
  }

  void disturb() {
    while (running_ > 0) {
      sleep(world_.simulation().random_between(milliseconds(1), milliseconds(40)));
      const int server = static_cast<int>(random(static_cast<std::uint64_t>(world_.server_count())));
      const int racer = static_cast<int>(random(kRacers));
      switch (random(3)) {
        case 0:
          if (!scenario_.cuts) break;
          world_.network().cut(racer_name(racer), World::name_of(server));
          sleep(world_.simulation().random_between({}, milliseconds(random(4) == 0 ? 6000 : 50)));
          world_.network().heal(racer_name(racer), World::name_of(server));
          break;
        case 1:
          if (!scenario_.restarts) break;
          world_.stop(server);
          sleep(world_.simulation().random_between({}, milliseconds(100)));
          if (const Status status = world_.start(server); !status.is_ok()) fail(status.message());
          break;
        default:
          if (scenario_.deaths) world_.network().kill_at(racer_name(racer), random(30));
          break;
      }
    }
    for (int i = 0; i < kRacers; ++i) world_.network().spare(racer_name(i));
  }

  void racer(int number) {
    int steps = 24;
    int unanswered = 0;
    while (steps > 0) {
      const auto fs = world_.connect(racer_name(number));
      if (!fs.is_ok()) {
        if (is_calm()) fail(concat("connect: ", fs.status().message()));
        sleep(milliseconds(20));
      }
      for (; fs.is_ok() && steps > 0 && world_.network().is_alive(racer_name(number)); --steps) {
        if (step(*fs)) continue;
        if (++unanswered == kMostUnanswered) steps = 1;
        sleep(milliseconds(20));
      }
      if (!world_.network().is_alive(racer_name(number))) {
        sleep(milliseconds(5));
        world_.network().revive(racer_name(number));
      }
    }
    --running_;
  }

  /// \returns false if the client was told nothing
  bool step(const client::FileSystem& fs) {
    const std::size_t name = random(kSharedNames);
    switch (random(8)) {
      case 0:
      case 1:
      case 2: return create(fs, name);
      case 3:
      case 4: return rename(fs, name, random(kSharedNames));
      case 5: return remove(fs, name);
      default: return use(fs, name);
    }
  }

  // ---- steps, each with its place in the history

  std::size_t begin(NameStep step) {
    step.begun = ++clock_;
    history_.push_back(step);
    world_.simulation().note(concat("step ", history_.size() - 1, " begins: ", static_cast<int>(step.what), " of ",
                                    path_of(step.name), " to ", path_of(step.to), ", file ", step.file));
    return history_.size() - 1;
  }
  bool end(std::size_t number, const Status& status) {
    NameStep& step = history_[number];
    step.ended = ++clock_;
    world_.simulation().note(concat("step ", number, " ends: ", status.message(), ", file ", step.file));
    switch (status.code()) {
      case ErrorCode::kOk: step.answer = NameStep::Answer::kDone; return true;
      case ErrorCode::kNotFound: step.answer = NameStep::Answer::kNotFound; return true;
      case ErrorCode::kExists: step.answer = NameStep::Answer::kExists; return true;
      case ErrorCode::kUnavailable:
      case ErrorCode::kTimedOut:
      case ErrorCode::kStale:
        if (!is_calm()) return false;
        [[fallthrough]];
      default: fail(concat("step ", number, " with ", path_of(step.name), ": ", status.message())); return false;
    }
  }

  bool create(const client::FileSystem& fs, std::size_t name) {
    const int file = ++files_;
    const auto layout = layout::parse(concat("stripe(unit=", file, ", over=3)"));
    const std::size_t step = begin({.what = NameStep::What::kCreate, .name = name, .file = file});
    const auto made = fs.create(path_of(name), *layout, {.exclusive = true});
    const bool is_answered = end(step, made.status());
    if (made.is_ok()) write(*made, file);
    return is_answered;
  }
  bool rename(const client::FileSystem& fs, std::size_t name, std::size_t to) {
    const std::size_t step = begin({.what = NameStep::What::kRename, .name = name, .to = to});
    return end(step, fs.rename(path_of(name), path_of(to)));
  }
  bool remove(const client::FileSystem& fs, std::size_t name) {
    const std::size_t step = begin({.what = NameStep::What::kRemove, .name = name});
    return end(step, fs.remove(path_of(name)));
  }
  // An open that is not answered explains nothing, and costs the search nothing.
  bool use(const client::FileSystem& fs, std::size_t name) {
    const auto file = open(fs, name);
    if (!file) return true;
    read(*file, number_of(*file));
    if (random(2) == 0) write(*file, number_of(*file));
    return true;
  }
  std::optional<client::File> open(const client::FileSystem& fs, std::size_t name) {
    const std::size_t step = begin({.what = NameStep::What::kOpen, .name = name});
    const auto file = fs.open(path_of(name));
    if (file.is_ok()) history_[step].file = number_of(*file);
    end(step, file.status());
    return file.is_ok() ? std::optional(*file) : std::nullopt;
  }
  static int number_of(const client::File& file) {
    const std::string text = layout::print(file.layout());  // "stripe(unit=K, ..."
    return std::stoi(text.substr(text.find('=') + 1));
  }

  // ---- bytes; the file may be removed or have another name meanwhile

  static bool is_gone(const Status& status) {
    return status.code() == ErrorCode::kNotFound || status.code() == ErrorCode::kStale;
  }
  void expect(const Status& status, const char* what) {
    if (status.is_ok() || is_gone(status)) return;
    const bool is_disturbed = status.code() == ErrorCode::kUnavailable || status.code() == ErrorCode::kTimedOut ||
                              status.code() == ErrorCode::kIoError;
    if (is_calm() || !is_disturbed) fail(concat(what, ": ", status.message()));
  }

  void write(const client::File& file, int number) {
    const auto view = file.linear();
    expect(view.status(), "view");
    if (!view.is_ok()) return;
    const std::vector<std::byte> bytes(kNamedBytes, static_cast<std::byte>(number));
    Status status = view->write(0, bytes);
    expect(status, "write");
    if (!status.is_ok()) return;
    status = file.sync();
    expect(status, "sync");
    if (status.is_ok()) whole_.insert(number);
  }

  void read(const client::File& file, int number) {
    const auto view = file.linear();
    expect(view.status(), "view");
    if (!view.is_ok()) return;
    std::vector<std::byte> bytes(kNamedBytes);
    const Status status = view->read(0, bytes);
    expect(status, "read");
    if (status.is_ok()) check_bytes(bytes, number, false);
  }
  void check_bytes(const std::vector<std::byte>& bytes, int number, bool is_whole) {
    for (const std::byte byte : bytes) {
      if (byte == static_cast<std::byte>(number) || (byte == std::byte{0} && !is_whole)) continue;
      return fail(concat("file ", number, " shows byte ", std::to_integer<int>(byte)));
    }
  }
  void verify() {
    const auto fs = world_.connect("verifier");
    if (!fs.is_ok()) return fail(fs.status().message());
    for (std::size_t name = 0; name < kSharedNames; ++name) {
      const auto file = open(*fs, name);
      if (!file) continue;
      const auto view = file->linear();
      if (!view.is_ok()) return fail(view.status().message());
      std::vector<std::byte> bytes(kNamedBytes);
      if (const Status status = view->read(0, bytes); !status.is_ok()) return fail(status.message());
      check_bytes(bytes, number_of(*file), whole_.contains(number_of(*file)));
    }
    if (history_.size() > kMostNameSteps) return fail("too many steps to search their order");
    if (!OrderSearch(history_).finds_one()) fail(concat("no order explains this:\n", history()));
    const auto report = fs->check({.repair = true, .read_data = true, .progress = {}});
    if (!report.is_ok()) return fail(concat("check: ", report.status().message()));
    for (const client::Finding& finding : report->findings) {
      if (is_calm() || finding.kind != client::Finding::Kind::kOrphan) fail(concat("check found: ", finding.what));
    }
  }

  [[nodiscard]] std::string history() const {
    static constexpr std::array kWhat{"create", "rename", "remove", "open"};
    static constexpr std::array kAnswers{"done", "not found", "exists", "nothing"};
    std::string text;
    for (const NameStep& step : history_) {
      text += concat(step.begun, "-", step.ended, " ", kWhat[static_cast<std::size_t>(step.what)], " ", step.name);
      if (step.what == NameStep::What::kRename) text += concat(" to ", step.to);
      text += concat(": ", kAnswers[static_cast<std::size_t>(step.answer)], ", file ", step.file, "\n");
    }
    return text;
  }

  const RaceScenario& scenario_;
  World world_;
  std::vector<NameStep> history_;
  std::set<int> whole_;  // files that were written and synced
  int clock_ = 0;
  int files_ = 0;
  int running_ = 0;
  std::string problems_;
};

class NamesSimulationTest : public ::testing::TestWithParam<RaceScenario> {};

TEST_P(NamesSimulationTest, LosesNothingAndHasAnOrder) {
  run_seeds(chosen_seeds(), true, [&](std::uint64_t seed) { return std::make_unique<NameRace>(seed, GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(All, NamesSimulationTest,
                         ::testing::Values(RaceScenario{.name = "calm"}, RaceScenario{.name = "cuts", .cuts = true},
                                           RaceScenario{.name = "restarts", .restarts = true},
                                           RaceScenario{.name = "deaths", .deaths = true},
                                           RaceScenario{
                                               .name = "everything", .cuts = true, .restarts = true, .deaths = true}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(OrderSearchTest, FindsAnOrderOnlyIfThereIsOne) {
  using What = NameStep::What;
  using Answer = NameStep::Answer;
  const NameStep create{.what = What::kCreate, .name = 1, .file = 7, .answer = Answer::kDone, .begun = 1, .ended = 2};
  NameStep remove{.what = What::kRemove, .name = 1, .answer = Answer::kDone, .begun = 3, .ended = 6};
  NameStep open{.what = What::kOpen, .name = 1, .file = 7, .answer = Answer::kDone, .begun = 4, .ended = 5};
  EXPECT_TRUE(OrderSearch({create, remove, open}).finds_one()) << "they overlap";
  remove.ended = 3;
  EXPECT_FALSE(OrderSearch({create, remove, open}).finds_one()) << "it was removed before";
  remove.answer = Answer::kNothing;
  EXPECT_TRUE(OrderSearch({create, remove, open}).finds_one()) << "it may be removed later";
  open.file = 8;
  EXPECT_FALSE(OrderSearch({create, remove, open}).finds_one()) << "another file";
  const NameStep rename{.what = What::kRename, .name = 1, .to = 2, .answer = Answer::kNotFound, .begun = 3, .ended = 4};
  EXPECT_FALSE(OrderSearch({create, rename}).finds_one()) << "it was there";
}

}  // namespace
}  // namespace weir::simulation
