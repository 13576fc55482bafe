// FileSystem::check and server_status: what there is, against what there should be.
//
// Subfiles are listed before names: one that is made while we look has a file by the time that names are listed, and
// one that is removed meanwhile is looked for again before it counts as an orphan.
//
// Repair deletes nothing that might be data.  Subfiles that no file has get a name in /lost+found, one for all with the
// same number, with the layout, owner and mode that is kept beside them (wire::About), or else one after the other.
// A relayout that did not end is cancelled, and server 0 removes its copies: the old subfiles have every byte.  Subfiles
// that server 0 is about to remove are no damage, and are only counted.

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <weir/base/text.h>
#include <weir/client/file_system.h>
#include <weir/client/internal/about.h>
#include <weir/client/internal/session.h>
#include <weir/wire/about.h>
#include <weir/wire/found_files.h>

namespace weir::client {

namespace {

using internal::Outgoing;
using internal::Repeat;
using internal::Session;

constexpr std::uint32_t kPage = 1000;
constexpr std::string_view kLostAndFound = "/lost+found";
constexpr std::size_t kMostOfName = 200;  // of the name it had; a number and a suffix have room too
constexpr int kMostAttempts = 100;

struct Stored {
  std::uint32_t server;
  wire::Subfile subfile;
};

struct Name {
  std::string path;
  wire::AttributesT attributes;
};

struct StoredFence {
  std::uint32_t server;
  wire::FencedSubfile fence;
};

// A server that goes round in circles must not keep its clients for ever.
Status not_in_order(std::string_view server) {
  return corrupt(concat("check: what ", server, " lists is not in order"));
}

bool comes_after(const wire::Subfile& one, const wire::Subfile& other) {
  return std::pair(one.file(), one.element()) > std::pair(other.file(), other.element());
}

Result<std::vector<Stored>> stored_on(Session& session, std::uint32_t server, std::vector<StoredFence>& fences) {
  std::vector<Stored> all;
  const std::size_t others = fences.size();
  wire::Subfile after(0, 0);
  for (;;) {
    wire::ListSubfilesT request;
    request.after = std::make_unique<wire::Subfile>(after);
    request.limit = 0;  // as many as the server gives: it lists all of them for every page
    WEIR_TRY(const wire::SubfilesT page, session.call<wire::SubfilesT>(server, std::move(request)));
    for (const wire::Subfile& one : page.subfiles) all.push_back({server, one});
    fences.resize(others);  // each page has all of them
    for (const wire::FencedSubfile& one : page.fences) fences.push_back({server, one});
    if (page.is_complete || page.subfiles.empty()) return all;
    if (!comes_after(page.subfiles.back(), after)) return not_in_order(concat("server ", server));
    after = page.subfiles.back();
  }
}

Result<std::vector<Name>> all_names(Session& session) {
  std::vector<Name> names;
  std::uint64_t after = 0;
  for (;;) {
    wire::AllFilesT request;
    request.after = after;
    request.limit = kPage;
    WEIR_TRY(wire::ListingT page, session.call<wire::ListingT>(0, std::move(request)));
    const std::uint64_t before = after;
    for (auto& entry : page.entries) {
      if (entry->attributes == nullptr) return not_in_order("server 0");
      after = std::max(after, entry->attributes->file);
      names.push_back({entry->name, std::move(*entry->attributes)});
    }
    if (page.is_complete || page.entries.empty()) return names;
    if (after == before) return not_in_order("server 0");
  }
}

// Data whose subfiles server 0 is about to remove.
Result<std::set<std::uint64_t>> pending_removals(Session& session) {
  std::set<std::uint64_t> all;
  std::uint64_t after = 0;
  for (;;) {
    wire::PendingRemovalsT request;
    request.after = after;
    WEIR_TRY(const wire::ListingT page, session.call<wire::ListingT>(0, std::move(request)));
    const std::uint64_t before = after;
    for (const auto& entry : page.entries) {
      if (entry->attributes == nullptr) return not_in_order("server 0");
      after = std::max(after, entry->attributes->data);
      all.insert(entry->attributes->data);
    }
    if (page.is_complete || page.entries.empty()) return all;
    if (after == before) return not_in_order("server 0");
  }
}

// Each may be as long as any file can be.
Offset total(Offset sum, Offset bytes) { return bytes > kMaxBytes - sum ? kMaxBytes : sum + bytes; }

bool is_empty(const wire::SubfileInfoT& info) { return info.length == 0 && info.stored_bytes == 0; }

class Check {
 public:
  Check(Session& session, const FileSystem& fs, const CheckOptions& options)
      : session_(session), fs_(fs), options_(options) {}

