#pragma once

// One at a time per subfile, in the order of arrival.
//
// Memory that a store maps is valid until the next call on that subfile, and bodies of messages arrive in it (or leave from it) while the event loop
// goes on.  So whoever works on a subfile takes its turn, and others wait.

#include <deque>
#include <functional>
#include <map>
#include <utility>

#include <weir/storage/store.h>

namespace weir::server::internal {

/// \threadsafety One thread at a time.
class Turns {
 public:
  using Task = std::function<void()>;

  /// Calls `task` when it is its turn, maybe before this returns.  Its turn ends with leave().
  void take(storage::SubfileId id, Task task) {
    Queue& queue = queues_[id];
    queue.tasks.push_back(std::move(task));
    if (!queue.is_taken && !queue.is_running) run(id);
  }

  void leave(storage::SubfileId id) {
    Queue& queue = queues_.at(id);
    queue.is_taken = false;
    if (!queue.is_running) run(id);
  }

  [[nodiscard]] std::size_t size() const noexcept { return queues_.size(); }

 private:
  struct Queue {
    std::deque<Task> tasks;
    bool is_taken = false;
    bool is_running = false;  // run() is at work further up the stack: it goes on
  };

  // A loop and no recursion: tasks that leave at once do not pile up on the stack.
  void run(storage::SubfileId id) {
    Queue& queue = queues_.at(id);
    queue.is_running = true;
    while (!queue.is_taken && !queue.tasks.empty()) {
      const Task task = std::move(queue.tasks.front());
      queue.tasks.pop_front();
      queue.is_taken = true;
      task();
    }
    queue.is_running = false;
    if (!queue.is_taken && queue.tasks.empty()) queues_.erase(id);
  }

  std::map<storage::SubfileId, Queue> queues_;  // of subfiles somebody is at work on; a map keeps references valid
};

}  // namespace weir::server::internal
