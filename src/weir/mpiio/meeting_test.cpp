// Ranks that do not make the same collective calls: the next call in which they meet fails and names them; one that
// does not come is named within the time limit.

#include <chrono>
#include <cstdlib>
#include <thread>

#include <weir/base/testing/thread_time.h>
#include <weir/base/text.h>
#include <weir/mpiio/internal/testing.h>

namespace weir::mpiio::internal {
namespace {

using ::testing::HasSubstr;

constexpr int kCreateMode = MPI_MODE_CREATE | MPI_MODE_RDWR;

MPI_File open_new() {
  MPI_File file = MPI_FILE_NULL;
  EXPECT_THAT(MPI_File_open(MPI_COMM_WORLD, test_name().c_str(), kCreateMode, MPI_INFO_NULL, &file), Succeeds());
  return file;
}

// The tests also run without the direct path.
bool needs_messages() {
  const char* const direct = std::getenv("WEIR_DIRECT");
  const char* const method = std::getenv("WEIR_COLLECTIVE");
  return (direct != nullptr && std::string(direct) == "off") || method != nullptr;
}

TEST(MeetingTest, DifferentCollectiveCallsAreNamed) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  OpenedFile file(test_name());
  int value = 0;
  int code = world_rank() == 0 ? MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE)
                               : MPI_File_read_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS) code = MPI_File_sync(file);  // where accesses need no other rank
  EXPECT_THAT(code, FailsWith(MPI_ERR_NOT_SAME));
  EXPECT_THAT(text_of(code), HasSubstr("rank 0: MPI_File_write_all (call "));
  EXPECT_THAT(text_of(code), HasSubstr("MPI_File_read_at_all"));
  EXPECT_THAT(MPI_File_sync(file), Succeeds());  // reported once
}

TEST(MeetingTest, OrderedCallsAreComparedAtOnce) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  OpenedFile file(test_name());
  int value = 0;
  const int code = world_rank() == 0 ? MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE)
                                     : MPI_File_read_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  EXPECT_THAT(code, FailsWith(MPI_ERR_NOT_SAME));
  EXPECT_THAT(text_of(code), HasSubstr("rank 0: MPI_File_write_ordered (call "));
}

// One rank makes one call less, long before they meet; of very many calls only the last ones are known.
TEST(MeetingTest, TheFirstCallThatDiffersIsNamed) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  for (const int later : {5, 100}) {
    OpenedFile file(test_name());
    const int value = world_rank();
    MPI_Request request = MPI_REQUEST_NULL;
    if (world_rank() != 0) {
      ASSERT_THAT(MPI_File_iwrite_at_all(file, 0, &value, 1, MPI_INT, &request), Succeeds());
    }
    EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
    for (int i = 0; i < later; ++i) {
      ASSERT_THAT(MPI_File_iwrite_all(file, &value, 1, MPI_INT, &request), Succeeds());
      EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
    }
    const int code = MPI_File_sync(file);
    EXPECT_THAT(code, FailsWith(MPI_ERR_NOT_SAME));
    const std::string text = text_of(code);
    EXPECT_THAT(text, HasSubstr("rank 0: MPI_File_sync (call "));
    EXPECT_THAT(text, HasSubstr("MPI_File_iwrite_all (call "));
    EXPECT_THAT(MPI_File_sync(file), Succeeds());
  }
}

// PnetCDF calls one of a pair for ranks that have nothing to write.
TEST(MeetingTest, CallsWithAndWithoutAnOffsetAreTheSame) {
  OpenedFile file(test_name());
  const bool is_odd = world_rank() % 2 == 1;
  const int value = world_rank();
  int read = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  ASSERT_THAT(MPI_File_set_view(file, 4 * world_rank(), MPI_INT, MPI_INT, "native", MPI_INFO_NULL), Succeeds());
  EXPECT_THAT(is_odd ? MPI_File_write_at_all(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE)
                     : MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE),
              Succeeds());
  EXPECT_THAT(is_odd ? MPI_File_iwrite_at_all(file, 0, &value, 1, MPI_INT, &request)
                     : MPI_File_iwrite_all(file, &value, 0, MPI_INT, &request),
              Succeeds());
  EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(is_odd ? MPI_File_write_at_all_begin(file, 0, &value, 1, MPI_INT)
                     : MPI_File_write_all_begin(file, &value, 0, MPI_INT),
              Succeeds());
  EXPECT_THAT(is_odd ? MPI_File_write_at_all_end(file, &value, MPI_STATUS_IGNORE)
                     : MPI_File_write_all_end(file, &value, MPI_STATUS_IGNORE),
              Succeeds());
  EXPECT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_THAT(MPI_File_seek(file, 0, MPI_SEEK_SET), Succeeds());
  EXPECT_THAT(is_odd ? MPI_File_read_at_all(file, 0, &read, 1, MPI_INT, MPI_STATUS_IGNORE)
                     : MPI_File_read_all(file, &read, 1, MPI_INT, MPI_STATUS_IGNORE),
              Succeeds());
  EXPECT_EQ(read, value);
  EXPECT_THAT(MPI_File_sync(file), Succeeds());
}

