#include "mpiio_files.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

namespace weir::mpiio_bench {

bool makes_file(Operation operation) { return operation == Operation::kWrite || operation == Operation::kDurable; }

bool only_reads(Operation operation) { return operation == Operation::kRead || operation == Operation::kCold; }

bool uses_disk(const Settings& settings) { return !settings.disk.empty() || settings.store != "memory"; }

bool is_asked(Operation operation, const char* name, const Settings& settings) {
  if (!settings.operations.empty()) return name == settings.operations;
  return (operation != Operation::kDurable && operation != Operation::kCold) || uses_disk(settings);
}

const std::vector<HintSet>& hint_sets() {
  static const std::vector<HintSet> sets = {
      {"default", {}},
      {"no sieving", {{"romio_ds_write", "disable"}, {"romio_ds_read", "disable"}}},
      {"large sieve",
       {{"romio_ds_write", "enable"}, {"ind_wr_buffer_size", "16777216"}, {"ind_rd_buffer_size", "16777216"}}},
      {"aggregate",
       {{"romio_cb_write", "enable"},
        {"romio_cb_read", "enable"},
        {"collective_buffering", "true"},
        {"cb_nodes", std::to_string(world_size())},
        {"cb_buffer_size", "67108864"}}},
      {"no aggregation",
       {{"romio_cb_write", "disable"}, {"romio_cb_read", "disable"}, {"collective_buffering", "false"}}},
  };
  return sets;
}

namespace {

// Of the clock that all processes of a host share.
double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

MPI_Info info_of(const HintSet& set) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  for (const auto& hint : set.hints) MPI_Info_set(info, hint.first.c_str(), hint.second.c_str());
  return info;
}

}  // namespace

std::string file_name() {
  int id = static_cast<int>(::getpid());
  MPI_Bcast(&id, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return "/weir_mpiio_bench." + std::to_string(id) + ".";
}

double seconds_of(const std::function<void()>& turn) {
  MPI_Barrier(MPI_COMM_WORLD);
  double times[2] = {-now_seconds(), 0};
  turn();
  times[1] = now_seconds();
  double last[2] = {0, 0};
  MPI_Allreduce(times, last, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return last[1] + last[0];
}

MpiFile::MpiFile(const std::string& path, const HintSet& set, bool fresh) : path_(path) {
  if (fresh && world_rank() == 0) MPI_File_delete(path.c_str(), MPI_INFO_NULL);  // it need not exist
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Info info = info_of(set);
  require_mpi(MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file_),
              "open " + path);
  MPI_Info_free(&info);
}

void MpiFile::set_view(const Pattern& pattern) {
  char representation[] = "native";
  require_mpi(MPI_File_set_view(file_, pattern.disp, pattern.etype, pattern.filetype, representation, MPI_INFO_NULL),
              "set_view " + path_);
}

void MpiFile::set_plain_view(const Piece& piece) {
  char representation[] = "native";
  require_mpi(MPI_File_set_view(file_, piece.file, MPI_BYTE, MPI_BYTE, representation, MPI_INFO_NULL),
              "set_view " + path_);
}

bool MpiFile::is_striped() const {
  MPI_Info info = MPI_INFO_NULL;
  require_mpi(MPI_File_get_info(file_, &info), "get_info " + path_);
  char layout[MPI_MAX_INFO_VAL + 1] = "";
  int is_there = 0;
  MPI_Info_get(info, "weir_layout", MPI_MAX_INFO_VAL, layout, &is_there);
  MPI_Info_free(&info);
  return is_there != 0 && std::string(layout).rfind("stripe", 0) == 0;
}

void MpiFile::run(Job& job) {
  MPI_Status status;
  const Pattern& pattern = job.pattern;
  void* memory = job.memory.data();
  int code = MPI_SUCCESS;
  if (only_reads(job.operation)) {
    code = job.collective ? MPI_File_read_at_all(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status)
                          : MPI_File_read_at(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status);
  } else {
    code = job.collective ? MPI_File_write_at_all(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status)
                          : MPI_File_write_at(file_, 0, memory, pattern.memory_count, pattern.memory_type, &status);
  }
  require_mpi(code, "access " + path_);
  if (job.operation == Operation::kDurable) require_mpi(MPI_File_sync(file_), "sync " + path_);
  int count = 0;
  MPI_Get_count(&status, pattern.memory_type, &count);
  require(count == pattern.memory_count,
          path_ + ": moved " + std::to_string(count) + " items of " + std::to_string(pattern.memory_count));
}

namespace {

using Lists = std::vector<std::vector<Piece>>;

void count(const Lists& lists, std::vector<int>& counts, std::vector<int>& places, std::vector<std::byte>& buffer) {
  int at = 0;
  for (const auto& list : lists) {
    Offset bytes = 0;
    for (const Piece& piece : list) bytes += piece.length;
    counts.push_back(static_cast<int>(bytes));
    places.push_back(at);
    at += static_cast<int>(bytes);
  }
  buffer.resize(static_cast<std::size_t>(at));
}

// `data` is where the offset 0 of the pieces would be.
void pack(const Lists& lists, Offset Piece::*at, const std::byte* data, std::vector<std::byte>& buffer) {
  std::byte* to = buffer.data();
  for (const auto& list : lists) {
    for (const Piece& piece : list) {
      std::memcpy(to, data + piece.*at, static_cast<std::size_t>(piece.length));
      to += piece.length;
    }
  }
}
void unpack(const Lists& lists, Offset Piece::*at, const std::vector<std::byte>& buffer, std::byte* data) {
  const std::byte* from = buffer.data();
  for (const auto& list : lists) {
    for (const Piece& piece : list) {
      std::memcpy(data + piece.*at, from, static_cast<std::size_t>(piece.length));
      from += piece.length;
    }
  }
}

}  // namespace

Manual::Manual(const Pattern& pattern, std::string path) : path_(std::move(path)) {
  const int ranks = world_size();
  const Offset share = (pattern.file_bytes + ranks - 1) / ranks;
  first_ = std::min(pattern.file_bytes, share * world_rank());
  domain_.resize(static_cast<std::size_t>(std::min(pattern.file_bytes, first_ + share) - first_));
  const auto cut = [share](const Piece& piece, auto&& use) {
    for (Offset done = 0; done < piece.length;) {
      const Offset at = piece.file + done;
      const Offset length = std::min(piece.length - done, (at / share + 1) * share - at);
      use(static_cast<int>(at / share), Piece{at, piece.memory + done, length});
      done += length;
    }
  };
  mine_.resize(static_cast<std::size_t>(ranks));
  theirs_.resize(static_cast<std::size_t>(ranks));
  for (const Piece& piece : pattern.mine) {
    cut(piece, [this](int owner, const Piece& part) { mine_[static_cast<std::size_t>(owner)].push_back(part); });
  }
  for (int rank = 0; rank < ranks; ++rank) {
    for (const Piece& piece : pattern.pieces(rank)) {
      cut(piece, [this, rank](int owner, const Piece& part) {
        if (owner == world_rank()) theirs_[static_cast<std::size_t>(rank)].push_back(part);
      });
    }
  }
  count(mine_, mine_counts_, mine_places_, out_);
  count(theirs_, their_counts_, their_places_, in_);
  covers_all_ = static_cast<Offset>(in_.size()) >= static_cast<Offset>(domain_.size());
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT, 0600);
  require(descriptor_ >= 0, "open " + path_);
}

