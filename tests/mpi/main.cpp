// main() of test programs that run under MPI.
//
// Every rank runs every case.  Rank 0 prints as usual; the others print only failures, with their number.  The program fails on all
// ranks if a case fails on any.  A case that would hang ends the run instead of waiting for the launcher's limit.

#include <cstdio>
#include <string>

#include <mpi.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

constexpr unsigned kLongestCaseSeconds = 120;

class FailurePrinter : public testing::EmptyTestEventListener {
 public:
  explicit FailurePrinter(int rank) : rank_(rank) {}

 private:
  void OnTestStart(const testing::TestInfo& info) override {
    name_ = std::string(info.test_suite_name()) + "." + info.name();
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s: %s:%d: %s\n", rank_, name_.c_str(),
                 result.file_name() ? result.file_name() : "?", result.line_number(), result.message());
  }

  int rank_;
  std::string name_;
};

// The default action of the alarm signal ends the process, and with it the run.
class Watchdog : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo&) override { ::alarm(kLongestCaseSeconds); }
  void OnTestEnd(const testing::TestInfo&) override { ::alarm(0); }
};

}  // namespace

int main(int argc, char** argv) {
  // The least that MPI offers to programs with threads elsewhere: no test may need more.
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  testing::InitGoogleMock(&argc, argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter(rank));
  }
  listeners.Append(new Watchdog);
  const int mine = RUN_ALL_TESTS();
  int worst = 0;
  MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0 && worst != 0 && mine == 0) std::fprintf(stderr, "a case failed on another rank, see above\n");
  MPI_Finalize();
  return worst;
}
