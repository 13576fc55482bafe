/* View I/O in C: four writers store a matrix by blocks of columns, each through a view of its own, then the whole is read by rows.
 *
 *     weir up --servers 4
 *     ./columns
 *     weir down
 */

#include <stdio.h>
#include <stdlib.h>

#include <clf.h>
#include <weir.h>

enum { kRows = 256, kColumns = 256, kWriters = 4, kWidth = kColumns / kWriters };

static int fail(const char* what) {
  fprintf(stderr, "columns: %s: %s\n", what, weir_last_error());
  return EXIT_FAILURE;
}

static int write_columns(int fd, int writer) {
  static unsigned char mine[kRows][kWidth];
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kWidth; ++column) mine[row][column] = (unsigned char)(row ^ (writer * kWidth + column));
  }
  CLF_Datatype columns = CLF_Type_vector(writer * kWidth, (writer + 1) * kWidth - 1, kColumns, kRows, CLF_BYTE);
  if (columns == NULL) return -1;
  int ok = CLF_setview(fd, columns, 0, kRows * kColumns) == 0 && CLF_write(fd, mine, sizeof mine) == (ssize_t)sizeof mine;
  CLF_Type_free(&columns);
  return ok ? 0 : -1;
}

int main(void) {
  int fd = CLF_open("/columns-example", O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return fail("CLF_open");
  if (CLF_setlayout(fd, "hpf(shape=[256,256], dist=(*,BLOCK), grid=[1,4])") != 0) return fail("CLF_setlayout");
  for (int writer = 0; writer < kWriters; ++writer) {
    if (write_columns(fd, writer) != 0) return fail("writing columns");
  }

  if (CLF_setview(fd, CLF_BYTE, 0, 1) != 0) return fail("CLF_setview");
  for (int row = 0; row < kRows; ++row) {
    unsigned char line[kColumns];
    if (CLF_read(fd, line, sizeof line) != (ssize_t)sizeof line) return fail("CLF_read");
    for (int column = 0; column < kColumns; ++column) {
      if (line[column] == (unsigned char)(row ^ column)) continue;
      fprintf(stderr, "columns: wrong byte in row %d, column %d\n", row, column);
      return EXIT_FAILURE;
    }
  }
  if (CLF_close(fd) != 0 || CLF_unlink("/columns-example") != 0) return fail("closing");
  puts("columns: 4 writers, 256 rows read back");
  return EXIT_SUCCESS;
}
