/* A PnetCDF program that knows nothing of Weir.
 *
 * usage: pnetcdf write|update FILE
 *
 * write makes a file with fixed and record variables by all kinds of calls; update, on other ranks, reads all of it, adds a variable, so that
 * data move, and records.  Element i of a variable is i in row-major order: any number of ranks writes the same bytes. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <pnetcdf.h>

enum { kRows = 13, kColumns = 18, kRecords = 4, kMoreRecords = 7 };

static int rank, ranks;

#define NC(call)                                                                        \
  do {                                                                                  \
    int code_ = (call);                                                                 \
    if (code_ != NC_NOERR) {                                                            \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, ncmpi_strerror(code_)); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                     \
    }                                                                                   \
  } while (0)

#define CHECK(condition)                                                     \
  do {                                                                       \
    if (!(condition)) {                                                      \
      fprintf(stderr, "rank %d, line %d: %s\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                          \
    }                                                                        \
  } while (0)

typedef struct {
  int file, grid, columns, series, small, text, scalar;
} Ids;

/* Columns of this rank, or rows, or records. */
static MPI_Offset part(MPI_Offset whole, int index) { return whole * index / ranks; }
static MPI_Offset mine(MPI_Offset whole) { return part(whole, rank + 1) - part(whole, rank); }

static int* numbers(MPI_Offset records) {
  MPI_Offset i, count = records * kRows * kColumns;
  int* values = malloc((size_t)count * sizeof *values);
  for (i = 0; i < count; ++i) values[i] = (int)i;
  return values;
}

/* Values of an array of `columns` columns, from a row on, of columns [from, from + count). */
static void fill(int* values, MPI_Offset first_row, MPI_Offset rows, MPI_Offset columns, MPI_Offset from,
                 MPI_Offset count) {
  MPI_Offset row, column;
  for (row = 0; row < rows; ++row) {
    for (column = 0; column < count; ++column) *values++ = (int)((first_row + row) * columns + from + column);
  }
}

static void check_values(const int* values, MPI_Offset first_row, MPI_Offset rows, MPI_Offset columns, MPI_Offset from,
                         MPI_Offset count) {
  int* want = malloc((size_t)(rows * count + 1) * sizeof *want);
  fill(want, first_row, rows, columns, from, count);
  CHECK(memcmp(want, values, (size_t)(rows * count) * sizeof *want) == 0);
  free(want);
}

static void define(Ids* id) {
  int time, row, column, dims[3];
  double range[2] = {-1.5, 2.5};
  NC(ncmpi_def_dim(id->file, "time", NC_UNLIMITED, &time));
  NC(ncmpi_def_dim(id->file, "row", kRows, &row));
  NC(ncmpi_def_dim(id->file, "column", kColumns, &column));
  dims[0] = time;
  dims[1] = row;
  dims[2] = column;
  NC(ncmpi_def_var(id->file, "grid", NC_DOUBLE, 2, dims + 1, &id->grid));
  NC(ncmpi_def_var(id->file, "columns", NC_INT, 2, dims + 1, &id->columns));
  NC(ncmpi_def_var(id->file, "series", NC_FLOAT, 3, dims, &id->series));
  NC(ncmpi_def_var(id->file, "small", NC_SHORT, 2, dims, &id->small)); /* 26 bytes in a record: padded to 28 */
  NC(ncmpi_def_var(id->file, "text", NC_CHAR, 1, &column, &id->text));
  NC(ncmpi_def_var(id->file, "scalar", NC_INT64, 0, NULL, &id->scalar));
  NC(ncmpi_put_att_text(id->file, NC_GLOBAL, "title", 18, "grids and series\n\n"));
  NC(ncmpi_put_att_double(id->file, id->grid, "range", NC_DOUBLE, 2, range));
  NC(ncmpi_def_var_fill(id->file, id->columns, 0, NULL));
  NC(ncmpi_def_var_fill(id->file, id->series, 0, NULL));
}

/* Collective, rows of a rank. */
static void put_grid(const Ids* id) {
  MPI_Offset start[2] = {part(kRows, rank), 0}, count[2] = {mine(kRows), kColumns};
  int* values = malloc(sizeof(int) * kRows * kColumns);
  fill(values, start[0], count[0], kColumns, 0, kColumns);
  NC(ncmpi_put_vara_int_all(id->file, id->grid, start, count, values));
  free(values);
}

