// Answers a second of the batch engine for small layouts.  The budget is 100,000.

#include <benchmark/benchmark.h>

#include <string>

#include <weir/cli/internal/batch.h>

namespace {

void answer_lines(benchmark::State& state, const std::string& line) {
  weir::cli::internal::BatchEngine engine;
  std::string out;
  for (auto _ : state) {
    out.clear();
    engine.answer(line, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK_CAPTURE(answer_lines, map,
                  R"~({"op":"map","layout":"stripe(unit=64K, over=4)","element":1,"x":70000,"mode":"next"})~");
BENCHMARK_CAPTURE(
    answer_lines, unmap,
    R"~({"op":"unmap","layout":"hpf(shape=[64,64], elem=8, dist=(*,BLOCK), grid=[1,4])","element":1,"y":700})~");
BENCHMARK_CAPTURE(answer_lines, segments,
                  R"~({"op":"segments","layout":"stripe(unit=4, over=3)","element":1,"from":2,"to":40})~");
BENCHMARK_CAPTURE(answer_lines, intersect,
                  R"~({"op":"intersect","a":"hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,4])","ai":0,)~"
                  R"~("b":"stripe(unit=16, over=4)","bi":0,"from":0,"to":64})~");
BENCHMARK_CAPTURE(answer_lines, project,
                  R"~({"op":"project","a":"hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,4])","ai":0,)~"
                  R"~("b":"stripe(unit=16, over=4)","bi":0})~");
BENCHMARK_CAPTURE(answer_lines, cut, R"~({"op":"cut","falls":"(3,5,6,5)","l":4,"r":28})~");
BENCHMARK_CAPTURE(answer_lines, error, R"({"op":"map","layout":"stripe(unit=4","element":1,"x":1})");

}  // namespace
