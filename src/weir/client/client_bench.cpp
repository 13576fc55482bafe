// Small accesses, where every step of the client shows.

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <weir/embedded/embedded.h>
#include <weir/layout/language.h>

namespace weir::client {
namespace {

// 64-byte reads at random places of a file of 64 MiB in 4 subfiles; direct or by message to servers in this process.
void BM_ReadSmall(benchmark::State& state) {
  const auto system = embedded({.servers = 2, .capacity_bytes = Offset{1} << 28, .direct = state.range(0) != 0});
  if (!system.is_ok()) return state.SkipWithError(system.status().message().c_str());
  const auto file = system->file_system().create("/file", *layout::parse("stripe(unit=64K, over=4)"));
  if (!file.is_ok()) return state.SkipWithError(file.status().message().c_str());
  const auto view = file->linear();
  std::vector<std::byte> memory(std::size_t{64} << 20, std::byte{1});
  if (!view.is_ok() || !view->write(0, memory).is_ok()) return state.SkipWithError("write");
  std::uint64_t at = 1;
  for (auto _ : state) {
    at = at * 6364136223846793005u + 1442695040888963407u;
    const auto from = static_cast<Offset>((at >> 33) % ((std::uint64_t{64} << 20) - 64));
    if (!view->read(from, std::span(memory).first(64)).is_ok()) return state.SkipWithError("read");
    benchmark::DoNotOptimize(memory.data());
  }
}
BENCHMARK(BM_ReadSmall)->ArgName("direct")->Arg(1)->Arg(0)->UseRealTime();

// A view of columns on a layout of rows, for matrices of any size.
void BM_BindView(benchmark::State& state) {
  const auto system = embedded({.servers = 2, .capacity_bytes = Offset{1} << 28});
  if (!system.is_ok()) return state.SkipWithError(system.status().message().c_str());
  const std::string shape = "hpf(shape=[" + std::to_string(state.range(0)) + "," + std::to_string(state.range(0)) + "]";
  const auto file =
      system->file_system().create("/file", *layout::parse(shape + ", elem=8, dist=(BLOCK,*), grid=[4,1])"));
  if (!file.is_ok()) return state.SkipWithError(file.status().message().c_str());
  const auto columns = *layout::parse(shape + ", elem=8, dist=(*,BLOCK), grid=[1,4])")->element(1);
  for (auto _ : state) {
    if (!file->view(columns).is_ok()) return state.SkipWithError("view");
  }
}
BENCHMARK(BM_BindView)->ArgName("edge")->Arg(256)->Arg(8192)->UseRealTime();

// 16 MiB of rows of 8-byte elements to a layout of columns, and to one of rows.
void BM_WriteRows(benchmark::State& state) {
  const auto system = embedded({.servers = 2, .capacity_bytes = Offset{1} << 28, .direct = state.range(1) != 0});
  if (!system.is_ok()) return state.SkipWithError(system.status().message().c_str());
  const auto rows = *layout::parse("hpf(shape=[2048,2048], elem=8, dist=(BLOCK,*), grid=[2,1])");
  const auto columns = *layout::parse("hpf(shape=[2048,2048], elem=8, dist=(*,BLOCK), grid=[1,2])");
  const auto file = system->file_system().create("/file", state.range(0) != 0 ? rows : columns);
  if (!file.is_ok()) return state.SkipWithError(file.status().message().c_str());
  const auto view = file->view(*rows.element(1));
  const std::vector<std::byte> memory(std::size_t{16} << 20, std::byte{1});
  if (!view.is_ok()) return state.SkipWithError("view");
  for (auto _ : state) {
    if (!view->write(0, memory).is_ok()) return state.SkipWithError("write");
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(memory.size()));
}
BENCHMARK(BM_WriteRows)
    ->ArgNames({"matching", "direct"})
    ->Args({1, 1})
    ->Args({0, 1})
    ->Args({1, 0})
    ->Args({0, 0})
    ->UseRealTime();

// Accesses of so many bytes to mapped memory with checksums and without: the ratio is what --verify-memory costs.
struct VerifiedFile {
  explicit VerifiedFile(benchmark::State& state)
      : system(embedded({.capacity_bytes = Offset{1} << 28, .verifies_memory = state.range(0) != 0})) {
    if (!system.is_ok()) return;
    file = system->file_system().create("/file", *layout::parse("stripe(unit=64K, over=1)"));
    if (file.is_ok()) view = file->linear();
    is_made = view.is_ok() && view->write(0, memory).is_ok() && file->sync().is_ok();
  }
  Result<Embedded> system;
  Result<File> file = Status(ErrorCode::kNotFound, "");
  Result<View> view = Status(ErrorCode::kNotFound, "");
  std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{16} << 20, std::byte{1});
  bool is_made = false;
};

template <typename Work>
void access_verified(benchmark::State& state, Work work) {
  VerifiedFile made(state);
  if (!made.is_made) return state.SkipWithError("cannot make the file");
  const std::span<std::byte> bytes = std::span(made.memory).first(static_cast<std::size_t>(state.range(1)));
  for (auto _ : state) {
    if (!work(made, bytes)) return state.SkipWithError("access");
  }
  state.SetBytesProcessed(state.iterations() * state.range(1));
}

void BM_VerifiedRead(benchmark::State& state) {
  access_verified(state, [](VerifiedFile& made, auto bytes) { return made.view->read(0, bytes).is_ok(); });
}
BENCHMARK(BM_VerifiedRead)->ArgNames({"verify", "bytes"})->ArgsProduct({{0, 1}, {64, 65536, 16 << 20}})->UseRealTime();

void BM_VerifiedWrite(benchmark::State& state) {
  access_verified(state, [](VerifiedFile& made, auto bytes) { return made.view->write(0, bytes).is_ok(); });
}
BENCHMARK(BM_VerifiedWrite)->ArgNames({"verify", "bytes"})->ArgsProduct({{0, 1}, {64, 65536, 16 << 20}})->UseRealTime();

void BM_VerifiedWriteAndSync(benchmark::State& state) {
  access_verified(state, [](VerifiedFile& made, auto bytes) {
    return made.view->write(0, bytes).is_ok() && made.file->sync().is_ok();
  });
}
BENCHMARK(BM_VerifiedWriteAndSync)
    ->ArgNames({"verify", "bytes"})
    ->ArgsProduct({{0, 1}, {65536, 16 << 20}})
    ->UseRealTime();

void BM_Memcpy(benchmark::State& state) {
  const std::vector<std::byte> from(std::size_t{16} << 20, std::byte{1});
  std::vector<std::byte> to(from.size());
  for (auto _ : state) {
    std::copy(from.begin(), from.end(), to.begin());
    benchmark::DoNotOptimize(to.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(from.size()));
}
BENCHMARK(BM_Memcpy)->UseRealTime();

}  // namespace
}  // namespace weir::client
