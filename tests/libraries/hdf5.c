/* A parallel HDF5 program that knows nothing of Weir.
 *
 * usage: hdf5 write|update collective|independent FILE
 *
 * write makes a file, update reads all of it with other pieces per rank and changes some.  collective: metadata is read and written
 * collectively, in the newest format; independent: neither.  Element i of a dataset is i in row-major order, so that every decomposition
 * writes the same, and times are not kept: the file has the same bytes on any number of ranks. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hdf5.h>

enum { kRows = 23, kColumns = 37, kRowsPerChunk = 5, kColumnsPerChunk = 8, kMoreRows = 31 };

static int rank, ranks;

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                          \
    }                                                                        \
  } while (0)

static hid_t valid(hid_t id, int line) {
  if (id >= 0) return id;
  fprintf(stderr, "rank %d, line %d: HDF5 failed\n", rank, line);
  MPI_Abort(MPI_COMM_WORLD, 1);
  return id;
}
#define VALID(id) valid(id, __LINE__)

/* ---- selections: what a rank has of a dataset ---------------------------------------------------------------------- */

typedef void (*Selection)(hid_t space, hsize_t rows);

static hsize_t part_begin(hsize_t whole, int part) { return whole * (hsize_t)part / (hsize_t)ranks; }

static void row_block(hid_t space, hsize_t rows) {
  hsize_t start[2] = {part_begin(rows, rank), 0};
  hsize_t count[2] = {part_begin(rows, rank + 1) - start[0], kColumns};
  if (count[0] == 0) {
    VALID(H5Sselect_none(space));
  } else {
    VALID(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
  }
}

static void column_block(hid_t space, hsize_t rows) {
  hsize_t start[2] = {0, part_begin(kColumns, rank)};
  hsize_t count[2] = {rows, part_begin(kColumns, rank + 1) - start[1]};
  VALID(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
}

/* Every ranks-th column. */
static void cyclic_columns(hid_t space, hsize_t rows) {
  hsize_t start[2] = {0, (hsize_t)rank};
  hsize_t stride[2] = {1, (hsize_t)ranks};
  hsize_t count[2] = {rows, (kColumns - (hsize_t)rank + (hsize_t)ranks - 1) / (hsize_t)ranks};
  VALID(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL));
}

/* Rows from both ends, which is no regular hyperslab. */
static void rows_of_both_ends(hid_t space, hsize_t rows) {
  hsize_t row;
  VALID(H5Sselect_none(space));
  for (row = 0; row < rows; ++row) {
    hsize_t start[2] = {row, 0}, count[2] = {1, kColumns};
    hsize_t from_end = row < rows - row ? row : rows - row;
    if (from_end % (hsize_t)ranks != (hsize_t)rank) continue;
    VALID(H5Sselect_hyperslab(space, H5S_SELECT_OR, start, NULL, count, NULL));
  }
}

static void points(hid_t space, hsize_t rows) {
  hsize_t at[kMoreRows * kColumns][2];
  size_t count = 0;
  hsize_t i;
  for (i = (hsize_t)rank; i < rows * kColumns; i += (hsize_t)ranks) {
    at[count][0] = i / kColumns;
    at[count++][1] = i % kColumns;
  }
  VALID(H5Sselect_elements(space, H5S_SELECT_SET, count, &at[0][0]));
}

/* The upper left corner, by rank 0; the rest stays fill value. */
static void corner(hid_t space, hsize_t rows) {
  hsize_t start[2] = {0, 0}, count[2] = {rows / 2, 11};
  if (rank != 0) {
    VALID(H5Sselect_none(space));
  } else {
    VALID(H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL));
  }
}

/* ---- data ---------------------------------------------------------------------------------------------------------- */

static hid_t transfer(int is_collective) {
  hid_t list = VALID(H5Pcreate(H5P_DATASET_XFER));
  VALID(H5Pset_dxpl_mpio(list, is_collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT));
  return list;
}

static hsize_t rows_of(hid_t set) {
  hsize_t size[2];
  hid_t space = VALID(H5Dget_space(set));
  VALID(H5Sget_simple_extent_dims(space, size, NULL));
  VALID(H5Sclose(space));
  return size[0];
}

