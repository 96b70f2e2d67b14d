/* src/host/runtime_dir.h: the directory where the sockets of a user's spaces lie. */
#ifndef ONESPACE_HOST_RUNTIME_DIR_H
#define ONESPACE_HOST_RUNTIME_DIR_H

#include <stddef.h>

/* The end of a message: what to do where the directory cannot be made or written to. */
#define RUNTIME_DIR_FIX                                                                            \
    ": set XDG_RUNTIME_DIR to a directory of yours that can be written, with mode 0700"

/* The directory that there is: 0, or -errno when there is none that is the user's alone. */
int runtime_dir_find(char *path, size_t size);
/* Makes the directory if needed and checks that it is the user's alone (mode 0700, no link): in
 * XDG_RUNTIME_DIR, else in /tmp, under another name where another user has taken that. 0, -ESTALE:
 * it was removed meanwhile, try again; or another -errno with *message. */
int runtime_dir_open(char *path, size_t size, char *message, size_t message_size);
/* Takes the directory's lock, which orders the start and the end of hosts: a descriptor to close,
 * or -errno. -ESTALE: the directory was removed meanwhile, open it again. -EPERM: it is
 * another user's. */
int runtime_dir_lock(const char *path);

#endif
