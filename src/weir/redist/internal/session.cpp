#include <weir/redist/internal/session.h>

// How create() goes; every step is collective, and an error of one rank is an error of all before the next step begins:
//
//   1. duplicate the communicator          4. survey: gather who shares what with whom; relabel
//   2. compare arguments                   5. routes of this rank
//   3. what this rank's source shares      6. agree on the length of segments; make buffers
//      with each element of the target

#include <algorithm>
#include <limits>
#include <numeric>

#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/redist/internal/agreement.h>
#include <weir/redist/internal/relabel.h>
#include <weir/redist/internal/routing.h>

namespace weir::redist::internal {

namespace {

using layout::Partition;

std::string print_options(const Options& options) {
  return concat("{max_buffer_bytes=", options.max_buffer_bytes, ", check_arguments=", int{options.check_arguments},
                ", relabel=", int{options.relabel}, ", survey_ranks=", options.survey_ranks, '}');
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
Result<std::vector<Flow>> gather_flows(const Comm& comm, const std::vector<Share>& shares) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<std::int64_t> mine;
  for (const Share& share : shares) mine.insert(mine.end(), {comm.rank(), share.element, share.mapping.bytes()});
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(static_cast<std::size_t>(comm.size()));
  WEIR_RETURN_IF_ERROR(await(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm.get(), &request),
                             request, "MPI_Iallgather"));
  std::vector<int> starts(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  std::vector<std::int64_t> all(static_cast<std::size_t>(starts.back() + lengths.back()));
  WEIR_RETURN_IF_ERROR(await(MPI_Iallgatherv(mine.data(), length, MPI_INT64_T, all.data(), lengths.data(),
                                             starts.data(), MPI_INT64_T, comm.get(), &request),
                             request, "MPI_Iallgatherv"));
  std::vector<Flow> flows;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    flows.push_back({static_cast<int>(all[i]), static_cast<int>(all[i + 1]), all[i + 2]});
  }
  return flows;
}

Transfer transfer_of(const Route& route, const Pace& pace) {
  const Segments segments(route, 1, pace);
  return {route.peer, route.bytes, route.plan.pieces(), segments.count(), route.direct.has_value()};
}

Result<Offset> size_of(const Partition& partition, const std::optional<Offset>& element) {
  if (!element) return 0;
  WEIR_TRY(const layout::Element held, partition.element(*element));
  return held.size();
}

}  // namespace

Result<std::shared_ptr<Session>> Session::create(MPI_Comm comm, const Partition& from, const Partition& to,
                                                 const Options& options) {
  WEIR_TRY(Comm own, Comm::duplicate(comm));
  std::shared_ptr<Session> session(new Session(std::move(own), options));
  WEIR_RETURN_IF_ERROR(session->build(from, to));
  return session;
}

Status Session::build(const Partition& from, const Partition& to) {
  report_.from = print(from);
  report_.to = print(to);
  report_.rank = comm_.rank();
  report_.ranks = comm_.size();
  WEIR_RETURN_IF_ERROR(
      compare_arguments(comm_, {{"from", report_.from}, {"to", report_.to}, {"options", print_options(options_)}}));
  // From here on all ranks know the same; what is computed from that alone fails on all of them or on none.
  WEIR_RETURN_IF_ERROR(check_options(options_));
  WEIR_RETURN_IF_ERROR(check_partitions(from, to, comm_.size()));

  Result<std::vector<Share>> shares = shares_of(from, to, comm_.rank());
  WEIR_RETURN_IF_ERROR(agree(comm_, shares.status()));
  Labels labels = same_labels(static_cast<int>(to.element_count()), comm_.size());
  WEIR_RETURN_IF_ERROR(survey(*shares, labels));

  Result<Traffic> traffic = route(from, to, *std::move(shares), labels, comm_.rank(), comm_.size());
  WEIR_RETURN_IF_ERROR(agree(comm_, traffic.status()));
  WEIR_RETURN_IF_ERROR(set_pace(*std::move(traffic)));
  if (comm_.rank() < from.element_count()) report_.source_element = comm_.rank();
  const int element = labels.element_of[static_cast<std::size_t>(comm_.rank())];
  if (element >= 0) report_.target_element = element;
  WEIR_TRY(report_.source_bytes, size_of(from, report_.source_element));
  WEIR_TRY(report_.target_bytes, size_of(to, report_.target_element));
  describe();
  return Status::ok();
}

