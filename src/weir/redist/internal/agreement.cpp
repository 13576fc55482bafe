#include <weir/redist/internal/agreement.h>

#include <array>

#include <weir/base/ranks.h>
#include <weir/base/text.h>

namespace weir::redist::internal {

namespace {

// Of numbers with a sign, in ascending order; and back.
std::uint64_t unsigned_of(std::int64_t value) { return static_cast<std::uint64_t>(value) ^ (std::uint64_t{1} << 63); }
std::int64_t signed_of(std::uint64_t word) { return static_cast<std::int64_t>(word ^ (std::uint64_t{1} << 63)); }

}  // namespace

Status compare_arguments(Group& group, const std::vector<group::Term>& terms) {
  const std::uint64_t hash = group::hash_of(terms);
  std::array<std::uint64_t, 2> words{hash, ~hash};
  WEIR_RETURN_IF_ERROR(group.greatest(kOperation, words));
  if (words[0] == ~words[1]) return Status::ok();
  WEIR_TRY(const std::string differences, group.differences(kOperation, terms));
  return invalid_argument(concat(kOperation, ": ranks call with different arguments:", differences,
                                 " All ranks of the communicator must pass the same"));
}

Status agree(Group& group, const Status& mine) {
  std::array<std::uint64_t, 1> blame{group.blame(!mine.is_ok())};
  WEIR_RETURN_IF_ERROR(group.greatest(kOperation, blame));
  return blame[0] == 0 ? Status::ok() : group.failure_of(kOperation, blame[0], mine);
}

Status agree_on_count(Group& group, std::int64_t count, const Status& mine) {
  const auto value = static_cast<std::uint64_t>(count);
  std::array<std::uint64_t, 3> words{value, ~value, group.blame(!mine.is_ok())};
  WEIR_RETURN_IF_ERROR(group.greatest(kOperation, words));
  if (words[2] != 0) return group.failure_of(kOperation, words[2], mine);
  if (words[0] == ~words[1]) return Status::ok();
  WEIR_TRY(const std::vector<std::string> counts,
           group.gather(kOperation, concat(count, count == 1 ? " array" : " arrays")));
  return invalid_argument(
      concat(kOperation, ": ranks execute with different numbers of arrays: ", describe_difference(counts)));
}

Result<std::int64_t> least(Group& group, std::int64_t value) {
  std::array<std::uint64_t, 1> word{~unsigned_of(value)};
  WEIR_RETURN_IF_ERROR(group.greatest(kOperation, word));
  return signed_of(~word[0]);
}

}  // namespace weir::redist::internal
