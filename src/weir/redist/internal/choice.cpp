#include <weir/redist/internal/choice.h>

#include <algorithm>
#include <array>

#include <weir/base/text.h>
#include <weir/redist/internal/agreement.h>

namespace weir::redist::internal {

namespace {

using layout::Partition;

constexpr Offset kCacheLine = 64;
constexpr char kVariable[] = "WEIR_REDIST_PHASES";

// What rank 0 knows and tells the others.
struct Advice {
  Phases asked = Phases::kAuto;
  bool is_variable = false;  // `asked` comes from the environment
  std::optional<model::Machine> machine;
  std::string no_machine;  // why there is none
};

Status read_variable(const runtime::Settings& settings, Advice& advice) {
  const std::string text = settings.get(kVariable);
  if (text.empty()) return Status::ok();
  if (text != "auto" && text != "one" && text != "two") {
    return invalid_argument(concat("redistribution: ", kVariable, " is '", text, "': set it to auto, one or two"));
  }
  advice.asked = text == "one" ? Phases::kOne : text == "two" ? Phases::kTwo : Phases::kAuto;
  advice.is_variable = true;
  return Status::ok();
}

void read_machine(const runtime::Settings& settings, Advice& advice) {
  const Result<std::string> path = model::default_path(settings);
  if (!path.is_ok()) {
    advice.no_machine = path.status().message();
    return;
  }
  Result<model::Machine> machine = model::load(*path);
  if (machine.is_ok()) {
    advice.machine = *std::move(machine);
  } else if (machine.status().code() == ErrorCode::kIoError) {
    advice.no_machine = "no calibration: run weir model calibrate";
  } else {
    advice.no_machine = machine.status().message();
  }
}

// A letter for what is asked for and one for who asks, then the model, or an exclamation mark and why there is none.
std::string print(const Advice& advice) {
  const char asked = advice.asked == Phases::kOne ? '1' : advice.asked == Phases::kTwo ? '2' : 'a';
  return concat(asked, advice.is_variable ? 'v' : 'o',
                advice.machine ? model::print(*advice.machine) : concat('!', advice.no_machine));
}

Result<Advice> parse(const std::string& text) {
  Advice advice;
  advice.asked = text[0] == '1' ? Phases::kOne : text[0] == '2' ? Phases::kTwo : Phases::kAuto;
  advice.is_variable = text[1] == 'v';
  if (text[2] == '!') {
    advice.no_machine = text.substr(3);
    return advice;
  }
  WEIR_TRY(advice.machine, model::parse(text.substr(2)));
  return advice;
}

Result<Advice> take_advice(Group& group, const Options& options) {
  Advice advice;
  advice.asked = options.phases;
  Status status;
  if (group.rank() == 0) {
    status = read_variable(*options.runtime.settings, advice);
    read_machine(*options.runtime.settings, advice);
  }
  WEIR_RETURN_IF_ERROR(agree(group, status));
  WEIR_TRY(const std::string text, group.bytes_of(kOperation, 0, group.rank() == 0 ? print(advice) : std::string()));
  return parse(text);
}

// What this rank's element of the layout between takes, and the room for it on all ranks.
struct Room {
  Between memory;
  Offset left = 0;  // of max_buffer_bytes, on the rank with the least; if there is a limit
};

Result<Room> room_for(Group& group, const Partition& between, Offset limit) {
  Room room;
  if (group.rank() < between.element_count()) {
    WEIR_TRY(const layout::Element element, between.element(group.rank()));
    room.memory.bytes = ceil_div(element.size(), kCacheLine) * kCacheLine;
  }
  if (limit == 0) return room;
  WEIR_TRY(const Offset least_negative, least(group, -room.memory.bytes));
  const Offset most = std::max(kCacheLine, -least_negative);
  // As many arrays at a time as fill half of what is allowed; the rest is for messages.
  room.memory.batch = std::max<Offset>(1, limit / 2 / most);
  room.left = limit - room.memory.batch * most;
  return room;
}

PhaseSeconds seconds_of(const model::RankPrediction& rank) {
  return {0, rank.pack_seconds, rank.message_seconds.value_or(0), rank.local_seconds, rank.unpack_seconds};
}

Result<PhaseSeconds> predict_own(const model::Machine& machine, const Partition& from, const Partition& to,
                                 Group& group) {
  const model::Options how{.ranks = group.size(), .local = model::Local::kDirect};
  WEIR_TRY(const model::RankPrediction rank, model::predict_rank(machine, from, to, group.rank(), how));
  return seconds_of(rank);
}

// The slowest rank's time of one phase, on every rank.
Result<PhaseSeconds> slowest(Group& group, PhaseSeconds mine) {
  struct {
    double seconds;
    int rank;
  } own{mine.total(), group.rank()}, most{0, 0};
  MPI_Request request = MPI_REQUEST_NULL;
  WEIR_RETURN_IF_ERROR(group.await("redistribution: MPI_Iallreduce",
                                   MPI_Iallreduce(&own, &most, 1, MPI_DOUBLE_INT, MPI_MAXLOC, group.comm(), &request),
                                   request));
  std::array<double, 4> parts{mine.pack, mine.messages, mine.local, mine.unpack};
  WEIR_RETURN_IF_ERROR(group.await("redistribution: MPI_Ibcast",
                                   MPI_Ibcast(parts.data(), sizeof parts, MPI_BYTE, most.rank, group.comm(), &request),
                                   request));
  return PhaseSeconds{most.rank, parts[0], parts[1], parts[2], parts[3]};
}

// The phases between these layouts; empty, on all ranks, if one of them cannot tell.
Result<std::vector<PhaseSeconds>> predict(Group& group, const model::Machine& machine,
                                          const std::vector<const Partition*>& layouts) {
  std::vector<PhaseSeconds> phases;
  Status status;
  for (std::size_t i = 1; i < layouts.size() && status.is_ok(); ++i) {
    const Result<PhaseSeconds> mine = predict_own(machine, *layouts[i - 1], *layouts[i], group);
    status = mine.status();
    if (mine.is_ok()) phases.push_back(*mine);
  }
  WEIR_TRY(const Offset can_tell, least(group, status.is_ok() ? 1 : 0));
  if (can_tell == 0) return std::vector<PhaseSeconds>();
  for (PhaseSeconds& phase : phases) {
    WEIR_TRY(phase, slowest(group, phase));
  }
  return phases;
}

double sum_of(const std::vector<PhaseSeconds>& phases) {
  double seconds = 0;
  for (const PhaseSeconds& phase : phases) seconds += phase.total();
  return seconds;
}

// Why two phases cannot be; empty if they can.
std::string obstacle(const std::optional<Partition>& between, const Room& room, Offset limit, bool is_automatic) {
  if (!between) return "there is no block-cyclic layout between the two";
  // Two bytes: one for each phase.  Who did not ask for two should not get smaller messages for it.
  if (limit == 0 || room.left >= (is_automatic ? limit / 2 : 2)) return {};
  return concat("the memory between two phases would leave ", std::max<Offset>(0, room.left), " of ", limit,
                " bytes (Options::max_buffer_bytes) for messages");
}

struct Verdict {
  bool is_two = false;
  std::string why;
};

Verdict judge(const Advice& advice, const std::vector<PhaseSeconds>& one, const std::vector<PhaseSeconds>& two) {
  if (!advice.machine) return {false, concat("one phase: ", advice.no_machine)};
  if (!advice.machine->network) {
    return {false,
            "one phase: the model does not know what messages cost: run weir model calibrate with --mpi or "
            "--mpi-probe"};
  }
  if (one.empty() || two.empty()) return {false, "one phase: the layouts are too complex to predict two"};
  const bool is_two = sum_of(two) < sum_of(one);
  return {is_two, concat(is_two ? "two phases" : "one phase", ", predicted to be faster")};
}

Result<Verdict> decide(const Advice& advice, const std::string& obstacle, const std::vector<PhaseSeconds>& one,
                       const std::vector<PhaseSeconds>& two) {
  const std::string who = advice.is_variable ? kVariable : "Options::phases";
  if (advice.asked == Phases::kOne) return Verdict{false, concat("one phase, as ", who, " says")};
  if (obstacle.empty()) {
    return advice.asked == Phases::kTwo ? Verdict{true, concat("two phases, as ", who, " says")}
                                        : judge(advice, one, two);
  }
  // The variable is for all redistributions of a program, some of which can and some of which cannot.
  if (advice.asked == Phases::kTwo && !advice.is_variable) {
    return invalid_argument(concat("redistribution: Options::phases asks for two, but ", obstacle,
                                   ": two phases need two hpf layouts of one shape, element size and grid whose block "
                                   "widths do not divide each other; choose kAuto or kOne"));
  }
  return Verdict{false, concat("one phase: ", obstacle)};
}

}  // namespace

Result<Choice> choose_phases(Group& group, const Partition& from, const Partition& to, const Options& options) {
  WEIR_TRY(const Advice advice, take_advice(group, options));
  std::optional<Partition> between = model::layout_between(from, to);
  const Offset limit = options.max_buffer_bytes;
  Room room;
  if (between) {
    WEIR_TRY(room, room_for(group, *between, limit));
  }
  std::vector<PhaseSeconds> one;
  std::vector<PhaseSeconds> two;
  if (advice.machine) {
    WEIR_TRY(one, predict(group, *advice.machine, {&from, &to}));
  }
  if (advice.machine && between) {
    WEIR_TRY(two, predict(group, *advice.machine, {&from, &*between, &to}));
  }
  const bool is_automatic = advice.asked != Phases::kTwo || advice.is_variable;
  WEIR_TRY(Verdict verdict, decide(advice, obstacle(between, room, limit, is_automatic), one, two));
  if (verdict.is_two) std::swap(one, two);
  Choice choice;
  choice.prediction = {std::move(verdict.why), advice.machine && advice.machine->network, std::move(one),
                       std::move(two)};
  if (!verdict.is_two) return choice;
  choice.between = std::move(between);
  choice.memory = room.memory;
  choice.message_bytes = limit == 0 ? 0 : room.left / 2;
  return choice;
}

}  // namespace weir::redist::internal
