/* src/storage/file/direct_io.h: direct I/O with several requests in flight. */
#ifndef ONESPACE_STORAGE_FILE_DIRECT_IO_H
#define ONESPACE_STORAGE_FILE_DIRECT_IO_H

#include <stddef.h>
#include <stdint.h>

enum {
    DIRECT_IO_ALIGNED = 4096
}; /* the alignment of offsets and memory that every device accepts */

struct direct_io;

/* NULL: out of memory. For one thread at a time. */
struct direct_io *direct_io_new(void);
/* NULL is allowed. */
void direct_io_free(struct direct_io *io);
/* Transfers bytes from `at` on, which is aligned as `size` is; memory may be unaligned. fd: opened
 * with O_DIRECT. Returns how many bytes were transferred, from the first on; no request is in
 * flight any more. */
size_t direct_io_write(struct direct_io *io, int fd, uint64_t at, const char *from, size_t size);
size_t direct_io_read(struct direct_io *io, int fd, uint64_t at, char *to, size_t size);

/* Frees what is kept for later regions. Runs at the end of the program: in a space it would outlive
 * the task. */
void direct_io_end(void);

#endif
