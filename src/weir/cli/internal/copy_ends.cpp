#include <weir/cli/internal/copy_ends.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/base/hash.h>
#include <weir/base/os_error.h>
#include <weir/cli/internal/interruption.h>
#include <weir/cli/internal/progress.h>
#include <weir/layout/language.h>
#include <weir/log/log.h>

namespace weir::cli::internal {

namespace {

using client::File;
using client::FileSystem;
using client::TargetUsage;
using client::View;

// In the folder of `target`.  Short, whatever the name of the target: names have at most 255 bytes.
std::string part_name(const std::string& target, std::optional<std::uint64_t> identity) {
  static std::atomic<std::uint64_t> next{0};
  const std::uint64_t digits =
      hash_of(identity ? concat(*identity, ' ', target)
                       : concat(::getpid(), ' ', std::chrono::steady_clock::now().time_since_epoch().count(), ' ',
                                next++, ' ', target));
  return fmt::format("{}.weir-part-{:016x}", target.substr(0, target.rfind('/') + 1), digits);
}

std::string folder_of_target(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Status no_room(const std::string& target, Offset bytes, Offset free, const std::string& where) {
  return {ErrorCode::kNoSpace,
          fmt::format("no space for {}: {} are needed, {} are free on {}", target,
                      bytes_text(static_cast<double>(bytes)), bytes_text(static_cast<double>(free)), where)};
}

Result<View> bind_view(const File& file, const std::optional<ElementOf>& view) {
  if (!view) return file.linear();
  WEIR_TRY(const layout::Element element, view->partition.element(view->index));
  return file.view(element);
}

// ---- sources -------------------------------------------------------------------------------------------------------

class LocalSource final : public CopySource {
 public:
  LocalSource(LocalFile file, const struct stat& status) : file_(std::move(file)), status_(status) {}

  // Files of /proc say that they are empty, those of /sys that they have a page; neither has blocks.
  [[nodiscard]] std::optional<Offset> size() const override {
    return S_ISREG(status_.st_mode) && status_.st_blocks > 0 ? std::optional<Offset>(status_.st_size) : std::nullopt;
  }
  Status read(Offset at, std::span<std::byte> buffer) override { return file_.read(at, buffer); }
  Result<std::size_t> read_next(std::span<std::byte> buffer) override { return file_.read_next(buffer); }
  [[nodiscard]] std::uint64_t identity() const override {
    return hash_of(
        concat(status_.st_size, ' ', status_.st_mtim.tv_sec, ' ', status_.st_mtim.tv_nsec, ' ', status_.st_ino));
  }

 private:
  LocalFile file_;
  struct stat status_;
};

class StreamSource final : public CopySource {
 public:
  explicit StreamSource(std::istream& in) : in_(in) {}
  [[nodiscard]] std::optional<Offset> size() const override { return std::nullopt; }
  Status read(Offset, std::span<std::byte>) override { return invalid_argument("standard input has no offsets"); }
  Result<std::size_t> read_next(std::span<std::byte> buffer) override {
    in_.read(reinterpret_cast<char*>(buffer.data()), static_cast<std::streamsize>(buffer.size()));
    if (InterruptionGuard::is_interrupted()) return Status(ErrorCode::kIoError, kInterrupted);
    if (in_.bad()) return Status(ErrorCode::kIoError, "cannot read standard input");
    return static_cast<std::size_t>(in_.gcount());
  }
  [[nodiscard]] std::uint64_t identity() const override { return 0; }

 private:
  std::istream& in_;
};

class WeirSource final : public CopySource {
 public:
  WeirSource(View view, Offset size, std::uint64_t identity)
      : view_(std::move(view)), size_(size), identity_(identity) {}
  [[nodiscard]] std::optional<Offset> size() const override { return size_; }
  Status read(Offset at, std::span<std::byte> buffer) override { return view_.read(at, buffer); }
  Result<std::size_t> read_next(std::span<std::byte>) override { return invalid_argument("the size is known"); }
  [[nodiscard]] std::uint64_t identity() const override { return identity_; }

 private:
  View view_;
  Offset size_;
  std::uint64_t identity_;
};

// ---- sinks ---------------------------------------------------------------------------------------------------------

class StreamSink final : public CopySink {
 public:
  explicit StreamSink(std::ostream& out) : out_(out) {}
  StreamSink(std::unique_ptr<std::ofstream> file, std::string path)
      : file_(std::move(file)), out_(*file_), path_(std::move(path)) {}

  [[nodiscard]] bool is_stream() const override { return true; }
  Status check_room(Offset) override { return Status::ok(); }
  Status write(Offset, std::span<const std::byte> bytes) override {
    out_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return state();
  }
  Status read(Offset, std::span<std::byte>) override { return invalid_argument(concat(path_, " cannot be read back")); }
  Status finish(Offset) override {
    out_.flush();
    return state();
  }
  Status publish() override { return Status::ok(); }

 private:
  Status state() {
    if (out_) return Status::ok();
    return {ErrorCode::kIoError,
            InterruptionGuard::is_interrupted() ? kInterrupted : concat("cannot write to ", path_)};
  }

  std::unique_ptr<std::ofstream> file_;
  std::ostream& out_;
  std::string path_ = "standard output";
};

class LocalSink final : public CopySink {
 public:
  static Result<std::unique_ptr<CopySink>> make(const std::string& target, mode_t mode,
                                                const LocalSinkOptions& options) {
    const std::string part = part_name(target, options.resumes ? std::optional(options.identity) : std::nullopt);
    WEIR_TRY(LocalFile file,
             LocalFile::open(part, O_RDWR | O_CREAT | O_NOFOLLOW | (options.resumes ? 0 : O_EXCL), mode));
    auto sink = std::make_unique<LocalSink>(target, std::move(file), options.resumes);
    WEIR_TRY(const struct stat status, sink->file_.status());
    sink->partial_ = status.st_size;
    return std::unique_ptr<CopySink>(std::move(sink));
  }

  LocalSink(std::string target, LocalFile file, bool resumes)
      : target_(std::move(target)), file_(std::move(file)), is_kept_(resumes) {}
  ~LocalSink() override {
    if (!is_published_ && !is_kept_) ::unlink(file_.path().c_str());
  }

  Status check_room(Offset bytes) override {
    const std::string folder = folder_of_target(target_);
    struct statvfs system {};
    if (::statvfs(folder.c_str(), &system) != 0) return os_error(concat("cannot look at ", folder));
    const auto free = static_cast<Offset>(system.f_bavail) * static_cast<Offset>(system.f_frsize);
    return bytes - partial_ <= free ? Status::ok() : no_room(target_, bytes - partial_, free, "its disk");
  }
  [[nodiscard]] Offset partial_bytes() const override { return partial_; }
  Status write(Offset at, std::span<const std::byte> bytes) override { return file_.write(at, bytes); }
  Status read(Offset at, std::span<std::byte> buffer) override { return file_.read(at, buffer); }
  Status finish(Offset bytes) override { return file_.finish(bytes); }
  Status publish() override {
    if (::rename(file_.path().c_str(), target_.c_str()) != 0) return os_error(concat("cannot make ", target_));
    is_published_ = true;
    return Status::ok();
  }

 private:
  std::string target_;
  LocalFile file_;
  Offset partial_ = 0;
  bool is_kept_;
  bool is_published_ = false;
};

class WeirSink final : public CopySink {
 public:
  enum class Leaves : std::uint8_t { kNothing, kPart, kFile };

  WeirSink(FileSystem fs, std::string target, File file, View view, Leaves leaves)
      : fs_(std::move(fs)),
        target_(std::move(target)),
        file_(std::move(file)),
        view_(std::move(view)),
        leaves_(leaves) {}
  ~WeirSink() override {
    // An error here would hide the one that ended the copy.
    if (is_published_ || leaves_ != Leaves::kNothing) return;
    const Status status = fs_.remove(file_.path());
    if (status.is_ok() || status.code() == ErrorCode::kNotFound) return;
    WEIR_LOG_WARN("part of a copy is left: {}; remove it with `weir rm {}` when the servers can be reached ({})",
                  file_.path(), file_.path(), status.message());
  }

  Status check_room(Offset bytes) override {
    if (leaves_ == Leaves::kFile) return Status::ok();  // it may have that room already
    const Result<std::vector<TargetUsage>> usage = fs_.usage();
    if (!usage.is_ok()) return Status::ok();  // the copy itself tells what is wrong, if it needs that server
    const std::vector<std::uint32_t> targets = file_.targets();
    const layout::Partition partition = file_.layout();
    std::map<std::string, Offset> needed;
    for (std::size_t i = 0; i < targets.size(); ++i) {
      WEIR_TRY(const layout::Element subfile, partition.element(static_cast<Offset>(i)));
      needed[disk_of(*usage, targets[i])] += subfile.count_below(bytes);
    }
    for (const TargetUsage& one : *usage) {
      const auto found = needed.find(disk_of(*usage, one.target));
      const Offset free = one.capacity_bytes - one.used_bytes;
      if (found != needed.end() && found->second > free + partial_) {
        return no_room(target_, found->second, free, concat("target ", one.target, " (", one.store, ")"));
      }
    }
    return Status::ok();
  }
  [[nodiscard]] Offset partial_bytes() const override { return partial_; }
  void set_partial(Offset bytes) { partial_ = bytes; }
  Status write(Offset at, std::span<const std::byte> bytes) override { return view_.write(at, bytes); }
  Status read(Offset at, std::span<std::byte> buffer) override { return view_.read(at, buffer); }
  Status finish(Offset bytes) override {
    if (file_.path() != target_) WEIR_RETURN_IF_ERROR(file_.truncate(bytes));
    return file_.sync();
  }
  Status publish() override {
    if (file_.path() != target_) WEIR_RETURN_IF_ERROR(fs_.rename(file_.path(), target_));
    is_published_ = true;
    return Status::ok();
  }

 private:
  // Targets of one disk share its room.
  static std::string disk_of(const std::vector<TargetUsage>& usage, std::uint32_t target) {
    if (target < usage.size() && !usage[target].disk.empty()) return usage[target].disk;
    return concat("target ", target);
  }

  FileSystem fs_;
  std::string target_;
  File file_;
  View view_;
  Leaves leaves_;  // when it is dropped unpublished
  Offset partial_ = 0;
  bool is_published_ = false;
};

struct OpenedFile {
  File file;
  bool is_new = false;
};

Result<OpenedFile> open_or_create(const FileSystem& fs, const std::string& path, const WeirSinkOptions& options) {
  Result<File> made = fs.create(path, options.layout, {.mode = options.mode, .exclusive = true});
  if (made.is_ok()) return OpenedFile{std::move(*made), true};
  if (made.status().code() != ErrorCode::kExists) return made.status();
  WEIR_TRY(File file, fs.open(path));
  return OpenedFile{std::move(file), false};
}

}  // namespace

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

Result<std::unique_ptr<CopySource>> open_local_source(const std::string& path) {
  WEIR_TRY(LocalFile file, LocalFile::open(path, O_RDONLY));
  WEIR_TRY(const struct stat status, file.status());
  if (S_ISDIR(status.st_mode)) {
    return Status(ErrorCode::kIsDirectory, concat(path, " is a directory: add -r to copy it with all that it holds"));
  }
  return std::unique_ptr<CopySource>(std::make_unique<LocalSource>(std::move(file), status));
}

std::unique_ptr<CopySource> make_stream_source(std::istream& in) { return std::make_unique<StreamSource>(in); }

Result<std::unique_ptr<CopySource>> open_weir_source(const FileSystem& fs, const std::string& path,
                                                     const std::optional<ElementOf>& view) {
  WEIR_TRY(const client::Stat found, fs.stat(path));
  if (found.is_directory) {
    return Status(ErrorCode::kIsDirectory, concat(path, " is a directory: add -r to copy it with all that it holds"));
  }
  WEIR_TRY(const File file, fs.open(path));
  WEIR_TRY(View bound, bind_view(file, view));
  const Offset size = bound.element().count_below(found.size);
  const std::string part = view ? concat(view->index, ' ', layout::print(view->partition)) : "";
  const std::uint64_t identity = hash_of(concat(found.file, ' ', size, ' ', found.changed_ns, ' ', part));
  return std::unique_ptr<CopySource>(std::make_unique<WeirSource>(std::move(bound), size, identity));
}

Result<std::unique_ptr<CopySink>> make_local_sink(const std::string& path, const LocalSinkOptions& options) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return LocalSink::make(path, 0666, options);
  if (!S_ISREG(status.st_mode)) {
    auto file = std::make_unique<std::ofstream>(path, std::ios::binary);
    if (InterruptionGuard::is_interrupted()) return Status(ErrorCode::kIoError, kInterrupted);
    if (!*file) return os_error(concat("cannot open ", path));
    return std::unique_ptr<CopySink>(std::make_unique<StreamSink>(std::move(file), path));
  }
  // Of a symbolic link, the file is replaced and the link stays.
  const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(path.c_str(), nullptr), std::free);
  return LocalSink::make(resolved ? resolved.get() : path, status.st_mode & 0777, options);
}

