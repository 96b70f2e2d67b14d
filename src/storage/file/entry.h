/* src/storage/file/entry.h: names of files, in directories to which other users may write.
 *
 * Another user who may write to the directory can put a symbolic link, a FIFO or a file of his own
 * where a job is about to write. So a name is looked up once and then used relative to a descriptor
 * of its directory, and the file is checked after it was opened:
 *
 *   symbolic links   are followed where the link belongs to the caller or to root
 *   FIFOs, sockets   are refused, and never waited for
 *   others' files    are refused in a directory that everybody may write to, or a group with the
 *                    sticky bit, unless the owner of the directory owns the file, too; so are files
 *                    with a second name. (fs.protected_regular=2 does that for O_CREAT only.)
 *
 * Where only the members of a group may write to a directory without the sticky bit, files belong
 * to all of them. */
#ifndef ONESPACE_STORAGE_FILE_ENTRY_H
#define ONESPACE_STORAGE_FILE_ENTRY_H

#include <sys/types.h>

/* A name in a directory. The file need not exist. */
struct storage_entry {
    int directory; /* descriptor: for reading where that is permitted, else O_PATH */
    char *name;    /* without slashes; owned. NULL: nothing was found, and there is no descriptor */
};

/* These two return -errno. *refusal is set to NULL, or, when the system call itself did not fail,
 * to what is wrong with the file and how to fix it: a sentence to follow the file's path. */

/* Finds the directory of `path`, through the caller's symbolic links. */
int storage_entry_find(struct storage_entry *entry, const char *path, const char **refusal);
/* openat, close-on-exec, of a regular file, a block device, or with O_DIRECTORY a directory. */
int storage_entry_open(int directory, const char *name, int flags, mode_t mode,
                       const char **refusal);

void storage_entry_close(struct storage_entry *entry);

#endif
