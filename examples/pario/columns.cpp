// A matrix of doubles in a file, stored row by row; each rank owns a block of columns.  The ranks write it together, once each for itself and
// once in two phases, and read it back.
//
//   mpirun -n 4 example_pario_<mpi>        with servers that WEIR_FS names (see `weir up`)
//
// Without MPI the same works with another group, such as weir::group::ThreadGroup.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include <weir/base/text.h>
#include <weir/mpi/communicator.h>
#include <weir/pario/file.h>

namespace {

using weir::Offset;
using weir::Result;
using weir::Status;
namespace pario = weir::pario;

constexpr Offset kRows = 200;
constexpr Offset kColumns = 30;  // of each rank
constexpr Offset kBlock = kColumns * Offset{sizeof(double)};

// The columns of a rank: one block of each row.
Result<weir::layout::Element> columns_of(int rank, int ranks) {
  return weir::layout::Element::create({{rank * kBlock, (rank + 1) * kBlock - 1, 0, 1, {}}},
                                       {.disp = 0, .period = ranks * kBlock});
}

Status write_and_read(const std::string& method) {
  WEIR_TRY(weir::mpi::Communicator duplicate, weir::mpi::Communicator::duplicate(MPI_COMM_WORLD, "example"));
  auto group = std::make_unique<weir::mpi::Communicator>(std::move(duplicate));
  const int rank = group->rank();
  const int ranks = group->size();
  pario::OpenOptions options;
  options.is_created = true;
  options.hints.set("weir_collective", method);
  WEIR_TRY(const std::shared_ptr<pario::File> file,
           pario::File::open(std::move(group), weir::client::FileSystem::connect(), "/example/" + method,
                             std::move(options)));

  // Offsets count doubles of this rank's columns.
  WEIR_TRY(weir::layout::Element mine, columns_of(rank, ranks));
  WEIR_RETURN_IF_ERROR(file->set_view({.element = std::move(mine), .etype_bytes = sizeof(double)}));

  std::vector<double> matrix(static_cast<std::size_t>(kRows * kColumns));
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] = rank + static_cast<double>(i) / 1e4;
  const auto bytes = static_cast<Offset>(matrix.size() * sizeof(double));
  const auto memory_of = [](std::vector<double>& values) {
    return pario::Memory{.data = reinterpret_cast<std::byte*>(values.data())};
  };
  pario::AccessResult result;
  WEIR_RETURN_IF_ERROR(file->access({.is_write = true, .is_collective = true}, memory_of(matrix), bytes, result));
  WEIR_RETURN_IF_ERROR(file->sync());
  std::vector<double> back(matrix.size());
  WEIR_RETURN_IF_ERROR(file->access({.is_collective = true}, memory_of(back), bytes, result));
  WEIR_TRY(const Offset size, file->size());
  if (rank == 0) {
    std::printf("%s: %lld bytes, %s\n", method.c_str(), static_cast<long long>(size),
                file->hints().get("weir_collective_last").value_or("no rank needed another").c_str());
  }
  WEIR_RETURN_IF_ERROR(file->close());
  if (result.bytes != bytes || back != matrix || size != ranks * bytes) {
    return weir::corrupt(weir::concat("rank ", rank, " read other values than it wrote"));
  }
  return Status::ok();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int code = 0;
  const auto fs = weir::client::FileSystem::connect();
  if (fs.is_ok()) static_cast<void>(fs->make_directory("/example"));  // by the first rank; the others find it there
  for (const char* const method : {"alone", "two-phase"}) {
    const Status status = write_and_read(method);
    if (status.is_ok()) continue;
    std::fprintf(stderr, "%s\n", status.message().c_str());
    code = 1;
  }
  MPI_Finalize();
  return code;
}
