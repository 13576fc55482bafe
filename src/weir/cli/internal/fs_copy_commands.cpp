// weir put, get, cat
//
// A copy goes to a second name first, NAME.part-<16 digits>, and gets its own name when it is whole.  The digits stand for the
// source as it was (size, time), so that a copy that was cut short is gone on with only if the source is still the same.

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <weir/base/descriptor.h>
#include <weir/cli/internal/fs_copy.h>
#include <weir/cli/internal/parallel_copy.h>
#include <weir/cli/internal/progress.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

using client::File;
using client::FileSystem;
using client::Stat;
using client::View;

struct CatOptions {
  FileSystemOptions file_system;
  std::string path;
  std::string view;
  Offset element = 0;
  std::optional<Offset> from;
  std::optional<Offset> bytes;
};

Status system_error(const std::string& what) {
  const int code = errno;
  return {code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIoError, concat(what, ": ", std::strerror(code))};
}

class LocalFile {
 public:
  static Result<LocalFile> open(const std::string& path, int flags) {
    Descriptor descriptor(::open(path.c_str(), flags | O_CLOEXEC, 0644));
    if (!descriptor.is_open()) return system_error(concat("cannot open ", path));
    return LocalFile(path, std::move(descriptor));
  }

  [[nodiscard]] Result<struct stat> status() const {
    struct stat found {};
    if (::fstat(descriptor_.get(), &found) != 0) return system_error(concat("cannot look at ", path_));
    return found;
  }

