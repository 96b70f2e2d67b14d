/* src/mpi/group/group.h: the ranks of a communicator: which of them share this one's space and
 * node, how they wait for one another, share memory, and agree.
 *
 *   task_flags.c       this process as a task, and the ranks of its job
 *   shared_memory.c    memory of rank 0 that all ranks use; holds on the memory of other tasks
 *   progress.c         progress of MPI while the layer waits
 *   progress_thread.c  progress of ranks that compute, by ranks that wait
 *   wait.c             the wait loop, and a barrier
 *   agreement.c        who the ranks are; exchange of records and values */
#ifndef ONESPACE_MPI_GROUP_GROUP_H
#define ONESPACE_MPI_GROUP_GROUP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "mpi/pmpi/pmpi.h"

/* ---- The ranks ---- */

/* The ranks of a communicator. Reference-counted, because windows outlive their communicator. */
struct group {
    _Atomic uint32_t refs; /* any thread; dropping the last one (acquire-release) frees */
    int rank, ranks;
    int is_one_space;
    /* Whether the ranks on this node outnumber the CPUs that they may run on (cpus.h). In one space
     * all ranks have rank 0's answer. */
    int is_oversubscribed;
    uint32_t spin_limit; /* rounds of a wait before it yields the CPU (wait.c) */
    int *pids;           /* by rank; 0: on another node or in another PID namespace */
    int members[];       /* task ids by rank; -1: not in this rank's space. The pids follow. */
};

/* Whether the rank is on this node. All ranks of a node get the same answer about one another. */
static inline int group_is_intra_node(const struct group *group, int rank)
{
    return rank == group->rank || group->is_one_space || group->pids[rank];
}

static inline int group_is_one_node(const struct group *group)
{
    for (int i = 0; i < group->ranks; i++)
        if (!group_is_intra_node(group, i))
            return 0;
    return 1;
}

/* Whether the rank's addresses are valid in this process. */
static inline int group_in_space(const struct group *group, int rank)
{
    return group->members[rank] >= 0;
}

struct group *group_ref(struct group *group);
void group_unref(struct group *group);

/* ---- This process as a task, and the ranks of its job ---- */

/* Whether this process is a task of a space, or its root. */
int task_is_in_space(void);

/* Whether this is a task of a space whose tasks outnumber their CPUs. Relaxed: a hint, which the
 * host changes as tasks start and end. */
int task_shares_cpu(void);

/* Whether this is a guarded task. It maps MAP_SHARED the memory that other ranks write to. */
int task_is_guarded(void);

/* Whether --mpi-layer off was given: the MPI library creates all windows. */
int task_mpi_layer_is_off(void);

/* When the layer starts to serve the collective operations of a communicator. */
enum collectives_mode { COLLECTIVES_NEVER, COLLECTIVES_AT_ONCE, COLLECTIVES_AUTO };
enum collectives_mode task_collectives_mode(void);

/* The word in which a task counts the layer's collective operations. Only if it has any. */
_Atomic uint64_t *task_collectives_counter(void);

/* The word that is set when the task opens a GPU's library; NULL: nothing sets one here. */
const _Atomic uint32_t *task_gpu_flag(void);

/* Whether some rank of the job on this node is known to lack the layer: it is a process, not a task
 * of this space, or has --mpi-layer off. All tasks on the node get the same answer after MPI_Init.
 */
int job_has_ranks_without_layer(void);

/* Whether all `ranks` ranks of the job are tasks of this space with the layer's collective
 * operations. All ranks get the same answer after MPI_Init. */
int job_is_in_space(int ranks);

/* ---- Holds on other tasks' memory ----
 *
 * The memory of a rank that ends without freeing its windows must stay mapped: the other ranks
 * would fault. A hold lasts until it is released or this process ends. */

/* Lets other tasks hold this one. Call it before any of them tries. 0 or -errno. */
int task_hold_enable(void);
/* Holds task `id`; calls nest. Does nothing for the task itself. 0 or -errno. */
int task_hold_acquire(int id);
void task_hold_release(int id);

/* ---- Memory of rank 0 that all ranks use ----
 *
 * Rank 0 frees a block without waiting: it retires the block, which is freed when the last of the
 * other ranks has left it. Their holds keep the memory if rank 0 itself ends. */

enum { SHARED_BLOCK_ALIGN = 128 }; /* a pair of cache lines: the unit that CPUs transfer */

/* Zeroed and aligned to SHARED_BLOCK_ALIGN, for the caller and `others` ranks; NULL: no memory. */
void *shared_block_alloc(size_t size, int others);
/* Called by each of the others after its last access to the block. */
void shared_block_leave(void *block);
/* Called by the owner; the others may still use the block. */
void shared_block_retire(void *block);
/* Called by the owner: frees a block whose address the others never got. */
void shared_block_free(void *block);

