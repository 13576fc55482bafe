// A program that knows nothing of Weir and writes until that fails, or until somebody ends it.
//
//   writer FILE FOLDER independent|pieces|nonblocking|collective|atomic|shared
//   writer FILE FOLDER closing         rank 1 writes once; all ranks close the file when FOLDER/go is there
//
// FOLDER/rank.R: the process of rank R, as soon as it has written something.  FOLDER/error.R: the class and the text of
// the error that it got.  A rank that got one closes the file, ends well with MPI, and has the exit code 3.

#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <mpi.h>
#include <unistd.h>

namespace {

constexpr int kBytes = 1 << 20;  // of one access: several units of stripes, so that it goes to all servers
constexpr int kPlaces = 8;       // of each rank; then it begins again, and the file does not grow
constexpr int kPiece = 256;
constexpr unsigned kTooLongSeconds = 150;  // for a test that went wrong
constexpr int kExitFailed = 3;

int rank = 0;
int ranks = 1;
MPI_File file = MPI_FILE_NULL;
std::vector<char> memory(kBytes, 'w');

// Each rank has pieces of its own in every part of the file.
int set_view() {
  MPI_Datatype piece = MPI_DATATYPE_NULL;
  MPI_Datatype filetype = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(kPiece, MPI_BYTE, &piece);
  MPI_Type_create_resized(piece, 0, kPiece * ranks, &filetype);
  MPI_Type_commit(&filetype);
  const int code = MPI_File_set_view(file, MPI_Offset{kPiece} * rank, MPI_BYTE, filetype, "native", MPI_INFO_NULL);
  MPI_Type_free(&filetype);
  MPI_Type_free(&piece);
  return code;
}

using Write = std::function<int(MPI_Offset)>;

int write_at(MPI_Offset at) { return MPI_File_write_at(file, at, memory.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE); }

int write_without_blocking(MPI_Offset at) {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int code = MPI_File_iwrite_at(file, at, memory.data(), kBytes / 2, MPI_BYTE, &requests[0]);
  if (code != MPI_SUCCESS) return code;
  code = MPI_File_iwrite_at(file, at + kBytes / 2, memory.data(), kBytes / 2, MPI_BYTE, &requests[1]);
  const int first = MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  const int second = code != MPI_SUCCESS ? code : MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
  return first != MPI_SUCCESS ? first : second;
}

int write_at_all(MPI_Offset at) {
  return MPI_File_write_at_all(file, at, memory.data(), kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
}

// Little at a time, since the file grows.
int write_shared(MPI_Offset) { return MPI_File_write_shared(file, memory.data(), kPiece, MPI_BYTE, MPI_STATUS_IGNORE); }

const std::map<std::string, Write>& ways() {
  static const std::map<std::string, Write> all{
      {"independent", write_at},    {"pieces", write_at}, {"nonblocking", write_without_blocking},
      {"collective", write_at_all}, {"atomic", write_at}, {"shared", write_shared},
  };
  return all;
}

// Whole at once: who finds the file can read it.
void tell(const std::string& path, const std::string& text) {
  std::ofstream(path + ".part") << text << '\n';
  std::rename((path + ".part").c_str(), path.c_str());
}

std::string describe(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  MPI_Error_string(code, text, &length);
  const char* const name = error_class == MPI_ERR_IO ? "MPI_ERR_IO" : "another class";
  return std::string(name) + ": " + std::string(text, static_cast<std::size_t>(length));
}

// Ranks of collective calls go on until all have got their error: one may have written everything before the other's
// server was gone.
bool is_enough(bool is_collective, bool has_failed) {
  if (!is_collective) return has_failed;
  int mine = has_failed ? 1 : 0;
  int all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

void write_until_it_fails(const std::string& way, const std::string& folder) {
  const Write& write = ways().at(way);
  bool has_failed = false;
  for (int i = 0;; ++i) {
    const MPI_Offset base = way == "pieces" || way == "collective" ? 0 : MPI_Offset{rank} * kPlaces * kBytes;
    const int code = write(base + MPI_Offset{i % kPlaces} * kBytes);
    if (code != MPI_SUCCESS && !has_failed) {
      has_failed = true;
      tell(folder + "/error." + std::to_string(rank), describe(code));
    }
    if (i == 0) tell(folder + "/rank." + std::to_string(rank), std::to_string(::getpid()));
    if (is_enough(way == "collective", has_failed)) return;
  }
}

// Only one rank has something to lose, and all are told.
void write_and_close(const std::string& folder) {
  int code = rank == 1 ? write_at(0) : MPI_SUCCESS;
  tell(folder + "/rank." + std::to_string(rank), std::to_string(::getpid()));
  while (::access((folder + "/go").c_str(), F_OK) != 0) ::usleep(1000);  // alarm() ends a test that went wrong
  if (code == MPI_SUCCESS) code = MPI_File_close(&file);
  if (code != MPI_SUCCESS) tell(folder + "/error." + std::to_string(rank), describe(code));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || (ways().count(argv[3]) == 0 && std::string(argv[3]) != "closing")) {
    std::fprintf(stderr, "usage: writer FILE FOLDER WAY\n");
    return 2;
  }
  ::alarm(kTooLongSeconds);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::string way = argv[3];
  int code = MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  if (code == MPI_SUCCESS && (way == "pieces" || way == "collective")) code = set_view();
  if (code == MPI_SUCCESS && way == "atomic") code = MPI_File_set_atomicity(file, 1);
  if (code != MPI_SUCCESS) {
    std::fprintf(stderr, "writer: %s\n", describe(code).c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  if (way == "closing") {
    write_and_close(argv[2]);
  } else {
    write_until_it_fails(way, argv[2]);
    MPI_File_close(&file);
  }
  MPI_Finalize();
  return kExitFailed;
}
