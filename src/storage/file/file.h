/* src/storage/file/file.h: the file under a region: open, create, lock, reserve, remove. */
#ifndef ONESPACE_STORAGE_FILE_FILE_H
#define ONESPACE_STORAGE_FILE_FILE_H

#include <sys/types.h>

#include "storage/file/entry.h"
#include "storage/file/hints.h"
#include "storage/file/range.h"

struct storage_file {
    char *path;                 /* as given by the hint; owned */
    struct storage_entry entry; /* where it is, wherever the current directory is by now */
    int fd;                     /* readable and writable, close-on-exec; -1: none */
    dev_t device;
    ino_t inode;
    mode_t mode;
    int is_device;            /* a block device: of fixed size, never removed */
    int is_created;           /* by this process */
    uint64_t size_was;        /* bytes when it was opened */
    unsigned striping_factor; /* what a new file got; 0: the file system has no stripes */
    uint64_t striping_unit;
};

/* Opens or creates hints->filename; entry.h says which files of other users are refused. */
int storage_file_open(struct storage_file *file, const struct storage_hints *hints,
                      struct storage_error *error);
/* Keeps other jobs off a range of the file until it is closed. Shared locks exclude only exclusive
 * ones. -EWOULDBLOCK: somebody else has it. 0 also where the file system has no locks. */
int storage_file_lock(struct storage_file *file, struct storage_range range, int is_shared,
                      struct storage_error *error);
/* Reserves space on the device for every byte of the range, so that -ENOSPC, -EFBIG and others come
 * before anything is mapped. The first flush makes the reservation durable. */
int storage_file_reserve(struct storage_file *file, struct storage_range range,
                         struct storage_error *error);
/* Undoes storage_file_open and _reserve: removes a new file, truncates a longer one to its old
 * size. */
void storage_file_revert(struct storage_file *file);
/* Removes the name if it still leads to this file; a block device stays. */
int storage_file_unlink(const struct storage_file *file, struct storage_error *error);
void storage_file_close(struct storage_file *file);

/* Whether the file is a regular one that ends before `end`. */
int storage_file_is_short(int fd, uint64_t end);

/* stripes.c: creates the file exclusively, with the requested stripes where the file system has
 * them. The descriptor, or -1 with errno. */
int storage_stripes_create(struct storage_file *file, const struct storage_hints *hints);

#endif