/* Independent: every ranks-th column; memory is columns of a larger array, described by a datatype. */
static void put_columns(const Ids* id) {
  MPI_Offset start[2] = {0, rank}, count[2] = {kRows, (kColumns - rank + ranks - 1) / ranks}, stride[2] = {1, ranks};
  int* values = numbers(1);
  MPI_Datatype type;
  int row, column;
  int* memory = malloc(sizeof(int) * kRows * kColumns);
  for (row = 0; row < kRows; ++row) {
    for (column = 0; column < count[1]; ++column)
      memory[row * kColumns + column] = values[row * kColumns + rank + column * ranks];
  }
  MPI_Type_vector(kRows, (int)count[1], kColumns, MPI_INT, &type);
  MPI_Type_commit(&type);
  NC(ncmpi_begin_indep_data(id->file));
  NC(ncmpi_put_vars(id->file, id->columns, start, count, stride, memory, 1, type));
  if (rank == ranks - 1) {
    long long value = 1234567890123LL;
    NC(ncmpi_put_var_longlong(id->file, id->scalar, &value));
  }
  NC(ncmpi_end_indep_data(id->file));
  MPI_Type_free(&type);
  free(memory);
  free(values);
}

/* Non-blocking: columns of all records of both record variables at once, one of them buffered. */
static void put_records(const Ids* id, MPI_Offset first, MPI_Offset end) {
  MPI_Offset from = part(kColumns, rank), record;
  int *values = malloc(sizeof(int) * kMoreRecords * kRows * kColumns), *next = values;
  int requests[2 * kMoreRecords], codes[2 * kMoreRecords], count = 0, i;
  NC(ncmpi_buffer_attach(id->file, kMoreRecords * kRows * (MPI_Offset)sizeof(int)));
  for (record = first; record < end; ++record) {
    MPI_Offset start[3] = {record, 0, from}, size[3] = {1, kRows, mine(kColumns)};
    MPI_Offset small_start[2] = {record, part(kRows, rank)}, small_size[2] = {1, mine(kRows)};
    int small[kRows];
    fill(next, record * kRows, kRows, kColumns, from, size[2]);
    NC(ncmpi_iput_vara_int(id->file, id->series, start, size, next, &requests[count++]));
    fill(small, record, 1, kRows, small_start[1], small_size[1]);
    NC(ncmpi_bput_vara_int(id->file, id->small, small_start, small_size, small, &requests[count++]));
    next += kRows * size[2];
  }
  NC(ncmpi_wait_all(id->file, count, requests, codes));
  for (i = 0; i < count; ++i) NC(codes[i]);
  NC(ncmpi_buffer_detach(id->file));
  free(values);
}

/* Several places by one call: every ranks-th letter. */
static void put_text(const Ids* id) {
  static const char kText[] = "eighteen letters..";
  MPI_Offset places[kColumns][1];
  MPI_Offset* starts[kColumns];
  char letters[kColumns];
  int count = 0, i;
  for (i = rank; i < kColumns; i += ranks) {
    places[count][0] = i;
    starts[count] = places[count];
    letters[count++] = kText[i];
  }
  NC(ncmpi_put_varn_text_all(id->file, id->text, count, starts, NULL, letters));
}

/* A longer file, of which nothing may be left when it is replaced. */
static void write_other_file(const char* name) {
  MPI_Offset start = 1000 * rank, count = 1000;
  int file, dim, var, values[1000];
  memset(values, 0x5a, sizeof values);
  NC(ncmpi_create(MPI_COMM_WORLD, name, NC_NOCLOBBER, MPI_INFO_NULL, &file));
  NC(ncmpi_def_dim(file, "all", 1000 * ranks, &dim));
  NC(ncmpi_def_var(file, "values", NC_INT, 1, &dim, &var));
  NC(ncmpi_enddef(file));
  NC(ncmpi_put_vara_int_all(file, var, &start, &count, values));
  NC(ncmpi_close(file));
  CHECK(ncmpi_create(MPI_COMM_WORLD, name, NC_NOCLOBBER, MPI_INFO_NULL, &file) == NC_EEXIST);
}

static void write_file(const char* name) {
  Ids id;
  write_other_file(name);
  NC(ncmpi_create(MPI_COMM_WORLD, name, NC_CLOBBER | NC_64BIT_DATA, MPI_INFO_NULL, &id.file));
  define(&id);
  NC(ncmpi_enddef(id.file));
  put_grid(&id);
  put_columns(&id);
  put_records(&id, 0, kRecords);
  NC(ncmpi_sync(id.file));
  put_text(&id);
  NC(ncmpi_close(id.file));
}