// Each of them alone, and in memory: rank 0 goes on only after the others have made all of their calls.
TEST(MeetingTest, AccessesThatNeedNoOtherRankDoNotWait) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  for (const char* const method : {"alone", "auto"}) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "weir_collective", method);
    OpenedFile file(test_name(method), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, info);
    MPI_Info_free(&info);
    if (std::string(method) == "auto" && needs_messages()) continue;
    const std::vector<int> written(1000, world_rank());
    std::vector<int> read(1000, -1);
    int token = 0;
    for (int other = 1; world_rank() == 0 && other < world_size(); ++other) {
      MPI_Recv(&token, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    for (int round = 0; round < 3; ++round) {
      const MPI_Offset at = 4000 * (3 * world_rank() + round);
      EXPECT_THAT(MPI_File_write_at_all(file, at, written.data(), 1000, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
      EXPECT_THAT(MPI_File_read_at_all_begin(file, at, read.data(), 1000, MPI_INT), Succeeds());
      EXPECT_THAT(MPI_File_read_at_all_end(file, read.data(), MPI_STATUS_IGNORE), Succeeds());
      EXPECT_EQ(read, written);
      MPI_Request request = MPI_REQUEST_NULL;
      EXPECT_THAT(MPI_File_iwrite_at_all(file, at, written.data(), 1000, MPI_INT, &request), Succeeds());
      EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
    }
    if (world_rank() != 0) MPI_Send(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    EXPECT_THAT(MPI_File_sync(file), Succeeds());
  }
}

// What is agreed on changes with the hints.
TEST(MeetingTest, HintsDecideAnewWhetherRanksMeet) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  OpenedFile file(test_name());
  const Type strided = resized(contiguous(8, MPI_BYTE), 0, 8 * world_size());
  for (const char* const method : {"two-phase", "alone", "two-phase"}) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "weir_collective", method);
    const bool is_by_view = std::string(method) == "alone";
    ASSERT_THAT(
        MPI_File_set_view(file, 8 * world_rank(), MPI_BYTE, strided, "native", is_by_view ? info : MPI_INFO_NULL),
        Succeeds());
    if (!is_by_view) {
      ASSERT_THAT(MPI_File_set_info(file, info), Succeeds());
    }
    MPI_Info_free(&info);
    const Bytes data(800, static_cast<unsigned char>(world_rank()));
    ASSERT_THAT(MPI_File_write_at_all(file, 0, data.data(), 800, MPI_BYTE, MPI_STATUS_IGNORE), Succeeds());
    if (!is_by_view) {
      EXPECT_EQ(hint_of(file, "weir_collective_last").substr(0, 9), "two-phase");
    }
    EXPECT_EQ(hint_of(file, "weir_collective"), method);
  }
}

// Those who come first wait for long where there are more ranks than processors, and the rank they wait for needs one
// of these.
TEST(MeetingTest, WaitingLeavesTheProcessorToOthers) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  constexpr std::chrono::milliseconds kWait{600};
  OpenedFile file(test_name());
  if (world_rank() == 0) std::this_thread::sleep_for(kWait);
  const auto before = weir::internal::thread_time();
  EXPECT_THAT(MPI_File_sync(file), Succeeds());
  EXPECT_LT(weir::internal::thread_time() - before, kWait / 2);
}

// ---------------------------------------------------------------- calls that do not block

// Blocking, non-blocking and split calls are different functions.
TEST(MeetingTest, BlockingAndNonBlockingDoNotFit) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  MPI_File file = open_new();
  int value = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  if (world_rank() == 0) {
    ASSERT_THAT(MPI_File_iwrite_all(file, &value, 1, MPI_INT, &request), Succeeds());
    EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
    code = MPI_File_sync(file);
  } else {
    code = MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS) code = MPI_File_sync(file);
  }
  EXPECT_THAT(code, FailsWith(MPI_ERR_NOT_SAME));
  EXPECT_THAT(text_of(code), HasSubstr("rank 0: MPI_File_iwrite_all (call "));
  EXPECT_THAT(text_of(code), HasSubstr("MPI_File_write_all (call "));
  static_cast<void>(
      MPI_File_close(&file));  // ranks may have met in different calls, and then do not find together again
}