Manual::~Manual() { ::close(descriptor_); }

void Manual::empty() const { require(::ftruncate(descriptor_, 0) == 0, "truncate " + path_); }

void Manual::run(Job& job) {
  if (only_reads(job.operation)) {
    move(false);
    pack(theirs_, &Piece::file, domain_.data() - first_, in_);
    MPI_Alltoallv(in_.data(), their_counts_.data(), their_places_.data(), MPI_BYTE, out_.data(), mine_counts_.data(),
                  mine_places_.data(), MPI_BYTE, MPI_COMM_WORLD);
    unpack(mine_, &Piece::memory, out_, job.memory.data());
    return;
  }
  pack(mine_, &Piece::memory, job.memory.data(), out_);
  MPI_Alltoallv(out_.data(), mine_counts_.data(), mine_places_.data(), MPI_BYTE, in_.data(), their_counts_.data(),
                their_places_.data(), MPI_BYTE, MPI_COMM_WORLD);
  if (!covers_all_) move(false);  // bytes between the pieces stay as they are
  unpack(theirs_, &Piece::file, in_, domain_.data() - first_);
  move(true);
  if (job.operation == Operation::kDurable) require(::fsync(descriptor_) == 0, "fsync " + path_);
}

void Manual::move(bool write) {
  std::size_t done = 0;
  while (done < domain_.size()) {
    const ssize_t moved =
        write ? ::pwrite(descriptor_, domain_.data() + done, domain_.size() - done, first_ + static_cast<Offset>(done))
              : ::pread(descriptor_, domain_.data() + done, domain_.size() - done, first_ + static_cast<Offset>(done));
    if (moved == 0 && !write) break;  // a new file
    require(moved > 0, (write ? "pwrite " : "pread ") + path_);
    done += static_cast<std::size_t>(moved);
  }
}

void fill(Job& job) {
  for (const Piece& piece : job.pattern.mine) {
    for (Offset i = 0; i < piece.length; ++i)
      job.memory[static_cast<std::size_t>(piece.memory + i)] = content(piece.file + i);
  }
}

void check(const Job& job, const std::string& who) {
  for (const Piece& piece : job.pattern.mine) {
    for (Offset i = 0; i < piece.length; ++i) {
      if (job.memory[static_cast<std::size_t>(piece.memory + i)] == content(piece.file + i)) continue;
      give_up(who + ", " + job.pattern.name + ": wrong byte at " + std::to_string(piece.file + i));
    }
  }
}

void write_linear(const std::string& path, Offset bytes) {
  const Pattern pattern = contiguous(bytes);
  Job job{pattern, true, Operation::kWrite, std::vector<std::byte>(static_cast<std::size_t>(pattern.memory_span))};
  fill(job);
  MpiFile file(path, hint_sets().front(), true);
  file.set_view(pattern);
  file.run(job);
}

}  // namespace weir::mpiio_bench
