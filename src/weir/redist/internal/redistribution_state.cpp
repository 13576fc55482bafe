#include <weir/redist/internal/redistribution_state.h>

// How create() goes; every step is collective, and an error of one rank is an error of all before the next step begins:
//
//   1. duplicate the communicator
//   2. compare arguments
//   3. choose: one phase or two
//   4. for each phase: what this rank's source shares with each element of the target
//      survey: gather who shares what with whom; relabel, in the last phase
//      routes of this rank
//      agree on the length of segments; make buffers

#include <algorithm>
#include <limits>
#include <numeric>

#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/redist/internal/agreement.h>
#include <weir/redist/internal/choice.h>
#include <weir/redist/internal/relabel.h>
#include <weir/redist/internal/routing.h>

namespace weir::redist::internal {

namespace {

using layout::Partition;

std::string print_options(const Options& options) {
  return concat("{max_buffer_bytes=", options.max_buffer_bytes, ", check_arguments=", int{options.check_arguments},
                ", relabel=", int{options.relabel}, ", survey_ranks=", options.survey_ranks,
                ", phases=", static_cast<int>(options.phases), ", share_memory=", int{options.share_memory}, '}');
}

Status check_count(const char* name, const Partition& partition, int ranks) {
  if (partition.element_count() <= ranks) return Status::ok();
  return invalid_argument(concat("redistribution: `", name, "` has ", partition.element_count(),
                                 " elements, but the communicator has ", ranks,
                                 " ranks: at most one element per rank: ", print(partition)));
}

Status check_partitions(const Partition& from, const Partition& to, int ranks) {
  if (from.disp() != to.disp() || from.period() != to.period()) {
    return invalid_argument(concat("redistribution: `from` and `to` are not of the same array: displacement ",
                                   from.disp(), " and ", to.disp(), ", period ", from.period(), " and ", to.period(),
                                   " bytes: ", print(from), " and ", print(to)));
  }
  WEIR_RETURN_IF_ERROR(check_count("from", from, ranks));
  WEIR_RETURN_IF_ERROR(check_count("to", to, ranks));
  return from.validate();
}

Status check_options(const Options& options) {
  if (options.max_buffer_bytes >= 0) return Status::ok();
  return invalid_argument(
      concat("redistribution: max_buffer_bytes is ", options.max_buffer_bytes, ": give 0 for no limit"));
}

// All ranks' flows from ranks to elements, on every rank.
Result<std::vector<Flow>> gather_flows(Group& group, const std::vector<Share>& shares) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<std::int64_t> mine;
  for (const Share& share : shares) mine.insert(mine.end(), {group.rank(), share.element, share.mapping.bytes()});
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<std::size_t>(group.size()));
  WEIR_RETURN_IF_ERROR(
      group.await("redistribution: MPI_Iallgather",
                  MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, group.comm(), &request), request));
  std::vector<int> starts(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  std::vector<std::int64_t> all(static_cast<std::size_t>(starts.back() + lengths.back()));
  WEIR_RETURN_IF_ERROR(group.await("redistribution: MPI_Iallgatherv",
                                   MPI_Iallgatherv(mine.data(), length, MPI_INT64_T, all.data(), lengths.data(),
                                                   starts.data(), MPI_INT64_T, group.comm(), &request),
                                   request));
  std::vector<Flow> flows;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    flows.push_back({static_cast<int>(all[i]), static_cast<int>(all[i + 1]), all[i + 2]});
  }
  return flows;
}

Transfer transfer_of(const ArrayExchange& exchange, std::size_t index, bool is_send, int phase) {
  const PairMessage& message = is_send ? exchange.traffic().sends[index] : exchange.traffic().receives[index];
  return {message.peer,
          message.bytes,
          message.plan.pieces(),
          exchange.engine().segments_of(index, is_send),
          message.direct.has_value(),
          phase,
          exchange.engine().is_shared(index, is_send)};
}

Result<Offset> size_of(const Partition& partition, const std::optional<Offset>& element) {
  if (!element) return 0;
  WEIR_TRY(const layout::Element held, partition.element(*element));
  return held.size();
}

}  // namespace

