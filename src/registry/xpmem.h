/* src/registry/xpmem.h: what members have made and got through XPMEM. */
#ifndef ONESPACE_REGISTRY_XPMEM_H
#define ONESPACE_REGISTRY_XPMEM_H

#include <linux/limits.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SPACE_XPMEM_PATH = PATH_MAX,
    SPACE_PIDS = 1 << 22, /* the kernel's PID_MAX_LIMIT */
};

struct space_slot;

/* What a member has made and got through XPMEM (xpmem/entries.h). Its threads change it; the reaper
 * resets it when all of them have ended. */
struct space_xpmem_table {
    _Atomic uint64_t free;   /* entries given back: index + 1 of the newest, change count << 32 */
    _Atomic uint32_t used;   /* entries that were ever taken */
    _Atomic uint32_t mapped; /* entries whose memory is there; stays, for the slot's next task */
};
struct space_xpmem {
    struct space_xpmem_table tables[2]; /* enum entry_kind */
    _Atomic uint32_t known;             /* what follows is filled; release */
    uint32_t uid, gid, euid, egid;      /* at the first call */
};

/* XPMEM's calls: results as in xpmem.h, with -errno for failures. */
struct space_xpmem_operations {
    int64_t (*make)(struct space_slot *self, uintptr_t address, size_t size, int permit_type,
                    uintptr_t permit_value);
    long (*remove)(struct space_slot *self, int64_t segid);
    int64_t (*get)(struct space_slot *self, int64_t segid, int flags, int permit_type);
    long (*release)(struct space_slot *self, int64_t apid);
    long (*attach)(struct space_slot *self, int64_t apid, int64_t offset, size_t size,
                   uintptr_t at);
};

#endif
