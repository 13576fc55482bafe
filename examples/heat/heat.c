/* Heat in a cube: the 3-D heat equation by the 7-point stencil, with checkpoints that any number of ranks can start again from.
 *
 *   heat CHECKPOINT_FILE [--size N] [--steps N] [--every K] [--restart]
 *
 * A plain MPI program.  The cube of N x N x N doubles is dealt in blocks to a grid of ranks; a checkpoint is the number of the step
 * (8 bytes) and the cube in row-major order, written and read by all ranks together through subarray views.
 */

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X, Y, Z, DIMENSIONS };

static const MPI_Offset kHeaderBytes = 8;

struct options {
  const char* file;
  int size;
  int steps;
  int every;
  int restart;
};

/* One rank's block of the cube, with a layer of its neighbours' cells around it. */
struct block {
  MPI_Comm grid;
  int rank;
  int size;               /* of the cube */
  int count[DIMENSIONS];  /* cells of this rank */
  int start[DIMENSIONS];  /* the first of them in the cube */
  int padded[DIMENSIONS]; /* with the layers */
  double* now;
  double* next;
};

struct times {
  double io;
  double compute;
};

static void fail(const char* what) {
  fprintf(stderr, "heat: %s\n", what);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

/* Errors of files return by default: an error that nobody looks at would be a checkpoint that is not there. */
static void check(int code, const char* what) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (code == MPI_SUCCESS) return;
  MPI_Error_string(code, text, &length);
  fprintf(stderr, "heat: %s: %s\n", what, text);
  MPI_Abort(MPI_COMM_WORLD, 2);
}

static int number(const char* text) {
  char* end = NULL;
  const long value = text != NULL ? strtol(text, &end, 10) : 0;
  if (text == NULL || *end != '\0' || value < 1 || value > 1000000) fail("options take numbers from 1 to 1000000");
  return (int)value;
}

static struct options parse(int argc, char** argv) {
  struct options options = {NULL, 64, 20, 10, 0};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--restart") == 0) {
      options.restart = 1;
    } else if (strcmp(argv[i], "--size") == 0) {
      options.size = number(argv[++i]);
    } else if (strcmp(argv[i], "--steps") == 0) {
      options.steps = number(argv[++i]);
    } else if (strcmp(argv[i], "--every") == 0) {
      options.every = number(argv[++i]);
    } else if (argv[i][0] != '-' && options.file == NULL) {
      options.file = argv[i];
    } else {
      options.file = NULL;
      break;
    }
  }
  if (options.file == NULL) fail("usage: heat CHECKPOINT_FILE [--size N] [--steps N] [--every K] [--restart]");
  return options;
}

/* ---- the cube ---------------------------------------------------------------------------------------------------- */

static size_t at(const struct block* block, int x, int y, int z) {
  return ((size_t)x * (size_t)block->padded[Y] + (size_t)y) * (size_t)block->padded[Z] + (size_t)z;
}

static struct block make_block(int size) {
  struct block block;
  int ranks = 0;
  int grid[DIMENSIONS] = {0, 0, 0};
  int periods[DIMENSIONS] = {0, 0, 0};
  int place[DIMENSIONS];
  size_t cells = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Dims_create(ranks, DIMENSIONS, grid);
  MPI_Cart_create(MPI_COMM_WORLD, DIMENSIONS, grid, periods, 0, &block.grid);
  MPI_Comm_rank(block.grid, &block.rank);
  MPI_Cart_coords(block.grid, block.rank, DIMENSIONS, place);
  block.size = size;
  for (int d = 0; d < DIMENSIONS; ++d) {
    if (grid[d] > size) fail("more ranks than cells in a direction");
    block.start[d] = (int)((long)size * place[d] / grid[d]);
    block.count[d] = (int)((long)size * (place[d] + 1) / grid[d]) - block.start[d];
    block.padded[d] = block.count[d] + 2;
    cells *= (size_t)block.padded[d];
  }
  block.now = calloc(cells, sizeof(double));
  block.next = calloc(cells, sizeof(double));
  if (block.now == NULL || block.next == NULL) fail("out of memory");
  return block;
}

