#pragma once

// Operations of a store that wait, for tools and tests, and for servers that start or stop.
//
//   WEIR_TRY(const SubfileInfo info, Blocking(store).info(id));

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <weir/base/result.h>
#include <weir/base/task.h>
#include <weir/runtime/runtime.h>
#include <weir/storage/store.h>

namespace weir::storage {

/// Takes the place of the store's loop while it waits.
class Blocking {
 public:
  explicit Blocking(Store& store, const runtime::Runtime& with = runtime::system_runtime())
      : store_(store), runtime_(with) {}

  /// Submits, and returns when it has completed.
  IoBatch run(IoBatch batch);

  /// The same for a task that uses the store: what `work()` gives.
  template <typename Work>
  auto finish(Work work) {
    using Value = decltype(work().await_resume());
    std::optional<Value> result;
    wait([&] { start(std::move(work), [&](Value value) { result = std::move(value); }); },
         [&] { return result.has_value(); });
    return std::move(*result);
  }

  Status read(SubfileId id, std::span<const ReadPiece> pieces);
  Status write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end);
  Status truncate(SubfileId id, Offset length, Offset file_end);
  Status reserve(SubfileId id, Offset from, Offset to);
  Status sync(SubfileId id);
  Result<SubfileInfo> info(SubfileId id);
  Status remove(SubfileId id);
  Result<Usage> usage();
  Result<Offset> stored_bytes();
  Result<std::vector<SubfileId>> list();
  Status keep_fences(std::span<const KeptFence> fences);
  Result<std::vector<KeptFence>> kept_fences();
  Status keep_about(SubfileId id, std::span<const std::byte> about);
  Result<std::optional<std::vector<std::byte>>> kept_about(SubfileId id);
  Result<std::vector<SubfileId>> list_abouts();
  Status set_label(const Label& label);

 private:
  void wait(const std::function<void()>& begin, const std::function<bool()>& is_done);
  Status change(op::Any operation);
  template <typename Ask>
  auto ask(Ask operation) -> Result<decltype(operation.result)>;

  Store& store_;
  runtime::Runtime runtime_;
};

}  // namespace weir::storage