/* Memory is an array like the dataset, of which the same elements are selected. */
static void move(hid_t set, Selection select, int is_collective, int is_write, double factor) {
  hsize_t rows = rows_of(set), size[2] = {rows, kColumns}, i;
  hid_t memory = VALID(H5Screate_simple(2, size, NULL)), space = VALID(H5Dget_space(set));
  hid_t list = transfer(is_collective);
  double* data = malloc(rows * kColumns * sizeof *data);
  double* want = malloc(rows * kColumns * sizeof *want);
  select(memory, rows);
  select(space, rows);
  for (i = 0; i < rows * kColumns; ++i) want[i] = factor * (double)i;
  if (is_write) {
    VALID(H5Dwrite(set, H5T_NATIVE_DOUBLE, memory, space, list, want));
  } else {
    hssize_t chosen = H5Sget_select_npoints(memory), right = 0;
    for (i = 0; i < rows * kColumns; ++i) data[i] = -1;
    VALID(H5Dread(set, H5T_NATIVE_DOUBLE, memory, space, list, data));
    for (i = 0; i < rows * kColumns; ++i) right += data[i] == want[i];
    CHECK(right == chosen);
  }
  free(data);
  free(want);
  VALID(H5Pclose(list));
  VALID(H5Sclose(space));
  VALID(H5Sclose(memory));
}

typedef struct {
  const char* name;
  hid_t (*storage)(void);
  Selection select;
  int is_collective;
} Set;

/* Filled at once: bytes that nobody writes have no defined value, and MPI libraries that read, change and write back leave what they had. */
static hid_t contiguous(void) {
  hid_t list = VALID(H5Pcreate(H5P_DATASET_CREATE));
  VALID(H5Pset_obj_track_times(list, 0));
  VALID(H5Pset_fill_time(list, H5D_FILL_TIME_ALLOC));
  return list;
}

static hid_t chunked(void) {
  hsize_t chunk[2] = {kRowsPerChunk, kColumnsPerChunk};
  hid_t list = contiguous();
  VALID(H5Pset_chunk(list, 2, chunk));
  return list;
}

static hid_t filled(void) {
  double fill = -7;
  hid_t list = chunked();
  VALID(H5Pset_fill_value(list, H5T_NATIVE_DOUBLE, &fill));
  return list;
}

static hid_t filtered(void) {
  hid_t list = chunked();
  VALID(H5Pset_shuffle(list));
  VALID(H5Pset_fletcher32(list));
  return list;
}

/* The filtered one: HDF5 knows only collective writes for those. */
static const Set kSets[] = {
    {"contiguous rows", contiguous, row_block, 1},
    {"contiguous columns", contiguous, column_block, 0},
    {"contiguous cyclic", contiguous, cyclic_columns, 1},
    {"contiguous ends", contiguous, rows_of_both_ends, 1},
    {"contiguous points", contiguous, points, 0},
    {"contiguous corner", contiguous, corner, 1},
    {"chunked rows", chunked, row_block, 1},
    {"chunked columns", chunked, column_block, 0},
    {"chunked cyclic", chunked, cyclic_columns, 1},
    {"chunked ends", chunked, rows_of_both_ends, 0},
    {"chunked points", chunked, points, 1},
    {"filled corner", filled, corner, 1},
    {"filtered rows", filtered, row_block, 1},
};
enum { kSetCount = sizeof kSets / sizeof *kSets };

static int is_chunked(const Set* set) { return set->storage != contiguous; }

/* ---- the file ------------------------------------------------------------------------------------------------------ */

static hid_t access_list(int is_collective) {
  hid_t list = VALID(H5Pcreate(H5P_FILE_ACCESS));
  VALID(H5Pset_fapl_mpio(list, MPI_COMM_WORLD, MPI_INFO_NULL));
  if (is_collective) {
    VALID(H5Pset_coll_metadata_write(list, 1));
    VALID(H5Pset_all_coll_metadata_ops(list, 1));
    VALID(H5Pset_libver_bounds(list, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST));
  }
  return list;
}

static void put_attribute(hid_t object, const char* name, int first) {
  hsize_t size = 5;
  int values[5], i;
  hid_t space = VALID(H5Screate_simple(1, &size, NULL)), attribute;
  for (i = 0; i < 5; ++i) values[i] = first + i;
  attribute = VALID(H5Acreate2(object, name, H5T_STD_I32BE, space, H5P_DEFAULT, H5P_DEFAULT));
  VALID(H5Awrite(attribute, H5T_NATIVE_INT, values));
  VALID(H5Aclose(attribute));
  VALID(H5Sclose(space));
}

static void check_attribute(hid_t object, const char* name, int first) {
  int values[5], i;
  hid_t attribute = VALID(H5Aopen(object, name, H5P_DEFAULT));
  VALID(H5Aread(attribute, H5T_NATIVE_INT, values));
  for (i = 0; i < 5; ++i) CHECK(values[i] == first + i);
  VALID(H5Aclose(attribute));
}

static void put_text(hid_t object, const char* text) {
  hid_t type = VALID(H5Tcopy(H5T_C_S1)), space = VALID(H5Screate(H5S_SCALAR)), attribute;
  VALID(H5Tset_size(type, strlen(text) + 1));
  attribute = VALID(H5Acreate2(object, "text", type, space, H5P_DEFAULT, H5P_DEFAULT));
  VALID(H5Awrite(attribute, type, text));
  VALID(H5Aclose(attribute));
  VALID(H5Sclose(space));
  VALID(H5Tclose(type));
}

