// Files as a whole: modes, sizes, hints, handles, errors and who is told of them.

#include <cstdlib>
#include <filesystem>

#include <unistd.h>

#include <weir/mpiio/internal/connection.h>
#include <weir/mpiio/internal/testing.h>

namespace weir::mpiio::internal {
namespace {

using ::testing::HasSubstr;

constexpr int kCreate = MPI_MODE_CREATE | MPI_MODE_RDWR;

int try_open(const std::string& name, int amode, MPI_Info info = MPI_INFO_NULL) {
  MPI_File file = MPI_FILE_NULL;
  const int code = MPI_File_open(MPI_COMM_WORLD, name.c_str(), amode, info, &file);
  if (code == MPI_SUCCESS) {
    EXPECT_THAT(MPI_File_close(&file), Succeeds());
  }
  EXPECT_EQ(file, MPI_FILE_NULL);
  return code;
}

struct Info {
  Info(std::initializer_list<std::pair<const char*, const char*>> hints) {
    MPI_Info_create(&info);
    for (const auto& [key, value] : hints) MPI_Info_set(info, key, value);
  }
  ~Info() { MPI_Info_free(&info); }
  MPI_Info info = MPI_INFO_NULL;
};

// ---------------------------------------------------------------- names

TEST(NameTest, OursBeginWithWeirOrLieBelowThePrefix) {
  ::unsetenv("WEIR_PREFIX");
  EXPECT_EQ(path_of("weir:/a/b"), "/a/b");
  EXPECT_EQ(path_of("weir:a"), "/a");
  EXPECT_EQ(path_of("/scratch/a"), std::nullopt);
  EXPECT_EQ(path_of(nullptr), std::nullopt);
  ::setenv("WEIR_PREFIX", "/scratch/job/", 1);
  EXPECT_EQ(path_of("/scratch/job/a/b"), "/a/b");
  EXPECT_EQ(path_of("/scratch/job/../job//a"), "/a");
  EXPECT_EQ(path_of("/scratch/job"), std::nullopt);
  EXPECT_EQ(path_of("/scratch/jobs/a"), std::nullopt);
  EXPECT_EQ(path_of("/scratch/job/../a"), std::nullopt);
  EXPECT_EQ(path_of("weir:/a"), "/a");
  ::unsetenv("WEIR_PREFIX");
}

// ---------------------------------------------------------------- opening

TEST(OpenTest, RefusesModesThatDoNotGoTogether) {
  for (const int amode : {0, MPI_MODE_CREATE, MPI_MODE_RDONLY | MPI_MODE_RDWR, MPI_MODE_RDONLY | MPI_MODE_CREATE,
                          MPI_MODE_RDONLY | MPI_MODE_EXCL, MPI_MODE_RDWR | MPI_MODE_SEQUENTIAL}) {
    EXPECT_THAT(try_open(test_name(), amode), FailsWith(MPI_ERR_AMODE)) << amode;
  }
}

TEST(OpenTest, TellsWhatIsThereAndWhatIsNot) {
  const std::string name = test_name();
  const int missing = try_open(name, MPI_MODE_RDWR);
  EXPECT_THAT(missing, FailsWith(MPI_ERR_NO_SUCH_FILE));
  EXPECT_THAT(text_of(missing), HasSubstr("/OpenTest.TellsWhatIsThereAndWhatIsNot"));
  EXPECT_THAT(try_open(name, kCreate | MPI_MODE_EXCL), Succeeds());
  EXPECT_THAT(try_open(name, kCreate | MPI_MODE_EXCL), FailsWith(MPI_ERR_FILE_EXISTS));
  EXPECT_THAT(try_open(name, kCreate), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  if (world_rank() == 0) {
    EXPECT_THAT(MPI_File_delete(name.c_str(), MPI_INFO_NULL), Succeeds());
    EXPECT_THAT(MPI_File_delete(name.c_str(), MPI_INFO_NULL), FailsWith(MPI_ERR_NO_SUCH_FILE));
  }
}

TEST(OpenTest, DeletesOnClose) {
  EXPECT_THAT(try_open(test_name(), kCreate | MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN), Succeeds());
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_THAT(try_open(test_name(), MPI_MODE_RDONLY), FailsWith(MPI_ERR_NO_SUCH_FILE));
}

TEST(OpenTest, AppendsAtTheEnd) {
  const std::string name = test_name();
  {
    OpenedFile file(name);
    if (world_rank() == 0) {
      EXPECT_THAT(MPI_File_write_at(file, 0, "0123456789", 10, MPI_CHAR, MPI_STATUS_IGNORE), Succeeds());
    }
  }
  OpenedFile file(name, MPI_MODE_RDWR | MPI_MODE_APPEND);
  MPI_Offset position = -1;
  EXPECT_THAT(MPI_File_get_position(file, &position), Succeeds());
  EXPECT_EQ(position, 10);
  EXPECT_THAT(MPI_File_get_position_shared(file, &position), Succeeds());
  EXPECT_EQ(position, 10);
  EXPECT_THAT(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), Succeeds());
  EXPECT_THAT(MPI_File_get_position_shared(file, &position), Succeeds());
  EXPECT_EQ(position, 0);
}

TEST(OpenTest, RefusesTheOtherDirection) {
  const std::string name = test_name();
  EXPECT_THAT(try_open(name, kCreate), Succeeds());
  int value = 0;
  {
    OpenedFile file(name, MPI_MODE_RDONLY);
    EXPECT_THAT(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_READ_ONLY));
    EXPECT_THAT(MPI_File_write_all(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_READ_ONLY));
    EXPECT_THAT(MPI_File_set_size(file, 1), FailsWith(MPI_ERR_READ_ONLY));
  }
  OpenedFile file(name, MPI_MODE_WRONLY);
  EXPECT_THAT(MPI_File_read(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_ACCESS));
}

TEST(OpenTest, SequentialFilesHaveTheSharedPointerOnly) {
  OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
  const int value = 7;
  MPI_Offset offset = 0;
  EXPECT_THAT(MPI_File_write(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_UNSUPPORTED_OPERATION));
  EXPECT_THAT(MPI_File_write_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE),
              FailsWith(MPI_ERR_UNSUPPORTED_OPERATION));
  EXPECT_THAT(MPI_File_seek(file, 0, MPI_SEEK_SET), FailsWith(MPI_ERR_UNSUPPORTED_OPERATION));
  EXPECT_THAT(MPI_File_get_position(file, &offset), FailsWith(MPI_ERR_UNSUPPORTED_OPERATION));
  EXPECT_THAT(MPI_File_set_size(file, 4), FailsWith(MPI_ERR_UNSUPPORTED_OPERATION));
  EXPECT_THAT(MPI_File_write_shared(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(MPI_File_write_ordered(file, &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
  EXPECT_THAT(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), Succeeds());
  MPI_Offset disp = 0;
  MPI_Datatype etype = MPI_DATATYPE_NULL;
  MPI_Datatype filetype = MPI_DATATYPE_NULL;
  char datarep[MPI_MAX_DATAREP_STRING];
  EXPECT_THAT(MPI_File_get_view(file, &disp, &etype, &filetype, datarep), Succeeds());
  EXPECT_EQ(disp, 8 * world_size());
  EXPECT_EQ(etype, MPI_INT);
  EXPECT_STREQ(datarep, "native");
}

TEST(OpenTest, RanksThatDisagreeAreToldHow) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  const int code = try_open(test_name(), world_rank() == 1 ? MPI_MODE_CREATE | MPI_MODE_WRONLY : kCreate);
  EXPECT_THAT(code, FailsWith(MPI_ERR_NOT_SAME));
  EXPECT_THAT(text_of(code), HasSubstr("access mode: rank 1: " + std::to_string(MPI_MODE_CREATE | MPI_MODE_WRONLY)));
}

TEST(OpenTest, KnowsAmodeAndGroup) {
  OpenedFile file(test_name());
  int amode = 0;
  EXPECT_THAT(MPI_File_get_amode(file, &amode), Succeeds());
  EXPECT_EQ(amode, kCreate);
  MPI_Group group = MPI_GROUP_NULL;
  EXPECT_THAT(MPI_File_get_group(file, &group), Succeeds());
  int size = 0;
  MPI_Group_size(group, &size);
  EXPECT_EQ(size, world_size());
  MPI_Group_free(&group);
}

// ---------------------------------------------------------------- hints

TEST(HintsTest, SayTheLayoutOfANewFile) {
  const Info stripes{{"striping_unit", "4096"}, {"striping_factor", "2"}, {"access_style", "write_once"}};
  OpenedFile striped(test_name("1"), kCreate, MPI_COMM_WORLD, stripes.info);
  EXPECT_EQ(hint_of(striped, "weir_layout"), "stripe(unit=4K, over=2)");
  EXPECT_EQ(hint_of(striped, "striping_factor"), "2");
  EXPECT_EQ(hint_of(striped, "access_style"), "(none)");  // has no effect
  const Info text{{"weir_layout", "hpf(shape=[16,16], elem=8, dist=(*,BLOCK), grid=[1,2])"}};
  OpenedFile columns(test_name("2"), kCreate, MPI_COMM_WORLD, text.info);
  EXPECT_THAT(hint_of(columns, "weir_layout"), HasSubstr("dist=(*,BLOCK)"));
  OpenedFile plain(test_name("3"));
  EXPECT_EQ(hint_of(plain, "weir_layout"), "stripe(unit=64K, over=3)");
}

TEST(HintsTest, WinAgainstTheEnvironment) {
  ::setenv("WEIR_LAYOUT", "stripe(unit=1K, over=2)", 1);
  OpenedFile plain(test_name("1"));
  EXPECT_EQ(hint_of(plain, "weir_layout"), "stripe(unit=1K, over=2)");
  const Info unit{{"striping_unit", "4096"}};
  OpenedFile striped(test_name("2"), kCreate, MPI_COMM_WORLD, unit.info);
  EXPECT_EQ(hint_of(striped, "weir_layout"), "stripe(unit=4K, over=3)");
  const Info text{{"weir_layout", "stripe(unit=8K, over=1)"}};
  OpenedFile single(test_name("3"), kCreate, MPI_COMM_WORLD, text.info);
  EXPECT_EQ(hint_of(single, "weir_layout"), "stripe(unit=8K, over=1)");
  ::setenv("WEIR_LAYOUT", "stripe(unit=banana)", 1);
  const int code = try_open(test_name("4"), kCreate);
  EXPECT_THAT(code, FailsWith(MPI_ERR_INFO_VALUE));
  EXPECT_THAT(text_of(code), HasSubstr("WEIR_LAYOUT=stripe(unit=banana)"));
  ::unsetenv("WEIR_LAYOUT");
}

TEST(HintsTest, ThatAreWrongAreNamed) {
  const Info bad{{"weir_layout", "stripe(unit=banana)"}};
  const int code = try_open(test_name(), kCreate, bad.info);
  EXPECT_THAT(code, FailsWith(MPI_ERR_INFO_VALUE));
  EXPECT_THAT(text_of(code), HasSubstr("weir_layout=stripe(unit=banana)"));
  EXPECT_THAT(text_of(code), HasSubstr("MPI_File_open /HintsTest.ThatAreWrongAreNamed: "));
  const Info negative{{"striping_unit", "-3"}};
  EXPECT_THAT(try_open(test_name(), kCreate, negative.info), FailsWith(MPI_ERR_INFO_VALUE));
}

TEST(HintsTest, OfOtherFileSystemsMeanTheirDefaults) {
  const Info lustre{{"striping_factor", "-1"}, {"striping_unit", "0"}};
  OpenedFile file(test_name(), kCreate, MPI_COMM_WORLD, lustre.info);
  OpenedFile plain(test_name("2"), kCreate);
  EXPECT_EQ(hint_of(file, "weir_layout"), hint_of(plain, "weir_layout"));
}

TEST(HintsTest, StayUnlessTheyAreGivenAnew) {
  const Info first{{"cb_nodes", "1"}, {"cb_buffer_size", "5000"}};
  OpenedFile file(test_name(), kCreate, MPI_COMM_WORLD, first.info);
  const Info second{{"cb_buffer_size", "6000"}};
  EXPECT_THAT(MPI_File_set_info(file, second.info), Succeeds());
  EXPECT_THAT(MPI_File_set_info(file, MPI_INFO_NULL), Succeeds());
  EXPECT_EQ(hint_of(file, "cb_nodes"), "1");
  EXPECT_EQ(hint_of(file, "cb_buffer_size"), "6000");
}

// ---------------------------------------------------------------- sizes

TEST(SizeTest, GrowsAndShrinks) {
  OpenedFile file(test_name());
  MPI_Offset size = -1;
  EXPECT_THAT(MPI_File_get_size(file, &size), Succeeds());
  EXPECT_EQ(size, 0);
  EXPECT_THAT(MPI_File_set_size(file, 100), Succeeds());
  EXPECT_THAT(MPI_File_get_size(file, &size), Succeeds());
  EXPECT_EQ(size, 100);
  EXPECT_THAT(MPI_File_set_size(file, 10), Succeeds());
  char bytes[100];
  MPI_Status status;
  EXPECT_THAT(MPI_File_read_at(file, 0, bytes, 100, MPI_BYTE, &status), Succeeds());
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  EXPECT_EQ(count, 10);
  EXPECT_THAT(MPI_File_preallocate(file, 5), Succeeds());
  EXPECT_THAT(MPI_File_get_size(file, &size), Succeeds());
  EXPECT_EQ(size, 10);
  EXPECT_THAT(MPI_File_preallocate(file, 500), Succeeds());
  EXPECT_THAT(MPI_File_get_size(file, &size), Succeeds());
  EXPECT_EQ(size, 500);
  EXPECT_THAT(MPI_File_preallocate(file, MPI_Offset{1} << 45), FailsWith(MPI_ERR_NO_SPACE));
  EXPECT_THAT(MPI_File_set_size(file, -1), FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_preallocate(file, -1), FailsWith(MPI_ERR_ARG));
}

// ---------------------------------------------------------------- handles

TEST(HandleTest, FortranNumbersLeadBack) {
  OpenedFile file(test_name());
  const MPI_Fint number = MPI_File_c2f(file);
  EXPECT_EQ(MPI_File_f2c(number), static_cast<MPI_File>(file));
  EXPECT_EQ(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)), MPI_FILE_NULL);
}

