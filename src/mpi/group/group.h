/* src/mpi/group/group.h: the ranks of a communicator: who they are, how they wait for one another,
 * share memory, and agree. */
#ifndef ONESPACE_MPI_GROUP_GROUP_H
#define ONESPACE_MPI_GROUP_GROUP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/pmpi/pmpi.h"

/* ---- The ranks ---- */

/* the ranks that use windows together. */

/* The ranks of a communicator. Reference-counted, since windows outlive their communicator. */
struct group {
    _Atomic uint32_t
        users; /* references: any thread; dropping the last one (acquire-release) frees */
    int rank, ranks;
    int is_one_space;
    /* Whether the ranks on this node outnumber the CPUs that they may run on (cpus.h). In one space
     * all ranks have rank 0's answer. */
    int is_oversubscribed;
    uint32_t spins; /* of a wait, before it yields the CPU (wait.c) */
    int *pids;      /* by rank; 0: on another node or in another PID namespace */
    int members[];  /* task ids by rank; -1: not in this rank's space. The pids follow. */
};

/* Whether the rank is on this node. Symmetric: all ranks of a node get the same answer about one
 * another. */
static inline int group_is_intra_node(const struct group *group, int rank)
{
    return rank == group->rank || group->is_one_space || group->pids[rank];
}

/* Whether the rank's addresses are valid in this process. */
static inline int group_in_space(const struct group *group, int rank)
{
    return group->members[rank] >= 0;
}

struct group *group_ref(struct group *group);
void group_unref(struct group *group);

/* ---- This process as a task, and the ranks of its job ---- */

/* this process and its space. */

/* Whether this process is a task of a space (or its root). */
int task_is_in_space(void);

/* Whether this is a guarded task: what other ranks are to write to is then mapped MAP_SHARED. */
int task_is_guarded(void);

/* Whether --mpi-layer off was given: creating windows is left to the MPI library. */
int task_mpi_layer_is_off(void);

/* When a communicator's collective operations become the layer's. */
enum collectives_mode { COLLECTIVES_NEVER, COLLECTIVES_AT_ONCE, COLLECTIVES_AUTO };
enum collectives_mode task_collectives_mode(void);

/* Where a task counts the layer's collective operations; only if it wants them. */
_Atomic uint64_t *task_collectives_counter(void);

/* Where a task is told that it has opened the library of a GPU; NULL: this process is not told. */
const _Atomic uint32_t *task_gpu_flag(void);

/* Whether some rank of the job on this node is known to lack the layer: it is a process, not a task
 * of this space, or has --mpi-layer off. All tasks on the node get the same answer after MPI_Init.
 */
int job_has_ranks_without_layer(void);

/* Whether all ranks of the job, so many, are tasks of this space that want that. All get the same
 * answer after MPI_Init. */
int job_is_in_space(int ranks);

/* ---- Holds on other tasks' memory ---- */

/* keeps the memory of other tasks while this process uses windows in it.
 *
 * The memory of a rank that ends without freeing its windows must stay mapped: the other ranks
 * would fault. A hold lasts until it is released or this process ends. */

/* Lets others hold this task; to be called before any of them tries. 0 or -errno. */
int hold_enable(void);
/* Holds task `id`; calls nest. Nothing to do for the task itself. 0 or -errno. */
int hold_acquire(int id);
void hold_release(int id);

/* ---- Memory of rank 0 that all ranks use ---- */

/* memory of rank 0 that other tasks use, too.
 *
 * No rank waits to free it: rank 0 retires a block, which is freed when the last of the others has
 * left. Their holds (hold.h) keep the memory while rank 0 itself ends. */

enum { SHARED_BLOCK_ALIGN = 128 }; /* what CPUs transfer at once: a pair of cache lines */

/* Zeroed and aligned to SHARED_BLOCK_ALIGN, for the caller and `others` ranks; NULL: no memory. */
void *shared_block_alloc(size_t size, int others);
/* Called by one of the others: it will not touch the block again. */
void shared_block_leave(void *block);
/* Called by the owner; the others may still use the block. */
void shared_block_retire(void *block);
/* Called by the owner: frees a block whose address the others never got. */
void shared_block_free(void *block);

/* ---- Progress of MPI ---- */

/* lets MPI make progress while the layer waits.
 *
 * MPI requires that a send to a rank proceeds while that rank blocks in any MPI call. The call that
 * makes progress in every library is MPI_Test on an incomplete request (MPI_Iprobe does not when
 * there is a message to find), so one such request is kept as long as anything may wait. */

/* Bracket all waits; calls are counted. MPI_SUCCESS or an error. */
int progress_enable(void);
void progress_disable(void);

/* MPI_Finalize: no function of MPI is called from here on. */
void progress_finalize(void);

/* One step of progress, by any thread that is inside an MPI call. Does nothing while another thread
 * makes progress. MPI_SUCCESS or an error. */
int progress_step(void);

/* Progress at the end of an operation of the layer: steps until one finds nothing. The library's
 * own operation would have received what other ranks sent before they entered it, so that one
 * MPI_Iprobe finds it. Waits for another thread's step, which may have looked too early. */
int progress_until_idle(void);

/* A generalised request: it completes by MPI_Grequest_complete, and its status is empty. */
int progress_grequest_start(MPI_Request *request);

