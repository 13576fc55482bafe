/* An MPI program with a wild pointer: rank 0 writes a file, the last rank changes a byte of it in mapped memory, and rank 0 reads it.

   wild FILE

   Its exit code is 0 if that read fails with MPI_ERR_IO, though all reads before did not. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kBytes = 2 << 20 };
static char memory[kBytes];
static char seen[kBytes];

/* Where this process has mapped memory that holds what is in `memory`. */
static char* find_in_memory(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096];
  char* found = NULL;
  while (found == NULL && fgets(line, sizeof line, maps) != NULL) {
    unsigned long from = 0;
    unsigned long to = 0;
    char access[8] = "";
    sscanf(line, "%lx-%lx %7s", &from, &to, access);
    /* A memory file of Weir has its data from 2 MiB on. */
    if (strcmp(access, "rw-s") != 0 || to - from < 2 * (unsigned long)kBytes) continue;
    if (memcmp((char*)from + (2 << 20), memory, 4096) == 0) found = (char*)from + (2 << 20);
  }
  fclose(maps);
  return found;
}

int main(int argc, char** argv) {
  int rank = 0;
  int ranks = 0;
  MPI_File file;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int i = 0; i < kBytes; ++i) memory[i] = (char)(i * 2654435761u >> 13);
  if (MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file) != MPI_SUCCESS)
    MPI_Abort(MPI_COMM_WORLD, 3);
  if (rank == 0) MPI_File_write_at(file, 0, memory, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  if (MPI_File_read_at(file, 0, seen, kBytes, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 4);
  if (memcmp(seen, memory, kBytes) != 0) MPI_Abort(MPI_COMM_WORLD, 5);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == ranks - 1) {
    char* wild = find_in_memory();
    if (wild == NULL) MPI_Abort(MPI_COMM_WORLD, 6);
    wild[70000] ^= 1;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    int error_class = MPI_SUCCESS;
    int code = MPI_File_read_at(file, 0, seen, kBytes, MPI_BYTE, MPI_STATUS_IGNORE);
    MPI_Error_class(code, &error_class);
    if (error_class != MPI_ERR_IO) MPI_Abort(MPI_COMM_WORLD, 7);
  }
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
