#include <weir/server/internal/space.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/storage/store_tasks.h>
#include <weir/wire/wire.h>

namespace weir::server::internal {

namespace {

// Leases grow with what they are for, so that a file which grows step by step seldom asks.
constexpr Offset kMostSlack = Offset{64} << 20;
constexpr std::size_t kMostInMessage = 65536;
constexpr std::chrono::milliseconds kAskAgain{1'000};

Offset in_units(Offset bytes) { return (bytes + kSpaceUnit - 1) / kSpaceUnit * kSpaceUnit; }

}  // namespace

Space::Space(storage::Store& store, Peers& peers, Options options)
    : store_(store), peers_(peers), options_(std::move(options)) {}

// ---------------------------------------------------------------- on and off

void Space::ask_server_zero() {
  if (is_stopped_ || std::exchange(is_asking_zero_, true)) return;
  wire::LeaseSpaceT request;
  request.server = peers_.self();
  request.boot = options_.boot;
  peers_.call(0, std::move(request), 0, [this](const Result<wire::ReplyHeadT>& reply) {
    is_asking_zero_ = false;
    if (is_stopped_) return;
    if (!reply.is_ok()) return options_.after(kAskAgain, [this] { ask_server_zero(); });
    const auto* leases = reply->answer.AsSpaceLeases();
    if (leases != nullptr && leases->is_metered && state_ == State::kOff) count();
  });
}

void Space::switch_off() {
  ++life_;
  state_ = State::kOff;
  store_.allow_ahead(true);
  std::vector<Growth> waiting = std::exchange(held_up_, {});
  for (auto& [number, data] : std::exchange(data_, {})) {
    for (Growth& growth : data.waiting) waiting.push_back(std::move(growth));
  }
  reach_.clear();
  changed_.clear();
  asks_.clear();
  is_complete_ = is_in_flight_ = false;
  for (const Growth& growth : waiting) growth.done(Status::ok());
  for (const auto& answer : std::exchange(counted_, {})) answer();
  for (const auto& tell : std::exchange(untold_, {})) tell();
}

void Space::count() {
  state_ = State::kCounting;
  store_.allow_ahead(false);
  start([this] { return measure_all(); },
        [this, life = ++life_](const Status& status) {
          if (life != life_) return;
          // Subfiles that could not be looked at are, when they grow.
          if (!status.is_ok()) WEIR_LOG_WARN("quotas: not all subfiles could be counted: {}", status.message());
          finish_counting();
        });
}

Task<Status> Space::measure_all() {
  WEIR_CO_TRY(const std::vector<SubfileId> all, co_await storage::ask(store_, storage::op::List{}));
  Status first_error;
  const std::uint64_t life = life_;
  for (const SubfileId id : all) {
    if (life_ != life) co_return Status::ok();
    const Status status = co_await measure(id);
    if (!status.is_ok() && first_error.is_ok()) first_error = status;
  }
  co_return first_error;
}

Task<Status> Space::measure(SubfileId id) {
  WEIR_CO_TRY(const storage::SubfileInfo info, co_await storage::ask(store_, storage::op::Info{id}));
  measured(id, in_units(info.length));
  co_return Status::ok();
}

void Space::measured(SubfileId id, Offset bytes) {
  const auto [at, is_new] = reach_.try_emplace(id, bytes);
  if (!is_new) return;
  Data& data = data_[id.file];
  data.used += bytes;
  if (data.used <= data.held) return;
  data.held = data.used;  // it is there already, whatever the limit
  changed_.insert(id.file);
}

void Space::finish_counting() {
  state_ = State::kOn;
  is_complete_ = false;
  for (const auto& answer : std::exchange(counted_, {})) answer();
  for (Growth& growth : std::exchange(held_up_, {})) grow(growth.id, growth.end, std::move(growth.done));
  send();
}

// Nobody waits any more: calls are answered before the server ends.
void Space::stop() {
  is_stopped_ = true;
  std::vector<Growth> waiting = std::exchange(held_up_, {});
  for (auto& [number, data] : data_) {
    for (Growth& growth : std::exchange(data.waiting, {})) waiting.push_back(std::move(growth));
  }
  for (const Growth& growth : waiting) growth.done({ErrorCode::kUnavailable, "the server is stopping"});
  for (const auto& answer : std::exchange(counted_, {})) answer();
  for (const auto& tell : std::exchange(untold_, {})) tell();
}

// ---------------------------------------------------------------- growth

void Space::grow(SubfileId id, Offset end, Done done) {
  if (state_ == State::kOff) return done(Status::ok());
  if (is_stopped_) return done({ErrorCode::kUnavailable, "the server is stopping"});
  if (state_ == State::kCounting) return held_up_.push_back({id, end, std::move(done)});
  if (reach_.contains(id)) return grow_known(id, in_units(end), std::move(done));
  start([this, id] { return measure(id); },
        [this, id, end, life = life_, done = std::move(done)](const Status& status) mutable {
          if (life != life_) return done(Status::ok());
          status.is_ok() ? grow_known(id, in_units(end), std::move(done)) : done(status);
        });
}

void Space::grow_known(SubfileId id, Offset end, Done done) {
  Growth growth{id, end, std::move(done)};
  Data& data = data_[id.file];
  // Those that wait come first, unless this one needs nothing.
  if ((data.waiting.empty() || end <= reach_[id]) && fits(growth)) return growth.done(Status::ok());
  data.waiting.push_back(std::move(growth));
  asks_.insert(id.file);
  send();
}

bool Space::fits(const Growth& growth) {
  Offset& reach = reach_[growth.id];
  Data& data = data_[growth.id.file];
  if (growth.end <= reach) return true;
  if (data.used + (growth.end - reach) > data.held) return false;
  data.used += growth.end - reach;
  reach = growth.end;
  return true;
}

void Space::shrink(SubfileId id, Offset length) {
  const auto found = reach_.find(id);
  if (found == reach_.end() || in_units(length) >= found->second) return;
  data_[id.file].used -= found->second - in_units(length);
  found->second = in_units(length);
  give_back(id.file);
}

void Space::truncated(SubfileId id, Offset length, std::function<void()> done) {
  shrink(id, length);
  if (is_stopped_ || !changed_.contains(id.file)) return done();
  untold_.push_back(std::move(done));
  send();
}

void Space::removed(SubfileId id) {
  shrink(id, 0);
  reach_.erase(id);
  send();
}

// What is being asked for says itself what is held, once the answer has come.
void Space::give_back(std::uint64_t number) {
  const auto found = data_.find(number);
  if (found == data_.end()) return;
  Data& data = found->second;
  data.has_shrunk = data.is_asking || !data.waiting.empty();
  if (data.has_shrunk || data.held == data.used) return;
  data.held = data.used;
  changed_.insert(number);
}

// ---------------------------------------------------------------- talks with server 0

wire::HeldSpace Space::held_now(std::uint64_t data, Offset bytes) { return {data, bytes, ++sequence_}; }

void Space::send() {
  if (is_stopped_ || is_in_flight_ || state_ != State::kOn) return;
  if (changed_.empty() && asks_.empty() && is_complete_) return;
  wire::LeaseSpaceT request;
  request.server = peers_.self();
  request.boot = options_.boot;
  std::vector<std::uint64_t> reported;
  std::vector<std::uint64_t> asked;
  is_in_flight_ = true;  // what is settled here may ask for more
  while (!changed_.empty() && request.held.size() < kMostInMessage) {
    const std::uint64_t number = *changed_.begin();
    changed_.erase(changed_.begin());
    const auto found = data_.find(number);
    request.held.push_back(held_now(number, found == data_.end() ? 0 : found->second.held));
    reported.push_back(number);
    if (found != data_.end() && found->second.used == 0 && found->second.held == 0 && found->second.waiting.empty())
      data_.erase(found);
  }
  request.is_complete = changed_.empty();
  while (request.is_complete && !asks_.empty() && request.asks.size() < kMostInMessage) {
    const std::uint64_t number = *asks_.begin();
    asks_.erase(asks_.begin());
    const auto found = data_.find(number);
    if (found == data_.end() || found->second.waiting.empty()) continue;
    Data& data = found->second;
    const Growth& first = data.waiting.front();
    const Offset need = data.used + (first.end - reach_[first.id]) - data.held;
    if (need > 0) request.held.push_back(held_now(number, data.held));
    if (need > 0) request.asks.emplace_back(number, need, std::min(need + std::min(data.used, kMostSlack), kMaxBytes));
    // Nothing is needed any more if another one has shrunk meanwhile: the answer to no question settles it.
    if (need > 0) asked.push_back(number), data.is_asking = true;
    if (need <= 0) settle(number, Status::ok(), 0);
  }
  const bool is_complete = request.is_complete;
  std::vector<std::function<void()>> told;
  if (is_complete) told.swap(untold_);
  peers_.call(0, std::move(request), 0,
              [this, life = life_, is_complete, reported = std::move(reported), asked = std::move(asked),
               told = std::move(told)](const Result<wire::ReplyHeadT>& reply) {
                for (const auto& tell : told) tell();
                if (is_stopped_ || life != life_) return;
                is_in_flight_ = false;
                if (reply.is_ok() && is_complete) is_complete_ = true;
                answered(reported, asked, reply);
              });
}

void Space::answered(const std::vector<std::uint64_t>& reported, const std::vector<std::uint64_t>& asked,
                     const Result<wire::ReplyHeadT>& reply) {
  const wire::SpaceLeasesT* leases = reply.is_ok() ? reply->answer.AsSpaceLeases() : nullptr;
  if (leases != nullptr && !leases->is_metered) return switch_off();
  Status status = reply.status();
  if (status.is_ok() && (leases == nullptr || leases->leases.size() != asked.size()))
    status = corrupt("server 0 answered something else to a question for space");
  if (!status.is_ok()) {
    changed_.insert(reported.begin(), reported.end());
    status = {status.code(), concat("server 0 is needed to let files of users with quotas grow: ", status.message())};
  }
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (!status.is_ok()) {
      settle(asked[i], status, 0);
      continue;
    }
    const wire::SpaceLeaseT& lease = *leases->leases[i];
    settle(asked[i], lease.failure ? wire::to_status(*lease.failure) : Status::ok(), lease.bytes);
  }
  if (status.is_ok()) return send();
  if (!asks_.empty()) return send();
  if (!changed_.empty() || !is_complete_) options_.after(kAskAgain, [this] { send(); });
}

// Those that fit grow, in their order; of a refusal, the first one is told, and the others ask for themselves.
void Space::settle(std::uint64_t number, const Status& status, Offset granted) {
  const auto found = data_.find(number);
  if (found == data_.end()) return;
  Data& data = found->second;
  data.is_asking = false;
  data.held += granted;
  std::vector<std::pair<Done, Status>> done;
  if (!status.is_ok() && !data.waiting.empty()) {
    done.emplace_back(std::move(data.waiting.front().done), status);
    data.waiting.pop_front();
  }
  while (!data.waiting.empty() && fits(data.waiting.front())) {
    done.emplace_back(std::move(data.waiting.front().done), Status::ok());
    data.waiting.pop_front();
  }
  if (!data.waiting.empty()) asks_.insert(number);
  if (data.waiting.empty() && data.has_shrunk) give_back(number);
  for (const auto& [tell, result] : done) tell(result);
}

// ---------------------------------------------------------------- asked by server 0

void Space::meter(const CallPtr& call, const wire::MeterSpaceT& request) {
  if (!request.is_metered) {
    if (state_ != State::kOff) switch_off();
    wire::HeldSpacesT nothing;
    nothing.boot = options_.boot;
    nothing.is_complete = true;
    return call->answer(std::move(nothing));
  }
  if (state_ == State::kOff) count();
  if (state_ == State::kOn) return answer_held(call);
  counted_.push_back([this, call] { answer_held(call); });
}

void Space::answer_held(const CallPtr& call) {
  const wire::MeterSpaceT& request = *call->head.operation.AsMeterSpace();
  wire::HeldSpacesT answer;
  answer.boot = options_.boot;
  answer.is_complete = true;
  const auto add = [&](std::uint64_t number) {
    const auto found = data_.find(number);
    if (found != data_.end()) give_back(number);
    // While more is asked for, the question says what is held.
    if (found == data_.end() || (!found->second.is_asking && found->second.waiting.empty()))
      answer.held.push_back(held_now(number, found == data_.end() ? 0 : found->second.held));
  };
  for (const std::uint64_t number : request.data) add(number);
  if (!request.all) {
    // What server 0 has not heard of yet; it stays due until LeaseSpace was answered.
    for (const std::uint64_t number : changed_) add(number);
    return call->answer(std::move(answer));
  }
  auto next = data_.upper_bound(request.after);
  for (; next != data_.end() && answer.held.size() < kMostInMessage; ++next) add(next->first);
  answer.is_complete = next == data_.end();
  call->answer(std::move(answer));
}

}  // namespace weir::server::internal
