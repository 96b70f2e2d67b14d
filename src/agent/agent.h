/* src/agent/agent.h: declarations that the agent's files share. Freestanding. */
#ifndef ONESPACE_AGENT_AGENT_H
#define ONESPACE_AGENT_AGENT_H

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "space/registry.h"

#define EXPORTED __attribute__((visibility("default")))
#define WEAK     __attribute__((weak))

/* libc's: RTLD_NEXT finds what comes after the agent. NULL in a program of glibc 2.33 or older that
 * has no libdl. */
extern void *dlsym(void *restrict, const char *restrict) WEAK;
extern void *dlopen(const char *, int) WEAK;
extern char *dlerror(void) WEAK;
extern int dladdr(const void *, Dl_info *) WEAK;
extern int dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *) WEAK;
extern int *__errno_location(void) WEAK;
extern unsigned long getauxval(unsigned long) WEAK;

/* NULL outside a space, or if the space is another version's. Set once, before the program's first
 * constructor. */
extern struct space *agent_space;
/* Likewise; else a slot of zeroes, so that free() need not check. */
extern struct space_slot *agent_self;
/* Start of the task's range; 0 outside a space, and without interposition, where the task's memory
 * is not confined to the range. */
extern uintptr_t agent_low;

/* agent.c: writes the path of a file beside the agent: 0 or -1. */
int sibling_path(const char *name, char *path, size_t size);

/* free.c: finds the allocator's own functions. Called at the task's start, because a filter of the
 * program's own may later forbid the system calls that this makes; an earlier free calls it, too.
 */
void find_libc_free(void);

/* registrations.c: creates the thread that hears of unmapped memory: 0, or -1 if there can be none.
 */
int start_notifier(void);
/* registrations.c: by the agent's constructor. */
void find_next_ioctl(void);

/* mpi.c: called before main, when the libraries that the program is linked with are loaded. */
void disable_ucx_sysv(void);
void place_symmetric_heap(void);
void check_launcher(void);

#endif