std::unique_ptr<CopySink> make_stream_sink(std::ostream& out) { return std::make_unique<StreamSink>(out); }

Result<std::unique_ptr<CopySink>> make_weir_sink(const FileSystem& fs, const std::string& path,
                                                 const WeirSinkOptions& options) {
  const std::uint64_t identity = hash_of(concat(options.identity, ' ', layout::print(options.layout)));
  const std::string name =
      options.view ? path : part_name(path, options.resumes ? std::optional(identity) : std::nullopt);
  WEIR_TRY(const OpenedFile opened, open_or_create(fs, name, options));
  const auto leaves = options.view && !opened.is_new     ? WeirSink::Leaves::kFile
                      : options.resumes && !options.view ? WeirSink::Leaves::kPart
                                                         : WeirSink::Leaves::kNothing;
  Result<View> view = bind_view(opened.file, options.view);
  if (!view.is_ok()) {
    if (opened.is_new) static_cast<void>(fs.remove(name));
    return view.status();
  }
  auto sink = std::make_unique<WeirSink>(fs, path, opened.file, *view, leaves);
  if (leaves == WeirSink::Leaves::kPart) {
    WEIR_TRY(const Offset length, opened.file.size());
    sink->set_partial(length);
  }
  return std::unique_ptr<CopySink>(std::move(sink));
}

}  // namespace weir::cli::internal
