// Several threads of each rank at once, under MPI_THREAD_MULTIPLE: independent accesses of all kinds to files that they
// share and to files of their own, requests of files beside those of messages, and messages.  Exit code 77: the MPI
// does not offer that.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 25;
constexpr int kInts = 600;  // of an access
constexpr int kSkipped = 77;

int rank = 0;
int ranks = 1;
std::atomic<int> failures{0};

void fail(const std::string& what) {
  if (failures++ < 10) std::fprintf(stderr, "[rank %d] %s\n", rank, what.c_str());
}

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(std::string(what) + ": " + text);
}

MPI_File open_file(MPI_Comm comm, const std::string& name) {
  MPI_File file = MPI_FILE_NULL;
  check(MPI_File_open(comm, name.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
  return file;
}

// What a thread writes in a round.
std::vector<int> values_of(int of_rank, int thread, int round) {
  std::vector<int> values(kInts);
  std::iota(values.begin(), values.end(), ((of_rank * kThreads + thread) * kRounds + round) * kInts);
  return values;
}

struct Files {
  MPI_File common;   // each thread has places of its own
  MPI_File ordered;  // written at the shared pointer
  MPI_File atomic;   // all write the same place
};

class Worker {
 public:
  Worker(const Files& files, MPI_Comm messages, MPI_Comm alone, int thread)
      : files_(files), messages_(messages), alone_(alone), thread_(thread) {
    // Every second int of memory.
    MPI_Type_vector(kInts, 1, 2, MPI_INT, &gaps_);
    MPI_Type_commit(&gaps_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { MPI_Type_free(&gaps_); }

  void run() {
    own_ = open_own();
    for (round_ = 0; round_ < kRounds; ++round_) {
      write_common();
      exchange_beside_requests();
      read_common();
      use_own();
      write_ordered();
      write_atomically();
    }
    check(MPI_File_close(&own_), "close");
  }

 private:
  [[nodiscard]] MPI_Offset place() const {
    return ((MPI_Offset{rank} * kThreads + thread_) * kRounds + round_) * kInts * MPI_Offset{sizeof(int)};
  }

  MPI_File open_own() {
    MPI_File file = open_file(alone_, "weir:/threads-own-" + std::to_string(rank) + "-" + std::to_string(thread_));
    MPI_Datatype strided = MPI_DATATYPE_NULL;
    MPI_Type_create_resized(MPI_INT, 0, 12, &strided);
    MPI_Type_commit(&strided);
    check(MPI_File_set_view(file, 4 * thread_, MPI_INT, strided, "native", MPI_INFO_NULL), "set_view");
    MPI_Type_free(&strided);
    return file;
  }

  void write_common() {
    const std::vector<int> values = values_of(rank, thread_, round_);
    if (round_ % 3 == 0) {
      check(MPI_File_write_at(files_.common, place(), values.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), "write_at");
    } else if (round_ % 3 == 1) {
      std::vector<int> spread(2 * kInts);
      for (std::size_t i = 0; i < kInts; ++i) spread[2 * i] = values[i];
      check(MPI_File_write_at(files_.common, place(), spread.data(), 1, gaps_, MPI_STATUS_IGNORE), "write_at, gaps");
    } else {
      MPI_Request request = MPI_REQUEST_NULL;
      check(MPI_File_iwrite_at(files_.common, place(), values.data(), kInts, MPI_INT, &request), "iwrite_at");
      for (int is_done = 0; is_done == 0;) check(MPI_Test(&request, &is_done, MPI_STATUS_IGNORE), "test");
    }
  }

  // A message around the ring of ranks, thread by thread, and accesses under way meanwhile.
  void exchange_beside_requests() {
    const std::vector<int> values = values_of(rank, thread_, round_);
    const int left = (rank + ranks - 1) % ranks;
    std::vector<int> received(kInts, -1);
    std::vector<int> read(kInts, -1);
    MPI_Request requests[4];
    check(MPI_File_iread_at(files_.common, place(), read.data(), kInts, MPI_INT, &requests[0]), "iread_at");
    MPI_Irecv(received.data(), kInts, MPI_INT, left, thread_, messages_, &requests[1]);
    MPI_Isend(values.data(), kInts, MPI_INT, (rank + 1) % ranks, thread_, messages_, &requests[2]);
    check(MPI_File_iwrite_at(files_.common, place(), values.data(), kInts, MPI_INT, &requests[3]), "iwrite_at");
    MPI_Status statuses[4];
    check(MPI_Waitall(4, requests, statuses), "waitall");
    int count = 0;
    MPI_Get_count(&statuses[0], MPI_INT, &count);
    if (count != kInts) fail("a read of " + std::to_string(count) + " ints");
    if (read != values) fail("iread_at: other values");
    if (received != values_of(left, thread_, round_)) fail("a message with other values");
  }

  void read_common() {
    std::vector<int> read(2 * kInts, -1);
    check(MPI_File_read_at(files_.common, place(), read.data(), 1, gaps_, MPI_STATUS_IGNORE), "read_at, gaps");
    const std::vector<int> values = values_of(rank, thread_, round_);
    for (std::size_t i = 0; i < kInts; ++i) {
      if (read[2 * i] != values[i]) return fail("read_at: other values");
    }
  }

  // Its own pointer, and now and then another handle.
  void use_own() {
    const std::vector<int> values = values_of(rank, thread_, round_);
    check(MPI_File_write(own_, values.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), "write");
    std::vector<int> read(kInts, -1);
    check(MPI_File_seek(own_, -kInts, MPI_SEEK_CUR), "seek");
    check(MPI_File_read(own_, read.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), "read");
    if (read != values) fail("read: other values");
    if (round_ % 8 != 7) return;
    check(MPI_File_close(&own_), "close");
    own_ = open_own();
    check(MPI_File_seek(own_, 0, MPI_SEEK_END), "seek");
  }

  void write_ordered() {
    const int value = (rank * kThreads + thread_) * kRounds + round_;
    if (round_ % 2 == 0) {
      return check(MPI_File_write_shared(files_.ordered, &value, 1, MPI_INT, MPI_STATUS_IGNORE), "write_shared");
    }
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_File_iwrite_shared(files_.ordered, &value, 1, MPI_INT, &request), "iwrite_shared");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "wait");
  }

  void write_atomically() {
    const std::vector<int> mine(kInts, 1 + rank * kThreads + thread_);
    check(MPI_File_write_at(files_.atomic, 0, mine.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), "atomic write");
    std::vector<int> read(kInts);
    check(MPI_File_read_at(files_.atomic, 0, read.data(), kInts, MPI_INT, MPI_STATUS_IGNORE), "atomic read");
    if (read[0] < 1 || std::count(read.begin(), read.end(), read[0]) != kInts) fail("atomic writes are mixed");
  }

  Files files_;
  MPI_Comm messages_;
  MPI_Comm alone_;
  int thread_;
  int round_ = 0;
  MPI_File own_ = MPI_FILE_NULL;
  MPI_Datatype gaps_ = MPI_DATATYPE_NULL;
};

void run_threads(const Files& files, MPI_Comm messages, const std::vector<MPI_Comm>& alone) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back(
        [&, thread] { Worker(files, messages, alone[static_cast<std::size_t>(thread)], thread).run(); });
  }
  for (std::thread& thread : threads) thread.join();
}