/* ---- Progress of MPI ----
 *
 * MPI requires that a send to a rank proceeds while that rank blocks in any MPI call. MPI_Test on
 * an incomplete request makes progress in every library. (MPI_Iprobe does not when it finds a
 * message.) So the layer keeps one incomplete request while any wait is possible. */

/* Bracket all waits; calls are counted. MPI_SUCCESS or an error. */
int progress_enable(void);
void progress_disable(void);

/* MPI_Finalize: the layer calls no MPI function after this. */
void progress_finalize(void);

/* One step of progress, by any thread that is inside an MPI call. Does nothing while another thread
 * makes progress. MPI_SUCCESS or an error. */
int progress_step(void);

/* Whether the caller is inside a step, or another thread makes one. */
int progress_is_stepping(void);

/* The library's own operation would have received what other ranks sent before they entered it, so
 * that one MPI_Iprobe finds it. An operation of the layer ends with progress_after_operation, which
 * makes one step at most. A call of the program that tests and finds nothing catches up while
 * progress is behind, and tests again (mpi/wrap/probes.c). */
int progress_after_operation(void);
int progress_is_behind(void);
/* If it is, steps until one finds nothing. Waits for another thread's step, which may have looked
 * too early. MPI_SUCCESS or an error. */
int progress_catch_up(void);

/* The value of `test`, an MPI call that sets `found`; again after catching up, if it found nothing
 * while progress was behind. Another thread may have caught up since, and the test may have
 * completed a request of the layer's. */
#define PROGRESS_FIND(found, test)                                                                 \
    __extension__({                                                                                \
        int was_behind_ = progress_is_behind(), result_ = (test);                                  \
        progress_note();                                                                           \
        if (result_ == MPI_SUCCESS && !(found) && (was_behind_ || progress_is_behind())) {         \
            result_ = progress_catch_up();                                                         \
            if (result_ == MPI_SUCCESS)                                                            \
                result_ = (test);                                                                  \
        }                                                                                          \
        result_;                                                                                   \
    })

/* Starts a generalised request. MPI_Grequest_complete completes it; its status is empty. */
int progress_grequest_start(MPI_Request *request);

/* ---- Progress of ranks that compute (onespace run --progress) ---- */

/* Starts this rank's progress thread if the task has ONESPACE_SPAWN_PROGRESS, once. The caller is
 * in an MPI call of an initialised library. */
void progress_thread_start(void);
/* Starts a thread of the layer. The process's signals are for the program's threads, but those of
 * faults are not blocked: copies between tasks, and files that were cut, need them. 0 or an errno.
 */
int layer_thread_start(pthread_t *made, void *(*function)(void *), void *argument);
int progress_thread_is_on(void);
/* Before MPI's end. Waits until the thread has left MPI. */
void progress_thread_stop(void);
/* By a rank that has made a step of MPI's progress by itself. */
void progress_note(void);
/* By a rank that waits, between two tests. *asked is 0 when the wait begins. From some time on this
 * wakes the progress threads of other ranks. */
void progress_help_others(uint64_t *asked);

/* ---- Waiting ---- */

/* How a rank waits where tasks outnumber CPUs; zeroed when the wait begins. */
struct backoff {
    uint64_t since_ns; /* the first call of backoff_wait */
};
/* Between two polls: yields the CPU or sleeps. */
void backoff_wait(struct backoff *backoff);

/* One wait. Fill with WAIT_INIT. */
struct wait {
    const struct group *group;
    uint32_t rounds;
    struct backoff backoff; /* if the group is oversubscribed */
    uint64_t asked;         /* of progress_help_others */
    uint64_t next_check_ns; /* time of the next check that all ranks are alive; 0: not set yet */
    uint64_t check_interval_ns;
    /* The other ranks may be waiting for a device, whose kernel threads need this CPU. So the wait
     * soon sleeps: yielding would give the CPU only to ranks of this program. */
    int is_for_io;
    uint64_t lost_ns; /* when a rank was found dead that the wait may need; 0: none was */
    int lost_rank;
    /* Whether the wait may need a rank that has ended. NULL: it may need any. */
    int (*needs)(const void *context, int rank);
    const void *context;
};
#define WAIT_INIT(group_)                                                                          \
    {                                                                                              \
        .group = (group_)                                                                          \
    }

