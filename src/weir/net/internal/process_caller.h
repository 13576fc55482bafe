#pragma once

// The calling end for other processes.  Its owner drives it by progress() and wait(), or, for a listener's caller, the
// listener's loop does in smaller steps.

#include <atomic>
#include <memory>

#include <weir/base/descriptor.h>
#include <weir/net/internal/links.h>
#include <weir/net/internal/transports.h>
#include <weir/net/net.h>

namespace weir::net::internal {

class CallerState;

class ProcessCaller final : public Caller {
 public:
  static Result<std::unique_ptr<ProcessCaller>> create(std::uint32_t version, Rings rings,
                                                       const runtime::Runtime& runtime);
  ProcessCaller(std::uint32_t version, Rings rings, const runtime::Runtime& runtime, Descriptor wake_fd);

  std::unique_ptr<Connection> connect(const Address& address, const Key& key, Deadline deadline) override;
  void progress() override;
  void wait(Deadline deadline) override;
  void wake() override;

  // ---- for a loop that drives it

  /// Does what can be done now, but for completions.  \returns whether something has happened
  bool advance();
  [[nodiscard]] bool has_completions() const;
  void run_completions();
  /// When advance() has something to do, even if nothing comes.
  [[nodiscard]] Deadline next_look() const;
  [[nodiscard]] Links& links();

 private:
  std::shared_ptr<CallerState> state_;
  std::uint32_t version_;
  Descriptor wake_fd_;
  std::atomic<bool> is_woken_{false};
};

}  // namespace weir::net::internal