/* ---- Waiting ---- */

/* waits for another rank in shared memory, while MPI makes progress. */

/* One wait. Fill with WAIT_INIT. */
struct wait {
    const struct group *group;
    uint32_t rounds;
    uint64_t look_at; /* ns: when to check next that all ranks are alive; 0: not set yet */
    uint64_t pause;   /* ns, from that check to the next one */
    /* The others may be waiting for a device, whose kernel threads need this CPU. So the wait soon
     * sleeps: yielding would give the CPU to ranks of this program only. */
    int is_for_io;
};
#define WAIT_INIT(group_)                                                                          \
    {                                                                                              \
        (group_), 0, 0, 0, 0                                                                       \
    }

/* One round of a wait: spins, yields or sleeps. MPI_SUCCESS, or an error class after a message when
 * a rank of the group has ended: the wait might never end. */
int wait_round(struct wait *wait);

/* How many rounds ranks spin before they yield: many when each can have a CPU, since yielding may
 * cost a time slice; few when the CPUs are oversubscribed. */
uint32_t wait_spin_limit(int is_oversubscribed);

/* ---- Barrier ---- */

/* a barrier of ranks that share memory. */

/* In memory that all ranks share; zeroed memory is a valid barrier. */
struct barrier {
    _Atomic uint32_t
        arrived; /* all ranks add; the last resets it before it opens the next generation */
    _Atomic uint32_t generation; /* the last adds one (release); the others wait for it (acquire) */
    /* Set by a rank that gave up, after which the count means nothing. Relaxed: a rank that does
     * not see it yet gives up by itself. */
    _Atomic uint32_t is_broken;
};

/* Writes before any rank's barrier_arrive are visible after barrier_await. barrier_arrive returns
 * the ticket for barrier_await. */
uint32_t barrier_arrive(struct barrier *barrier, int ranks);
int barrier_await(struct barrier *barrier, uint32_t ticket, struct wait *wait);

/* ---- Agreement ---- */

/* how the ranks of a communicator exchange what they have to agree on.
 *
 * Set up once per communicator and kept as an attribute of it: which ranks share this one's space
 * and node and, when all are in one space (or there is only one rank), a table in shared memory
 * through which they exchange records without MPI. */

enum { AGREEMENT_RECORD_MAX = 64 };

struct agreement {
    struct group *group;
    MPI_Comm comm;
    struct agreement_table *table; /* in rank 0's memory; NULL: records go through MPI */
    uint32_t gathers;              /* so far, by this rank */
    unsigned char *records;        /* without a table: room for all records */
};

/* Whether all ranks of comm have the layer, so that agreement_get can be called: a rank without it
 * would not answer. Decided by what each rank knows, which the others know, too:
 *
 *   an agreement exists, or comm has this rank only         1
 *   ONESPACE_MPI_LAYER=all, by which the user says so        1
 *   some rank of the job on this node lacks the layer        0
 *   comm has ranks that are not in MPI_COMM_WORLD: spawned   0
 *   or connected processes
 *   else                                                     1
 *
 * Not known is whether ranks on other nodes are processes. */
int agreement_is_possible(MPI_Comm comm);

/* The agreement of comm's ranks. Collective; lives as long as the communicator. NULL with *error
 * set: out of memory, or MPI failed. NULL without an error: no communicator to create windows on,
 * which MPI itself will report. */
struct agreement *agreement_get(MPI_Comm comm, int *error);

/* Gives every rank the records of all, `size` bytes each (at most AGREEMENT_RECORD_MAX), in rank
 * order and valid until the next call. Collective; what a rank wrote before the call is visible to
 * those that return. MPI_SUCCESS or an error class, which may differ between ranks: a rank has
 * ended, or MPI failed. */
int agreement_allgather(struct agreement *agreement, const void *mine, size_t size,
                        const void **all);

/* ---- Agreement over MPI that survives the death of a rank ---- */

/* Ranks that agree with one another on values. */
struct agreement_comm {
    MPI_Comm comm;                /* of these ranks, for collective calls */
    const struct group *group;    /* the window's, whose ranks have to be alive; NULL: not begun */
    int rank, count;              /* in comm */
    struct agreement_word *words; /* NULL after a rank did not answer */
    MPI_Request pending;          /* of the words */
};

/* Local; the caller sets `comm`, which agreement_comm_free frees. 0 or -ENOMEM. */
int agreement_comm_init(struct agreement_comm *ranks, const struct group *group, int rank,
                        int count);
void agreement_comm_free(struct agreement_comm *ranks);
/* The least value of these ranks. Collective; 0, or -EIO when a rank did not answer. Also in two
 * steps: the first waits for no rank, and the second follows when it returned 0. */
int allreduce_min(struct agreement_comm *ranks, int64_t mine, int64_t *least);
int allreduce_min_begin(struct agreement_comm *ranks, int64_t mine);
int allreduce_min_end(struct agreement_comm *ranks, int64_t *least);
/* Sends up to 256 bytes of rank 0 to all. Collective; 0, or -EIO when a rank did not answer. A rank
 * that rank 0 did not reach may have other bytes: the ranks agree afterwards. */
int bcast_root0(struct agreement_comm *ranks, void *data, size_t size);

#endif
