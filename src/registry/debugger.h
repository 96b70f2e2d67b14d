/* src/registry/debugger.h: what a debugger reads of each member. */
#ifndef ONESPACE_REGISTRY_DEBUGGER_H
#define ONESPACE_REGISTRY_DEBUGGER_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

/* What a debugger reads: the layouts are those of struct r_debug_extended and struct link_map of
 * glibc's link.h (2.35 and later). See space/debugger.h. */
struct space_namespace {
    int32_t version; /* SPACE_NAMESPACES: `next` is there */
    int32_t unused;
    /* The first link map, 0: none. Written by the task and cleared by the reaper, with release. */
    _Atomic uintptr_t maps;
    uintptr_t brk, state, loader;
    _Atomic uintptr_t next; /* set once, by compare-and-swap; the tail's by the root's ld.so */
};
#define SPACE_NAMESPACES 2
struct space_link_map {
    uintptr_t bias;
    const char *name;
    uintptr_t dynamic, next, previous;
};
struct space_debug {
    struct space_namespace program, libraries;
    struct space_link_map map; /* of the program */
};

static_assert(sizeof(struct space_namespace) == 48, "as ld.so has it");

#endif
