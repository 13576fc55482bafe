#include <weir/server/internal/about.h>

#include <weir/base/text.h>
#include <weir/storage/store_tasks.h>

namespace weir::server::internal {

namespace {

// Layouts can be long; a message is not longer.
constexpr std::size_t kMostAboutBytes = std::size_t{8} << 20;

}  // namespace

Status check_about(storage::SubfileId id, std::span<const std::uint8_t> about) {
  if (about.empty()) return Status::ok();
  const std::string what = concat("what is known of subfile ", id.element, " of data ", id.file);
  if (about.size() > kMostAboutBytes) {
    return invalid_argument(concat(what, ": ", about.size(), " bytes; at most ", kMostAboutBytes, " are kept"));
  }
  const Result<wire::AboutT> decoded = wire::decode_about(std::as_bytes(about));
  if (!decoded.is_ok()) return invalid_argument(concat(what, ": ", decoded.status().message()));
  if (decoded->attributes->data == id.file && decoded->element == id.element) return Status::ok();
  return invalid_argument(
      concat(what, ": it is about subfile ", decoded->element, " of data ", decoded->attributes->data));
}

Task<Status> keep_newer_about(storage::Store& store, storage::SubfileId id, std::vector<std::uint8_t> about) {
  if (!store.capabilities().keeps_about || about.empty()) co_return Status::ok();
  const std::span<const std::byte> bytes = std::as_bytes(std::span(about));
  const auto kept = co_await storage::ask(store, storage::op::KeptAbout{id});
  if (!kept.is_ok() && kept.status().code() != ErrorCode::kCorrupt) co_return kept.status();
  if (kept.is_ok() && *kept) {
    const Result<wire::AboutT> before = wire::decode_about(**kept);
    WEIR_CO_TRY(const wire::AboutT now, wire::decode_about(bytes));
    if (before.is_ok() && before->attributes->changed_ns > now.attributes->changed_ns) co_return Status::ok();
  }
  storage::op::KeepAbout keep{id, {bytes.begin(), bytes.end()}};
  co_return co_await storage::run(store, std::move(keep));
}

Task<Status> add_about(storage::Store& store, storage::SubfileId id, wire::SubfileInfoT& answer) {
  const auto kept = co_await storage::ask(store, storage::op::KeptAbout{id});
  if (!kept.is_ok()) {
    if (kept.status().code() != ErrorCode::kCorrupt) co_return kept.status();
    answer.about_error = kept.status().message();
  } else if (*kept) {
    const auto* begin = reinterpret_cast<const std::uint8_t*>((*kept)->data());
    answer.about.assign(begin, begin + (*kept)->size());
  }
  co_return Status::ok();
}

}  // namespace weir::server::internal
