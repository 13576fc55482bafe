#include <weir/capi/weir.h>

#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include <weir/base/text.h>
#include <weir/capi/internal/errors.h>
#include <weir/client/file_system.h>
#include <weir/embedded/embedded.h>
#include <weir/layout/language.h>

using weir::Offset;
using weir::Result;
using weir::Status;
using weir::capi::internal::guarded;
using weir::capi::internal::guarded_status;
using weir::client::File;
using weir::client::FileSystem;
using weir::client::Pending;
using weir::client::View;

struct weir_fs {
  FileSystem file_system;
  std::optional<weir::Embedded> servers;  // those of weir_embedded()
};
struct weir_file {
  File file;
};
struct weir_view {
  View view;
};
struct weir_request {
  Pending pending;
};

namespace {

// A C caller may pass NULL for anything; which of them are allowed to be, the functions below know.
template <typename... Pointers>
Status check_pointers(const char* function, const Pointers*... pointers) {
  if ((... && (pointers != nullptr))) return Status::ok();
  return weir::invalid_argument(weir::concat(function, ": an argument is NULL"));
}

Result<char*> copy_text(const std::string& text) {
  char* copy = ::strdup(text.c_str());
  if (copy == nullptr) return Status(weir::ErrorCode::kNoSpace, "out of memory");
  return copy;
}

Result<weir::layout::Element> element_of(const char* partition, Offset element) {
  WEIR_TRY(const auto parsed, weir::layout::parse(partition));
  return parsed.element(element);
}

}  // namespace

extern "C" {

const char* weir_last_error(void) { return weir::capi::internal::last_error(); }

weir_fs* weir_connect(const char* name) {
  return guarded<weir_fs*>(nullptr, [&]() -> Result<weir_fs*> {
    weir::client::ConnectOptions options;
    if (name != nullptr) options.file_system = name;
    WEIR_TRY(FileSystem fs, FileSystem::connect(options));
    return new weir_fs{std::move(fs), std::nullopt};
  });
}

weir_fs* weir_embedded(int servers, const char* store) {
  return guarded<weir_fs*>(nullptr, [&]() -> Result<weir_fs*> {
    weir::EmbeddedOptions options;
    options.servers = servers;
    if (store != nullptr) options.store = store;
    WEIR_TRY(weir::Embedded started, weir::embedded(options));
    const FileSystem fs = started.file_system();
    return new weir_fs{fs, std::move(started)};
  });
}

void weir_disconnect(weir_fs* fs) { delete fs; }

int weir_mkdir(weir_fs* fs, const char* path, unsigned mode) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_mkdir", fs, path));
    return fs->file_system.make_directory(path, mode);
  });
}

int weir_rmdir(weir_fs* fs, const char* path) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_rmdir", fs, path));
    return fs->file_system.remove_directory(path);
  });
}

int weir_remove(weir_fs* fs, const char* path) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_remove", fs, path));
    return fs->file_system.remove(path);
  });
}

int weir_rename(weir_fs* fs, const char* from, const char* to) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_rename", fs, from, to));
    return fs->file_system.rename(from, to);
  });
}

int weir_chmod(weir_fs* fs, const char* path, unsigned mode) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_chmod", fs, path));
    return fs->file_system.set_mode(path, mode);
  });
}

int weir_stat(weir_fs* fs, const char* path, struct weir_info* status) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_stat", fs, path, status));
    WEIR_TRY(const auto found, fs->file_system.stat(path));
    *status = {found.is_directory ? 1 : 0, found.mode,       found.uid,  found.gid,
               found.created_ns,           found.changed_ns, found.size, 0};
    for (const auto& subfile : found.subfiles) status->stored_bytes += subfile.stored_bytes;
    return Status::ok();
  });
}

int weir_list(weir_fs* fs, const char* path, int (*visit)(const char* name, int is_directory, void* context),
              void* context) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_list", fs, path));
    if (visit == nullptr) return weir::invalid_argument("weir_list: an argument is NULL");
    WEIR_TRY(const auto entries, fs->file_system.list(path));
    for (const auto& entry : entries) {
      if (visit(entry.name.c_str(), entry.is_directory ? 1 : 0, context) != 0) break;
    }
    return Status::ok();
  });
}

int weir_relayout(weir_fs* fs, const char* path, const char* layout) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_relayout", fs, path, layout));
    WEIR_TRY(const auto partition, weir::layout::parse(layout));
    return fs->file_system.relayout(path, partition);
  });
}