static void make_set(hid_t file, const Set* set, int number) {
  hsize_t size[2] = {kRows, kColumns}, most[2] = {H5S_UNLIMITED, kColumns};
  hid_t list = set->storage(), space = VALID(H5Screate_simple(2, size, is_chunked(set) ? most : NULL));
  hid_t id = VALID(H5Dcreate2(file, set->name, H5T_IEEE_F64LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
  put_attribute(id, "numbers", 100 * number);
  move(id, set->select, set->is_collective, 1, 1);
  VALID(H5Dclose(id));
  VALID(H5Sclose(space));
  VALID(H5Pclose(list));
}

static void write_file(const char* name, int is_collective) {
  hid_t access = access_list(is_collective), create = VALID(H5Pcreate(H5P_FILE_CREATE)), file;
  hid_t group_create = VALID(H5Pcreate(H5P_GROUP_CREATE)), group;
  int i;
  VALID(H5Pset_obj_track_times(create, 0));
  VALID(H5Pset_obj_track_times(group_create, 0));
  file = VALID(H5Fcreate(name, H5F_ACC_TRUNC, create, access));
  group = VALID(H5Gcreate2(file, "group", H5P_DEFAULT, group_create, H5P_DEFAULT));
  put_text(group, "a group that holds datasets");
  for (i = 0; i < kSetCount; ++i) {
    make_set(i % 2 ? file : group, &kSets[i], i);
    if (i == kSetCount / 2) VALID(H5Fflush(file, H5F_SCOPE_GLOBAL));
  }
  VALID(H5Lcreate_soft("/group/contiguous rows", file, "link", H5P_DEFAULT, H5P_DEFAULT));
  VALID(H5Gclose(group));
  VALID(H5Fclose(file));
  VALID(H5Pclose(group_create));
  VALID(H5Pclose(create));
  VALID(H5Pclose(access));
}

/* By all decompositions; only the corner of a dataset that has no more. */
static void read_set(hid_t parent, const Set* set, int number) {
  static const Selection kReads[] = {corner, row_block, column_block, cyclic_columns, rows_of_both_ends, points};
  hid_t id = VALID(H5Dopen2(parent, set->name, H5P_DEFAULT));
  size_t count = set->select == corner ? 1 : sizeof kReads / sizeof *kReads, i;
  check_attribute(id, "numbers", 100 * number);
  CHECK(rows_of(id) == kRows);
  for (i = 0; i < count; ++i) {
    move(id, kReads[i], 1, 0, 1);
    move(id, kReads[i], 0, 0, 1);
  }
  VALID(H5Dclose(id));
}

/* More rows, other numbers, another attribute.  Opened again, since HDF5 keeps chunks that were read independently as they were. */
static void update_set(hid_t parent, const Set* set, int number) {
  hid_t id = VALID(H5Dopen2(parent, set->name, H5P_DEFAULT));
  if (is_chunked(set)) {
    hsize_t size[2] = {kMoreRows, kColumns};
    VALID(H5Dset_extent(id, size));
  }
  move(id, set->select, set->is_collective, 1, 3);
  VALID(H5Adelete(id, "numbers"));
  put_attribute(id, "more numbers", -number);
  VALID(H5Fflush(id, H5F_SCOPE_LOCAL));
  move(id, set->select, !set->is_collective, 0, 3);
  VALID(H5Dclose(id));
}

static void update_file(const char* name, int is_collective) {
  hid_t access = access_list(is_collective), file = VALID(H5Fopen(name, H5F_ACC_RDWR, access)), group;
  int i;
  group = VALID(H5Gopen2(file, "group", H5P_DEFAULT));
  for (i = 0; i < kSetCount; ++i) read_set(i % 2 ? file : group, &kSets[i], i);
  MPI_Barrier(MPI_COMM_WORLD); /* independent reads come before independent writes of others */
  for (i = 0; i < kSetCount; ++i) update_set(i % 2 ? file : group, &kSets[i], i);
  VALID(H5Ldelete(file, "contiguous columns", H5P_DEFAULT));
  VALID(H5Gclose(group));
  VALID(H5Fclose(file));

  file = VALID(H5Fopen(name, H5F_ACC_RDONLY, access));
  CHECK(H5Lexists(file, "contiguous columns", H5P_DEFAULT) == 0);
  CHECK(H5Lexists(file, "link", H5P_DEFAULT) > 0);
  VALID(H5Fclose(file));
  VALID(H5Pclose(access));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(argc == 4);
  int is_collective = strcmp(argv[2], "collective") == 0;
  if (strcmp(argv[1], "write") == 0) {
    write_file(argv[3], is_collective);
  } else {
    update_file(argv[3], is_collective);
  }
  MPI_Finalize();
  return 0;
}
