#include <weir/storage/blocking.h>

#include <utility>

#include <weir/storage/internal/waiting_loop.h>

namespace weir::storage {

void Blocking::wait(const std::function<void()>& begin, const std::function<bool()>& is_done) {
  internal::WaitingLoop loop(runtime_);
  Loop* const before = store_.deliver_to(&loop);
  begin();
  loop.run_until(is_done);
  store_.deliver_to(before);
}

IoBatch Blocking::run(IoBatch batch) {
  IoBatch result;
  bool is_done = false;
  const auto complete = [&](IoBatch completed) {
    result = std::move(completed);
    is_done = true;
  };
  wait([&] { store_.submit(std::move(batch), complete); }, [&] { return is_done; });
  return result;
}

Status Blocking::change(op::Any operation) {
  IoBatch batch;
  batch.operations.push_back({std::move(operation)});
  return run(std::move(batch)).status();
}

template <typename Ask>
auto Blocking::ask(Ask operation) -> Result<decltype(operation.result)> {
  IoBatch batch;
  batch.operations.push_back({std::move(operation)});
  batch = run(std::move(batch));
  if (Status status = batch.status(); !status.is_ok()) return status;
  return std::move(std::get<Ask>(batch.operations[0].what).result);
}

Status Blocking::read(SubfileId id, std::span<const ReadPiece> pieces) {
  return change(op::Read{id, {pieces.begin(), pieces.end()}});
}
Status Blocking::write(SubfileId id, std::span<const WritePiece> pieces, Offset file_end) {
  return change(op::Write{id, {pieces.begin(), pieces.end()}, file_end});
}
Status Blocking::truncate(SubfileId id, Offset length, Offset file_end) {
  return change(op::Truncate{id, length, file_end});
}
Status Blocking::reserve(SubfileId id, Offset from, Offset to) { return change(op::Reserve{id, from, to}); }
Status Blocking::sync(SubfileId id) { return change(op::Sync{id}); }
Result<SubfileInfo> Blocking::info(SubfileId id) { return ask(op::Info{id}); }
Status Blocking::remove(SubfileId id) { return change(op::Remove{id}); }
Result<Usage> Blocking::usage() { return ask(op::GetUsage{}); }
Result<Offset> Blocking::stored_bytes() { return ask(op::StoredBytes{}); }
Result<std::vector<SubfileId>> Blocking::list() { return ask(op::List{}); }
Status Blocking::keep_fences(std::span<const KeptFence> fences) {
  return change(op::KeepFences{{fences.begin(), fences.end()}});
}
Result<std::vector<KeptFence>> Blocking::kept_fences() { return ask(op::KeptFences{}); }
Status Blocking::keep_about(SubfileId id, std::span<const std::byte> about) {
  return change(op::KeepAbout{id, {about.begin(), about.end()}});
}
Result<std::optional<std::vector<std::byte>>> Blocking::kept_about(SubfileId id) { return ask(op::KeptAbout{id}); }
Result<std::vector<SubfileId>> Blocking::list_abouts() { return ask(op::ListAbouts{}); }
Status Blocking::set_label(const Label& label) { return change(op::SetLabel{label}); }

}  // namespace weir::storage
