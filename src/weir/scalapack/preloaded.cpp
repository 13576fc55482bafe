// A program that knows ScaLAPACK only: turns a matrix from one process grid to another and checks every number.
// Started by a test with the drop-in preloaded.

#include <cstdio>
#include <vector>

#include <mpi.h>

extern "C" {
void Cblacs_get(int context, int what, int* value);
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridexit(int context);
int numroc_(const int* n, const int* block, const int* process, const int* source, const int* processes);
void pdgemr2d_(const int* m, const int* n, const double* a, const int* ia, const int* ja, const int* desc_a, double* b,
               const int* ib, const int* jb, const int* desc_b, const int* context);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int context = -1;
  Cblacs_get(0, 0, &context);
  Cblacs_gridinit(&context, "R", 1, ranks);

  const int size = 50;
  const int from = 8;
  const int to = 3;
  const int zero = 0;
  const int one = 1;
  const int desc_a[] = {1, context, size, size, size, from, 0, 0, size};
  const int desc_b[] = {1, context, size, size, size, to, 0, 0, size};
  const auto columns = [&](int block) { return numroc_(&size, &block, &rank, &zero, &ranks); };
  const auto global = [&](int block, int local) { return (local / block * ranks + rank) * block + local % block; };
  std::vector<double> a(static_cast<std::size_t>(size * columns(from)));
  std::vector<double> b(static_cast<std::size_t>(size * columns(to)), -1.0);
  for (int j = 0; j < columns(from); ++j) {
    for (int i = 0; i < size; ++i) a[static_cast<std::size_t>(j * size + i)] = i + 1000.0 * global(from, j);
  }
  pdgemr2d_(&size, &size, a.data(), &one, &one, desc_a, b.data(), &one, &one, desc_b, &context);
  int wrong = 0;
  for (int j = 0; j < columns(to); ++j) {
    for (int i = 0; i < size; ++i)
      wrong += b[static_cast<std::size_t>(j * size + i)] != i + 1000.0 * global(to, j) ? 1 : 0;
  }
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) std::printf("%d wrong numbers\n", wrong);
  Cblacs_gridexit(context);
  MPI_Finalize();
  return wrong == 0 ? 0 : 1;
}