TEST(HandleTest, ClosedFilesAreNotTouched) {
  MPI_File file = MPI_FILE_NULL;
  ASSERT_THAT(
      MPI_File_open(MPI_COMM_SELF, test_name(std::to_string(world_rank())).c_str(), kCreate, MPI_INFO_NULL, &file),
      Succeeds());
  MPI_File copy = file;
  EXPECT_THAT(MPI_File_close(&file), Succeeds());
  MPI_Offset size = 0;
  EXPECT_THAT(MPI_File_get_size(copy, &size), FailsWith(MPI_ERR_FILE));
  EXPECT_THAT(MPI_File_close(&copy), FailsWith(MPI_ERR_FILE));
}

TEST(HandleTest, OtherFilesGoToTheMpiItself) {
  const auto path = std::filesystem::temp_directory_path() / ("weir-mpiio-" + std::to_string(::getpid()));
  OpenedFile ours(test_name());
  {
    OpenedFile theirs(path.string(), kCreate, MPI_COMM_SELF);
    const int value = 42;
    EXPECT_THAT(MPI_File_write_at(theirs, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE), Succeeds());
    MPI_Request request = MPI_REQUEST_NULL;
    int read = 0;
    EXPECT_THAT(MPI_File_iread_at(theirs, 0, &read, 1, MPI_INT, &request), Succeeds());
    EXPECT_THAT(MPI_Wait(&request, MPI_STATUS_IGNORE), Succeeds());
    EXPECT_EQ(read, 42);
  }
  EXPECT_EQ(std::filesystem::file_size(path), sizeof(int));
  EXPECT_THAT(MPI_File_delete(path.c_str(), MPI_INFO_NULL), Succeeds());
  EXPECT_FALSE(std::filesystem::exists(path));
}