static void free_block(struct block* block) {
  free(block->now);
  free(block->next);
  MPI_Comm_free(&block->grid);
}

/* A hot ball off the centre of a cold cube. */
static void heat_up(struct block* block) {
  const double radius = block->size / 4.0;
  for (int x = 1; x <= block->count[X]; ++x)
    for (int y = 1; y <= block->count[Y]; ++y)
      for (int z = 1; z <= block->count[Z]; ++z) {
        const double dx = block->start[X] + x - 1 - block->size / 3.0;
        const double dy = block->start[Y] + y - 1 - block->size / 2.0;
        const double dz = block->start[Z] + z - 1 - block->size / 2.0;
        block->now[at(block, x, y, z)] = dx * dx + dy * dy + dz * dz < radius * radius ? 100.0 : 0.0;
      }
}

/* The cells of this block in memory, or one layer of them. */
static MPI_Datatype layer(const struct block* block, int direction, int first, int thickness) {
  MPI_Datatype type;
  int count[DIMENSIONS];
  int start[DIMENSIONS] = {1, 1, 1};
  memcpy(count, block->count, sizeof count);
  if (direction >= 0) {
    count[direction] = thickness;
    start[direction] = first;
  }
  MPI_Type_create_subarray(DIMENSIONS, block->padded, count, start, MPI_ORDER_C, MPI_DOUBLE, &type);
  MPI_Type_commit(&type);
  return type;
}

static void exchange(struct block* block) {
  for (int d = 0; d < DIMENSIONS; ++d) {
    int below = 0;
    int above = 0;
    MPI_Datatype types[4] = {layer(block, d, 1, 1), layer(block, d, block->count[d] + 1, 1),
                             layer(block, d, block->count[d], 1), layer(block, d, 0, 1)};
    MPI_Cart_shift(block->grid, d, 1, &below, &above);
    MPI_Sendrecv(block->now, 1, types[0], below, 0, block->now, 1, types[1], above, 0, block->grid, MPI_STATUS_IGNORE);
    MPI_Sendrecv(block->now, 1, types[2], above, 1, block->now, 1, types[3], below, 1, block->grid, MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; ++i) MPI_Type_free(&types[i]);
  }
}

static void step(struct block* block) {
  const double rate = 0.1;
  const double* now = block->now;
  double* swapped = block->now;
  exchange(block);
  for (int x = 1; x <= block->count[X]; ++x)
    for (int y = 1; y <= block->count[Y]; ++y)
      for (int z = 1; z <= block->count[Z]; ++z) {
        const double around = now[at(block, x - 1, y, z)] + now[at(block, x + 1, y, z)] + now[at(block, x, y - 1, z)] +
                              now[at(block, x, y + 1, z)] + now[at(block, x, y, z - 1)] + now[at(block, x, y, z + 1)];
        const double here = now[at(block, x, y, z)];
        block->next[at(block, x, y, z)] = here + rate * (around - 6.0 * here);
      }
  block->now = block->next;
  block->next = swapped;
}

/* Each cell's bits, weighed by its place, added in integers: the order, and so the number of ranks, does not matter. */
static uint64_t checksum(const struct block* block) {
  uint64_t sum = 0;
  uint64_t all = 0;
  for (int x = 1; x <= block->count[X]; ++x)
    for (int y = 1; y <= block->count[Y]; ++y)
      for (int z = 1; z <= block->count[Z]; ++z) {
        const uint64_t size = (uint64_t)block->size;
        const uint64_t place =
            ((uint64_t)(block->start[X] + x - 1) * size + (uint64_t)(block->start[Y] + y - 1)) * size +
            (uint64_t)(block->start[Z] + z - 1);
        uint64_t bits = 0;
        memcpy(&bits, &block->now[at(block, x, y, z)], sizeof bits);
        sum += bits * (2 * place + 1);
      }
  MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, block->grid);
  return all;
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

