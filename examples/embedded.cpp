// A file system inside this process: four servers, a matrix stored by columns, read by rows.
//
// Two "processes" (here: two halves of the matrix) write their columns; then every row is read back through another view.

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <weir/client/file_system.h>
#include <weir/embedded/embedded.h>
#include <weir/layout/language.h>

namespace {

constexpr weir::Offset kRows = 512;
constexpr weir::Offset kColumns = 512;

// The value at (row, column), so that anybody can check it.
int value(weir::Offset row, weir::Offset column) { return static_cast<int>(row * kColumns + column); }

weir::Status write_columns(const weir::client::File& file, const weir::layout::Partition& columns, weir::Offset part) {
  WEIR_TRY(const auto mine, columns.element(part));
  WEIR_TRY(const auto view, file.view(mine));
  const weir::Offset width = kColumns / columns.element_count();
  std::vector<int> values;
  for (weir::Offset row = 0; row < kRows; ++row) {
    for (weir::Offset column = 0; column < width; ++column) values.push_back(value(row, part * width + column));
  }
  return view.write(0, std::as_bytes(std::span(values)));
}

weir::Status check_rows(const weir::client::File& file) {
  WEIR_TRY(const auto rows, file.linear());
  std::vector<int> row(kColumns);
  for (weir::Offset i = 0; i < kRows; ++i) {
    WEIR_RETURN_IF_ERROR(rows.read(i * kColumns * 4, std::as_writable_bytes(std::span(row))));
    for (weir::Offset j = 0; j < kColumns; ++j) {
      if (row[static_cast<std::size_t>(j)] != value(i, j)) return {weir::ErrorCode::kCorrupt, "a wrong value"};
    }
  }
  return weir::Status::ok();
}

weir::Status run() {
  weir::EmbeddedOptions options;
  options.servers = 4;
  WEIR_TRY(const weir::Embedded servers, weir::embedded(options));
  const weir::client::FileSystem& fs = servers.file_system();

  // Stored by blocks of columns, one for each server.
  WEIR_TRY(const auto layout, weir::layout::parse("hpf(shape=[512,512], elem=4, dist=(*,BLOCK), grid=[1,4])"));
  WEIR_TRY(const auto file, fs.create("/matrix", layout));

  WEIR_TRY(const auto halves, weir::layout::parse("hpf(shape=[512,512], elem=4, dist=(*,BLOCK), grid=[1,2])"));
  for (weir::Offset part = 0; part < 2; ++part) WEIR_RETURN_IF_ERROR(write_columns(file, halves, part));
  WEIR_RETURN_IF_ERROR(check_rows(file));

  WEIR_TRY(const auto mine, halves.element(0));
  WEIR_TRY(const auto view, file.view(mine));
  std::puts(view.explain().c_str());
  return weir::Status::ok();
}

}  // namespace

int main() {
  const weir::Status status = run();
  if (!status.is_ok()) std::fprintf(stderr, "embedded: %s\n", status.message().c_str());
  return status.is_ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