// ---------------------------------------------------------------- errors

struct HandlerCalls {
  int calls = 0;
  MPI_File file = MPI_FILE_NULL;
  int code = MPI_SUCCESS;
} handled;

void tell(MPI_File* file, int* code, ...) {
  ++handled.calls;
  handled.file = *file;
  handled.code = *code;
}

TEST(ErrorHandlerTest, IsCalledWithTheFile) {
  OpenedFile file(test_name());
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_THAT(MPI_File_create_errhandler(tell, &handler), Succeeds());
  ASSERT_THAT(MPI_File_set_errhandler(file, handler), Succeeds());
  ASSERT_THAT(MPI_Errhandler_free(&handler), Succeeds());
  EXPECT_EQ(handler, MPI_ERRHANDLER_NULL);
  handled = {};
  const int code = MPI_File_seek(file, -1, MPI_SEEK_SET);
  EXPECT_THAT(code, FailsWith(MPI_ERR_ARG));
  EXPECT_EQ(handled.calls, 1);
  EXPECT_EQ(handled.file, static_cast<MPI_File>(file));
  EXPECT_EQ(handled.code, code);
  EXPECT_THAT(MPI_File_call_errhandler(file, MPI_ERR_IO), Succeeds());
  EXPECT_EQ(handled.calls, 2);
  EXPECT_EQ(handled.code, MPI_ERR_IO);
  MPI_Errhandler current = MPI_ERRHANDLER_NULL;
  EXPECT_THAT(MPI_File_get_errhandler(file, &current), Succeeds());
  EXPECT_NE(current, MPI_ERRORS_RETURN);
  EXPECT_THAT(MPI_File_set_errhandler(file, MPI_ERRORS_RETURN), Succeeds());
  EXPECT_THAT(MPI_File_seek(file, -1, MPI_SEEK_SET), FailsWith(MPI_ERR_ARG));
  EXPECT_EQ(handled.calls, 2);
}

