// Many small files, many open files, many views: rates against the local file system, and memory for each at the
// server.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <weir/base/os_error.h>
#include <weir/base/text.h>
#include <weir/layout/language.h>

#include "fs_report.h"
#include "fs_team.h"

namespace weir::bench {
namespace {

using client::File;
using client::FileSystem;
using client::View;

constexpr std::string_view kHelp =
    "usage: scale_bench [--quick] [--json] [rates|memory]\n"
    "\n"
    "One server with a memory store, one with a disk store, and two workers, each a process of its own on this host.\n"
    "  rates      100,000 small files: create, write, stat and remove, by both workers, half of the names each, "
    "against the\n"
    "             same calls on a local folder (in TMPDIR, or /tmp)\n"
    "  memory     what idle files, 10,000 open files and 100,000 registered views take at one server and at the "
    "client\n"
    "  --quick    a hundredth of all that\n";

struct Amounts {
  int files = 100000;
  int open_files = 10000;
  int views = 100000;
};

constexpr std::size_t kSmall = 1024;

layout::Partition one_subfile() { return expect(layout::parse("stripe(unit=64K, over=1)")); }

// ---------------------------------------------------------------- rates

/// Small files, in whatever keeps them.
class Files {
 public:
  virtual ~Files() = default;
  virtual void make_folder(const std::string& path) = 0;
  virtual void create(const std::string& path) = 0;
  virtual void write(const std::string& path) = 0;
  virtual void stat(const std::string& path) = 0;
  virtual void remove(const std::string& path) = 0;
  virtual void remove_folder(const std::string& path) = 0;

 protected:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kSmall, std::byte{7});
};

class LocalFiles final : public Files {
 public:
  explicit LocalFiles(std::string root) : root_(std::move(root)) {}
  void make_folder(const std::string& path) override { check(::mkdir((root_ + path).c_str(), 0700), "mkdir"); }
  void create(const std::string& path) override {
    const int descriptor = ::open((root_ + path).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
    check(descriptor, "create");
    ::close(descriptor);
  }
  void write(const std::string& path) override {
    const int descriptor = ::open((root_ + path).c_str(), O_WRONLY);
    check(descriptor, "open");
    if (::pwrite(descriptor, bytes_.data(), kSmall, 0) != static_cast<ssize_t>(kSmall)) check(-1, "write");
    ::close(descriptor);
  }
  void stat(const std::string& path) override {
    struct stat found {};
    check(::stat((root_ + path).c_str(), &found), "stat");
    if (found.st_size != static_cast<off_t>(kSmall)) give_up("local file of another size");
  }
  void remove(const std::string& path) override { check(::unlink((root_ + path).c_str()), "unlink"); }
  void remove_folder(const std::string& path) override { check(::rmdir((root_ + path).c_str()), "rmdir"); }

 private:
  static void check(int result, const char* what) {
    if (result < 0) give_up(os_error(concat("local files: ", what)).message());
  }
  std::string root_;
};

class WeirFiles final : public Files {
 public:
  explicit WeirFiles(FileSystem system) : system_(std::move(system)), layout_(one_subfile()) {}
  void make_folder(const std::string& path) override { expect(system_.make_directory(path)); }
  void create(const std::string& path) override {
    (void)expect(system_.create(path, layout_, {.mode = 0600, .exclusive = true}));
  }
  void write(const std::string& path) override { expect(expect(expect(system_.open(path)).linear()).write(0, bytes_)); }
  void stat(const std::string& path) override {
    if (expect(system_.stat(path)).size != static_cast<Offset>(kSmall)) give_up(path + " has another size");
  }
  void remove(const std::string& path) override { expect(system_.remove(path)); }
  void remove_folder(const std::string& path) override { expect(system_.remove_directory(path)); }

 private:
  FileSystem system_;
  layout::Partition layout_;
};

using Step = void (Files::*)(const std::string&);
struct NamedStep {
  const char* name;
  Step step;
};
constexpr NamedStep kSteps[] = {{"create", &Files::create},
                                {"open, write 1 KiB", &Files::write},
                                {"stat", &Files::stat},
                                {"remove", &Files::remove}};

/// Files of all workers per second, step by step.
std::vector<double> rates(const Team& team, Files& files, int count) {
  const int mine = count / team.size();
  const std::string folder = concat("/scale-", team.rank());
  std::vector<std::string> names;
  for (int i = 0; i < mine; ++i) names.push_back(concat(folder, "/file-", i));
  files.make_folder(folder);
  std::vector<double> out;
  for (const NamedStep& step : kSteps) {
    const double seconds = team.time(
        [&] {
          for (const std::string& name : names) (files.*step.step)(name);
        },
        1);
    out.push_back(mine * team.size() / seconds);
  }
  files.remove_folder(folder);
  return out;
}

std::string kind_of(const std::string& folder) {
  struct statfs found {};
  if (::statfs(folder.c_str(), &found) != 0) return "unknown";
  static const std::map<long, const char*> kKinds = {{0x01021994, "tmpfs"},   {0xEF53, "ext4"},
                                                     {0x58465342, "xfs"},     {0x9123683E, "btrfs"},
                                                     {0x794C7630, "overlay"}, {0x6969, "nfs"}};
  const auto kind = kKinds.find(static_cast<long>(found.f_type));
  return kind == kKinds.end() ? concat("file system type ", static_cast<Offset>(found.f_type)) : kind->second;
}

Table rates_table(const Team& team, const Amounts& amounts) {
  const std::string root = concat(team.folder(), "/local");
  if (team.is_first()) std::filesystem::create_directory(root);
  team.barrier();
  LocalFiles local(root);
  WeirFiles message(team.connect(0, false));
  WeirFiles direct(team.connect(0, true));
  WeirFiles disk(team.connect(1, false));
  std::vector<std::vector<double>> all;
  for (Files* files : std::initializer_list<Files*>{&local, &message, &direct, &disk}) {
    all.push_back(rates(team, *files, amounts.files));
  }
  Table table{concat(amounts.files, " files, two workers: thousands a second"),
              {"operation", "local", "memory", "memory, direct", "disk", "memory/local", "disk/local"},
              {},
              concat("local: ", kind_of(root), " in ", team.folder(),
                     ".  Nothing is synced.  direct: writing maps the memory of the server, file by file.")};
  for (std::size_t i = 0; i < std::size(kSteps); ++i) {
    std::vector<std::string> row{kSteps[i].name};
    for (const auto& one : all) row.push_back(number(one[i] / 1000, 1));
    row.push_back(number(all[1][i] / all[0][i], 3));
    row.push_back(number(all[3][i] / all[0][i], 3));
    table.rows.push_back(std::move(row));
  }
  return table;
}

// ---------------------------------------------------------------- memory

/// Resident memory of a process that is its own, not shared with others.
double own_bytes(int process) {
  std::ifstream file(concat("/proc/", process, "/status"));
  std::string word;
  while (file >> word) {
    double kib = 0;
    if (word == "RssAnon:" && file >> kib) return kib * 1024;
  }
  give_up(concat("no RssAnon in /proc/", process, "/status"));
}

class MemoryBench {
 public:
  MemoryBench(const Team& team, const Amounts& amounts)
      : amounts_(amounts), server_(team.server_process(0, 0)), system_(team.connect(0, false)) {
    table_ = {"Memory of one server with a memory store, and of its client, by message: bytes for each",
              {"what", "count", "server", "client"},
              {},
              "Resident memory of the process alone, before and after; small counts drown in what allocators keep."};
  }

