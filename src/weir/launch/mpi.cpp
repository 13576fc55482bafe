#include <weir/launch/mpi.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <unistd.h>

#include <weir/base/environment.h>
#include <weir/base/text.h>
#include <weir/launch/internal/elf.h>

namespace weir::launch {

namespace {

namespace fs = std::filesystem;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
bool starts_with(std::string_view text, std::string_view start) { return text.rfind(start, 0) == 0; }

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

// "libmpi.so.12" is what MPICH and those that are compatible with it call it in their common interface.
Mpi mpi_of_library(std::string_view name) {
  if (contains(name, "mpich") || starts_with(name, "libmpi.so.12")) return Mpi::kMpich;
  if (contains(name, "openmpi") || starts_with(name, "libmpi.so") || starts_with(name, "libmpi_")) return Mpi::kOpenMpi;
  if (starts_with(name, "libopen-rte") || starts_with(name, "libprrte")) return Mpi::kOpenMpi;
  return Mpi::kNone;
}

bool is_launcher(const std::string& word) {
  const std::string name = fs::path(word).filename();
  return starts_with(name, "mpirun") || starts_with(name, "mpiexec") || name == "orterun" || name == "prterun";
}

// Launchers go by the same names, but are links to programs that do not.
Mpi mpi_of_launcher(const std::string& word) {
  const std::string path = find_on_path(word);
  std::error_code error;
  const std::string name = path.empty() ? word : fs::canonical(path, error).filename().string();
  if (contains(name, "hydra") || contains(name, "mpich")) return Mpi::kMpich;
  if (contains(name, "orterun") || contains(name, "prte") || contains(name, "openmpi")) return Mpi::kOpenMpi;
  for (const std::string& library : internal::needed_libraries(path)) {
    if (const Mpi mpi = mpi_of_library(library); mpi != Mpi::kNone) return mpi;
  }
  return Mpi::kNone;
}

MpiChoice choose_by_program(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    if (word.empty() || word[0] == '-' || is_launcher(word)) continue;
    for (const std::string& library : internal::needed_libraries(find_on_path(word))) {
      const Mpi mpi = mpi_of_library(library);
      if (mpi != Mpi::kNone) return {mpi, concat(word, " needs ", library), true};
    }
  }
  return {};
}

MpiChoice choose_by_launcher(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    if (!is_launcher(word)) continue;
    const Mpi mpi = mpi_of_launcher(word);
    if (mpi != Mpi::kNone) return {mpi, concat(word, " is the launcher of ", mpi_name(mpi)), true};
  }
  return {};
}

std::vector<fs::path> library_folders() {
  if (const std::string given = environment("WEIR_LIBRARY_DIR"); !given.empty()) return {given};
  std::vector<fs::path> folders;
  std::error_code error;
  const fs::path root = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  // Where the build puts them, and where they are installed.
  for (const char* folder : {"lib", "src/weir/mpiio", WEIR_LIBDIR, WEIR_LIBDIR "/weir", "lib/weir"}) {
    if (std::find(folders.begin(), folders.end(), root / folder) == folders.end()) folders.push_back(root / folder);
  }
  return folders;
}

Result<std::string> find_library(const std::string& name, std::string_view how_to_get_it) {
  std::string searched;
  for (const fs::path& folder : library_folders()) {
    std::error_code error;
    const fs::path path = folder / name;
    searched += concat(searched.empty() ? "" : ", ", folder.string());
    if (!fs::exists(path, error)) continue;
    const std::string found = fs::absolute(path).lexically_normal().string();
    if (found.find_first_of(" :;") == std::string::npos) return found;
    return invalid_argument(
        concat(found, " cannot be preloaded: blanks and colons in the path of a library end its name"));
  }
  return Status(ErrorCode::kNotFound, concat(name, " is not there: ", how_to_get_it,
                                             " or name its folder in WEIR_LIBRARY_DIR; looked in ", searched));
}

std::vector<std::string> split_preload(std::string_view preload) {
  std::string text(preload);
  std::replace(text.begin(), text.end(), ':', ' ');
  std::istringstream words(text);
  std::vector<std::string> libraries;
  for (std::string word; words >> word;) libraries.push_back(word);
  return libraries;
}

// A shell may have been told one, for another MPI say (weir env).
bool is_one_of_ours(const std::string& library) {
  const std::string name = fs::path(library).filename();
  return starts_with(name, "libweir_mpiio_") || starts_with(name, "libweir_preload.");
}

constexpr char kEnvList[] = "mca_base_env_list";

// Open MPI takes variables for its ranks by -x or by this setting, and refuses both together.
bool uses_env_list(const std::vector<std::string>& command) {
  return !environment("OMPI_MCA_mca_base_env_list").empty() ||
         std::any_of(command.begin(), command.end(), [](const std::string& word) { return contains(word, kEnvList); });
}

std::vector<std::string> launcher_words(Mpi launcher, const std::string& preload,
                                        const std::vector<Setting>& settings) {
  // MPICH's launcher hands on its whole environment by itself.
  if (launcher == Mpi::kMpich) return {"-genv", "LD_PRELOAD", preload};
  std::vector<std::string> words{"-x", concat("LD_PRELOAD=", preload)};
  for (const Setting& one : settings) words.insert(words.end(), {"-x", one.name});
  if (!environment("WEIR_PREFIX").empty()) words.insert(words.end(), {"-x", "WEIR_PREFIX"});
  return words;
}

// ---- Slurm's srun, which hands on its whole environment unless it is told otherwise