void forgive(MPI_File*, int* code, ...) { *code = *code == MPI_ERR_IO ? MPI_ERR_OTHER : MPI_SUCCESS; }

// As MPICH does it.
TEST(ErrorHandlerTest, MayChangeWhatTheCallReturns) {
  OpenedFile file(test_name());
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_THAT(MPI_File_create_errhandler(forgive, &handler), Succeeds());
  ASSERT_THAT(MPI_File_set_errhandler(file, handler), Succeeds());
  ASSERT_THAT(MPI_Errhandler_free(&handler), Succeeds());
  EXPECT_EQ(MPI_File_seek(file, -1, MPI_SEEK_SET), MPI_SUCCESS);
  MPI_Offset position = -1;
  EXPECT_EQ(MPI_File_get_position(file, &position), MPI_SUCCESS);
  EXPECT_EQ(position, 0);
}

TEST(ErrorHandlerTest, OfNoFileIsThatOfNewFiles) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_THAT(MPI_File_create_errhandler(tell, &handler), Succeeds());
  ASSERT_THAT(MPI_File_set_errhandler(MPI_FILE_NULL, handler), Succeeds());
  handled = {};
  EXPECT_THAT(try_open(test_name("none"), MPI_MODE_RDONLY), FailsWith(MPI_ERR_NO_SUCH_FILE));
  EXPECT_EQ(handled.calls, 1);
  EXPECT_EQ(handled.file, MPI_FILE_NULL);
  {
    OpenedFile file(test_name());
    EXPECT_THAT(MPI_File_seek(file, -1, MPI_SEEK_SET), FailsWith(MPI_ERR_ARG));
    EXPECT_EQ(handled.calls, 2);
    EXPECT_EQ(handled.file, static_cast<MPI_File>(file));
  }
  EXPECT_THAT(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN), Succeeds());
  MPI_Errhandler_free(&handler);
}