static void check_header(Ids* id) {
  MPI_Offset length;
  double range[2];
  int format, time;
  NC(ncmpi_inq_format(id->file, &format));
  CHECK(format == NC_FORMAT_CDF5);
  NC(ncmpi_inq_varid(id->file, "grid", &id->grid));
  NC(ncmpi_inq_varid(id->file, "columns", &id->columns));
  NC(ncmpi_inq_varid(id->file, "series", &id->series));
  NC(ncmpi_inq_varid(id->file, "small", &id->small));
  NC(ncmpi_inq_varid(id->file, "text", &id->text));
  NC(ncmpi_inq_varid(id->file, "scalar", &id->scalar));
  NC(ncmpi_get_att_double(id->file, id->grid, "range", range));
  CHECK(range[0] == -1.5 && range[1] == 2.5);
  NC(ncmpi_inq_dimid(id->file, "time", &time));
  NC(ncmpi_inq_dimlen(id->file, time, &length));
  CHECK(length == kRecords);
}

/* Rows where columns were written and the other way round; collectively, independently and by requests. */
static void check_data(const Ids* id) {
  MPI_Offset rows[2] = {part(kRows, rank), 0}, row_count[2] = {mine(kRows), kColumns};
  MPI_Offset columns[2] = {0, part(kColumns, rank)}, column_count[2] = {kRows, mine(kColumns)};
  MPI_Offset all[3] = {0, part(kRows, rank), 0}, all_count[3] = {kRecords, mine(kRows), kColumns};
  MPI_Offset small[2] = {0, 0}, small_count[2] = {kRecords, kRows};
  int* values = malloc(sizeof(int) * kRecords * kRows * kColumns);
  int others[kRecords * kRows], requests[2], codes[2], record;
  long long scalar = 0;
  NC(ncmpi_get_vara_int_all(id->file, id->grid, columns, column_count, values));
  check_values(values, 0, kRows, kColumns, columns[1], column_count[1]);
  NC(ncmpi_begin_indep_data(id->file));
  NC(ncmpi_get_vara_int(id->file, id->columns, rows, row_count, values));
  check_values(values, rows[0], row_count[0], kColumns, 0, kColumns);
  NC(ncmpi_get_var_longlong(id->file, id->scalar, &scalar));
  CHECK(scalar == 1234567890123LL);
  NC(ncmpi_end_indep_data(id->file));
  NC(ncmpi_iget_vara_int(id->file, id->series, all, all_count, values, &requests[0]));
  NC(ncmpi_iget_vara_int(id->file, id->small, small, small_count, others, &requests[1]));
  NC(ncmpi_wait_all(id->file, 2, requests, codes));
  NC(codes[0]);
  NC(codes[1]);
  for (record = 0; record < kRecords; ++record) {
    check_values(values + record * all_count[1] * kColumns, record * kRows + all[1], all_count[1], kColumns, 0,
                 kColumns);
  }
  check_values(others, 0, kRecords, kRows, 0, kRows);
  free(values);
}

/* Makes the header longer than the room that it has: all data move. */
static void add_variable(const Ids* id) {
  char name[4000];
  int row, more, written = 77 + rank;
  MPI_Offset at = rank;
  memset(name, 'n', sizeof name);
  NC(ncmpi_redef(id->file));
  NC(ncmpi_inq_dimid(id->file, "row", &row));
  NC(ncmpi_def_var(id->file, "more", NC_INT, 1, &row, &more));
  NC(ncmpi_def_var_fill(id->file, more, 0, NULL));
  NC(ncmpi_put_att_text(id->file, more, "long", sizeof name, name));
  NC(ncmpi_enddef(id->file));
  if (rank >= 2) at = written = 0;
  NC(ncmpi_put_var1_int_all(id->file, more, &at, &written));
}

static void update_file(const char* name) {
  Ids id;
  NC(ncmpi_open(MPI_COMM_WORLD, name, NC_WRITE, MPI_INFO_NULL, &id.file));
  check_header(&id);
  check_data(&id);
  add_variable(&id);
  check_data(&id);
  put_records(&id, kRecords, kMoreRecords);
  NC(ncmpi_close(id.file));
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(argc == 3);
  if (strcmp(argv[1], "write") == 0) {
    write_file(argv[2]);
  } else {
    update_file(argv[2]);
  }
  MPI_Finalize();
  return 0;
}