Result<std::shared_ptr<RedistributionState>> RedistributionState::create(MPI_Comm comm, const Partition& from,
                                                                         const Partition& to, const Options& options) {
  WEIR_TRY(Group own, Group::duplicate(comm, kOperation, {.clock = options.runtime.clock}));
  std::shared_ptr<RedistributionState> state(new RedistributionState(std::move(own), options));
  WEIR_RETURN_IF_ERROR(state->build(from, to));
  return state;
}

Status RedistributionState::build(const Partition& from, const Partition& to) {
  report_.from = print(from);
  report_.to = print(to);
  report_.rank = group_.rank();
  report_.ranks = group_.size();
  WEIR_RETURN_IF_ERROR(
      compare_arguments(group_, {{"from", report_.from}, {"to", report_.to}, {"options", print_options(options_)}}));
  // From here on all ranks know the same; what is computed from that alone fails on all of them or on none.
  WEIR_RETURN_IF_ERROR(check_options(options_));
  WEIR_RETURN_IF_ERROR(check_partitions(from, to, group_.size()));

  WEIR_TRY(Choice choice, choose_phases(group_, from, to, options_));
  report_.prediction = std::move(choice.prediction);
  Labels labels = same_labels(static_cast<int>(to.element_count()), group_.size());
  std::vector<std::unique_ptr<ArrayExchange>> phases;
  if (choice.between) {
    report_.between = print(*choice.between);
    report_.between_bytes = choice.memory.bytes;
    Labels unchanged = same_labels(static_cast<int>(choice.between->element_count()), group_.size());
    WEIR_TRY(phases.emplace_back(), plan_phase(from, *choice.between, unchanged, {1, false, choice.message_bytes}));
    WEIR_TRY(phases.emplace_back(), plan_phase(*choice.between, to, labels, {2, true, choice.message_bytes}));
  } else {
    WEIR_TRY(phases.emplace_back(), plan_phase(from, to, labels, {1, true, options_.max_buffer_bytes}));
  }
  pipeline_ = std::make_unique<Pipeline>(*options_.runtime.clock, pool_, std::move(phases), choice.memory);
  WEIR_RETURN_IF_ERROR(agree(group_, pipeline_->reserve(1)));
  if (group_.rank() < from.element_count()) report_.source_element = group_.rank();
  const int element = labels.element_of[static_cast<std::size_t>(group_.rank())];
  if (element >= 0) report_.target_element = element;
  WEIR_TRY(report_.source_bytes, size_of(from, report_.source_element));
  WEIR_TRY(report_.target_bytes, size_of(to, report_.target_element));
  describe();
  return Status::ok();
}

Result<std::unique_ptr<ArrayExchange>> RedistributionState::plan_phase(const Partition& from, const Partition& to,
                                                                       Labels& labels, const PhasePlan& plan) {
  Result<std::vector<Share>> shares = shares_of(from, to, group_.rank());
  WEIR_RETURN_IF_ERROR(agree(group_, shares.status()));
  WEIR_RETURN_IF_ERROR(survey(*shares, labels, plan));
  Result<Traffic> traffic = route(from, to, *std::move(shares), labels, group_.rank(), group_.size());
  WEIR_RETURN_IF_ERROR(agree(group_, traffic.status()));
  return make_exchange(*std::move(traffic), plan.max_buffer_bytes);
}

Status RedistributionState::survey(const std::vector<Share>& shares, Labels& labels, const PhasePlan& plan) {
  const bool relabels = options_.relabel && plan.is_last;
  if (!relabels && group_.size() > options_.survey_ranks) return Status::ok();
  WEIR_TRY(std::vector<Flow> flows, gather_flows(group_, shares));
  if (plan.is_last) {
    const std::vector<int> best = relabel(flows, static_cast<int>(labels.rank_of.size()), group_.size());
    report_.relabelling_saves = local_bytes(flows, best) - local_bytes(flows, labels.rank_of);
    report_.is_relabelled = relabels;
    if (relabels) labels = make_labels(best, group_.size());
  }
  for (Flow& flow : flows) {
    flow.to = labels.rank_of[static_cast<std::size_t>(flow.to)];
    flow.phase = plan.number;
  }
  std::sort(flows.begin(), flows.end(),
            [](const Flow& x, const Flow& y) { return x.from != y.from ? x.from < y.from : x.to < y.to; });
  if (!report_.flows) report_.flows.emplace();
  report_.flows->insert(report_.flows->end(), flows.begin(), flows.end());
  return Status::ok();
}

