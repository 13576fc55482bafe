#include <weir/server/internal/assembly.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include <weir/base/text.h>
#include <weir/storage/disk_store.h>
#include <weir/storage/store_tasks.h>

namespace weir::server::internal {

namespace {

using storage::Label;

constexpr std::string_view kServerFolder = "server-";
constexpr std::uint32_t kMostServers = 1024;

// Nothing if it is not named as servers name theirs.
std::optional<std::uint32_t> index_of(const std::string& folder) {
  if (!folder.starts_with(kServerFolder)) return {};
  const std::string_view digits = std::string_view(folder).substr(kServerFolder.size());
  std::uint32_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc{} || end != digits.data() + digits.size() || index >= kMostServers) return {};
  return concat(kServerFolder, index) == folder ? std::optional(index) : std::nullopt;
}

std::string named(const LabelledStore& store) { return concat(store.path, " (", describe(store.label), ")"); }

Status check_folder(const LabelledStore& store) {
  if (store.label.server == store.index || store.label.file_system == 0) return Status::ok();
  return corrupt(concat(store.path, " is the store of server ", store.label.server, ", not of server ", store.index,
                        " (", describe(store.label), "): folders were swapped; give them back their names"));
}

Status check_pair(const LabelledStore& a, const LabelledStore& b) {
  if (a.label.file_system == 0 || b.label.file_system == 0) return Status::ok();
  if (a.label.file_system != b.label.file_system) {
    return corrupt(
        concat(named(a), " and ", named(b), " are of different file systems: put back the folder that belongs there"));
  }
  if (a.label.servers != b.label.servers && a.label.is_formed && b.label.is_formed) {
    return corrupt(concat(named(a), " and ", named(b), " contradict each other: one of them is an old copy; put back ",
                          "the folder that belongs there"));
  }
  return Status::ok();
}

std::string rebuild_command(const std::string& directory) {
  return concat("`weir fsck --rebuild --store disk:", directory, "`");
}

Status lost_metadata(const std::string& directory, const LabelledStore& witness) {
  return corrupt(concat("the metadata in ", metadata_path(directory), " is missing, but there is ", named(witness),
                        ": without it nobody knows the names of files; restore the folder from a copy, or run ",
                        rebuild_command(directory), ", which makes it again from what the stores know"));
}

Status lost_store(const std::string& directory, std::uint32_t index, const std::string& witness) {
  return corrupt(concat("the store in ", store_path(directory, index), " is missing, but there is ", witness,
                        ": restore the folder from a copy; if its bytes are lost for good, ",
                        rebuild_command(directory), " puts an empty store in its place"));
}

Status wrong_number(const Label& label, std::string_view what, std::uint32_t servers) {
  return invalid_argument(concat(what, " is part of a file system of ", label.servers, " servers (", describe(label),
                                 "), not of ", servers, ": start ", label.servers));
}

}  // namespace

std::string store_path(const std::string& directory, std::uint32_t index) {
  return concat(directory, "/", kServerFolder, index, "/store");
}

std::string metadata_path(const std::string& directory) {
  return concat(directory, "/", kServerFolder, 0, "/metadata");
}

Result<bool> has_metadata(const std::string& directory) {
  const std::string path = metadata_path(directory);
  std::error_code error;
  if (std::filesystem::exists(path + "/CURRENT", error)) return true;
  if (!std::filesystem::exists(path, error) || std::filesystem::is_empty(path, error)) return false;
  return corrupt(concat("the metadata in ", path,
                        " is damaged: its file CURRENT is missing; restore the folder from a ",
                        "copy, or move it away and run ", rebuild_command(directory)));
}

Result<std::vector<LabelledStore>> find_stores(const std::string& directory) {
  std::vector<LabelledStore> stores;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::optional<std::uint32_t> index = index_of(entry->path().filename().string());
    if (!index) continue;
    const std::string path = store_path(directory, *index);
    WEIR_TRY(const std::optional<Label> label, storage::read_disk_label(path));
    if (label) stores.push_back({*index, path, *label});
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Status(ErrorCode::kIoError, concat("store disk:", directory, ": ", error.message()));
  }
  std::sort(stores.begin(), stores.end(), [](const auto& a, const auto& b) { return a.index < b.index; });
  for (const LabelledStore& store : stores) {
    WEIR_RETURN_IF_ERROR(check_folder(store));
    WEIR_RETURN_IF_ERROR(check_pair(stores.front(), store));
  }
  return stores;
}