weir_file* weir_create(weir_fs* fs, const char* path, const char* layout, unsigned mode) {
  return guarded<weir_file*>(nullptr, [&]() -> Result<weir_file*> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_create", fs, path, layout));
    WEIR_TRY(const auto partition, weir::layout::parse(layout));
    WEIR_TRY(File file, fs->file_system.create(path, partition, {.mode = mode}));
    return new weir_file{std::move(file)};
  });
}

weir_file* weir_open(weir_fs* fs, const char* path) {
  return guarded<weir_file*>(nullptr, [&]() -> Result<weir_file*> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_open", fs, path));
    WEIR_TRY(File file, fs->file_system.open(path));
    return new weir_file{std::move(file)};
  });
}

void weir_close(weir_file* file) { delete file; }

int64_t weir_size(weir_file* file) {
  return guarded<int64_t>(-1, [&]() -> Result<int64_t> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_size", file));
    return file->file.size();
  });
}

int weir_truncate(weir_file* file, int64_t size) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_truncate", file));
    return file->file.truncate(size);
  });
}

int weir_preallocate(weir_file* file, int64_t size) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_preallocate", file));
    return file->file.preallocate(size);
  });
}

int weir_sync(weir_file* file) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_sync", file));
    return file->file.sync();
  });
}

char* weir_layout(weir_file* file) {
  return guarded<char*>(nullptr, [&]() -> Result<char*> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_layout", file));
    return copy_text(weir::layout::print(file->file.layout()));
  });
}

weir_view* weir_set_view(weir_file* file, const char* partition, int64_t element) {
  return guarded<weir_view*>(nullptr, [&]() -> Result<weir_view*> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_set_view", file));
    if (partition == nullptr) {
      WEIR_TRY(View all, file->file.linear());
      return new weir_view{std::move(all)};
    }
    WEIR_TRY(const auto one, element_of(partition, element));
    WEIR_TRY(View view, file->file.view(one));
    return new weir_view{std::move(view)};
  });
}

void weir_free_view(weir_view* view) { delete view; }

char* weir_explain(weir_view* view) {
  return guarded<char*>(nullptr, [&]() -> Result<char*> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_explain", view));
    return copy_text(view->view.explain());
  });
}

int weir_read(weir_view* view, int64_t offset, void* memory, size_t bytes) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_read", view, static_cast<char*>(memory)));
    return view->view.read(offset, {static_cast<std::byte*>(memory), bytes});
  });
}

int weir_write(weir_view* view, int64_t offset, const void* memory, size_t bytes) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_write", view, static_cast<const char*>(memory)));
    return view->view.write(offset, {static_cast<const std::byte*>(memory), bytes});
  });
}

int weir_read_strided(weir_view* view, int64_t offset, size_t bytes, void* memory, const char* partition,
                      int64_t element) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_read_strided", view, static_cast<char*>(memory), partition));
    WEIR_TRY(const auto one, element_of(partition, element));
    return view->view.read(offset, static_cast<Offset>(bytes), weir::client::Memory{memory, one});
  });
}

int weir_write_strided(weir_view* view, int64_t offset, size_t bytes, const void* memory, const char* partition,
                       int64_t element) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_write_strided", view, static_cast<const char*>(memory), partition));
    WEIR_TRY(const auto one, element_of(partition, element));
    return view->view.write(offset, static_cast<Offset>(bytes), weir::client::ConstMemory{memory, one});
  });
}

weir_request* weir_start_read(weir_view* view, int64_t offset, void* memory, size_t bytes) {
  return guarded<weir_request*>(nullptr, [&]() -> Result<weir_request*> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_start_read", view, static_cast<char*>(memory)));
    return new weir_request{view->view.start_read(offset, {static_cast<std::byte*>(memory), bytes})};
  });
}

weir_request* weir_start_write(weir_view* view, int64_t offset, const void* memory, size_t bytes) {
  return guarded<weir_request*>(nullptr, [&]() -> Result<weir_request*> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_start_write", view, static_cast<const char*>(memory)));
    return new weir_request{view->view.start_write(offset, {static_cast<const std::byte*>(memory), bytes})};
  });
}

int weir_wait(weir_request* request) {
  return guarded_status([&]() -> Status {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_wait", request));
    const std::unique_ptr<weir_request> owned(request);
    return owned->pending.wait();
  });
}

int weir_test(weir_request* request) {
  return guarded<int>(-1, [&]() -> Result<int> {
    WEIR_RETURN_IF_ERROR(check_pointers("weir_test", request));
    if (!request->pending.test()) return 0;
    const std::unique_ptr<weir_request> owned(request);
    WEIR_RETURN_IF_ERROR(owned->pending.wait());
    return 1;
  });
}

}  // extern "C"
