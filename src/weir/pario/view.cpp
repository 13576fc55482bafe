#include <weir/pario/view.h>

#include <algorithm>

#include <weir/layout/view_layout.h>

namespace weir::pario {

namespace {

bool is_same(const layout::Element& x, const layout::Element& y) {
  return &x.trees() == &y.trees() || (x.disp() == y.disp() && x.period() == y.period() && x.falls() == y.falls());
}

}  // namespace

std::string text_for_others(const layout::Element& element) {
  constexpr std::size_t kLongest = std::size_t{1} << 20;
  std::string text = layout::to_text(element);
  if (text.size() > kLongest) text.clear();
  return text;
}

Offset View::end_in_file(Offset from, Offset bytes) const {
  if (!overlap) {
    const auto last = element().unmap(from + bytes - 1);
    return last ? *last + 1 : kMaxBytes;
  }
  const auto pieces = overlap->pieces(from, bytes);
  if (!pieces.is_ok()) return kMaxBytes;
  Offset end = 0;
  for (const layout::Segment& piece : *pieces) end = std::max(end, piece.end());
  return end;
}

Result<std::shared_ptr<const View>> ViewBinder::bind(const client::File& file, int ranks,
                                                     const ViewDescription& description) {
  const auto known = std::find_if(recent_.begin(), recent_.end(),
                                  [&](const auto& one) { return is_same(one->element(), description.element); });
  std::optional<client::View> bound;
  if (known != recent_.end()) {
    std::rotate(recent_.begin(), known, known + 1);
    const View& front = *recent_.front();
    if (front.overlap == description.overlap && front.etype_bytes == description.etype_bytes) return recent_.front();
    bound = front.bound;
  } else {
    WEIR_TRY(bound, file.view(description.element, {.writers = ranks}));
  }
  std::optional<client::View> whole;
  if (description.overlap) {
    WEIR_TRY(whole, file.linear());
  }
  auto view = std::make_shared<const View>(
      View{*std::move(bound), description.etype_bytes, description.overlap, std::move(whole)});
  if (known == recent_.end()) {
    recent_.insert(recent_.begin(), view);
    if (recent_.size() > kKept) recent_.pop_back();
  } else {
    recent_.front() = view;
  }
  return view;
}

}  // namespace weir::pario
