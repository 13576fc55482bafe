// weir put, get, cp, cat

#include <weir/cli/internal/copy_ends.h>
#include <weir/cli/internal/fs_copy.h>

namespace weir::cli::internal {
namespace {

struct CatOptions {
  FileSystemOptions file_system;
  std::string path;
  std::string view;
  Offset element = 0;
  std::optional<Offset> from;
  std::optional<Offset> bytes;
};

Result<int> cat(const CatOptions& options, Console& console) {
  WEIR_TRY(const client::FileSystem fs, connect(options.file_system));
  std::optional<ElementOf> view;
  if (!options.view.empty()) {
    WEIR_TRY(layout::Partition partition, load_layout(options.view, console));
    view = ElementOf{std::move(partition), options.element};
  }
  WEIR_TRY(const std::unique_ptr<CopySource> source, open_weir_source(fs, weir_path(options.path), view));
  const Offset end = *source->size();
  const Offset from = std::min(options.from.value_or(0), end);
  const Offset to = options.bytes ? from + std::min(end - from, *options.bytes) : end;
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min<Offset>(to - from, Offset{4} << 20)));
  for (Offset at = from; at < to;) {
    const auto part = std::span(buffer).first(
        static_cast<std::size_t>(std::min<Offset>(to - at, static_cast<Offset>(buffer.size()))));
    WEIR_RETURN_IF_ERROR(source->read(at, part));
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
      command.add_option("--view", options.view, "Only the bytes of one element of this layout, in its order")
          ->type_name("LAYOUT");
  CLI::Option* element =
      add_number(command, "--element", options.element, 0, kMaxBytes, "Which element of --view")->type_name("I");
  element->needs(view);
  view->needs(element);
}

void add_copying(CLI::App& command, TransferOptions& options) {
  command.add_flag("-r,--recursive", options.recursive, "A directory with all that it holds");
  add_number(command, "-j,--jobs", options.jobs, 1, 64, "Chunks of 4 MiB to copy at a time [4]");
  command.add_flag("--verify", options.verify, "Read both sides again and compare");
  command.add_flag("--resume", options.is_resumable,
                   "Keep what was copied if interrupted, and go on there the next time");
  command.add_flag("-q,--quiet", options.is_quiet, "No progress, no closing line");
  add_json(command, options.json);
  add_file_system(command, options.file_system);
}

template <typename Act>
auto with_summary(Act act) {
  return [act](TransferOptions options, Console& console) {
    options.has_summary = !options.is_quiet;
    return act(options, console);
  };
}

}  // namespace

void add_copy_commands(CLI::App& app, Selection& selection) {
  add_command<TransferOptions>(
      app, selection, "put", "Copy local files into the file system",
      "The copy gets its name when it is whole; after an error or Ctrl-C nothing of it is left, unless --resume asks "
      "for that.\n"
      "Pipes and files of /proc are read to their end.\n\n"
      "Examples:\n"
      "  weir put input.dat /input.dat\n"
      "  weir put -r results /results\n"
      "  tar c results | weir put - /results.tar\n"
      "  weir put a.dat /a --layout 'hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])' --verify\n",
      [](CLI::App& command, TransferOptions& options) {
        command.add_option("SOURCE", options.source, "The local file or folder; - reads standard input")->required();
        command.add_option("TARGET", options.target, "Its name in the file system, or a directory there")->required();
        command.add_option("--layout", options.layout, "How to store it [stripes of 1M over all targets]")
            ->type_name("LAYOUT");
        add_view(command, options);
        add_copying(command, options);
      },
      with_summary(put));
  add_command<TransferOptions>(
      app, selection, "get", "Copy files out of the file system",
      "Examples:\n"
      "  weir get /out.dat out.dat\n"
      "  weir get -r /results .\n"
      "  weir get /results.tar - | tar t\n"
      "  weir get /a column2 --view 'hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])' --element 2\n",
      [](CLI::App& command, TransferOptions& options) {
        command.add_option("SOURCE", options.source, "Its name in the file system")->required();
        command.add_option("TARGET", options.target,
                           "The local file or folder; - writes to standard output [the same name, here]");
        add_view(command, options);
        add_copying(command, options);
      },
      with_summary(get));
  add_command<TransferOptions>(
      app, selection, "cp", "Copy files within the file system",
      "Examples:\n"
      "  weir cp /out.dat /backup/out.dat\n"
      "  weir cp -r /results /results.old\n"
      "  weir cp /a /b --layout 'stripe(unit=64K, over=4)'\n",
      [](CLI::App& command, TransferOptions& options) {
        command.add_option("SOURCE", options.source, "The file or directory")->required();
        command.add_option("TARGET", options.target, "The name of the copy, or a directory for it")->required();
        command.add_option("--layout", options.layout, "How to store the copy [as the source]")->type_name("LAYOUT");
        add_copying(command, options);
      },
      with_summary(copy_within));
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
