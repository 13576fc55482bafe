#include <weir/server/internal/views.h>

#include <span>
#include <utility>

#include <weir/base/text.h>
#include <weir/layout/binary.h>

namespace weir::server::internal {

namespace {

using transfer::Route;

Result<layout::Element> to_element(const std::vector<std::uint8_t>& falls, Offset disp, Offset period) {
  WEIR_TRY(layout::FallsSet set, layout::decode_falls(std::as_bytes(std::span(falls))));
  return layout::Element::create(std::move(set), {.disp = disp, .period = period});
}

Result<Route> to_route(const wire::RegisterViewT& request) {
  std::vector<Route::Band> bands;
  for (const auto& band : request.bands) {
    if (band == nullptr) return invalid_argument("a band is missing");
    WEIR_TRY(layout::Element view, to_element(band->view, band->view_disp, band->view_period));
    WEIR_TRY(layout::Element subfile, to_element(band->subfile, band->subfile_disp, band->subfile_period));
    bands.push_back({std::move(view), std::move(subfile)});
  }
  return Route::create(std::move(bands));
}

std::size_t bytes_of(const wire::RegisterViewT& request) {
  std::size_t bytes = 0;
  for (const auto& band : request.bands) {
    if (band != nullptr) bytes += sizeof(wire::BandT) + band->view.size() + band->subfile.size();
  }
  return bytes;
}

}  // namespace

Status Views::add(net::PeerId peer, const wire::RegisterViewT& request) {
  if (request.subfile == nullptr) return invalid_argument(concat("register view ", request.view, ": names no subfile"));
  const std::size_t bytes = bytes_of(request);
  if (count_ >= kMostViews || bytes_ + bytes > kMostBytes) {
    return {ErrorCode::kNoSpace, concat("register view ", request.view, ": the server has ", count_, " views of ",
                                        bytes_, " bytes, which is all it can keep: forget some")};
  }
  Result<Route> route = to_route(request);
  if (!route.is_ok()) {
    return invalid_argument(concat("register view ", request.view, " of subfile ", request.subfile->element(),
                                   " of file ", request.subfile->file(), ": ", route.status().message()));
  }
  auto view = std::make_shared<const RegisteredView>(
      RegisteredView{{request.subfile->file(), request.subfile->element()}, std::move(route).value()});
  forget(peer, request.view);
  peers_[peer][request.view] = {std::move(view), bytes};
  ++count_;
  bytes_ += bytes;
  return Status::ok();
}

void Views::forget(net::PeerId peer, std::uint64_t view) {
  const auto views = peers_.find(peer);
  if (views == peers_.end()) return;
  const auto found = views->second.find(view);
  if (found == views->second.end()) return;
  --count_;
  bytes_ -= found->second.bytes;
  views->second.erase(found);
  if (views->second.empty()) peers_.erase(views);
}

void Views::drop(net::PeerId peer) {
  const auto views = peers_.find(peer);
  if (views == peers_.end()) return;
  for (const auto& [number, entry] : views->second) bytes_ -= entry.bytes;
  count_ -= views->second.size();
  peers_.erase(views);
}

Result<std::shared_ptr<const RegisteredView>> Views::find(net::PeerId peer, std::uint64_t view) const {
  if (const auto views = peers_.find(peer); views != peers_.end()) {
    if (const auto found = views->second.find(view); found != views->second.end()) return found->second.view;
  }
  return Status{ErrorCode::kNotFound,
                concat("view ", view, " is not registered on this connection: register it again")};
}

}  // namespace weir::server::internal