Status Session::survey(const std::vector<Share>& shares, Labels& labels) {
  if (!options_.relabel && comm_.size() > options_.survey_ranks) return Status::ok();
  WEIR_TRY(std::vector<Flow> flows, gather_flows(comm_, shares));
  const std::vector<int> best = relabel(flows, static_cast<int>(labels.rank_of.size()), comm_.size());
  report_.relabelling_saves = local_bytes(flows, best) - local_bytes(flows, labels.rank_of);
  report_.is_relabelled = options_.relabel;
  if (options_.relabel) labels = make_labels(best, comm_.size());
  for (Flow& flow : flows) flow.to = labels.rank_of[static_cast<std::size_t>(flow.to)];
  std::sort(flows.begin(), flows.end(),
            [](const Flow& x, const Flow& y) { return x.from != y.from ? x.from < y.from : x.to < y.to; });
  report_.flows = std::move(flows);
  return Status::ok();
}

// A segment must fit the buffers of both ends, so the rank with the least room per route decides for all.
Status Session::set_pace(Traffic traffic) {
  const auto routes = static_cast<Offset>(traffic.sends.size() + traffic.receives.size());
  Offset room = std::numeric_limits<Offset>::max();
  Status status;
  if (options_.max_buffer_bytes > 0 && routes > 0) {
    room = options_.max_buffer_bytes / routes;
    if (room == 0) {
      status = invalid_argument(concat("redistribution: max_buffer_bytes is ", options_.max_buffer_bytes,
                                       ", too few for ", routes, " messages at a time: allow a few KiB for each"));
    }
  }
  WEIR_RETURN_IF_ERROR(agree(comm_, status));
  WEIR_TRY(const Offset least_room, least(comm_, room));
  const bool is_limited = least_room != std::numeric_limits<Offset>::max();
  exchange_ = std::make_unique<Exchange>(comm_.get(), std::move(traffic), pace_of(is_limited ? least_room : 0));
  return agree(comm_, exchange_->reserve(1));
}

void Session::describe() {
  const Traffic& traffic = exchange_->traffic();
  for (const Route& route : traffic.sends) report_.sends.push_back(transfer_of(route, exchange_->pace()));
  for (const Route& route : traffic.receives) report_.receives.push_back(transfer_of(route, exchange_->pace()));
  if (traffic.local) {
    report_.local_bytes = traffic.local->bytes;
    report_.local_pieces = traffic.local->plan.pieces();
  }
  report_.buffer_bytes = exchange_->buffer_bytes(1);
  report_.message_bytes = exchange_->pace().segment_bytes;
  for (const auto* transfers : {&report_.sends, &report_.receives}) {
    for (const Transfer& transfer : *transfers) report_.rounds = std::max(report_.rounds, transfer.messages);
  }
}

Status Session::prepare(std::span<const Arrays> arrays) {
  if (exchange_->is_broken()) {
    return {ErrorCode::kIoError, "redistribution: an earlier execution failed half-way: create a new redistribution"};
  }
  if (exchange_->is_active()) {
    return invalid_argument("redistribution: the last execution is still under way: wait for its request first");
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const bool no_source = arrays[i].source == nullptr && report_.source_bytes > 0;
    if (!no_source && (arrays[i].target != nullptr || report_.target_bytes == 0)) continue;
    return invalid_argument(concat("redistribution: array ", i, " has no ", no_source ? "source" : "target",
                                   " memory, but ", no_source ? report_.source_bytes : report_.target_bytes,
                                   " bytes belong there"));
  }
  return exchange_->reserve(arrays.size());
}

Status Session::start(std::span<const Arrays> arrays) {
  const Status status = prepare(arrays);
  if (options_.check_arguments) {
    WEIR_RETURN_IF_ERROR(agree_on_count(comm_, static_cast<std::int64_t>(arrays.size()), status));
  } else if (!status.is_ok()) {
    return status;
  }
  return arrays.empty() ? Status::ok() : exchange_->begin(arrays);
}

Status Session::wait() {
  for (;;) {
    WEIR_TRY(const bool is_done, exchange_->advance(true));
    if (is_done) return Status::ok();
  }
}

}  // namespace weir::redist::internal
