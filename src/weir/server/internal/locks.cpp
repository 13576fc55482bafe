#include <weir/server/internal/locks.h>

#include <algorithm>
#include <utility>

#include <weir/base/text.h>

namespace weir::server::internal {

namespace {

bool overlap(layout::Range x, layout::Range y) { return x.from < y.to && y.from < x.to; }

}  // namespace

bool Locks::conflict(const Lock& x, const Lock& y) {
  return (x.exclusive || y.exclusive) && !(x.holder == y.holder) && overlap(x.range, y.range);
}

// `end`: requests from here on came later.
bool Locks::is_blocked(const File& file, const Lock& lock, std::list<Waiting>::const_iterator end) {
  return std::any_of(file.held.begin(), file.held.end(), [&](const Lock& held) { return conflict(held, lock); }) ||
         std::any_of(file.waiting.begin(), end, [&](const Waiting& waiting) { return conflict(waiting.lock, lock); });
}

bool Locks::is_free(std::uint64_t file, layout::Range range, bool exclusive, Holder holder) const {
  const auto found = files_.find(file);
  return found == files_.end() || !is_blocked(found->second, {range, exclusive, holder}, found->second.waiting.end());
}

Status Locks::check_room(net::PeerId peer) const {
  if (count_ >= kMostLocks)
    return {ErrorCode::kNoSpace, concat("lock: the server holds ", count_, " locks, which is all it can")};
  const auto found = counts_.find(peer);
  if (found == counts_.end() || found->second < most_of_one_) return Status::ok();
  return {ErrorCode::kNoSpace, concat("lock: caller ", peer, " holds or waits for ", found->second,
                                      " locks, the limit of a connection; WEIR_LIMIT_LOCKS of the server raises it")};
}

void Locks::count(net::PeerId peer, std::size_t more) {
  count_ += more;
  std::size_t& of_peer = counts_[peer];
  of_peer += more;
  if (of_peer == 0) counts_.erase(peer);
}

Locks::Ticket Locks::lock(std::uint64_t file, layout::Range range, bool exclusive, Holder holder, Granted granted) {
  if (Status status = check_room(holder.peer); !status.is_ok()) {
    granted(std::move(status));
    return 0;
  }
  File& of = files_[file];
  Lock lock{range, exclusive, holder};
  if (!is_blocked(of, lock, of.waiting.end())) {
    Calls calls;
    grant(of, lock);
    grant_waiting(of, calls);  // it may have taken the place of an exclusive one
    granted(Status::ok());
    for (const auto& call : calls) call();
    return 0;
  }
  const Ticket ticket = ++last_ticket_;
  of.waiting.push_back({lock, ticket, std::move(granted)});
  files_of_tickets_[ticket] = file;
  count(holder.peer, 1);
  return ticket;
}

// Takes the range out of what the holder has, which can leave a piece on either side.
void Locks::release(File& file, layout::Range range, Holder holder) {
  std::vector<Lock> kept;
  for (const Lock& lock : file.held) {
    if (!(lock.holder == holder) || !overlap(lock.range, range)) {
      kept.push_back(lock);
      continue;
    }
    if (lock.range.from < range.from) kept.push_back({{lock.range.from, range.from}, lock.exclusive, holder});
    if (range.to < lock.range.to) kept.push_back({{range.to, lock.range.to}, lock.exclusive, holder});
  }
  count(holder.peer, kept.size() - file.held.size());
  file.held = std::move(kept);
}

void Locks::grant(File& file, const Lock& lock) {
  release(file, lock.range, lock.holder);
  file.held.push_back(lock);
  count(lock.holder.peer, 1);
}

// Moves on to `held` what nothing is in the way of any more.  `calls` are made once all state is as it should be.
void Locks::grant_waiting(File& file, Calls& calls) {
  for (auto waiting = file.waiting.begin(); waiting != file.waiting.end();) {
    if (is_blocked(file, waiting->lock, waiting)) {
      ++waiting;
      continue;
    }
    grant(file, waiting->lock);
    files_of_tickets_.erase(waiting->ticket);
    calls.push_back([granted = std::move(waiting->granted)] { granted(Status::ok()); });
    count(waiting->lock.holder.peer, static_cast<std::size_t>(-1));
    file.waiting.erase(waiting);
    // From the beginning: a shared lock that takes the place of the holder's exclusive one can free requests that came
    // earlier.
    waiting = file.waiting.begin();
  }
}

void Locks::forget_if_unused(std::uint64_t number) {
  const auto found = files_.find(number);
  if (found != files_.end() && found->second.held.empty() && found->second.waiting.empty()) files_.erase(found);
}

void Locks::unlock(std::uint64_t file, layout::Range range, Holder holder) {
  const auto found = files_.find(file);
  if (found == files_.end()) return;
  Calls calls;
  release(found->second, range, holder);
  grant_waiting(found->second, calls);
  forget_if_unused(file);
  for (const auto& call : calls) call();
}

template <typename Predicate>
void Locks::cancel_if(Predicate predicate, const Status& status) {
  Calls calls;
  std::vector<std::uint64_t> touched;
  for (auto& [number, file] : files_) {
    const std::size_t before = calls.size();
    for (auto waiting = file.waiting.begin(); waiting != file.waiting.end();) {
      if (!predicate(*waiting)) {
        ++waiting;
        continue;
      }
      files_of_tickets_.erase(waiting->ticket);
      calls.push_back([granted = std::move(waiting->granted), status] { granted(status); });
      count(waiting->lock.holder.peer, static_cast<std::size_t>(-1));
      waiting = file.waiting.erase(waiting);
    }
    if (calls.size() != before) touched.push_back(number);
  }
  for (const std::uint64_t number : touched) {
    grant_waiting(files_[number], calls);  // what waited only for the cancelled ones
    forget_if_unused(number);
  }
  for (const auto& call : calls) call();
}

void Locks::cancel(Ticket ticket, const Status& status) {
  const auto found = files_of_tickets_.find(ticket);
  if (found == files_of_tickets_.end()) return;
  const std::uint64_t number = found->second;
  File& file = files_[number];
  const auto waiting =
      std::find_if(file.waiting.begin(), file.waiting.end(), [&](const Waiting& one) { return one.ticket == ticket; });
  Calls calls;
  calls.push_back([granted = std::move(waiting->granted), status] { granted(status); });
  count(waiting->lock.holder.peer, static_cast<std::size_t>(-1));
  file.waiting.erase(waiting);
  files_of_tickets_.erase(found);
  grant_waiting(file, calls);
  forget_if_unused(number);
  for (const auto& call : calls) call();
}

void Locks::cancel_all(const Status& status) {
  cancel_if([](const Waiting&) { return true; }, status);
}

void Locks::drop(net::PeerId peer) {
  cancel_if([&](const Waiting& waiting) { return waiting.lock.holder.peer == peer; },
            {ErrorCode::kUnavailable, "lock: the caller is gone"});
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, file] : files_) numbers.push_back(number);
  Calls calls;
  for (const std::uint64_t number : numbers) {
    File& file = files_[number];
    const std::size_t erased = std::erase_if(file.held, [&](const Lock& lock) { return lock.holder.peer == peer; });
    if (erased != 0) count(peer, std::size_t{0} - erased);
    if (erased != 0) grant_waiting(file, calls);
    forget_if_unused(number);
  }
  for (const auto& call : calls) call();
}

}  // namespace weir::server::internal