/* One round of a wait: spins, yields or sleeps. MPI_SUCCESS, or an error class after a message when
 * a rank of the group has ended, because the wait might never end. Some time passes between the
 * discovery and the error. In that time the caller sees what the rank did before it ended, and the
 * launcher can end the job with the status of that rank, not of the one that aborts. */
int wait_round(struct wait *wait);

/* How many rounds a wait spins before it yields: many when each rank can have a CPU, because
 * yielding may cost a time slice; few when the CPUs are oversubscribed. */
uint32_t wait_spin_limit(int is_oversubscribed);

/* ---- Barrier ---- */

/* In memory that all ranks share; zeroed memory is a valid barrier. */
struct barrier {
    _Atomic uint32_t arrived;    /* all ranks add; the last resets it, then starts a generation */
    _Atomic uint32_t generation; /* the last adds one (release); the others wait (acquire) */
    /* Set by a rank that stopped waiting; from then on the count means nothing. Relaxed: a rank
     * that does not see it yet stops by itself. */
    _Atomic uint32_t is_broken;
};

/* Writes before any rank's barrier_arrive are visible after barrier_await. barrier_arrive returns
 * the ticket for barrier_await. */
uint32_t barrier_arrive(struct barrier *barrier, int ranks);
int barrier_await(struct barrier *barrier, uint32_t ticket, struct wait *wait);

/* ---- Agreement ----
 *
 * Set up once per communicator and kept as an attribute of it: which ranks share this one's space
 * and node and, if all are in one space, a table in shared memory through which they exchange
 * records without MPI. */

enum { AGREEMENT_RECORD_MAX = 64 }; /* bytes */

struct agreement {
    struct group *group;
    MPI_Comm comm;
    struct agreement_table *table; /* in rank 0's memory; NULL: records go through MPI */
    uint32_t allgathers;           /* calls of agreement_allgather by this rank */
    unsigned char *records;        /* without a table: the records of all ranks */
};

/* Whether all ranks of comm have the layer, so that agreement_get can be called: a rank without it
 * would not answer. The decision uses only what all ranks know:
 *
 *   an agreement exists, or comm has only this rank          1
 *   ONESPACE_MPI_LAYER=all                                   1
 *   some rank of the job on this node lacks the layer        0
 *   comm has ranks outside MPI_COMM_WORLD (spawned or        0
 *   connected processes)
 *   otherwise                                                1
 *
 * Whether ranks on other nodes are processes is unknown. */
int agreement_is_possible(MPI_Comm comm);

/* The agreement of comm's ranks. Collective; lives as long as the communicator. NULL with *error
 * set: out of memory, or MPI failed. NULL without an error: windows cannot be created on comm,
 * which MPI itself will report. */
struct agreement *agreement_get(MPI_Comm comm, int *error);

/* Gives every rank the records of all, `size` bytes each (at most AGREEMENT_RECORD_MAX), in rank
 * order and valid until the next call. Collective. Writes of a rank before the call are visible to
 * all ranks that return. MPI_SUCCESS or an error class, which may differ between ranks: a rank has
 * ended, or MPI failed. */
int agreement_allgather(struct agreement *agreement, const void *record, size_t size,
                        const void **records);

/* ---- Agreement that survives the death of a rank ----
 *
 * For the ranks of a window, or for some of them. It never takes a dead rank's contribution for a
 * live one's, and no rank waits forever. */
struct agreement_comm {
    MPI_Comm comm;             /* of these ranks */
    const struct group *group; /* the window's, whose ranks must be alive; NULL: not initialised */
    int rank, count;           /* in comm */
    struct agreement_word *words; /* NULL after a rank did not answer */
    MPI_Request pending;          /* of the words */
};

/* Local. The caller then sets `comm`, which agreement_comm_free frees. 0 or -ENOMEM. */
int agreement_comm_init(struct agreement_comm *ranks, const struct group *group, int rank,
                        int count);
void agreement_comm_free(struct agreement_comm *ranks);
/* The minimum of all ranks' values. Collective; 0, or -EIO when a rank did not answer. */
int allreduce_min(struct agreement_comm *ranks, int64_t value, int64_t *min);
/* The same in two steps, because ranks may free their windows in different orders. The first waits
 * for no rank; the second must follow if it returned 0. */
int allreduce_min_begin(struct agreement_comm *ranks, int64_t value);
int allreduce_min_end(struct agreement_comm *ranks, int64_t *min);
/* Broadcasts up to 256 bytes from rank 0. Collective; 0, or -EIO when a rank did not answer. A rank
 * that rank 0 did not reach may have other bytes: the ranks must agree afterwards. */
int bcast_root0(struct agreement_comm *ranks, void *data, size_t size);

#endif
