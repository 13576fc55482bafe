#include <weir/server/internal/removals.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <weir/base/text.h>
#include <weir/log/log.h>
#include <weir/wire/about.h>
#include <weir/wire/found_files.h>

namespace weir::server::internal {

namespace {

bool is_down(const Status& status) {
  return status.code() == ErrorCode::kUnavailable || status.code() == ErrorCode::kTimedOut;
}

}  // namespace

Removals::Removals(Metadata& metadata, Peers& peers, Options options)
    : metadata_(metadata), peers_(peers), options_(std::move(options)), pause_(options_.first_pause) {}

Removals::JobPtr Removals::make_job(wire::AttributesT removal) {
  auto job = std::make_shared<Job>();
  job->left.resize(removal.targets.size());
  std::iota(job->left.begin(), job->left.end(), 0U);
  job->removal = std::move(removal);
  return jobs_.try_emplace(job->removal.data, job).first->second;
}

Status Removals::load() {
  wire::PendingRemovalsT request;
  for (bool is_complete = false; !is_complete;) {
    WEIR_TRY(wire::ListingT page, metadata_.pending_removals(request));
    for (auto& entry : page.entries) {
      request.after = entry->attributes->data;
      run(make_job(std::move(*entry->attributes)));
    }
    is_complete = page.is_complete || page.entries.empty();
  }
  return Status::ok();
}

void Removals::add(std::vector<wire::AttributesT> removals, const Tried& tried) {
  // All of them are tried before the caller is told.
  struct Together {
    std::size_t left;
    Status first_error;
  };
  auto together = std::make_shared<Together>(Together{removals.size(), {}});
  if (removals.empty()) return tried(Status::ok());
  for (wire::AttributesT& removal : removals) {
    const JobPtr job = make_job(std::move(removal));
    job->tried.push_back([together, tried](const Status& status) {
      if (together->first_error.is_ok()) together->first_error = status;
      if (--together->left == 0) tried(together->first_error);
    });
    run(job);
  }
}

void Removals::retry() {
  pause_ = options_.first_pause;
  const auto jobs = jobs_;
  for (const auto& [data, job] : jobs) run(job);
}

void Removals::run(const JobPtr& job) {
  if (is_stopped_ || job->is_running) return;
  job->is_running = true;
  job->status = Status::ok();
  job->removal.file != 0 && options_.keeps_about ? describe(job) : remove(job);
}

void Removals::describe(const JobPtr& job) {
  const Result<Metadata::Named> file = metadata_.named(job->removal.file);
  if (file.status().code() == ErrorCode::kNotFound) return remove(job);  // removed since, and its subfiles with it
  if (!file.is_ok()) job->status = file.status();
  const std::size_t count =
      file.is_ok() ? std::min<std::size_t>(file->attributes.targets.size(), wire::kDescribedAtOnce) : 0;
  if (count == 0) return file.is_ok() ? remove(job) : finish(job);
  job->in_flight = count;
  for (std::uint32_t element = 0; element < count; ++element) {
    wire::DescribeT table;
    table.subfile = std::make_unique<wire::Subfile>(file->attributes.data, element);
    table.about = wire::about_of(file->path, file->attributes, element);
    const std::uint64_t store = element < file->attributes.stores.size() ? file->attributes.stores[element] : 0;
    peers_.call(peers_.server_of(file->attributes.targets[element]), std::move(table), store,
                [this, job](const Result<wire::ReplyHeadT>& answer) {
                  // A store that is lost, or that cannot keep it, is no reason to keep the old bytes.
                  if (is_down(answer.status()) && job->status.is_ok()) job->status = answer.status();
                  if (--job->in_flight > 0) return;
                  if (!job->status.is_ok()) return finish(job);
                  job->removal.file = 0;
                  remove(job);
                });
  }
}

void Removals::remove(const JobPtr& job) {
  if (job->left.empty()) return finish(job);
  const std::vector<std::uint32_t> elements = std::exchange(job->left, {});
  job->in_flight = elements.size();
  for (const std::uint32_t element : elements) {
    wire::RemoveSubfileT table;
    table.subfile = std::make_unique<wire::Subfile>(job->removal.data, element);
    peers_.call(peers_.server_of(job->removal.targets[element]), std::move(table), 0,
                [this, job, element](const Result<wire::ReplyHeadT>& answer) {
                  if (!answer.is_ok()) {
                    job->left.push_back(element);
                    if (job->status.is_ok()) job->status = answer.status();
                  }
                  if (--job->in_flight == 0) finish(job);
                });
  }
}

void Removals::finish(const JobPtr& job) {
  job->is_running = false;
  if (job->status.is_ok()) job->status = metadata_.forget_removal(job->removal.data);
  const Status status = job->status;
  if (status.is_ok()) {
    jobs_.erase(job->removal.data);
    if (jobs_.empty()) pause_ = options_.first_pause;
  } else {
    if (!std::exchange(job->has_failed, true)) {
      WEIR_LOG_INFO("removal of data {}: {}; retrying", job->removal.data, status.message());
    }
    retry_later();
  }
  for (const Tried& tried : std::exchange(job->tried, {})) tried(status);
}

void Removals::retry_later() {
  if (is_stopped_ || std::exchange(is_waiting_, true)) return;
  options_.after(pause_, [this] {
    is_waiting_ = false;
    pause_ = std::min(2 * pause_, options_.longest_pause);
    const auto jobs = jobs_;
    for (const auto& [data, job] : jobs) run(job);
  });
}

}  // namespace weir::server::internal