  [[nodiscard]] Status read(Offset at, std::span<std::byte> buffer) const {
    while (!buffer.empty()) {
      const ssize_t count = ::pread(descriptor_.get(), buffer.data(), buffer.size(), at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return system_error(concat("cannot read ", path_));
      if (count == 0) return {ErrorCode::kIoError, concat(path_, " became shorter while it was copied")};
      buffer = buffer.subspan(static_cast<std::size_t>(count));
      at += count;
    }
    return Status::ok();
  }

  [[nodiscard]] Status write(Offset at, std::span<const std::byte> buffer) const {
    while (!buffer.empty()) {
      const ssize_t count = ::pwrite(descriptor_.get(), buffer.data(), buffer.size(), at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return system_error(concat("cannot write ", path_));
      buffer = buffer.subspan(static_cast<std::size_t>(count));
      at += count;
    }
    return Status::ok();
  }

  [[nodiscard]] Status finish(Offset size) const {
    if (::ftruncate(descriptor_.get(), size) != 0) return system_error(concat("cannot set the size of ", path_));
    if (::fsync(descriptor_.get()) != 0) return system_error(concat("cannot sync ", path_));
    return Status::ok();
  }

 private:
  LocalFile(std::string path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  std::string path_;
  Descriptor descriptor_;
};

std::string part_name(const std::string& name, std::uint64_t size, std::uint64_t time, std::uint64_t what) {
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a, 64 bits at a time: it tells copies apart, no more
  for (const std::uint64_t word : {size, time, what}) hash = (hash ^ word) * 0x100000001b3U;
  return fmt::format("{}.part-{:016x}", name, hash);
}

Result<View> view_of(const File& file, const std::string& view, Offset element, Console& console) {
  if (view.empty()) return file.linear();
  WEIR_TRY(const layout::Partition partition, load_layout(view, console));
  WEIR_TRY(const layout::Element one, partition.element(element));
  return file.view(one);
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

CopyOptions copy_options(const TransferOptions& options, Offset done_before, Offset all, ProgressBar& bar) {
  CopyOptions how;
  how.jobs = options.jobs;
  how.progress = [done_before, all, &bar](Offset done) { bar.show(done_before + done, all); };
  return how;
}

// Where to go on: a part of `length` bytes is good up to the window that chunks may have been missing in.
Offset resume_at(Offset length, Offset size, const CopyOptions& how) {
  const Offset good = std::max<Offset>(std::min(length, size) - how.window_bytes(), 0);
  return good / how.chunk_bytes * how.chunk_bytes;
}

Result<int> explain_interruption(const Status& status, const TransferOptions& options, Console& console) {
  if (status.message() != kInterrupted) return status;
  console.err << "weir: interrupted" << (options.is_resumable ? "; the same command again goes on from here (" : " (")
              << options.source << " to " << options.target << ")\n";
  return kExitInterrupted;
}

Status compare(std::span<const std::byte> x, std::span<const std::byte> y, Offset at) {
  const auto [first, second] = std::mismatch(x.begin(), x.end(), y.begin());
  if (first == x.end()) return Status::ok();
  const Offset where = at + (first - x.begin());
  return {ErrorCode::kCorrupt, concat("verify: source and copy differ at byte ", where), where};
}

Status verify(const LocalFile& local, const View& view, Offset size, const TransferOptions& options, Console& console) {
  ProgressBar bar(console.err, console.terminal, "verify");
  return copy_in_parallel(0, size, copy_options(options, 0, size, bar),
                          [&](Offset at, std::span<std::byte> buffer) -> Status {
                            std::vector<std::byte> other(buffer.size());
                            WEIR_RETURN_IF_ERROR(local.read(at, buffer));
                            WEIR_RETURN_IF_ERROR(view.read(at, other));
                            return compare(buffer, other, at);
                          });
}

// ---- put -----------------------------------------------------------------------------------------------------------

Result<layout::Partition> layout_for(const TransferOptions& options, const FileSystem& fs, Console& console) {
  if (!options.layout.empty()) return load_layout(options.layout, console);
  return layout::parse(fmt::format("stripe(unit=1M, over={})", fs.target_count()));
}

Result<int> put_stream(const FileSystem& fs, const std::string& target, const TransferOptions& options,
                       Console& console) {
  WEIR_TRY(const layout::Partition partition, layout_for(options, fs, console));
  const std::string part = part_name(target, 0, static_cast<std::uint64_t>(::getpid()), 0);
  WEIR_TRY(const File file, fs.create(part, partition, {.exclusive = true}));
  WEIR_TRY(const View view, view_of(file, options.view, options.element, console));
  std::vector<char> buffer(std::size_t{4} << 20);
  for (Offset at = 0; console.in;) {
    console.in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto count = static_cast<std::size_t>(console.in.gcount());
    WEIR_RETURN_IF_ERROR(view.write(at, std::as_bytes(std::span(buffer).first(count))));
    at += static_cast<Offset>(count);
  }
  WEIR_RETURN_IF_ERROR(file.sync());
  WEIR_RETURN_IF_ERROR(fs.rename(part, target));
  return kExitOk;
}

// ---- get, cat ------------------------------------------------------------------------------------------------------

// Bytes that a view has of a file of this size.
Offset view_bytes(const View& view, Offset size) { return view.element().count_below(size); }

Result<int> cat(const CatOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  WEIR_TRY(const File file, fs.open(weir_path(options.path)));
  WEIR_TRY(const View view, view_of(file, options.view, options.element, console));
  WEIR_TRY(const Offset size, file.size());
  const Offset end = view_bytes(view, size);
  const Offset from = std::min(options.from.value_or(0), end);
  const Offset to = options.bytes ? std::min(end, from + *options.bytes) : end;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<Offset>(to - from, Offset{4} << 20)));
  for (Offset at = from; at < to;) {
    const auto part = std::span(buffer).first(
        static_cast<std::size_t>(std::min<Offset>(to - at, static_cast<Offset>(buffer.size()))));
    WEIR_RETURN_IF_ERROR(view.read(at, part));
    console.out.write(reinterpret_cast<const char*>(part.data()), static_cast<std::streamsize>(part.size()));
    if (!console.out) break;  // the caller reports it
    at += static_cast<Offset>(part.size());
  }
  return kExitOk;
}

// ---- declarations --------------------------------------------------------------------------------------------------

template <typename Options>
void add_view(CLI::App& command, Options& options) {
  CLI::Option* view =
      command.add_option("--view", options.view, "Only the bytes of an element of this layout, in its order")
          ->type_name("LAYOUT");
  command.add_option("--element", options.element, "Which element of --view")
      ->needs(view)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("I");
}

void add_copying(CLI::App& command, TransferOptions& options) {
  add_view(command, options);
  command.add_option("-j,--jobs", options.jobs, "Chunks of 4 MiB to copy at a time")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command.add_flag("--verify", options.verify, "Read both sides again and compare");
  add_file_system(command, options.file_system);
}

}  // namespace

Result<int> put(const TransferOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  std::string target = weir_path(options.target);
  const Result<Stat> existing = fs.stat(target);
  if (existing.is_ok() && existing->is_directory) {
    target = concat(target == "/" ? "" : target, "/", last_part(options.source));
  }
  if (options.source == "-") return put_stream(fs, target, options, console);

  WEIR_TRY(const LocalFile local, LocalFile::open(options.source, O_RDONLY));
  WEIR_TRY(const struct stat source, local.status());
  if (S_ISDIR(source.st_mode)) {
    return Status(ErrorCode::kIsDirectory, concat(options.source, " is a directory: put takes files"));
  }
  WEIR_TRY(const layout::Partition partition, layout_for(options, fs, console));
  // Through a view, a file that is there is written into: other elements of it stay.
  const bool is_part = options.view.empty();
  const auto time = static_cast<std::uint64_t>(source.st_mtim.tv_sec * 1'000'000'000 + source.st_mtim.tv_nsec);
  const std::string name = is_part ? part_name(target, static_cast<std::uint64_t>(source.st_size), time,
                                               std::hash<std::string>()(layout::print(partition)))
                                   : target;
  WEIR_TRY(const File file, fs.create(name, partition));
  WEIR_TRY(const View view, view_of(file, options.view, options.element, console));
  WEIR_TRY(const Offset length, file.size());

  ProgressBar bar(console.err, console.terminal, last_part(options.source));
  const Offset from = is_part ? resume_at(length, source.st_size, copy_options(options, 0, 0, bar)) : 0;
  if (from > 0) console.err << "weir put: going on at byte " << from << " of " << source.st_size << '\n';
  const Status status = copy_in_parallel(from, source.st_size, copy_options(options, from, source.st_size, bar),
                                         [&](Offset at, std::span<std::byte> buffer) -> Status {
                                           WEIR_RETURN_IF_ERROR(local.read(at, buffer));
                                           return view.write(at, buffer);
                                         });
  if (!status.is_ok()) return explain_interruption(status, options, console);
  if (is_part) WEIR_RETURN_IF_ERROR(file.truncate(source.st_size));
  WEIR_RETURN_IF_ERROR(file.sync());
  if (options.verify) {
    const Status same = verify(local, view, source.st_size, options, console);
    if (!same.is_ok()) return explain_interruption(same, options, console);
  }
  if (is_part) WEIR_RETURN_IF_ERROR(fs.rename(name, target));
  return kExitOk;
}

Result<int> get(const TransferOptions& options, Console& console) {
  WEIR_TRY(const FileSystem fs, connect(options.file_system));
  const std::string source = weir_path(options.source);
  WEIR_TRY(const Stat found, fs.stat(source));
  if (found.is_directory) return Status(ErrorCode::kIsDirectory, concat(source, " is a directory: get takes files"));
  WEIR_TRY(const File file, fs.open(source));
  WEIR_TRY(const View view, view_of(file, options.view, options.element, console));
  const Offset size = view_bytes(view, found.size);

  std::string target = options.target.empty() ? last_part(source) : options.target;
  struct stat folder {};
  if (::stat(target.c_str(), &folder) == 0 && S_ISDIR(folder.st_mode)) target = concat(target, "/", last_part(source));
  const std::uint64_t what = std::hash<std::string>()(concat(options.view, "#", options.element)) ^ found.file;
  const std::string part =
      part_name(target, static_cast<std::uint64_t>(size), static_cast<std::uint64_t>(found.changed_ns), what);
  WEIR_TRY(const LocalFile local, LocalFile::open(part, O_RDWR | O_CREAT));
  WEIR_TRY(const struct stat partial, local.status());

  ProgressBar bar(console.err, console.terminal, last_part(source));
  const Offset from = resume_at(partial.st_size, size, copy_options(options, 0, 0, bar));
  if (from > 0) console.err << "weir get: going on at byte " << from << " of " << size << '\n';
  const Status status = copy_in_parallel(from, size, copy_options(options, from, size, bar),
                                         [&](Offset at, std::span<std::byte> buffer) -> Status {
                                           WEIR_RETURN_IF_ERROR(view.read(at, buffer));
                                           return local.write(at, buffer);
                                         });
  if (!status.is_ok() && !options.is_resumable) ::unlink(part.c_str());
  if (!status.is_ok()) return explain_interruption(status, options, console);
  WEIR_RETURN_IF_ERROR(local.finish(size));
  if (options.verify) {
    const Status same = verify(local, view, size, options, console);
    if (!same.is_ok()) return explain_interruption(same, options, console);
  }
  if (::rename(part.c_str(), target.c_str()) != 0) return system_error(concat("cannot rename ", part, " to ", target));
  return kExitOk;
}

void add_copy_commands(CLI::App& app, Selection& selection) {
  add_command<TransferOptions>(
      app, selection, "put", "Copy a local file into the file system",
      "The copy gets its name when it is whole.  If it is interrupted, the same command goes on where it stopped.\n\n"
      "Examples:\n"
      "  weir put input.dat /input.dat\n"
      "  weir put a.dat /a --layout 'hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])' --verify\n",
      [](CLI::App& command, TransferOptions& options) {
        command.add_option("SOURCE", options.source, "The local file; - reads standard input")->required();
        command.add_option("TARGET", options.target, "Its name in the file system, or a directory there")->required();
        command.add_option("--layout", options.layout, "How to store it [stripes of 1M over all targets]")
            ->type_name("LAYOUT");
        add_copying(command, options);
      },
      put);
  add_command<TransferOptions>(
      app, selection, "get", "Copy a file out of the file system",
      "Examples:\n"
      "  weir get /out.dat out.dat\n"
      "  weir get /a column2 --view 'hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])' --element 2\n",
      [](CLI::App& command, TransferOptions& options) {
        command.add_option("SOURCE", options.source, "Its name in the file system")->required();
        command.add_option("TARGET", options.target, "The local file or directory [the same name, here]");
        add_copying(command, options);
      },
      get);
  add_command<CatOptions>(
      app, selection, "cat", "Write a file to standard output", "Example:\n  weir cat /log.txt --from 0 --bytes 4K\n",
      [](CLI::App& command, CatOptions& options) {
        command.add_option("PATH", options.path, "The file")->required();
        add_size(command, "--from", options.from, "First byte [0]");
        add_size(command, "--bytes", options.bytes, "How many [all]");
        add_view(command, options);
        add_file_system(command, options.file_system);
      },
      cat);
}

}  // namespace weir::cli::internal