static void set_view(MPI_File file, const struct block* block) {
  MPI_Datatype part;
  const int cube[DIMENSIONS] = {block->size, block->size, block->size};
  MPI_Type_create_subarray(DIMENSIONS, cube, block->count, block->start, MPI_ORDER_C, MPI_DOUBLE, &part);
  MPI_Type_commit(&part);
  check(MPI_File_set_view(file, kHeaderBytes, MPI_DOUBLE, part, "native", MPI_INFO_NULL), "set the view");
  MPI_Type_free(&part);
}

static void write_checkpoint(const struct block* block, const char* name, int64_t steps) {
  MPI_File file;
  MPI_Datatype cells = layer(block, -1, 0, 0);
  check(MPI_File_open(block->grid, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file), name);
  check(MPI_File_set_size(file, kHeaderBytes + (MPI_Offset)block->size * block->size * block->size * 8),
        "set the size");
  if (block->rank == 0)
    check(MPI_File_write_at(file, 0, &steps, 1, MPI_INT64_T, MPI_STATUS_IGNORE), "write the header");
  set_view(file, block);
  check(MPI_File_write_all(file, block->now, 1, cells, MPI_STATUS_IGNORE), "write a checkpoint");
  check(MPI_File_close(&file), "close a checkpoint");
  MPI_Type_free(&cells);
}

static int64_t read_checkpoint(struct block* block, const char* name) {
  MPI_File file;
  MPI_Offset bytes = 0;
  int64_t steps = 0;
  MPI_Datatype cells = layer(block, -1, 0, 0);
  check(MPI_File_open(block->grid, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), name);
  check(MPI_File_get_size(file, &bytes), "get the size");
  if (bytes != kHeaderBytes + (MPI_Offset)block->size * block->size * block->size * 8)
    fail("the checkpoint is of another --size");
  check(MPI_File_read_at_all(file, 0, &steps, 1, MPI_INT64_T, MPI_STATUS_IGNORE), "read the header");
  set_view(file, block);
  check(MPI_File_read_all(file, block->now, 1, cells, MPI_STATUS_IGNORE), "read a checkpoint");
  check(MPI_File_close(&file), "close a checkpoint");
  MPI_Type_free(&cells);
  return steps;
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static int64_t run(struct block* block, const struct options* options, struct times* times) {
  int64_t steps = 0;
  double begin = MPI_Wtime();
  if (options->restart) {
    steps = read_checkpoint(block, options->file);
    times->io += MPI_Wtime() - begin;
  } else {
    heat_up(block);
  }
  for (int i = 1; i <= options->steps; ++i) {
    begin = MPI_Wtime();
    step(block);
    ++steps;
    times->compute += MPI_Wtime() - begin;
    if (i % options->every != 0 && i != options->steps) continue;
    begin = MPI_Wtime();
    write_checkpoint(block, options->file, steps);
    times->io += MPI_Wtime() - begin;
  }
  return steps;
}

int main(int argc, char** argv) {
  struct times times = {0, 0};
  struct times most;
  int ranks = 0;
  MPI_Init(&argc, &argv);
  const struct options options = parse(argc, argv);
  struct block block = make_block(options.size);
  MPI_Comm_size(block.grid, &ranks);
  const int64_t steps = run(&block, &options, &times);
  const uint64_t sum = checksum(&block);
  MPI_Reduce(&times, &most, 2, MPI_DOUBLE, MPI_MAX, 0, block.grid);
  if (block.rank == 0) {
    printf("ranks %d  size %d  steps %lld  checksum %016llx  io %.4f s  compute %.4f s\n", ranks, options.size,
           (long long)steps, (unsigned long long)sum, most.io, most.compute);
  }
  free_block(&block);
  MPI_Finalize();
  return 0;
}
