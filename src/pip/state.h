/* src/pip/state.h: the state that a PiP root and its tasks share, and this library's internals.
 *
 * The state lies in the root's memory. The root exports its address under STATE_EXPORT; a task gets
 * the address of its own record from its spawner, and accepts it if it lies in the state that the
 * spawner exports. Only the root writes records, except where noted. Its threads take root_lock.
 *
 * States of a record. The root makes all transitions:
 *
 *   FREE -> STARTING   pip_task_spawn, before it starts the program
 *   STARTING -> ALIVE  the program was entered; `id` is stored before
 *   STARTING -> FREE   the program could not be started
 *   ALIVE -> FREE      pip_wait has collected the status; `id` stays, so that imports are cancelled
 */
#ifndef ONESPACE_PIP_STATE_H
#define ONESPACE_PIP_STATE_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/shared_header.h"
#include "pip/pip.h"

#define STATE_MAGIC  UINT64_C(0x315f70697062696c) /* "libpip_1" */
#define STATE_EXPORT "libpip"

enum record_state { RECORD_FREE, RECORD_STARTING, RECORD_ALIVE };

struct record {
    _Atomic uint32_t state; /* enum record_state */
    _Atomic int32_t id; /* onespace's; 0: the PiP id was never used, or a root that is not a task */
    _Atomic(void *) export; /* pip_export; the member itself: NULL -> address, once */
    _Atomic(void *) aux;    /* the root before the start, then the member itself */
    /* Blocks of this member that others passed to pip_free, linked through their first word. Others
     * push, the member pops all. */
    _Atomic(void *) returned;
    int pipid;
    /* Only the root reads and writes these. */
    int held; /* the id of the ended task whose memory is kept, or 0 */
    pip_spawnhook_t after;
    void *hookarg;
    int any_end; /* `after` is called however the task ended */
};

struct state {
    struct shared_header header; /* size: without records */
    int ntasks, mode, quiet;
    void *root_export;
    /* Futex: the root bumps it (release) when a record's state changes. A thread that waits for a
     * spawn loads it (acquire) before the record. */
    _Atomic uint32_t changes;
    pip_mutex_t universal;
    struct record records[]; /* ntasks tasks, then the root */
};

/* The caller's state and record, or NULL: not initialised, after pip_fin, or in a forked child. */
struct state *state_mine(void);
struct record *state_self(void);
static inline struct record *state_root(struct state *state)
{
    return &state->records[state->ntasks];
}
int state_is_root(void); /* of an initialised library */

/* Finds the record of a PiP id, or of PIP_PIPID_MYSELF or _ROOT: 0, EPERM, EINVAL or ERANGE. */
int state_find(int pipid, struct record **record);
/* The same if that member is alive, else ESRCH. */
int state_find_alive(int pipid, struct record **record);
/* onespace's id of a member that may be the caller. */
int state_id(const struct record *record);
int state_is_alive(const struct record *record);
/* The record of the member with that id, which may have ended; or NULL. */
struct record *state_record_of(struct state *state, int id);

extern pthread_mutex_t root_lock;

/* Determines the CPUs that core numbers refer to (task.c). */
void spawn_find_usable_cpus(void);
/* Releases the memory of all members that the caller imported from (export.c). */
void export_release_all(void);
char mode_sign(int mode); /* the character after R or the PiP id in thread names */
/* Installs the handlers of PIP_SHOW_MAPS, PIP_SHOW_PIPS and PIP_GDB_PATH, if one is set
 * (messages.c). */
void debug_install_handlers(void);

#endif
