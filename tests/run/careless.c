/* An MPI program that knows nothing of Weir, and does not look at what functions return.

   careless FILE BYTES [late | COPY]

   Each rank writes so many bytes to its part of the file, 1 MiB at a time, and closes it.  With `late` it writes once more after that; with COPY it waits
   until there is a local file of that name, at most a minute, and is content only then. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char memory[1 << 20];

int main(int argc, char** argv) {
  int rank = 0;
  MPI_File file = MPI_FILE_NULL;
  MPI_Offset bytes = argc > 2 ? atoll(argv[2]) : 0;
  MPI_Offset done = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
  if (file == MPI_FILE_NULL) MPI_Abort(MPI_COMM_WORLD, 9);
  memset(memory, 'a' + rank, sizeof memory);
  while (done < bytes) {
    int count = bytes - done < (MPI_Offset)sizeof memory ? (int)(bytes - done) : (int)sizeof memory;
    MPI_File_write_at(file, rank * bytes + done, memory, count, MPI_BYTE, MPI_STATUS_IGNORE);
    done += count;
  }
  MPI_File closed = file;
  MPI_File_close(&file);
  if (argc > 3 && strcmp(argv[3], "late") == 0) {
    MPI_File_write_at(closed, 0, memory, 1, MPI_BYTE, MPI_STATUS_IGNORE);
  } else if (argc > 3) {
    int turns = 6000;
    while (access(argv[3], F_OK) != 0 && --turns > 0) usleep(10000);
    if (turns == 0) MPI_Abort(MPI_COMM_WORLD, 8);
  }
  MPI_Finalize();
  return 0;
}