TEST(ErrorHandlerTest, OfNoFileMayBeFreed) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  ASSERT_THAT(MPI_File_create_errhandler(tell, &handler), Succeeds());
  ASSERT_THAT(MPI_File_set_errhandler(MPI_FILE_NULL, handler), Succeeds());
  ASSERT_THAT(MPI_Errhandler_free(&handler), Succeeds());
  handled = {};
  EXPECT_THAT(try_open(test_name("none"), MPI_MODE_RDONLY), FailsWith(MPI_ERR_NO_SUCH_FILE));
  EXPECT_EQ(handled.calls, 1);
  {
    OpenedFile file(test_name());
    EXPECT_THAT(MPI_File_seek(file, -1, MPI_SEEK_SET), FailsWith(MPI_ERR_ARG));
    EXPECT_EQ(handled.calls, 2);
  }
  EXPECT_THAT(MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN), Succeeds());
}

// A warning of one rank names the nearest key or value, once; what has no effect is not shown.
TEST(HintsTest, WhatHasNoEffectIsToldAndNotShown) {
  std::string warning;
  for (int round = 0; round < 2; ++round) {
    const Info given{{"weir_layuot", "view"},
                     {"weir_collective", "2phase"},
                     {"cb_nodes", "many"},
                     {"cb_buffer_size", "5000"},
                     {"romio_cb_write", "enable"}};
    ::testing::internal::CaptureStderr();
    OpenedFile file(test_name(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_COMM_WORLD, given.info);
    warning += ::testing::internal::GetCapturedStderr();
    for (const char* const key : {"weir_layuot", "cb_nodes", "romio_cb_write"}) EXPECT_EQ(hint_of(file, key), "(none)");
    EXPECT_EQ(hint_of(file, "cb_buffer_size"), "5000");
    const char* const method = std::getenv("WEIR_COLLECTIVE");
    EXPECT_EQ(hint_of(file, "weir_collective"), method != nullptr ? method : "auto");
  }
  const auto count = [&](const std::string& text) {
    std::size_t found = 0;
    for (std::size_t at = warning.find(text); at != std::string::npos; at = warning.find(text, at + 1)) ++found;
    return found;
  };
  const std::size_t expected = world_rank() == 0 ? 1 : 0;
  EXPECT_EQ(count("hint weir_layuot is unknown; did you mean weir_layout?"), expected) << warning;
  EXPECT_EQ(count("hint weir_collective=2phase is not a method (auto, alone, two-phase); did you mean two-phase?"),
            expected)
      << warning;
  EXPECT_EQ(count("hint cb_nodes=many is ignored"), expected) << warning;
}

TEST(ErrorTest, OfSetViewNamesTheFile) {
  OpenedFile file(test_name());
  const int code = MPI_File_set_view(file, -3, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  EXPECT_THAT(text_of(code), HasSubstr("MPI_File_set_view /ErrorTest.OfSetViewNamesTheFile: the displacement is -3"));
}

TEST(ErrorTest, WrongArgumentsHaveTheClassOfTheStandard) {
  OpenedFile file(test_name());
  int values[4] = {};
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_THAT(MPI_File_write(file, values, -1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_COUNT));
  EXPECT_THAT(MPI_File_read(file, values, -1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_COUNT));
  EXPECT_THAT(MPI_File_iread(file, values, -1, MPI_INT, &request), FailsWith(MPI_ERR_COUNT));
  EXPECT_THAT(MPI_File_write_all(file, values, -1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_COUNT));
  EXPECT_THAT(MPI_File_write_ordered(file, values, -1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_COUNT));
  EXPECT_THAT(MPI_File_write(file, values, 1, MPI_DATATYPE_NULL, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_TYPE));
  EXPECT_THAT(MPI_File_write(file, nullptr, 1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_BUFFER));
  EXPECT_THAT(MPI_File_iwrite_all(file, values, -1, MPI_INT, &request), FailsWith(MPI_ERR_COUNT));
  EXPECT_THAT(MPI_File_read_at(file, -1, values, 1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_read_at_all(file, -1, values, 1, MPI_INT, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_seek(file, 0, 12345), FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_seek_shared(file, 0, 12345), FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_seek_shared(file, -1, MPI_SEEK_SET), FailsWith(MPI_ERR_ARG));
  MPI_Offset byte = 0;
  EXPECT_THAT(MPI_File_get_byte_offset(file, -1, &byte), FailsWith(MPI_ERR_ARG));
  MPI_Aint extent = 0;
  EXPECT_THAT(MPI_File_get_type_extent(file, MPI_DATATYPE_NULL, &extent), FailsWith(MPI_ERR_TYPE));
  EXPECT_THAT(MPI_File_set_view(file, -3, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL),
              FailsWith(MPI_ERR_ARG));
  EXPECT_THAT(MPI_File_set_view(file, 0, MPI_DATATYPE_NULL, MPI_BYTE, "native", MPI_INFO_NULL),
              FailsWith(MPI_ERR_TYPE));
  EXPECT_THAT(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "martian", MPI_INFO_NULL),
              FailsWith(MPI_ERR_UNSUPPORTED_DATAREP));
  EXPECT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_BYTE, "native", MPI_INFO_NULL), FailsWith(MPI_ERR_TYPE));
  ASSERT_THAT(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL), Succeeds());
  EXPECT_THAT(MPI_File_write(file, values, 3, MPI_BYTE, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_IO));
  EXPECT_THAT(MPI_File_write_all_end(file, values, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_IO));
  ASSERT_THAT(MPI_File_write_all_begin(file, values, 1, MPI_INT), Succeeds());
  EXPECT_THAT(MPI_File_write_all_begin(file, values, 1, MPI_INT), FailsWith(MPI_ERR_IO));
  EXPECT_THAT(MPI_File_sync(file), FailsWith(MPI_ERR_IO));
  EXPECT_THAT(MPI_File_set_size(file, 100), FailsWith(MPI_ERR_IO));
  EXPECT_THAT(MPI_File_preallocate(file, 100), FailsWith(MPI_ERR_IO));
  EXPECT_THAT(MPI_File_read_all_end(file, values, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_IO));
  EXPECT_THAT(MPI_File_write_all_end(file, values + 1, MPI_STATUS_IGNORE), FailsWith(MPI_ERR_BUFFER));
  EXPECT_THAT(MPI_File_write_all_end(file, values, MPI_STATUS_IGNORE), Succeeds());
}