bool is_srun(const std::string& word) { return fs::path(word).filename() == "srun"; }

constexpr std::string_view kExport = "--export";

// Where the command says what srun hands on: the word after which it is, or the word itself; 0 if it does not say.
std::size_t find_export(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == kExport || starts_with(command[i], concat(kExport, "="))) return i;
    // The program, unless it may be the value of a short option: -p test
    const bool may_be_value = command[i - 1].size() == 2 && command[i - 1][0] == '-';
    if (command[i][0] != '-' && !may_be_value && !find_on_path(command[i]).empty()) return 0;
  }
  return 0;
}

// What is handed on anyway, and what has to be.
std::string export_list(std::string_view given, const std::string& preload, const std::vector<Setting>& settings) {
  std::string list(given == "NONE" || given == "NIL" ? "" : given);
  for (const Setting& one : settings) list += concat(list.empty() ? "" : ",", one.name);
  if (!environment("WEIR_PREFIX").empty()) list += concat(list.empty() ? "" : ",", "WEIR_PREFIX");
  return concat(list, list.empty() ? "" : ",", "LD_PRELOAD=", preload);
}

std::vector<std::string> srun_words(std::vector<std::string> words, const std::string& preload,
                                    const std::vector<Setting>& settings) {
  const std::size_t at = find_export(words);
  if (at == 0) {
    const std::string given = environment("SLURM_EXPORT_ENV");
    words.insert(words.begin() + 1,
                 concat(kExport, "=", export_list(given.empty() ? "ALL" : given, preload, settings)));
  } else if (words[at] != kExport) {
    words[at] = concat(kExport, "=", export_list(words[at].substr(kExport.size() + 1), preload, settings));
  } else if (at + 1 < words.size()) {
    words[at + 1] = export_list(words[at + 1], preload, settings);
  }
  return words;
}

}  // namespace

std::string_view mpi_name(Mpi mpi) {
  if (mpi == Mpi::kNone) return "none";
  return mpi == Mpi::kOpenMpi ? "openmpi" : "mpich";
}

Mpi mpi_of_name(std::string_view name) {
  if (name == "openmpi") return Mpi::kOpenMpi;
  return name == "mpich" ? Mpi::kMpich : Mpi::kNone;
}

std::string find_on_path(const std::string& word) {
  if (contains(word, "/")) return is_program(word) ? word : "";
  std::istringstream folders(environment("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path path = fs::path(folder.empty() ? "." : folder) / word;
    if (!word.empty() && is_program(path)) return path.string();
  }
  return "";
}

MpiChoice choose_mpi(const std::vector<std::string>& command) {
  MpiChoice program = choose_by_program(command);
  const MpiChoice launcher = choose_by_launcher(command);
  if (program.mpi == Mpi::kNone && launcher.mpi != Mpi::kNone) return launcher;
  if (program.mpi != Mpi::kNone) {
    if (launcher.mpi != Mpi::kNone && launcher.mpi != program.mpi) {
      program.doubt = concat(program.why, ", but ", launcher.why, ": its processes will not find each other");
    }
    return program;
  }
  for (const char* word : {"mpirun", "mpiexec"}) {
    const Mpi mpi = find_on_path(word).empty() ? Mpi::kNone : mpi_of_launcher(word);
    if (mpi != Mpi::kNone)
      return {mpi, concat("the command does not tell, and ", word, " here is that of ", mpi_name(mpi))};
  }
  return {Mpi::kNone, "the command does not tell, and there is no mpirun"};
}

Result<std::string> find_mpiio_library(Mpi mpi) {
  return find_library(concat("libweir_mpiio_", mpi_name(mpi), ".so"),
                      "build it (it needs the development files of this MPI)");
}

Result<std::string> find_preload_library() {
  return find_library("libweir_preload.so", "build it (it needs the development files of an MPI)");
}

std::string with_library(std::string_view preload, const std::string& library) {
  std::string all;
  for (const std::string& one : split_preload(preload)) {
    if (one != library && !is_one_of_ours(one)) all += concat(one, ":");
  }
  return all + library;
}

std::string without_library(std::string_view preload, const std::string& library) {
  std::string others;
  for (const std::string& one : split_preload(preload)) {
    if (one != library) others += concat(others.empty() ? "" : ":", one);
  }
  return others;
}

Launch prepare(const std::vector<std::string>& command, const std::string& library,
               const std::vector<Setting>& settings) {
  Launch launch{command, settings};
  if (library.empty()) return launch;
  const std::string preload = with_library(environment("LD_PRELOAD"), library);
  if (is_srun(command.front()) && !contains(preload, ",")) {
    launch.words = srun_words(command, preload, settings);
    return launch;
  }
  const Mpi launcher = is_launcher(command.front()) ? mpi_of_launcher(command.front()) : Mpi::kNone;
  if (launcher == Mpi::kNone || (launcher == Mpi::kOpenMpi && uses_env_list(command))) {
    launch.environment.push_back({"LD_PRELOAD", preload});
    return launch;
  }
  launch.words.clear();
  for (const std::string& word : command) {
    const bool is_first = launch.words.empty();
    launch.words.push_back(word);
    // Open MPI's -x is for one of several programs, between colons; MPICH's -genv for all.
    if (!is_first && (word != ":" || launcher != Mpi::kOpenMpi)) continue;
    const std::vector<std::string> words = launcher_words(launcher, preload, settings);
    launch.words.insert(launch.words.end(), words.begin(), words.end());
  }
  return launch;
}

}  // namespace weir::launch