  Result<CheckReport> run() {
    std::vector<Stored> stored;
    std::vector<StoredFence> fences;
    for (std::uint32_t server = 0; server < session_.server_count(); ++server) {
      Result<std::vector<Stored>> some = stored_on(session_, server, fences);
      answers_.push_back(some.is_ok());
      if (!some.is_ok()) {
        find(Finding::Kind::kUnknown, concat("server ", server, ": ", some.status().message()));
        continue;
      }
      stored.insert(stored.end(), some->begin(), some->end());
    }
    stores_ = session_.stores();
    WEIR_TRY(const std::vector<Name> names, all_names(session_));
    count(names);
    look_for_relayouts(names);
    WEIR_TRY(removals_, pending_removals(session_));  // after the names: what is removed meanwhile is there
    report_.pending_removals = std::ssize(removals_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const bool is_pending = i > 0 && names[i].attributes.file == names[i - 1].attributes.file;
      if (!names[i].attributes.is_directory && !is_pending) look_at_file(names[i]);
    }
    for (const Stored& one : stored) WEIR_RETURN_IF_ERROR(look_at(one));
    for (const auto& [data, subfiles] : orphans_) settle(data, subfiles);
    look_for_fences(names, fences);  // after the orphans: those take their fences with them
    if (options_.read_data) read_all(names);
    return std::move(report_);
  }

 private:
  void find(Finding::Kind kind, std::string what, bool is_repaired = false) {
    report_.findings.push_back({kind, std::move(what), is_repaired});
  }

  void count(const std::vector<Name>& names) {
    for (const Name& name : names) {
      if (name.attributes.is_directory) {
        ++report_.directories;
        continue;
      }
      if (data_.emplace(name.attributes.data, name.attributes.targets).second &&
          files_.insert(name.attributes.file).second) {
        ++report_.files;
      }
    }
  }

  // A file with a relayout under way is listed twice, the second time as it will be.
  void look_for_relayouts(const std::vector<Name>& names) {
    for (std::size_t i = 1; i < names.size(); ++i) {
      const wire::AttributesT& will_be = names[i].attributes;
      if (will_be.is_directory || will_be.file != names[i - 1].attributes.file) continue;
      relayouts_.insert(will_be.data);
      Status status;
      if (options_.repair) {
        wire::EndRelayoutT end;
        end.file = will_be.file;
        end.data = will_be.data;
        end.commit = false;
        status = session_.call<wire::AttributesT>(0, std::move(end)).status();
        if (status.is_ok()) data_.erase(will_be.data);
        if (status.is_ok()) status = lower_fences(names[i - 1].attributes);
      }
      find(Finding::Kind::kRelayout, concat(names[i].path, ": a relayout did not end; the old layout serves"),
           options_.repair && status.is_ok());
    }
  }

  // Of a relayout whose client ended just before its last step.
  Status lower_fences(const wire::AttributesT& file) {
    for (std::uint32_t element = 0; element < file.targets.size(); ++element) {
      WEIR_RETURN_IF_ERROR(
          lower_fence(session_.server_of(file.targets[element]), wire::Subfile(file.data, element), 0));
    }
    return Status::ok();
  }

