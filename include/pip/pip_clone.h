/* pip/pip_clone.h: the flags of clone(2) with which Process-in-Process 2.4 makes a task. For
 * programs that ask whether the kernel grants them; onespace's own tasks are made by pip_spawn.
 * Since onespace 0.1.0. */
#ifndef PIP_PIP_CLONE_H
#define PIP_PIP_CLONE_H

#include <sched.h>
#include <signal.h>
#ifndef CLONE_VM /* <sched.h> has these with _GNU_SOURCE alone */
#include <linux/sched.h>
#endif

#ifndef INLINE
#define INLINE inline static
#endif

/* The caller's flags with what a task must share, and without what it must not. */
INLINE int pip_clone_flags(int flags)
{
    enum { ENDS_BY = 0xff }; /* the signal at the end, in clone's flags */
    flags &= ~(CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_PARENT | CLONE_THREAD | CLONE_IO |
               CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | ENDS_BY);
    return flags | CLONE_VM | CLONE_SETTLS | CLONE_PTRACE | CLONE_SYSVSEM | SIGCHLD;
}

#endif
