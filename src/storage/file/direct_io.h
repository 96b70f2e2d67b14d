/* src/storage/file/direct_io.h: transfers of a file past the page cache, some pieces at once. */
#ifndef ONESPACE_STORAGE_FILE_DIRECT_IO_H
#define ONESPACE_STORAGE_FILE_DIRECT_IO_H

#include <stddef.h>
#include <stdint.h>

enum { DIRECT_IO_ALIGNED = 4096 }; /* what files and memory have to be, whatever the device */

struct direct_io;

/* NULL: out of memory. For one thread at a time. */
struct direct_io *direct_io_new(void);
/* NULL is allowed. */
void direct_io_free(struct direct_io *io);
/* Bytes from `at` on, aligned as `size` is; memory may lie anywhere. fd: opened with O_DIRECT. How
 * much arrived, from the first byte on; nothing is on its way any more. */
size_t direct_io_write(struct direct_io *io, int fd, uint64_t at, const char *from, size_t size);
size_t direct_io_read(struct direct_io *io, int fd, uint64_t at, char *to, size_t size);

/* Gives back what is kept for later regions. At the end of the program: in a space it would stay
 * when the task has ended. */
void direct_io_end(void);

#endif
