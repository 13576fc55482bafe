/* View I/O in C: the interface of the View I/O paper (Isaila, Tichy), with 64-bit offsets.
 *
 *     int fd = CLF_open("/matrix", O_RDWR | O_CREAT, 0644);
 *     CLF_Datatype columns = CLF_Type_vector(id * w, (id + 1) * w - 1, width, height, CLF_BYTE);
 *     CLF_setview(fd, columns, 0, width * height);
 *     CLF_write(fd, mine, height * w);
 *
 * The file system is the one that WEIR_FS names: a connection file, or addresses with WEIR_KEY_FILE.  It is connected to by
 * the first call.  Descriptors are Weir's own, not the kernel's: use them with CLF_ functions only.
 *
 * Functions that return int or ssize_t return -1 on error and set errno; weir_last_error() of weir.h has the whole story.
 * All of them may be called from any thread. */
#ifndef WEIR_CLF_H
#define WEIR_CLF_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A pattern of bytes. */
typedef struct CLF_Datatype_s* CLF_Datatype;

/* A single byte: the only basic type.  Never freed. */
extern CLF_Datatype const CLF_BYTE;

/* `count` blocks, the first from `left` to `right` (inclusive), one every `stride` bytes.  In each of them, `oldtype` from its left end on;
 * CLF_BYTE stands for all bytes of the block.  NULL on error. */
CLF_Datatype CLF_Type_vector(int64_t left, int64_t right, int64_t stride, int64_t count, CLF_Datatype oldtype);

/* Several types side by side, in this order; they must not overlap. */
CLF_Datatype CLF_Type_struct(int count, const CLF_Datatype* array_of_types);

/* Frees a type, and sets it to NULL.  Types and views made from it stay. */
int CLF_Type_free(CLF_Datatype* type);

/* O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT (then `mode` is used), O_EXCL, O_TRUNC, O_APPEND.  A new file is striped over all targets by 64K
 * until CLF_setlayout says otherwise. */
int CLF_open(const char* path, int flags, ...);
/* EIO: a server was started again, and bytes that were not synced may be lost.  The descriptor is closed all the same. */
int CLF_close(int fd);
int CLF_unlink(const char* path);

/* How the file is stored, in the layout language.  Only while it has no bytes. */
int CLF_setlayout(int fd, const char* layout);

/* From byte `displ` on, every `period` bytes, only the bytes of `view` are seen, one after the other.  The file offset becomes 0.
 * CLF_BYTE with period 1 is the whole file again. */
int CLF_setview(int fd, CLF_Datatype view, int64_t displ, int64_t period);

/* Offsets and lengths count bytes of the view.  Reads end at the end of the file. */
ssize_t CLF_read(int fd, void* buffer, size_t bytes);
ssize_t CLF_write(int fd, const void* buffer, size_t bytes);
ssize_t CLF_pread(int fd, void* buffer, size_t bytes, int64_t offset);
ssize_t CLF_pwrite(int fd, const void* buffer, size_t bytes, int64_t offset);
ssize_t CLF_readv(int fd, const struct iovec* parts, int count);
ssize_t CLF_writev(int fd, const struct iovec* parts, int count);
int64_t CLF_lseek(int fd, int64_t offset, int whence);

/* Of the file, not of the view. */
int CLF_ftruncate(int fd, int64_t size);
int CLF_fsync(int fd);
int CLF_fstat(int fd, struct stat* status);

#ifdef __cplusplus
}
#endif

#endif