  // Left by relayouts that metadata does not know: writes are refused, and nobody will lower them.  No relayout can be
  // committed that metadata does not know, so they are not needed.
  void look_for_fences(const std::vector<Name>& names, const std::vector<StoredFence>& fences) {
    std::map<std::uint64_t, const Name*> files;  // by what their subfiles are filed under
    for (const Name& name : names) files.emplace(name.attributes.data, &name);
    for (const StoredFence& one : fences) {
      if (relayouts_.contains(one.fence.token()) || removals_.contains(one.fence.file())) continue;
      const wire::Subfile subfile(one.fence.file(), one.fence.element());
      wire::InspectT inspect;
      inspect.subfile = std::make_unique<wire::Subfile>(subfile);
      const auto info = session_.call<wire::SubfileInfoT>(one.server, std::move(inspect));
      // Its relayout may have ended since the fences were listed.
      if (!info.is_ok() || info->fence != one.fence.token()) continue;
      const std::string what = concat("server ", one.server, ": subfile ", one.fence.file(), ".", one.fence.element());
      if (const auto file = files.find(one.fence.file()); file != files.end()) {
        find(Finding::Kind::kRelayout,
             concat(file->second->path, ": ", what, " refuses writes for a relayout that is over"),
             options_.repair && lower_fence(one.server, subfile, one.fence.token()).is_ok());
        continue;
      }
      // What has bytes is an orphan, and found as such: its fence protects them from clients that have not noticed yet,
      // and goes with them.
      if (info->length != 0 || info->stored_bytes != 0) continue;
      wire::RemoveSubfileT remove;
      remove.subfile = std::make_unique<wire::Subfile>(subfile);
      find(Finding::Kind::kRelayout, concat(what, " is fenced, and belongs to no file"),
           options_.repair && session_.call<wire::DoneT>(one.server, std::move(remove)).is_ok());
    }
  }

  Status lower_fence(std::uint32_t server, const wire::Subfile& subfile, std::uint64_t token) {
    wire::FenceT fence;
    fence.action = wire::FenceAction::Lower;
    fence.subfile = std::make_unique<wire::Subfile>(subfile);
    fence.token = token;
    return session_.call<wire::DoneT>(server, std::move(fence)).status();
  }

  [[nodiscard]] bool belongs(const Stored& one) const {
    const auto file = data_.find(one.subfile.file());
    if (file == data_.end()) return false;
    const std::vector<std::uint32_t>& targets = file->second;
    return one.subfile.element() < targets.size() && session_.server_of(targets[one.subfile.element()]) == one.server;
  }

  // ---------------------------------------------------------------- files

  // Removed, or given a new layout, since the names were listed?
  [[nodiscard]] bool is_still(const wire::AttributesT& attributes) {
    wire::LookupT lookup;
    lookup.file = attributes.file;
    const auto now = session_.call<wire::AttributesT>(0, std::move(lookup));
    return now.status().code() != ErrorCode::kNotFound && (!now.is_ok() || now->data == attributes.data);
  }

  // Every subfile that the file should have, written or not.
  void look_at_file(const Name& name) {
    std::vector<Outgoing> calls;
    std::vector<std::uint32_t> elements;
    for (std::uint32_t element = 0; element < name.attributes.targets.size(); ++element) {
      if (!is_reachable(name, element)) continue;
      wire::InspectT inspect;
      inspect.subfile = std::make_unique<wire::Subfile>(name.attributes.data, element);
      inspect.about = session_.keeps_about();
      calls.push_back({session_.server_of(name.attributes.targets[element]),
                       wire::encode_request(std::move(inspect), session_.timeout_ms()),
                       {},
                       {},
                       {}});
      elements.push_back(element);
    }
    session_.run(calls, Repeat::kSafe);
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Result<wire::SubfileInfoT> info = session_.answer<wire::SubfileInfoT>(calls[i]);
      if (info.is_ok()) {
        report_.stored_bytes = total(report_.stored_bytes, info->stored_bytes);
        look_at_about(name, elements[i], *info);
      } else if (is_still(name.attributes)) {
        find(Finding::Kind::kUnreadable, concat(name.path, ": subfile ", elements[i], " on server ", calls[i].server,
                                                ": ", info.status().message()));
      }
    }
  }