// A segment must fit the buffers of both ends, so the rank with the least room per route decides for all.
Result<std::unique_ptr<ArrayExchange>> RedistributionState::make_exchange(Traffic traffic, Offset max_buffer_bytes) {
  const auto routes = static_cast<Offset>(traffic.sends.size() + traffic.receives.size());
  Offset room = std::numeric_limits<Offset>::max();
  Status status;
  if (max_buffer_bytes > 0 && routes > 0) {
    room = max_buffer_bytes / routes;
    if (room == 0) {
      status = invalid_argument(concat("redistribution: max_buffer_bytes is ", options_.max_buffer_bytes,
                                       ", too few for ", routes, " messages at a time: allow a few KiB for each"));
    }
  }
  WEIR_RETURN_IF_ERROR(agree(group_, status));
  WEIR_TRY(const Offset least_room, least(group_, room));
  const bool is_limited = least_room != std::numeric_limits<Offset>::max();
  auto exchange = std::make_unique<ArrayExchange>(group_, pool_, std::move(traffic),
                                                  exchange::pace_of(is_limited ? least_room : 0));
  if (options_.share_memory && group_.size() > 1) WEIR_RETURN_IF_ERROR(exchange->share_memory(options_.runtime));
  return exchange;
}

void RedistributionState::describe() {
  int number = 1;
  for (const auto& phase : pipeline_->phases()) {
    const Traffic& traffic = phase->traffic();
    for (std::size_t i = 0; i < traffic.sends.size(); ++i) {
      report_.sends.push_back(transfer_of(*phase, i, true, number));
    }
    for (std::size_t i = 0; i < traffic.receives.size(); ++i) {
      report_.receives.push_back(transfer_of(*phase, i, false, number));
    }
    if (traffic.local) {
      report_.local_bytes += traffic.local->bytes;
      report_.local_pieces += traffic.local->plan.pieces();
    }
    report_.buffer_bytes += phase->engine().buffer_bytes(1);
    report_.message_bytes = std::max(report_.message_bytes, phase->engine().pace().segment_bytes);
    ++number;
  }
  for (const auto* transfers : {&report_.sends, &report_.receives}) {
    for (const Transfer& transfer : *transfers) report_.rounds = std::max(report_.rounds, transfer.messages);
  }
}

Status RedistributionState::prepare(std::span<const Arrays> arrays) {
  if (pipeline_->is_broken()) {
    return {ErrorCode::kIoError, "redistribution: an earlier execution failed half-way: create a new redistribution"};
  }
  if (pipeline_->is_active()) {
    return invalid_argument("redistribution: the last execution is still under way: wait for its request first");
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const bool no_source = arrays[i].source == nullptr && report_.source_bytes > 0;
    if (!no_source && (arrays[i].target != nullptr || report_.target_bytes == 0)) continue;
    return invalid_argument(concat("redistribution: array ", i, " has no ", no_source ? "source" : "target",
                                   " memory, but ", no_source ? report_.source_bytes : report_.target_bytes,
                                   " bytes belong there"));
  }
  return pipeline_->reserve(arrays.size());
}

Status RedistributionState::start(std::span<const Arrays> arrays) {
  const Status status = prepare(arrays);
  if (options_.check_arguments) {
    WEIR_RETURN_IF_ERROR(agree_on_count(group_, static_cast<std::int64_t>(arrays.size()), status));
  } else if (!status.is_ok()) {
    return status;
  }
  return arrays.empty() ? Status::ok() : pipeline_->begin(arrays);
}

Result<bool> RedistributionState::advance(bool may_block) {
  if (!pipeline_->is_active()) return true;
  WEIR_TRY(const bool is_done, pipeline_->advance(may_block));
  if (is_done) report_.last = {pipeline_->arrays(), pipeline_->seconds()};
  return is_done;
}

Status RedistributionState::wait() {
  for (;;) {
    WEIR_TRY(const bool is_done, advance(true));
    if (is_done) return Status::ok();
  }
}

}  // namespace weir::redist::internal