TEST(ErrorTest, AnErrorOfOneRankInSetViewIsOneOfAll) {
  if (world_size() < 2) GTEST_SKIP() << "needs two ranks";
  OpenedFile file(test_name());
  const int code = MPI_File_set_view(file, world_rank() == 1 ? -3 : 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  EXPECT_THAT(code, FailsWith(MPI_ERR_ARG));
  if (world_rank() == 0) {
    EXPECT_THAT(text_of(code), HasSubstr("on rank 1"));
  }
}

// ---------------------------------------------------------------- messages

// Requests that server 0 got since it was last asked, but for the one that asks; on rank 0.
class Requests {
 public:
  Requests() { (void)since_last(); }
  std::int64_t since_last() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::int64_t since = 0;
    if (world_rank() == 0) {
      const std::int64_t all = file_system()->server_status().front().requests;
      since = all - std::exchange(last_, all) - 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return since;
  }

 private:
  std::int64_t last_ = 0;
};

// However many ranks there are.
TEST(MessagesTest, OneRankAsksServer0ForAll) {
  const std::string name = test_name();
  { const OpenedFile made(name); }  // also connects
  const Type every = resized(MPI_INT, 0, MPI_Aint{4} * world_size());
  Requests requests;
  OpenedFile file(name, MPI_MODE_RDWR);
  const std::int64_t to_open = requests.since_last();
  ASSERT_THAT(MPI_File_set_view(file, 4 * world_rank(), MPI_INT, every, "native", MPI_INFO_NULL), Succeeds());
  const std::int64_t to_view = requests.since_last();
  if (world_rank() != 0) return;
  EXPECT_EQ(to_open, 2) << "the name, and the shared file pointer";
  EXPECT_EQ(to_view, 0);
}

}  // namespace
}  // namespace weir::mpiio::internal