TEST(MeetingTest, OneCallMoreShowsWhenRanksClose) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  MPI_File file = open_new();
  const int value = 0;
  const int last = world_size() - 1;
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  ASSERT_THAT(MPI_File_iwrite_at_all(file, 0, &value, 1, MPI_INT, &requests[0]), Succeeds());
  if (world_rank() == last) {
    ASSERT_THAT(MPI_File_iwrite_at_all(file, 0, &value, 1, MPI_INT, &requests[1]), Succeeds());
  }
  EXPECT_THAT(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE), Succeeds());
  const int code = MPI_File_close(&file);
  EXPECT_THAT(code, FailsWith(MPI_ERR_NOT_SAME));
  EXPECT_THAT(text_of(code), HasSubstr(concat("rank ", last, ": MPI_File_iwrite_at_all (call ")));
  EXPECT_THAT(text_of(code), HasSubstr("MPI_File_close (call "));
  EXPECT_EQ(file, MPI_FILE_NULL);
}

TEST(MeetingTest, OneRanksBadArgumentsAreItsOwn) {
  OpenedFile file(test_name());
  const int value = 7;
  MPI_Request request = MPI_REQUEST_NULL;
  const int code =
      MPI_File_iwrite_at_all(file, 4 * world_rank(), &value, world_rank() == 0 ? -1 : 1, MPI_INT, &request);
  if (world_rank() == 0) {
    EXPECT_THAT(code, FailsWith(MPI_ERR_COUNT));
  } else {
    ASSERT_THAT(code, Succeeds());
    EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
  }
  EXPECT_THAT(MPI_File_sync(file), Succeeds());
}

// A rank that has made its calls may do anything before it waits: others do not depend on its waiting.
TEST(MeetingTest, SeveralAreUnderWayAndEndInAnyOrder) {
  const std::string name = test_name();
  OpenedFile file(name);
  constexpr int kCount = 4;
  std::vector<int> values(kCount, world_rank() + 1);
  std::vector<MPI_Request> requests(kCount, MPI_REQUEST_NULL);
  for (int i = 0; i < kCount; ++i) {
    const auto k = static_cast<std::size_t>(i);
    ASSERT_THAT(
        MPI_File_iwrite_at_all(file, 4 * (i * world_size() + world_rank()), &values[k], 1, MPI_INT, &requests[k]),
        Succeeds());
  }
  int token = 0;
  if (world_rank() > 0) MPI_Recv(&token, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (world_rank() % 2 == 1) std::reverse(requests.begin(), requests.end());
  for (MPI_Request& request : requests) EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
  for (int other = 1; world_rank() == 0 && other < world_size(); ++other) {
    MPI_Send(&token, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
  }
  ASSERT_THAT(MPI_File_sync(file), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  const Bytes bytes = contents(name);
  ASSERT_EQ(bytes.size(), static_cast<std::size_t>(4 * kCount * world_size()));
  for (std::size_t i = 0; i < bytes.size() / 4; ++i) {
    EXPECT_EQ(bytes[4 * i], 1 + i % static_cast<std::size_t>(world_size()));
  }
}

// ---------------------------------------------------------------- ranks that do not come

// Run by themselves, with a short WEIR_MPIIO_TIMEOUT, since the ranks do not find together again.  All but rank 1 make
// `call`.
void expect_named_in_time(const std::function<int(MPI_File)>& call) {
  MPI_Barrier(MPI_COMM_WORLD);  // rank 1 may have waited for the others in the case before
  MPI_File file = open_new();
  if (world_rank() != 1) {
    const int code = call(file);
    EXPECT_THAT(code, FailsWith(MPI_ERR_IO));
    EXPECT_THAT(text_of(code), HasSubstr(": rank 1 did not come"));
    EXPECT_THAT(MPI_File_sync(file), FailsWith(MPI_ERR_IO));  // at once
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_NE(MPI_File_close(&file), MPI_SUCCESS);  // the others do not come any more
  EXPECT_EQ(file, MPI_FILE_NULL);
}

TEST(MissingRankTest, DISABLED_IsNamedInTime) {
  const int value = 0;
  expect_named_in_time(
      [&](MPI_File file) { return MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE); });
}

TEST(MissingRankTest, DISABLED_IsNamedWhenOthersBegin) {
  const int value = 0;
  expect_named_in_time([&](MPI_File file) { return MPI_File_write_ordered_begin(file, &value, 1, MPI_INT); });
}

// Accesses that need nobody succeed; the next call that does names the missing rank.
TEST(MissingRankTest, DISABLED_IsNamedByTheNextCallThatMeets) {
  const int value = 0;
  expect_named_in_time([&](MPI_File file) {
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_THAT(MPI_File_iwrite_all(file, &value, 1, MPI_INT, &request), Succeeds());
    EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
    return MPI_File_sync(file);
  });
}

}  // namespace
}  // namespace weir::mpiio::internal