  // Whether the server and the store are there that the subfile is on; a server that does not answer was found already.
  bool is_reachable(const Name& name, std::uint32_t element) {
    const std::uint32_t target = name.attributes.targets[element];
    if (target >= session_.target_count()) {
      find(Finding::Kind::kMissing, concat(name.path, ": subfile ", element, " is on target ", target,
                                           "; there are only ", session_.target_count(), " targets"));
      return false;
    }
    if (!answers_[session_.server_of(target)]) return false;
    const std::uint64_t store = element < name.attributes.stores.size() ? name.attributes.stores[element] : 0;
    if (store == 0 || stores_[target] == 0 || stores_[target] == store) return true;
    find(Finding::Kind::kMissing, concat(name.path, ": subfile ", element, " was in a store of server ",
                                         session_.server_of(target), " (target ", target, ") that is lost"));
    return false;
  }

  // Metadata is right; what is kept beside the subfile is for the day when there is none.
  void look_at_about(const Name& name, std::uint32_t element, const wire::SubfileInfoT& info) {
    if (!session_.keeps_about()) return;
    Status status = info.about_error.empty() ? Status::ok() : corrupt(info.about_error);
    if (status.is_ok() && !info.about.empty()) {
      const Result<wire::AboutT> about = wire::decode_about(std::as_bytes(std::span(info.about)));
      if (about.is_ok() && internal::is_up_to_date(*about, name.path, name.attributes)) return;
      status = about.status();
    }
    const bool is_refreshed = options_.repair && refresh_about(name, element).is_ok();
    if (!status.is_ok()) {
      find(Finding::Kind::kSidecar,
           concat(name.path, ": what was kept beside subfile ", element, " is damaged: ", status.message()),
           is_refreshed);
    } else {
      ++(is_refreshed ? report_.refreshed_sidecars : report_.stale_sidecars);
    }
  }

  Status refresh_about(const Name& name, std::uint32_t element) {
    wire::DescribeT describe;
    describe.subfile = std::make_unique<wire::Subfile>(name.attributes.data, element);
    describe.about = wire::about_of(name.path, name.attributes, element);
    return session_.call<wire::DoneT>(session_.server_of(name.attributes.targets[element]), std::move(describe))
        .status();
  }

  // ---------------------------------------------------------------- subfiles that no file has

  // The first target of a server: they share its store.
  [[nodiscard]] std::uint32_t target_on(std::uint32_t server) const {
    std::uint32_t target = 0;
    while (target < session_.target_count() && session_.server_of(target) != server) ++target;
    return target;
  }

  Status look_at(const Stored& one) {
    ++report_.subfiles;
    if (belongs(one) || removals_.contains(one.subfile.file())) return Status::ok();
    wire::InspectT inspect;
    inspect.subfile = std::make_unique<wire::Subfile>(one.subfile);
    inspect.about = true;
    const Result<wire::SubfileInfoT> info = session_.call<wire::SubfileInfoT>(one.server, std::move(inspect));
    const std::uint64_t data = one.subfile.file();
    wire::FoundSubfile found{target_on(one.server), {data, one.subfile.element()}, {}, {}, !info.is_ok()};
    if (info.is_ok()) {
      if (is_empty(*info)) return Status::ok();
      report_.stored_bytes = total(report_.stored_bytes, info->stored_bytes);
      found.info = {info->length, info->file_end, info->stored_bytes};
      const Result<wire::AboutT> about = wire::decode_about(std::as_bytes(std::span(info->about)));
      if (about.is_ok() && wire::check_found_about(found.id, *about).is_ok()) {
        found.about = std::make_shared<wire::AboutT>(*about);
      }
    } else if (info.status().code() == ErrorCode::kStale) {
      return Status::ok();  // removed since
    } else {
      find(Finding::Kind::kUnreadable, concat("server ", one.server, ": ", info.status().message()));
    }
    if (data_.contains(data)) {
      find(Finding::Kind::kOrphan, concat("server ", one.server, ": subfile ", data, ".", one.subfile.element(),
                                          " is not where its file has it, and is left alone"));
    } else {
      orphans_[data].push_back(std::move(found));
    }
    return Status::ok();
  }

