#include <weir/redist/internal/pipeline.h>

#include <algorithm>

#include <weir/base/text.h>

namespace weir::redist::internal {

Pipeline::Pipeline(const runtime::Clock& clock, BufferPool& pool, std::vector<std::unique_ptr<ArrayExchange>> phases,
                   Between between)
    : clock_(clock), pool_(pool), phases_(std::move(phases)), between_(between) {}

Pipeline::~Pipeline() {
  // Messages may yet be written to it.
  if (is_broken_) memory_.leak();
}

std::size_t Pipeline::batch_of(std::size_t arrays) const {
  return phases_.size() == 1 || between_.batch == 0 ? arrays
                                                    : std::min(arrays, static_cast<std::size_t>(between_.batch));
}

Status Pipeline::reserve(std::size_t arrays) {
  if (is_active_) return Status::ok();
  const std::size_t batch = batch_of(arrays);
  for (const auto& phase : phases_) WEIR_RETURN_IF_ERROR(phase->reserve(batch));
  if (phases_.size() == 1) return Status::ok();
  const std::size_t bytes = static_cast<std::size_t>(between_.bytes) * batch;
  if (bytes <= memory_.size()) return Status::ok();
  memory_ = {};
  memory_ = pool_.try_take(bytes);
  if (memory_) return Status::ok();
  return {ErrorCode::kIoError, concat("redistribution: no memory for ", bytes,
                                      " bytes between two phases: set Options::phases to kOne, or move fewer arrays at "
                                      "a time")};
}

std::byte* Pipeline::between_of(std::size_t index) const {
  return memory_.data() + between_.bytes * static_cast<Offset>(index);
}

Status Pipeline::begin(std::span<const Arrays> arrays) {
  arrays_.assign(arrays.begin(), arrays.end());
  first_ = 0;
  phase_ = 0;
  seconds_.assign(phases_.size(), 0.0);
  is_active_ = true;
  return begin_phase();
}

Status Pipeline::begin_phase() {
  const std::size_t count = std::min(batch_of(arrays_.size()), arrays_.size() - first_);
  batch_.assign(arrays_.begin() + static_cast<std::ptrdiff_t>(first_),
                arrays_.begin() + static_cast<std::ptrdiff_t>(first_ + count));
  for (std::size_t i = 0; i < count; ++i) {
    if (phase_ + 1 < phases_.size()) batch_[i].target = between_of(i);
    if (phase_ > 0) batch_[i].source = between_of(i);
  }
  phase_start_ = clock_.now();
  Status status = phases_[phase_]->begin(batch_);
  is_broken_ = is_broken_ || !status.is_ok();
  return status;
}

// \returns true if there is nothing left to begin.
Result<bool> Pipeline::finish_phase() {
  const std::chrono::duration<double> spent = clock_.now() - phase_start_;
  seconds_[phase_] += spent.count();
  if (++phase_ == phases_.size()) {
    phase_ = 0;
    first_ += batch_.size();
  }
  if (first_ == arrays_.size()) return true;
  WEIR_RETURN_IF_ERROR(begin_phase());
  return false;
}

Result<bool> Pipeline::advance(bool may_block) {
  if (!is_active_) return true;
  Result<bool> is_done = phases_[phase_]->advance(may_block);
  if (is_done.is_ok() && *is_done) is_done = finish_phase();
  if (!is_done.is_ok()) is_broken_ = true;
  if (!is_done.is_ok() || *is_done) is_active_ = false;
  return is_done;
}

}  // namespace weir::redist::internal
