/* Weir in C: what clf.h leaves out.  Layouts and elements are texts in the layout language.
 *
 * Functions that return a pointer return NULL on error, those that return a number -1; errno says which, weir_last_error() why.
 * Handles may be used from any thread, and are freed by the functions named for it, in any order. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_fs weir_fs;
typedef struct weir_file weir_file;
typedef struct weir_view weir_view;
typedef struct weir_request weir_request;

/* What went wrong last in this thread; "" if nothing did.  Valid until the next call in this thread. */
const char* weir_last_error(void);

/* `name`: a connection file or addresses; NULL: what WEIR_FS says. */
weir_fs* weir_connect(const char* name);
/* `servers` servers inside this process; `store`: "memory" or "disk:DIR". */
weir_fs* weir_embedded(int servers, const char* store);
void weir_disconnect(weir_fs* fs);

int weir_mkdir(weir_fs* fs, const char* path, unsigned mode);
int weir_rmdir(weir_fs* fs, const char* path);
int weir_remove(weir_fs* fs, const char* path);
int weir_rename(weir_fs* fs, const char* from, const char* to);
int weir_chmod(weir_fs* fs, const char* path, unsigned mode);

struct weir_info {
  int is_directory;
  unsigned mode;
  unsigned uid;
  unsigned gid;
  int64_t created_ns;
  int64_t changed_ns;
  int64_t size;
  int64_t stored_bytes;
};
int weir_stat(weir_fs* fs, const char* path, struct weir_info* status);

/* Calls `visit(name, is_directory, context)` for every entry; stops when it does not return 0. */
int weir_list(weir_fs* fs, const char* path, int (*visit)(const char* name, int is_directory, void* context),
              void* context);

/* Moves a file to another layout; all or nothing. */
int weir_relayout(weir_fs* fs, const char* path, const char* layout);

/* Opens the file that is there, or makes it with `layout`. */
weir_file* weir_create(weir_fs* fs, const char* path, const char* layout, unsigned mode);
weir_file* weir_open(weir_fs* fs, const char* path);
void weir_close(weir_file* file);
int64_t weir_size(weir_file* file);
int weir_truncate(weir_file* file, int64_t size);
int weir_preallocate(weir_file* file, int64_t size);
int weir_sync(weir_file* file);
/* The layout as text, to be freed with free(). */
char* weir_layout(weir_file* file);

/* Element `element` of a layout or of any other partition; NULL: the whole file. */
weir_view* weir_set_view(weir_file* file, const char* partition, int64_t element);
void weir_free_view(weir_view* view);
/* What the view is to each subfile and how its bytes go; to be freed with free(). */
char* weir_explain(weir_view* view);

/* `bytes` bytes of the view from `offset` on; all of them or an error.  Beyond the end of the file: zeros. */
int weir_read(weir_view* view, int64_t offset, void* memory, size_t bytes);
int weir_write(weir_view* view, int64_t offset, const void* memory, size_t bytes);
/* Byte k is at memory + (offset of byte k of element `element` of `partition`). */
int weir_read_strided(weir_view* view, int64_t offset, size_t bytes, void* memory, const char* partition,
                      int64_t element);
int weir_write_strided(weir_view* view, int64_t offset, size_t bytes, const void* memory, const char* partition,
                       int64_t element);

/* Without waiting; memory stays until weir_wait() or until weir_test() said 1.  Both free the request once it is done. */
weir_request* weir_start_read(weir_view* view, int64_t offset, void* memory, size_t bytes);
weir_request* weir_start_write(weir_view* view, int64_t offset, const void* memory, size_t bytes);
int weir_wait(weir_request* request);
int weir_test(weir_request* request); /* 1: done, 0: not yet, -1: it failed */

#ifdef __cplusplus
}
#endif

#endif