  Table run() {
    measure("idle file, empty", amounts_.files, [&] { create_files(); });
    measure("idle file, 1 KiB more", amounts_.files, [&] { write_files(); });
    std::vector<File> files;
    measure("open file", amounts_.open_files, [&] { open_files(files); });
    std::vector<View> views;
    measure("registered view", amounts_.views, [&] { register_views(files, views); });
    check_views(views);
    return table_;
  }

 private:
  template <typename Work>
  void measure(const std::string& what, int count, Work work) {
    const double server = own_bytes(server_);
    const double client = own_bytes(::getpid());
    work();
    table_.rows.push_back({what, std::to_string(count), number((own_bytes(server_) - server) / count, 0),
                           number((own_bytes(::getpid()) - client) / count, 0)});
  }

  static std::string name(int i) { return concat("/memory/file-", i); }

  void create_files() {
    expect(system_.make_directory("/memory"));
    const layout::Partition layout = one_subfile();
    for (int i = 0; i < amounts_.files; ++i) (void)expect(system_.create(name(i), layout));
  }

  void write_files() {
    const std::vector<std::byte> bytes(kSmall, std::byte{7});
    for (int i = 0; i < amounts_.files; ++i) {
      expect(expect(expect(system_.open(name(i))).linear()).write(0, bytes));
    }
  }

  void open_files(std::vector<File>& files) {
    for (int i = 0; i < amounts_.open_files; ++i) files.push_back(expect(system_.open(name(i))));
  }

  // Views of every second 8 bytes, each from another place on; a byte is read through each, so that the server must
  // know it.
  void register_views(const std::vector<File>& files, std::vector<View>& views) {
    std::byte byte{};
    for (int i = 0; i < amounts_.views; ++i) {
      const Offset round = i / amounts_.open_files;
      const auto element = expect(layout::Element::create({{0, 7, 16, 4, {}}}, {.disp = 8 * round, .period = 64}));
      views.push_back(expect(files[static_cast<std::size_t>(i % amounts_.open_files)].view(element)));
      expect(views.back().read(0, {&byte, 1}));
      if (byte != std::byte{7}) give_up("another byte came back through a view");
    }
  }

  // All of them are registered at once, and the first still works.
  void check_views(const std::vector<View>& views) {
    const auto status = system_.server_status();
    expect(status.front().error);
    if (status.front().views < static_cast<std::int64_t>(views.size())) {
      give_up(concat("the server knows ", status.front().views, " views of ", views.size()));
    }
    std::byte byte{};
    expect(views.front().read(1, {&byte, 1}));
    if (byte != std::byte{7}) give_up("another byte came back through the first view");
  }

  Amounts amounts_;
  int server_;
  FileSystem system_;
  Table table_;
};

std::vector<Table> run(const Team& team, const Arguments& arguments) {
  Amounts amounts;
  if (arguments.is_quick) amounts = {1000, 100, 1000};
  const auto is_asked = [&](std::string_view name) { return name.find(arguments.text) != std::string_view::npos; };
  std::vector<Table> tables;
  // First: freed memory of other measurements would hide what these need.
  if (is_asked("memory") && team.is_first()) tables.push_back(MemoryBench(team, amounts).run());
  team.barrier();
  if (is_asked("rates")) tables.insert(tables.begin(), rates_table(team, amounts));
  if (tables.empty() && team.is_first()) give_up(concat("nothing is named like '", arguments.text, "'"));
  return tables;
}

}  // namespace
}  // namespace weir::bench

int main(int argc, char** argv) {
  using namespace weir::bench;
  const Arguments arguments = parse_arguments(argc, argv, kHelp);
  TeamOptions options;
  options.servers = 1;
  options.stores = {"memory", "disk:"};
  return run_team(options, [&](Team& all, Team*) {
    const auto tables = run(all, arguments);
    if (!all.is_first()) return;
    arguments.is_json ? print_json(tables) : print_text(tables);
  });
}