// Every value has one place.
void check_ordered(MPI_File file) {
  const int count = ranks * kThreads * kRounds;
  std::vector<int> values(static_cast<std::size_t>(count), -1);
  check(MPI_File_read_at(file, 0, values.data(), count, MPI_INT, MPI_STATUS_IGNORE), "read");
  std::sort(values.begin(), values.end());
  for (int i = 0; i < count; ++i) {
    if (values[static_cast<std::size_t>(i)] != i) return fail("shared pointer: a place was given twice or not at all");
  }
}

void check_common(MPI_File file) {
  const int count = ranks * kThreads * kRounds * kInts;
  std::vector<int> values(static_cast<std::size_t>(count), -1);
  check(MPI_File_read_at(file, 0, values.data(), count, MPI_INT, MPI_STATUS_IGNORE), "read");
  for (int i = 0; i < count; ++i) {
    if (values[static_cast<std::size_t>(i)] != i) return fail("the common file has other values");
  }
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    std::printf("skipped: this MPI has no MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return kSkipped;
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm messages = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &messages);
  std::vector<MPI_Comm> alone(kThreads, MPI_COMM_NULL);
  for (MPI_Comm& comm : alone) MPI_Comm_dup(MPI_COMM_SELF, &comm);

  Files files{open_file(MPI_COMM_WORLD, "weir:/threads-common"), open_file(MPI_COMM_WORLD, "weir:/threads-ordered"),
              open_file(MPI_COMM_WORLD, "weir:/threads-atomic")};
  check(MPI_File_set_atomicity(files.atomic, 1), "set_atomicity");
  run_threads(files, messages, alone);
  for (MPI_File* file : {&files.common, &files.ordered}) check(MPI_File_sync(*file), "sync");
  MPI_Barrier(MPI_COMM_WORLD);
  check_common(files.common);
  check_ordered(files.ordered);
  for (MPI_File* file : {&files.common, &files.ordered, &files.atomic}) check(MPI_File_close(file), "close");

  int mine = failures;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  for (MPI_Comm& comm : alone) MPI_Comm_free(&comm);
  MPI_Comm_free(&messages);
  MPI_Finalize();
  if (rank == 0) std::printf("%d threads of %d ranks: %d failures\n", kThreads, ranks, all);
  return all == 0 ? 0 : 1;
}