  void settle(std::uint64_t data, const std::vector<wire::FoundSubfile>& subfiles) {
    Offset bytes = 0;
    for (const wire::FoundSubfile& one : subfiles) bytes = total(bytes, one.info.length);
    std::optional<wire::FoundFile> file = wire::put_file_together(data, subfiles, session_.target_count());
    std::string what =
        concat("data ", data, ", ", subfiles.size(), " subfiles with ", bytes, " bytes, belongs to no file");
    if (file && !file->path.empty()) what += concat("; it was ", file->path);
    Result<std::string> moved = Status(ErrorCode::kCorrupt, "nothing can be made of it");
    if (file && options_.repair) moved = adopt(*file, subfiles);
    if (moved.is_ok()) what += concat("; moved to ", *moved);
    if (!moved.is_ok() && options_.repair) what += concat("; it stays where it is: ", moved.status().message());
    find(Finding::Kind::kOrphan, std::move(what), moved.is_ok());
  }

  /// \returns its path
  Result<std::string> adopt(wire::FoundFile& file, const std::vector<wire::FoundSubfile>& subfiles) {
    if (file.path.empty()) WEIR_RETURN_IF_ERROR(set_lengths(file, subfiles));
    for (std::size_t i = 0; i < file.is_found.size(); ++i) {
      if (file.is_found[i]) file.attributes.stores[i] = stores_[file.attributes.targets[i]];
    }
    const Status made = fs_.make_directory(std::string(kLostAndFound), 0700);
    if (!made.is_ok() && made.code() != ErrorCode::kExists) return made;
    std::string path = concat(kLostAndFound, "/", file.attributes.data);
    if (!file.path.empty()) path += concat(".", file.path.substr(file.path.rfind('/') + 1, kMostOfName));
    const std::string first = path;
    for (int attempt = 2;; ++attempt) {
      wire::AdoptT table;
      table.path = path;
      table.attributes = std::make_unique<wire::AttributesT>(file.attributes);
      const auto attributes = session_.call<wire::AttributesT>(0, std::move(table), Repeat::kNever);
      if (attributes.is_ok()) {
        (void)internal::write_about(session_, path, *attributes);
        return path;
      }
      if (attributes.status().code() != ErrorCode::kExists || attempt > kMostAttempts) return attributes.status();
      path = concat(first, ".", attempt);
    }
  }

  // Of a file of which nothing is known: its subfiles one after the other are all of it.
  Status set_lengths(const wire::FoundFile& file, const std::vector<wire::FoundSubfile>& subfiles) {
    for (const wire::FoundSubfile& one : subfiles) {
      if (one.is_damaged) continue;
      wire::TruncateT truncate;
      truncate.subfile = std::make_unique<wire::Subfile>(one.id.file, one.id.element);
      truncate.length = one.info.length;
      truncate.file_end = file.size;
      WEIR_RETURN_IF_ERROR(session_.call<wire::DoneT>(session_.server_of(one.server), std::move(truncate)).status());
      wire::SyncT sync;
      sync.subfile = std::make_unique<wire::Subfile>(one.id.file, one.id.element);
      WEIR_RETURN_IF_ERROR(session_.call<wire::DoneT>(session_.server_of(one.server), std::move(sync)).status());
    }
    return Status::ok();
  }

  // ---------------------------------------------------------------- bytes

  void read_all(const std::vector<Name>& names) {
    Offset done = 0;
    std::set<std::uint64_t> seen;
    for (const Name& name : names) {
      if (name.attributes.is_directory || !seen.insert(name.attributes.file).second) continue;
      const Status status = read_file(name.path, done);
      if (!status.is_ok()) find(Finding::Kind::kUnreadable, concat(name.path, ": ", status.message()));
    }
  }

  Status read_file(const std::string& path, Offset& done) {
    Result<File> file = fs_.open(path);
    if (file.status().code() == ErrorCode::kNotFound) return Status::ok();  // removed since
    WEIR_RETURN_IF_ERROR(file.status());
    WEIR_TRY(const View view, file->linear());
    WEIR_TRY(const Offset size, file->size());
    std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<Offset>(size, Offset{4} << 20)));
    for (Offset at = 0; at < size;) {
      const Offset length = std::min<Offset>(size - at, static_cast<Offset>(buffer.size()));
      WEIR_RETURN_IF_ERROR(view.read(at, std::span(buffer).first(static_cast<std::size_t>(length))));
      at += length;
      done += length;
      if (options_.progress) options_.progress(std::min(done, report_.stored_bytes), report_.stored_bytes);
    }
    return Status::ok();
  }

  Session& session_;
  const FileSystem& fs_;
  const CheckOptions& options_;
  CheckReport report_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> data_;  // what subfiles are filed under -> targets
  std::set<std::uint64_t> files_;
  std::vector<bool> answers_;          // of each server
  std::vector<std::uint64_t> stores_;  // of each target; 0: not known
  std::set<std::uint64_t> removals_;   // data that server 0 is about to remove
  std::map<std::uint64_t, std::vector<wire::FoundSubfile>> orphans_;
  std::set<std::uint64_t> relayouts_;  // under way: what their subfiles are filed under
};

}  // namespace

