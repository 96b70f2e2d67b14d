/* cmd/lib/user.h: drops root's privileges before reading the memory or the files of another user.
 *
 * The memory of a space, a core and a file of a user may contain anything. They are read with the
 * rights of that user, so that a defect in the reading code gives the user no additional rights. */
#ifndef ONESPACE_CMD_LIB_USER_H
#define ONESPACE_CMD_LIB_USER_H

#include <stdint.h>
#include <sys/types.h>

/* Gives the calling process that user and group permanently. It keeps no supplementary group and no
 * capability, gets no privileges by execve, and cannot put characters into the input of the
 * terminal (TIOCSTI), which may be root's. Checks all identities afterwards. 0 or -errno; after an
 * error the caller must end. */
int user_become(uid_t uid, gid_t gid);

/* A child that became another user may be stopped by that user, and the memory that it reads may be
 * of a file system that never answers. */
struct user_progress { /* initially 0, except: */
    int reads_only;    /* it writes no file, whose file system may be slow */
    uint64_t ticks;    /* of CPU time */
    uint64_t last,
        waited; /* ns: time of the last call; since `ticks` or `is_stopped` has changed */
    int is_stopped;
};
/* Whether the child has been stopped for a second, or reads only and has used no CPU time for a
 * minute. To be called several times a second. A child that a terminal stops is continued together
 * with the caller. */
int user_is_stuck(struct user_progress *progress, pid_t child);
/* Waits for the child, and kills it if it is stuck. 0 with its status, or -errno: -ETIMEDOUT if it
 * could not be killed. */
int user_await(pid_t child, int reads_only, int *status);

/* Opens a file for reading that another user's program has named: a descriptor, or -errno, -EINVAL
 * if it is not a regular file. Nothing else is opened, because opening a FIFO blocks, and opening
 * some devices has effects. */
int user_open_regular(const char *path);

/* A number, initially 0, that this process shares with its children. A child that became another
 * user may return a result in it, which the parent must check. NULL: out of memory. */
int32_t *user_shared_number(void);

#endif
