#pragma once

// The two ends of a copy: where bytes come from and where they go, in the file system or outside.
//
// A new file is written under a second name in its folder, .weir-part-<16 digits>, and gets its own name when it is whole.  What was not
// published goes away with its sink: after errors and Ctrl-C nothing is left.  A sink that resumes keeps it instead;
// then the digits stand for the source as it was (size, time) and the target, so that only a copy of the same bytes is
// gone on with.

#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>

#include <weir/cli/internal/local_file.h>
#include <weir/client/file_system.h>

namespace weir::cli::internal {

/// \threadsafety read() from several threads.
class CopySource {
 public:
  virtual ~CopySource() = default;
  /// Nothing: only its end tells, and bytes come from read_next().
  [[nodiscard]] virtual std::optional<Offset> size() const = 0;
  /// All of `buffer`.  \pre size() is known
  virtual Status read(Offset at, std::span<std::byte> buffer) = 0;
  /// \returns how many bytes of `buffer` were filled: fewer than all at the end
  virtual Result<std::size_t> read_next(std::span<std::byte> buffer) = 0;
  /// Another number for other bytes, as far as size and time tell.
  [[nodiscard]] virtual std::uint64_t identity() const = 0;
};

/// \threadsafety read() and write() from several threads, unless it is a stream.
class CopySink {
 public:
  virtual ~CopySink() = default;
  /// Bytes have to come in their order, and cannot be read back.
  [[nodiscard]] virtual bool is_stream() const { return false; }
  /// \error kNoSpace if there is no room for `bytes` in all
  virtual Status check_room(Offset bytes) = 0;
  /// Bytes that are there of a copy to be gone on with.
  [[nodiscard]] virtual Offset partial_bytes() const { return 0; }
  virtual Status write(Offset at, std::span<const std::byte> bytes) = 0;
  /// For verification, after finish().
  virtual Status read(Offset at, std::span<std::byte> buffer) = 0;
  /// All bytes were written.
  virtual Status finish(Offset bytes) = 0;
  /// It gets its name.
  virtual Status publish() = 0;
};

/// One element of a layout, to copy only that.
struct ElementOf {
  layout::Partition partition;
  Offset index = 0;
};

/// A local file; one without a size of its own (a pipe, a file of /proc) is read to its end.
Result<std::unique_ptr<CopySource>> open_local_source(const std::string& path);
std::unique_ptr<CopySource> make_stream_source(std::istream& in);
Result<std::unique_ptr<CopySource>> open_weir_source(const client::FileSystem& fs, const std::string& path,
                                                     const std::optional<ElementOf>& view);

struct LocalSinkOptions {
  bool resumes = false;
  std::uint64_t identity = 0;  ///< Of the source.
};
/// An existing path that is not a regular file (a pipe, a device) is written to, not replaced.
Result<std::unique_ptr<CopySink>> make_local_sink(const std::string& path, const LocalSinkOptions& options);
std::unique_ptr<CopySink> make_stream_sink(std::ostream& out);

struct WeirSinkOptions {
  layout::Partition layout;
  std::optional<ElementOf> view;  ///< A file that is there is written into, and keeps its layout.
  std::uint32_t mode = 0644;
  bool resumes = false;
  std::uint64_t identity = 0;  ///< Of the source.
};
Result<std::unique_ptr<CopySink>> make_weir_sink(const client::FileSystem& fs, const std::string& path,
                                                 const WeirSinkOptions& options);

/// What is after the last "/".
std::string last_part(const std::string& path);

}  // namespace weir::cli::internal
