/* src/storage/file/file.h: the file under a window: hints, names, locks, space, direct I/O. */
#ifndef ONESPACE_STORAGE_FILE_FILE_H
#define ONESPACE_STORAGE_FILE_FILE_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- Errors ---- */

/* A message for the user; functions that take one fill it when they fail. */
struct storage_error {
    char text[768];
};
/* Returns `result`, so that the caller can return it. */
__attribute__((format(printf, 3, 4))) int storage_fail(struct storage_error *error, int result,
                                                       const char *format, ...);

/* ---- Ranges of bytes ---- */

struct storage_range {
    uint64_t offset, length; /* bytes; each function says what offset counts from */
};

struct storage_ranges {
    struct storage_range *range; /* owned: free(); ascending, by pages, not adjacent */
    size_t count, capacity;
};

/* ---- Hints ---- */

enum storage_style { /* access_style, as MPI defines it for files: bits */
                     STORAGE_READ_ONCE = 1,
                     STORAGE_WRITE_ONCE = 2,
                     STORAGE_READ_MOSTLY = 4,
                     STORAGE_WRITE_MOSTLY = 8,
                     STORAGE_SEQUENTIAL = 16,
                     STORAGE_REVERSE_SEQUENTIAL = 32,
                     STORAGE_RANDOM = 64,
                     STORAGE_VERSIONED = 128, /* not of access_style: the window has versions */
};

#define STORAGE_FACTOR_AUTO (-1.0)

struct storage_hints {
    int is_storage; /* alloc_type=storage; otherwise no other field is set */
    char *filename; /* owned: storage_hints_clear */
    uint64_t offset;
    int has_offset; /* the offset was given */
    double factor;  /* of the window on storage, 0 to 1, or STORAGE_FACTOR_AUTO */
    int storage_first;
    int unlink, discard, is_untracked;
    unsigned style; /* enum storage_style; 0: not given */
    mode_t perm;
    unsigned striping_factor; /* 0: not given; these two only where the file system has stripes */
    uint64_t striping_unit;
    unsigned versions; /* versions kept; 0: the window has no versions */
};

/* Returns the value of `key`, or NULL if it is not set; valid until the next call. */
typedef const char *storage_lookup(void *context, const char *key);

/* Fills *hints; storage_hints_clear frees it, also after a failure. -EINVAL: a value is not
 * allowed; the error names the hint, the value, and the values that are allowed. */
int storage_hints_read(struct storage_hints *hints, storage_lookup *lookup, void *context,
                       struct storage_error *error);
void storage_hints_clear(struct storage_hints *hints);
/* Writes the names of the style's bits, separated by commas, as in the hint. */
void storage_style_name(unsigned style, char *text, size_t size);

/* ---- Names ---- */

/* Another user who may write to the directory can place a symbolic link, a FIFO or a file where a
 * job is about to write. So a name is looked up once and then used relative to a descriptor of its
 * directory, and the file is checked after it was opened:
 *
 *   symbolic links   are followed where the link belongs to the caller or to root
 *   FIFOs, sockets   are rejected without waiting for a peer
 *   others' files    are rejected in a world-writable directory, and in a group-writable one with
 *                    the sticky bit, unless the directory's owner owns the file. So are files with
 *                    a second name. (fs.protected_regular=2 does this for O_CREAT only.)
 *
 * Where only the members of a group may write to a directory without the sticky bit, files belong
 * to all of them. */

/* A name in a directory. The file need not exist. */
struct storage_entry {
    int directory; /* descriptor: for reading where that is permitted, else O_PATH */
    char *name;    /* without slashes; owned. NULL: nothing was found, and there is no descriptor */
};

/* These two return -errno. They set *refusal to NULL or, if no system call failed, to a sentence
 * that follows the file's path: what is wrong with the file and how to fix it. */

/* Finds the directory of `path`, through the caller's symbolic links. */
int storage_entry_find(struct storage_entry *entry, const char *path, const char **refusal);
/* openat, close-on-exec, of a regular file, a block device, or with O_DIRECTORY a directory. */
int storage_entry_open(int directory, const char *name, int flags, mode_t mode,
                       const char **refusal);