Result<CheckReport> FileSystem::check(const CheckOptions& options) const {
  return Check(*session_, *this, options).run();
}

namespace {

constexpr std::size_t kMostPaths = 10;

// What cannot be reached while servers are down.
void tell_unreachable(Session& session, std::vector<ServerStatus>& servers) {
  const auto is_down = [](const ServerStatus& one) { return !one.error.is_ok(); };
  if (servers.empty() || is_down(servers.front()) || std::none_of(servers.begin(), servers.end(), is_down)) return;
  const Result<std::vector<Name>> names = all_names(session);
  if (!names.is_ok()) return;
  for (ServerStatus& one : servers) {
    if (!is_down(one)) continue;
    one.unreachable_files = 0;
    std::uint64_t last = 0;
    for (const Name& name : *names) {
      const std::vector<std::uint32_t>& targets = name.attributes.targets;
      const auto is_there = [&](std::uint32_t target) { return session.server_of(target) == one.server; };
      if (std::none_of(targets.begin(), targets.end(), is_there)) continue;
      if (std::exchange(last, name.attributes.file) == name.attributes.file) continue;  // with a relayout under way
      ++*one.unreachable_files;
      if (one.unreachable_paths.size() < kMostPaths) one.unreachable_paths.push_back(name.path);
    }
  }
}

}  // namespace

std::vector<ServerStatus> FileSystem::server_status() const {
  std::vector<ServerStatus> all;
  for (std::uint32_t server = 0; server < session_->server_count(); ++server) {
    ServerStatus one;
    one.server = server;
    one.address = session_->address_of(server).text;
    const Result<wire::CountersT> counters = session_->call<wire::CountersT>(server, wire::StatisticsT{});
    one.error = counters.status();
    if (counters.is_ok()) {
      one.requests = static_cast<std::int64_t>(counters->requests);
      one.bytes_in = static_cast<std::int64_t>(counters->bytes_in);
      one.bytes_out = static_cast<std::int64_t>(counters->bytes_out);
      one.views = static_cast<std::int64_t>(counters->views);
      one.clients = static_cast<std::int64_t>(counters->peers);
      if (counters->identifies <= wire::Identifies::MAX)
        one.identifies = static_cast<ServerStatus::Identifies>(counters->identifies);
      if (counters->encrypts <= wire::Encrypts::MAX)
        one.encrypts = static_cast<ServerStatus::Encrypts>(counters->encrypts);
      one.squashes_root = counters->squashes_root;
      one.verifies_memory = counters->verifies;
      one.damaged_blocks = static_cast<std::int64_t>(counters->damaged_blocks);
      one.refused_connections = static_cast<std::int64_t>(counters->refused_connections);
      one.refused_requests = static_cast<std::int64_t>(counters->refused_requests);
      one.dropped_connections = static_cast<std::int64_t>(counters->dropped_connections);
      one.limits = {static_cast<std::int64_t>(counters->limit_connections),
                    static_cast<std::int64_t>(counters->limit_user_connections),
                    static_cast<std::int64_t>(counters->limit_requests),
                    static_cast<std::int64_t>(counters->limit_memory),
                    static_cast<std::int64_t>(counters->limit_views),
                    static_cast<std::int64_t>(counters->limit_locks),
                    static_cast<std::int64_t>(counters->limit_stall_ms)};
    }
    all.push_back(std::move(one));
  }
  tell_unreachable(*session_, all);
  return all;
}

}  // namespace weir::client
