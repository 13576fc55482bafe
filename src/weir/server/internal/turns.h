#pragma once

// Who works on a subfile, in the order of arrival.
//
// Some accesses to a subfile take several steps while the event loop goes on: bodies arrive in mapped memory, which is
// valid until the next operation on the subfile; windows are read, changed and written back; fences and removals are
// checked before and noted after.  These are alone.  Plain reads and writes of a store go together: it keeps those in
// order that conflict.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <utility>

#include <weir/storage/store.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time.
class Turns {
 public:
  using Task = std::function<void()>;
  enum class Kind : std::uint8_t { kAlone, kTogether };

  /// Calls `task` when it is its turn, maybe before this returns.  Its turn ends with leave().
  void take(storage::SubfileId id, Kind kind, Task task) {
    Queue& queue = queues_[id];
    queue.waiting.push_back({kind, std::move(task)});
    if (!queue.is_running) run(id);
  }

  void leave(storage::SubfileId id) {
    Queue& queue = queues_.at(id);
    --queue.at_work;
    if (!queue.is_running) run(id);
  }

  [[nodiscard]] std::size_t size() const noexcept { return queues_.size(); }

 private:
  struct Waiting {
    Kind kind;
    Task task;
  };
  struct Queue {
    std::list<Waiting> waiting;  // takes no memory while nobody waits
    std::size_t at_work = 0;
    Kind kind = Kind::kAlone;  // of those at work
    bool is_running = false;   // run() is at work further up the stack: it goes on

    [[nodiscard]] bool lets_in_next() const {
      return !waiting.empty() && (at_work == 0 || (kind == Kind::kTogether && waiting.front().kind == kind));
    }
  };

  // A loop and no recursion: tasks that leave at once do not pile up on the stack.
  void run(storage::SubfileId id) {
    Queue& queue = queues_.at(id);
    queue.is_running = true;
    while (queue.lets_in_next()) {
      const Waiting next = std::move(queue.waiting.front());
      queue.waiting.pop_front();
      queue.kind = next.kind;
      ++queue.at_work;
      next.task();
    }
    queue.is_running = false;
    if (queue.at_work == 0) queues_.erase(id);
  }

  std::map<storage::SubfileId, Queue> queues_;  // of subfiles somebody is at work on; a map keeps references valid
};

}  // namespace weir::server::internal