/* Whether the name still leads to the open file: 0, -ESTALE if it does not, or -errno. */
int storage_entry_check(int directory, const char *name, int fd);
void storage_entry_close(struct storage_entry *entry);

/* ---- Files ---- */

struct storage_file {
    char *path;                 /* as given by the hint; owned */
    struct storage_entry entry; /* its directory and name; independent of the current directory */
    int fd;                     /* readable and writable, close-on-exec; -1: none */
    dev_t device;
    ino_t inode;
    mode_t mode;
    int is_device;            /* a block device: of fixed size, never removed */
    int is_created;           /* by this process */
    uint64_t initial_size;    /* bytes when it was opened */
    unsigned striping_factor; /* of a new file; 0: the file system has no stripes */
    uint64_t striping_unit;
};

/* Opens or creates hints->filename, with the checks of storage_entry_open. */
int storage_file_open(struct storage_file *file, const struct storage_hints *hints,
                      struct storage_error *error);
/* Locks a range of the file against other jobs until the file is closed. Shared locks exclude only
 * exclusive ones. -EWOULDBLOCK: another window or job holds it. 0 also where the file system has no
 * locks; -errno if that is not known. */
int storage_file_lock(struct storage_file *file, struct storage_range range, int is_shared,
                      struct storage_error *error);
/* The same for any descriptor, without a message. */
int storage_lock(int fd, struct flock *lock);
/* Whether no other descriptor has locks on the file; 0 also where there are no locks. Waits a
 * second for those of other ranks, which give up the file, too. Then this one has locked all of it.
 */
int storage_lock_alone(int fd);
/* Reserves space on the device for every byte of the range, so that -ENOSPC, -EFBIG and others are
 * reported before anything is mapped. The first flush makes the reservation durable. */
int storage_file_reserve(struct storage_file *file, struct storage_range range,
                         struct storage_error *error);
/* Undoes storage_file_open and _reserve, of the window's ranks up to byte `end`: removes a new
 * file, truncates a longer one to its old size. Unless the file has bytes, and another window or
 * job has locked some of it, had made it longer than `end`, or that cannot be known. Gives up the
 * locks. */
void storage_file_revert(struct storage_file *file, uint64_t end);
/* Removes the name if it still names this file. Keeps a block device. */
int storage_file_unlink(const struct storage_file *file, struct storage_error *error);
void storage_file_close(struct storage_file *file);

/* Whether RLIMIT_FSIZE forbids writing a file of so many bytes: the kernel would end the process.
 */
int storage_size_is_forbidden(uint64_t bytes);
/* Whether the file is a regular one that ends before `end`. */
int storage_file_is_short(int fd, uint64_t end);
int storage_status_is_short(const struct stat *status, uint64_t end);
/* fsync and fdatasync, which a signal does not end: file systems that wait for a server may let it.
 * Write-back goes on, and the next call reports its errors. -1 with errno. */
int storage_fsync(int fd);
int storage_fdatasync(int fd);

/* ---- Direct I/O ---- */

enum { DIRECT_IO_ALIGN = 4096 }; /* every device accepts this alignment of offsets and memory */

struct direct_io;

/* NULL: out of memory. For one thread at a time. */
struct direct_io *direct_io_new(void);
/* NULL is allowed. */
void direct_io_free(struct direct_io *io);
/* A read of a file into `to`, or a write of `from` to a file: the other one is NULL. */
struct direct_transfer {
    int fd;           /* opened with O_DIRECT */
    uint64_t at;      /* offset in the file, aligned as `size` is; memory may be unaligned */
    const char *from; /* memory that is written to the file */
    char *to;         /* memory that is read into */
    size_t size;
};
/* Returns the number of bytes transferred from the start; no request is in flight then. */
size_t direct_io_run(struct direct_io *io, const struct direct_transfer *transfer);

/* Frees the cached AIO context. Runs at the end of the program: in a space it would outlive the
 * task.
 */
void direct_io_free_cached(void);

#endif
