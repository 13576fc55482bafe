#include <weir/report/internal/layout_advice.h>

#include <algorithm>
#include <cmath>

#include <weir/base/text.h>
#include <weir/layout/language.h>
#include <weir/layout/match.h>
#include <weir/layout/view_layout.h>

namespace weir::report::internal {
namespace {

using layout::Dist;
using layout::Partition;
using trace::RankView;

constexpr std::size_t kMostViews = 64;  // a sample is enough beyond that
constexpr double kClearly = 1.25;
constexpr double kAtLeast = 0.1;

// Mean of the matching degrees, by the bytes that went through each view.
std::optional<double> degree_of(const std::vector<RankView>& views, const Partition& layout) {
  double sum = 0;
  double weight = 0;
  for (const RankView& view : views) {
    const auto match = layout::match(view.element, layout);
    if (!match.is_ok()) return std::nullopt;
    const double bytes = static_cast<double>(std::max<Offset>(view.bytes, 1));
    sum += match->degree * bytes;
    weight += bytes;
  }
  return weight > 0 ? std::optional(sum / weight) : std::nullopt;
}

class Search {
 public:
  // `parts`: how many ranks there are, of which `views` are some.
  Search(const std::vector<RankView>& views, Offset parts, Offset targets)
      : views_(views), parts_(parts), targets_(targets) {}

  void add(const std::string& name, const Result<Partition>& layout, const std::string& text = "") {
    if (!layout.is_ok() || !layout->validate().is_ok()) return;
    if (const auto degree = degree_of(views_, *layout)) {
      found_.push_back({name, text.empty() ? layout::print(*layout) : text, *degree});
    }
  }

  void add_views() {
    std::vector<layout::Element> elements;
    for (const RankView& view : views_) elements.push_back(view.element);
    add("as the ranks see it", layout::layout_of_views(elements, {.over = targets_}), "view");
  }

  void add_stripes() {
    for (const Offset unit : {Offset{64} << 10, Offset{1} << 20, Offset{4} << 20}) {
      add("stripes", Partition::create(layout::Stripe{unit, targets_}));
    }
  }

  // A view that is one family of segments is a part of an array of rows, each as long as the stride.
  void add_arrays() {
    const layout::Element& element = views_.front().element;
    if (element.falls().size() != 1 || element.disp() != 0) return;
    const layout::Falls& family = element.falls().front();
    const Offset row = family.count > 1 ? family.stride : element.period();
    if (row < 2 || element.period() % row != 0) return;
    const Offset rows = element.period() / row;
    const Dist whole{Dist::Kind::kWhole, 0};
    const Dist block{Dist::Kind::kBlock, 0};
    if (row >= parts_) {
      add("blocks of columns", Partition::create(layout::Hpf{{rows, row}, 1, {whole, block}, {1, parts_}}));
    }
    if (rows >= parts_) {
      add("blocks of rows", Partition::create(layout::Hpf{{rows, row}, 1, {block, whole}, {parts_, 1}}));
    }
  }

  std::vector<Candidate> finish() && {
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Candidate& x, const Candidate& y) { return x.degree > y.degree; });
    return std::move(found_);
  }

 private:
  const std::vector<RankView>& views_;
  Offset parts_;
  Offset targets_;
  std::vector<Candidate> found_;
};

}  // namespace

std::optional<Advice> advise(const std::vector<trace::RankView>& given, const Partition& layout) {
  std::vector<RankView> views;
  const std::size_t taken = std::min(given.size(), kMostViews);
  for (std::size_t i = 0; i < taken; ++i) {
    const RankView& view = given[i * given.size() / taken];
    if (!view.element.is_empty()) views.push_back(view);
  }
  if (views.empty() ||
      std::all_of(views.begin(), views.end(), [](const RankView& view) { return trace::is_whole(view.element); })) {
    return std::nullopt;
  }
  const auto degree = degree_of(views, layout);
  if (!degree) return std::nullopt;
  Search search(views, static_cast<Offset>(given.size()), layout.element_count());
  search.add_views();  // first: of equally good ones it needs the fewest words
  search.add_arrays();
  search.add_stripes();
  Advice advice{*degree, std::move(search).finish(), std::nullopt};
  if (!advice.candidates.empty()) {
    const Candidate& best = advice.candidates.front();
    if (best.degree >= *degree * kClearly && best.degree >= *degree + kAtLeast) advice.better = best;
  }
  return advice;
}

std::optional<Advice> advise(const trace::FileSummary& file) {
  const auto layout = layout::parse(file.layout);
  return layout.is_ok() ? advise(file.main_views, *layout) : std::nullopt;
}

}  // namespace weir::report::internal
