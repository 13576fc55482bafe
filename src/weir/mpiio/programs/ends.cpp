// A program that knows nothing of Weir and does not close its file: what it does with it after MPI_Finalize is an error
// or is done, and the program ends well.

#include <cstdio>

#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_File file = MPI_FILE_NULL;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int opened = MPI_File_open(MPI_COMM_WORLD, "weir:/ends", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  const int written = MPI_File_write_at_all(file, 4 * rank, &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_File_iwrite_at(file, 4 * rank, &rank, 1, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();

  int value = -1;
  const int read = MPI_File_read_at(file, 0, &value, 1, MPI_INT, MPI_STATUS_IGNORE);
  const int collective = MPI_File_sync(file);
  const int viewed = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  const int closed = MPI_File_close(&file);
  const bool is_well = opened == MPI_SUCCESS && written == MPI_SUCCESS && read != MPI_SUCCESS &&
                       collective != MPI_SUCCESS && viewed != MPI_SUCCESS && closed == MPI_SUCCESS &&
                       file == MPI_FILE_NULL;
  std::printf("%s\n", is_well ? "ended well" : "ended badly");
  return is_well ? 0 : 1;
}
