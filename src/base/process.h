/* src/base/process.h: what /proc/PID/stat says of a process. Freestanding. */
#ifndef ONESPACE_BASE_PROCESS_H
#define ONESPACE_BASE_PROCESS_H

#include <stdint.h>

struct process_stat {
    char name[32]; /* the kernel cuts it to 15 bytes */
    char state;    /* 'R', 'S', …; 'Z' and 'X' have ended */
    int parent;
    uint64_t flags;                    /* the kernel's PF_… */
    uint64_t user_ticks, system_ticks; /* CPU time; sysconf(_SC_CLK_TCK) ticks a second */
    uint64_t start_ticks;              /* since the machine was started */
};

/* In flags: the process has not executed a program since it was cloned (PF_FORKNOEXEC). */
#define PROCESS_NOT_EXECUTED UINT64_C(0x40)

/* 0; -ENOENT or -ESRCH when there is no such process; -errno when it cannot be told. */
long process_read(int pid, struct process_stat *stat);

#endif
