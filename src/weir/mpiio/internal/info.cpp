#include <weir/mpiio/internal/info.h>

#include <weir/mpiio/internal/errors.h>

namespace weir::mpiio::internal {

pario::Hints read_info(MPI_Info info) {
  pario::Hints hints;
  int keys = 0;
  if (info == MPI_INFO_NULL || PMPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS) return hints;
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = "";
    int length = 0;
    int has_value = 0;
    if (PMPI_Info_get_nthkey(info, i, key) != MPI_SUCCESS) continue;
    if (PMPI_Info_get_valuelen(info, key, &length, &has_value) != MPI_SUCCESS || has_value == 0) continue;
    std::string value(static_cast<std::size_t>(length) + 1, '\0');
    PMPI_Info_get(info, key, length, value.data(), &has_value);
    value.resize(static_cast<std::size_t>(length));
    hints.set(key, value);
  }
  return hints;
}

Status write_info(const pario::Hints& hints, MPI_Info* info) {
  WEIR_RETURN_IF_ERROR(from_mpi(PMPI_Info_create(info), "MPI_Info_create"));
  Status status;
  hints.for_each([&](const std::string& key, const std::string& value) {
    // Half a layout would be worse than none.
    if (value.size() >= MPI_MAX_INFO_VAL || key.size() >= MPI_MAX_INFO_KEY) return;
    if (status.is_ok()) status = from_mpi(PMPI_Info_set(*info, key.c_str(), value.c_str()), "MPI_Info_set");
  });
  return status;
}

}  // namespace weir::mpiio::internal
