/* src/registry/operations.h: what other programs call in the root's copy of the library. */
#ifndef ONESPACE_REGISTRY_OPERATIONS_H
#define ONESPACE_REGISTRY_OPERATIONS_H

#include <stdint.h>

#include "registry/xpmem.h"

/* Functions of the root's copy of the library, which stays mapped as long as the space exists. Code
 * that is called on tasks' threads must not be unmapped with the program that spawned them. */
struct space;
struct space_slot;
struct child;
struct space_operations {
    /* By the agent, once; the first of its ld.so's link maps, or 0. */
    void (*task_attached)(struct space_slot *self, uintptr_t link_map);
    long (*interpose)(struct space_slot *self, long nr, const long arguments[6]);
    long (*prepare)(struct space *space, struct space_slot *slot);
    long (*child_clone)(struct child *child, int as_sibling);
    struct space_xpmem_operations xpmem;
    void (*thread_exit)(struct space_slot *self, int status); /* in place of _exit: no return */
};

/* Where the root's copy of the library has its code, for unwinders of tasks (agent/unwind.c). */
struct space_unwind {
    uintptr_t code_low, code_high;
    uintptr_t table;            /* its .eh_frame_hdr, 0: none */
    uintptr_t trampoline_frame; /* arch_trampoline_frame */
};

#endif
