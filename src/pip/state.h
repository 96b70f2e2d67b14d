/* src/pip/state.h: what a PiP root and its tasks share.
 *
 * The state lies in the root's memory. The root exports its address under STATE_EXPORT; a task gets
 * the address of its own record from its spawner, and accepts it when it lies in the state that
 * the spawner exports. Only the root writes records, except where noted; its threads
 * exclude one another by root_lock.
 *
 * States of a record (always the root):
 *
 *   FREE -> STARTING  pip_task_spawn, before the program is started
 *   STARTING -> ALIVE the program was entered; `id` is stored before
 *   STARTING -> FREE  it could not be started
 *   ALIVE -> FREE     the task was waited for; `id` stays: what is imported from it is cancelled
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
    _Atomic int32_t id;     /* onespace's; 0: the PiP id was never used (and the plain root's) */
    _Atomic(void *) export; /* pip_export; the member itself: NULL -> address, once */
    _Atomic(void *) aux;    /* the root before the start, then the member itself */
    /* Blocks of the member's that others gave to pip_free, linked through their first word: others
     * push, the member takes all. */
    _Atomic(void *) returned;
    int pipid;
    /* For the root alone. */
    int held; /* the id of the ended task whose memory is kept, or 0 */
    pip_spawnhook_t after;
    void *hookarg;
    int any_end; /* `after` is called however the task ended */
};

struct state {
    struct shared_header header; /* size: without records */
    int ntasks, mode, quiet;
    void *root_export;
    /* Futex: the root bumps it (release) when a record's state changes; who waits for a task to be
     * spawned loads it (acquire) before looking at the record. */
    _Atomic uint32_t changes;
    pip_mutex_t universal;
    struct record records[]; /* ntasks tasks, then the root */
};

/* What a program of this version writes at the beginning. */
struct shared_header state_header(void);

/* The caller's state and record, or NULL: not initialised, after pip_fin, or in a forked child. */
struct state *state_mine(void);
struct record *state_self(void);
static inline struct record *state_root(struct state *state)
{
    return &state->records[state->ntasks];
}
int state_is_root(void); /* of an initialised library */

/* By pip_init in a task: 0, EPERM when no PiP root spawned the caller, ELIBSCN. */
int state_attach(void);
/* By pip_init and pip_fin in the root; NULL: not any more. */
void state_set_root(struct state *state);
/* By pip_fin in a task. */
void state_detach(void);

/* The record of a PiP id as the caller names it: 0, EPERM, EINVAL or ERANGE. */
int state_find(int pipid, struct record **record);
/* The same if that member is alive, else ESRCH. */
int state_find_alive(int pipid, struct record **record);
/* onespace's id of a member that may be the caller. */
int state_id(const struct record *record);
int state_is_alive(const struct record *record);

extern pthread_mutex_t root_lock;

/* spawn.c: the CPUs that the root may use, for core numbers. */
void spawn_note_cpus(void);
/* export.c: releases the memory of all members that the caller imported from. */
void export_release_all(void);
/* modes.c: the mode that opts and the environment agree on: 0, EINVAL or EPERM. */
int mode_choose(int opts, int *mode);
const char *mode_name(int mode);
char mode_sign(int mode); /* for names in ps */
/* debug.c: handlers for PIP_SHOW_MAPS, PIP_SHOW_PIPS and PIP_GDB_PATH, if the environment asks. */
void debug_prepare(void);
/* start_stop.c: stops the new task, if PIP_STOP_ON_START names it; called by that task. */
void stop_on_start(const char *wanted, int pipid, const char *program);

#endif
