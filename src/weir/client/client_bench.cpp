// Small accesses, where every step of the client shows.

#include <algorithm>
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
