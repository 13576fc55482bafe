// Runs a fuzzer's entry function on the files given (of folders: all files in them), without libFuzzer, so that
// every compiler and every sanitizer tries the seeds in an ordinary test.  From each seed it derives damaged inputs
// the same way each time: prefixes, and bytes replaced by a few nasty values, about as many as the first argument
// says.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::uint8_t>;

std::size_t inputs_run = 0;

void run(const Bytes& input) {
  // An exact-size copy on the heap: reading one byte too far is then visible to a sanitizer.
  const Bytes copy(input.begin(), input.end());
  LLVMFuzzerTestOneInput(copy.data(), copy.size());
  ++inputs_run;
}

void run_damaged(const Bytes& seed, std::size_t most) {
  constexpr std::uint8_t kNasty[] = {0x00, 0xff, 0x80, 0x7f, '(', '9', '-', ','};
  const std::size_t per_byte = 1 + std::size(kNasty);
  const std::size_t step = std::max<std::size_t>(1, seed.size() * per_byte / most);
  for (std::size_t at = 0; at < seed.size(); at += step) {
    run(Bytes(seed.begin(), seed.begin() + static_cast<std::ptrdiff_t>(at)));
    for (const std::uint8_t value : kNasty) {
      Bytes damaged = seed;
      damaged[at] = value;
      run(damaged);
    }
  }
}

bool run_file(const fs::path& path, std::size_t most_damages) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) {
    std::fprintf(stderr, "cannot read seed %s\n", path.c_str());
    return false;
  }
  // On a crash the last line printed names the seed.
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);
  const Bytes seed(text.begin(), text.end());
  run(seed);
  run_damaged(seed, most_damages);
  return true;
}

/// The files named, and those in the folders named, in a fixed order.
std::vector<fs::path> list_seeds(int argc, char** argv) {
  std::vector<fs::path> seeds;
  for (int i = 2; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      seeds.emplace_back(argv[i]);
      continue;
    }
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) seeds.push_back(entry.path());
    }
  }
  std::sort(seeds.begin(), seeds.end());
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t most_damages = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 0;
  const std::vector<fs::path> seeds = list_seeds(argc, argv);
  if (seeds.empty() || most_damages == 0) {
    std::fprintf(stderr, "usage: %s MOST_DAMAGES_OF_A_SEED SEED_FILE_OR_FOLDER...; no seeds found\n", argv[0]);
    return 2;
  }
  run({});
  for (const fs::path& seed : seeds) {
    if (!run_file(seed, most_damages)) return 1;
  }
  std::printf("%zu inputs from %zu seeds\n", inputs_run, seeds.size());
  return 0;
}
