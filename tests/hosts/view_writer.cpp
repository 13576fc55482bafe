// view_writer FILE: a file to be stored as viewed, in which every rank sees blocks of its own, writes them, and reads
// them back.

#include <cstdio>
#include <vector>

#include <mpi.h>

namespace {

constexpr int kBlock = 4096;
constexpr int kBlocks = 16;  // of each rank

int fail(const char* what, int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  std::fprintf(stderr, "view_writer: %s: %s\n", what, text);
  return MPI_Abort(MPI_COMM_WORLD, 2);
}

void check(const char* what, int code) {
  if (code != MPI_SUCCESS) fail(what, code);
}

void set_view(MPI_File file, int rank, int ranks) {
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Datatype every = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  MPI_Type_create_resized(block, 0, MPI_Aint{kBlock} * ranks, &every);
  MPI_Type_commit(&every);
  check("set_view", MPI_File_set_view(file, MPI_Offset{kBlock} * rank, MPI_BYTE, every, "native", MPI_INFO_NULL));
  MPI_Type_free(&every);
  MPI_Type_free(&block);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 2) return std::fprintf(stderr, "usage: view_writer FILE\n"), MPI_Abort(MPI_COMM_WORLD, 2);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "weir_layout", "view");
  MPI_File file = MPI_FILE_NULL;
  check("open", MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
  MPI_Info_free(&info);
  set_view(file, rank, ranks);
  const std::vector<char> mine(std::size_t{kBlock} * kBlocks, static_cast<char>('a' + rank));
  const int bytes = static_cast<int>(mine.size());
  check("write", MPI_File_write_at_all(file, 0, mine.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE));
  std::vector<char> back(mine.size());
  check("read", MPI_File_read_at_all(file, 0, back.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE));
  if (back != mine) return std::fprintf(stderr, "view_writer: other bytes came back\n"), MPI_Abort(MPI_COMM_WORLD, 2);
  check("close", MPI_File_close(&file));
  // While others are in MPI_Finalize, one still looks for messages.
  const double until = MPI_Wtime() + (rank == 0 ? 0.1 : 0);
  for (int is_there = 0; MPI_Wtime() < until;) {
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &is_there, MPI_STATUS_IGNORE);
  }
  MPI_Finalize();
  return 0;
}