Result<Label> label_for(const std::string& directory, std::uint32_t index, std::uint64_t new_file_system,
                        runtime::Random& random) {
  WEIR_TRY(const std::vector<LabelledStore> stores, find_stores(directory));
  const LabelledStore* own = nullptr;
  const LabelledStore* formed = nullptr;
  std::uint64_t file_system = 0;
  for (const LabelledStore& store : stores) {
    if (store.index == index) own = &store;
    if (store.label.is_formed && formed == nullptr) formed = &store;
    if (file_system == 0) file_system = store.label.file_system;
  }
  if (own == nullptr && formed != nullptr) return lost_store(directory, index, named(*formed));
  if (index == 0) {
    if (formed != nullptr) {
      WEIR_TRY(const bool is_there, has_metadata(directory));
      if (!is_there) return lost_metadata(directory, *formed);
    } else if (own == nullptr) {
      // The store is made before the metadata.
      const Result<bool> is_there = has_metadata(directory);
      if (!is_there.is_ok() || *is_there) return lost_store(directory, 0, metadata_path(directory));
    }
  }
  if (own != nullptr && own->label.file_system != 0) return own->label;
  if (file_system == 0) file_system = new_file_system;
  if (file_system == 0) file_system = random.id();
  return Label{file_system, index, 0, false};
}

Status label_metadata(storage::KeyValue& metadata, const std::string& directory, const Label& store) {
  WEIR_TRY(const std::optional<std::string> text, metadata.get(kLabelKey));
  if (!text) {
    bool is_empty = true;
    WEIR_RETURN_IF_ERROR(metadata.scan("", "", [&](std::string_view, std::string_view) { return is_empty = false; }));
    if (!is_empty) {
      return corrupt(concat("the metadata in ", metadata_path(directory),
                            " has no label, though it holds names: it was ",
                            "made by an older release of Weir, or put there; copy its files out with that release"));
    }
    storage::Batch batch;
    batch.put(std::string(kLabelKey), storage::encode_label({store.file_system, 0, 0, false}));
    return metadata.apply(batch, true);
  }
  const Result<Label> label = storage::decode_label(*text);
  if (!label.is_ok()) {
    return corrupt(concat("the metadata in ", metadata_path(directory),
                          ": its label is damaged: ", label.status().message(),
                          "; restore the folder from a copy, or move it away and run ", rebuild_command(directory)));
  }
  const bool is_same = label->file_system == store.file_system && label->server == store.server &&
                       (!label->is_formed || !store.is_formed || label->servers == store.servers);
  if (is_same) return Status::ok();
  return corrupt(concat("the metadata in ", metadata_path(directory), " (", describe(*label), ") and the store in ",
                        store_path(directory, 0), " (", describe(store),
                        ") do not belong together: put back the folder that belongs there"));
}

Status form_metadata(storage::KeyValue& metadata, std::uint32_t servers) {
  WEIR_TRY(const std::optional<std::string> text, metadata.get(kLabelKey));
  if (!text) return Status::ok();  // in memory
  WEIR_TRY(Label label, storage::decode_label(*text));
  if (label.is_formed) {
    return label.servers == servers ? Status::ok() : wrong_number(label, "the metadata", servers);
  }
  label.servers = servers;
  label.is_formed = true;
  storage::Batch batch;
  batch.put(std::string(kLabelKey), storage::encode_label(label));
  return metadata.apply(batch, false);
}

Task<Status> form_label(storage::Store& store, std::uint32_t servers) {
  Label label = store.label();
  if (label.file_system == 0) co_return Status::ok();
  if (label.is_formed) {
    co_return label.servers == servers ? Status::ok() : wrong_number(label, "the store", servers);
  }
  if (label.server >= servers) {
    co_return invalid_argument(concat("the store is that of server ", label.server, "; there are only ", servers));
  }
  label.servers = servers;
  label.is_formed = true;
  storage::op::SetLabel set{label};
  co_return co_await storage::run(store, std::move(set));
}

}  // namespace weir::server::internal
