#pragma once

// How mpiio_bench reaches its files: by MPI-IO, Weir's or the MPI's own, and by hand.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include "mpiio_patterns.h"

namespace weir::mpiio_bench {

enum class Operation { kWrite, kRewrite, kRead, kDurable, kCold };
constexpr std::pair<Operation, const char*> kOperations[] = {{Operation::kWrite, "write"},
                                                             {Operation::kRewrite, "rewrite"},
                                                             {Operation::kRead, "read"},
                                                             {Operation::kDurable, "durable"},
                                                             {Operation::kCold, "cold"}};

bool makes_file(Operation operation);
bool only_reads(Operation operation);
bool uses_disk(const Settings& settings);
bool is_asked(Operation operation, const char* name, const Settings& settings);

struct HintSet {
  std::string name;
  std::vector<std::pair<std::string, std::string>> hints;
};

/// What the manuals of ROMIO and OMPIO recommend, for patterns like these; the first is the default.
const std::vector<HintSet>& hint_sets();

struct Job {
  const Pattern& pattern;
  bool collective = false;
  Operation operation = Operation::kWrite;
  std::vector<std::byte> memory;
};

/// From the start of the first rank to the end of the last: ranks that share a core do not run at the same time.
/// Collective, on one host.
double seconds_of(const std::function<void()>& turn);

/// A file of the MPI library, or of Weir: the calls are the same.
class MpiFile {
 public:
  MpiFile(const std::string& path, const HintSet& set, bool fresh);
  ~MpiFile() { MPI_File_close(&file_); }
  MpiFile(const MpiFile&) = delete;
  MpiFile& operator=(const MpiFile&) = delete;

  void set_view(const Pattern& pattern);
  /// A single piece, as the bytes from a displacement on.
  void set_plain_view(const Piece& piece);
  /// Of a file of Weir.  A layout too long for MPI_Info is none of stripes.
  [[nodiscard]] bool is_striped() const;
  void run(Job& job);

 private:
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
};

/// What an expert would write: who owns which part of the file is worked out beforehand, then pack, MPI_Alltoallv,
/// unpack, one pwrite (pread) of a contiguous part per rank.
class Manual {
 public:
  Manual(const Pattern& pattern, std::string path);
  ~Manual();
  Manual(const Manual&) = delete;
  Manual& operator=(const Manual&) = delete;

  void empty() const;
  void run(Job& job);

 private:
  using Lists = std::vector<std::vector<Piece>>;

  void move(bool write);

  std::string path_;
  int descriptor_ = -1;
  Offset first_ = 0;
  bool covers_all_ = false;
  std::vector<std::byte> domain_;
  Lists mine_;
  Lists theirs_;
  std::vector<int> mine_counts_, mine_places_, their_counts_, their_places_;
  std::vector<std::byte> out_, in_;
};

/// "/weir_mpiio_bench.ID.": the beginning of names that other runs on this machine do not have.  Collective.
std::string file_name();

/// Puts into memory what the pattern's pieces of the file hold.
void fill(Job& job);
/// Ends the program unless that is there.
void check(const Job& job, const std::string& who);
/// Collective: makes a file of that content.
void write_linear(const std::string& path, Offset bytes);

}  // namespace weir::mpiio_bench
