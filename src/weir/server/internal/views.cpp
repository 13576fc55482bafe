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

Status Views::check_room(net::PeerId peer, std::uint64_t view, std::size_t bytes, const Most& most) const {
  if (count_ >= kMostViews || bytes_ + bytes > kMostBytes) {
    return {ErrorCode::kNoSpace, concat("register view ", view, ": the server has ", count_, " views of ", bytes_,
                                        " bytes, which is all it can keep: forget some")};
  }
  const auto found = peers_.find(peer);
  const std::size_t had = found == peers_.end() ? 0 : found->second.views.size();
  const std::size_t had_bytes = found == peers_.end() ? 0 : found->second.bytes;
  if (had < most.views && had_bytes + bytes <= most.bytes) return Status::ok();
  const bool are_many = had >= most.views;
  return {ErrorCode::kNoSpace, concat("register view ", view, ": caller ", peer, " has ", had, " views of ", had_bytes,
                                      " bytes; the limit of a connection is ", are_many ? most.views : most.bytes,
                                      are_many ? " views" : " bytes", ": forget some, or raise ",
                                      are_many ? "WEIR_LIMIT_VIEWS" : "WEIR_LIMIT_MEMORY", " of the server")};
}

Status Views::add(net::PeerId peer, const wire::RegisterViewT& request, const Most& most) {
  if (request.subfile == nullptr) return invalid_argument(concat("register view ", request.view, ": names no subfile"));
  const std::size_t bytes = bytes_of(request);
  WEIR_RETURN_IF_ERROR(check_room(peer, request.view, bytes, most));
  Result<Route> route = to_route(request);
  if (!route.is_ok()) {
    return invalid_argument(concat("register view ", request.view, " of subfile ", request.subfile->element(),
                                   " of file ", request.subfile->file(), ": ", route.status().message()));
  }
  auto view = std::make_shared<const RegisteredView>(
      RegisteredView{{request.subfile->file(), request.subfile->element()}, std::move(route).value()});
  forget(peer, request.view);
  PeerViews& of_peer = peers_[peer];
  of_peer.views[request.view] = {std::move(view), bytes};
  of_peer.bytes += bytes;
  ++count_;
  bytes_ += bytes;
  return Status::ok();
}

void Views::forget(net::PeerId peer, std::uint64_t view) {
  const auto views = peers_.find(peer);
  if (views == peers_.end()) return;
  PeerViews& of_peer = views->second;
  const auto found = of_peer.views.find(view);
  if (found == of_peer.views.end()) return;
  --count_;
  bytes_ -= found->second.bytes;
  of_peer.bytes -= found->second.bytes;
  of_peer.views.erase(found);
  if (of_peer.views.empty()) peers_.erase(views);
}

void Views::drop(net::PeerId peer) {
  const auto views = peers_.find(peer);
  if (views == peers_.end()) return;
  bytes_ -= views->second.bytes;
  count_ -= views->second.views.size();
  peers_.erase(views);
}

Result<std::shared_ptr<const RegisteredView>> Views::find(net::PeerId peer, std::uint64_t view) const {
  if (const auto views = peers_.find(peer); views != peers_.end()) {
    const auto found = views->second.views.find(view);
    if (found != views->second.views.end()) return found->second.view;
  }
  return Status{ErrorCode::kNotFound,
                concat("view ", view, " is not registered on this connection: register it again")};
}

}  // namespace weir::server::internal
