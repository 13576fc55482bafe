#include <weir/redist/internal/agreement.h>

#include <numeric>

#include <weir/base/ranks.h>
#include <weir/base/text.h>

namespace weir::redist::internal {

namespace {

constexpr std::size_t kMaxShown = 200;  // characters of an argument in a message

// FNV-1a; a clash would let a mistake pass that nobody makes on purpose.
std::uint64_t hash(const std::vector<Field>& fields) {
  std::uint64_t state = 0xcbf29ce484222325u;
  const auto add = [&state](char character) {
    state = (state ^ static_cast<unsigned char>(character)) * 0x100000001b3u;
  };
  for (const Field& field : fields) {
    for (const char character : field.value) add(character);
    add('\0');
  }
  return state;
}

std::string shown(const std::string& value) {
  if (value.size() <= kMaxShown) return value;
  return concat(std::string_view(value).substr(0, kMaxShown), "... (", value.size(), " characters)");
}

// Every rank's text, on every rank.
Result<std::vector<std::string>> gather(const Comm& comm, const std::string& mine) {
  MPI_Request request = MPI_REQUEST_NULL;
  const auto ranks = static_cast<std::size_t>(comm.size());
  const int length = static_cast<int>(mine.size());
  std::vector<int> lengths(ranks);
  WEIR_RETURN_IF_ERROR(await(MPI_Iallgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm.get(), &request),
                             request, "MPI_Iallgather"));
  std::vector<int> starts(ranks);
  std::exclusive_scan(lengths.begin(), lengths.end(), starts.begin(), 0);
  std::string all(static_cast<std::size_t>(starts.back() + lengths.back()), '\0');
  WEIR_RETURN_IF_ERROR(await(MPI_Iallgatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(),
                                             MPI_CHAR, comm.get(), &request),
                             request, "MPI_Iallgatherv"));
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i) {
    texts.push_back(all.substr(static_cast<std::size_t>(starts[i]), static_cast<std::size_t>(lengths[i])));
  }
  return texts;
}

// What of a value is told to the others: all of it may be megabytes on each of thousands of ranks.
std::string abstract_of(const Field& field) {
  return field.value.size() <= kMaxShown ? field.value : concat(shown(field.value), ", hash ", hash({field}));
}

}  // namespace

Status compare_arguments(const Comm& comm, const std::vector<Field>& fields) {
  MPI_Request request = MPI_REQUEST_NULL;
  const std::uint64_t own = hash(fields);
  const std::uint64_t pair[2] = {own, ~own};
  std::uint64_t most[2] = {};
  WEIR_RETURN_IF_ERROR(
      await(MPI_Iallreduce(pair, most, 2, MPI_UINT64_T, MPI_MAX, comm.get(), &request), request, "MPI_Iallreduce"));
  if (most[0] == ~most[1]) return Status::ok();
  std::string message = "redistribution: ranks call with different arguments:";
  for (const Field& field : fields) {
    WEIR_TRY(const std::vector<std::string> values, gather(comm, abstract_of(field)));
    const std::string difference = describe_difference(values);
    if (!difference.empty()) message += concat(' ', field.name, ": ", difference, '.');
  }
  return invalid_argument(message + " All ranks of the communicator must pass the same");
}

Status agree(const Comm& comm, const Status& mine) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int bad = mine.is_ok() ? comm.size() : comm.rank();
  int first = 0;
  WEIR_RETURN_IF_ERROR(
      await(MPI_Iallreduce(&bad, &first, 1, MPI_INT, MPI_MIN, comm.get(), &request), request, "MPI_Iallreduce"));
  if (first == comm.size()) return Status::ok();
  int head[2] = {static_cast<int>(mine.code()), static_cast<int>(mine.message().size())};
  WEIR_RETURN_IF_ERROR(await(MPI_Ibcast(head, 2, MPI_INT, first, comm.get(), &request), request, "MPI_Ibcast"));
  std::string message = mine.message();
  message.resize(static_cast<std::size_t>(head[1]));
  WEIR_RETURN_IF_ERROR(
      await(MPI_Ibcast(message.data(), head[1], MPI_CHAR, first, comm.get(), &request), request, "MPI_Ibcast"));
  return {static_cast<ErrorCode>(head[0]), concat("on rank ", first, ": ", message)};
}

Status agree_on_count(const Comm& comm, std::int64_t count, const Status& mine) {
  MPI_Request request = MPI_REQUEST_NULL;
  const std::int64_t values[3] = {count, -count, mine.is_ok() ? 0 : 1};
  std::int64_t most[3] = {};
  WEIR_RETURN_IF_ERROR(
      await(MPI_Iallreduce(values, most, 3, MPI_INT64_T, MPI_MAX, comm.get(), &request), request, "MPI_Iallreduce"));
  if (most[2] != 0) return agree(comm, mine);
  if (most[0] == -most[1]) return Status::ok();
  WEIR_TRY(const std::vector<std::string> values_text, gather(comm, concat(count, count == 1 ? " array" : " arrays")));
  return invalid_argument(
      concat("redistribution: ranks execute with different numbers of arrays: ", describe_difference(values_text)));
}

Result<std::int64_t> least(const Comm& comm, std::int64_t value) {
  MPI_Request request = MPI_REQUEST_NULL;
  std::int64_t minimum = 0;
  WEIR_RETURN_IF_ERROR(await(MPI_Iallreduce(&value, &minimum, 1, MPI_INT64_T, MPI_MIN, comm.get(), &request), request,
                             "MPI_Iallreduce"));
  return minimum;
}

}  // namespace weir::redist::internal
