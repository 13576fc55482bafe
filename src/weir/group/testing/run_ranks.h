#pragma once

// For tests only, not installed.

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <weir/group/thread_group.h>

namespace weir::group::testing {

/// Calls `work` in so many threads, each with its member of one group, and waits for all of them.
inline void run_ranks(int ranks, const std::function<void(std::unique_ptr<Group> group)>& work,
                      const Limit& limit = {}) {
  auto members = ThreadGroup::create(ranks, limit);
  std::vector<std::jthread> threads;
  for (auto& member : members) {
    threads.emplace_back([&work, own = std::move(member)]() mutable { work(std::move(own)); });
  }
}

}  // namespace weir::group::testing
