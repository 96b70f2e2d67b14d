/* src/mpi/group/agreement.c: the ranks of a communicator find out who they are, and agree. */
#include "mpi/group/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "mpi/group/cpus.h"
#include "onespace.h"
#include "space/registry.h"

struct group *group_ref(struct group *group)
{
    atomic_fetch_add_explicit(&group->refs, 1, memory_order_relaxed);
    return group;
}

void group_unref(struct group *group)
{
    if (group && atomic_fetch_sub_explicit(&group->refs, 1, memory_order_acq_rel) == 1)
        free(group);
}

/* In a shared block. It has two sets of records, used alternately: a rank that is already in the
 * next call writes to the other set, and no rank is two calls ahead, because a call ends only when
 * all ranks have arrived. */
struct agreement_table {
    struct barrier barrier;
    int is_oversubscribed; /* written by rank 0 before the first barrier, read after it */
    /* Number of ranks that cannot hold the table's memory: each adds itself before the first
     * barrier, and all read it afterwards. Relaxed. */
    _Atomic int without_hold;
    _Alignas(SHARED_BLOCK_ALIGN) unsigned char records[]; /* [2][ranks][AGREEMENT_RECORD_MAX] */
};

struct identity { /* exchanged once per communicator */
    uint64_t created_ns, boot;
    int32_t root_pid, id;   /* id -1: not in a space */
    uint64_t pid_namespace; /* its inode: pids of another namespace name other processes */
    int32_t pid;
    struct agreement_table *table; /* rank 0's, for all ranks; NULL: it offers none */
};

static _Atomic int keyval = MPI_KEYVAL_INVALID; /* set once, by the first thread */

static void free_agreement(struct agreement *agreement)
{
    struct group *group = agreement->group;
    if (agreement->table && group->rank == 0) {
        shared_block_retire(agreement->table);
    } else if (agreement->table) {
        shared_block_leave(agreement->table);
        task_hold_release(group->members[0]);
    }
    progress_disable();
    group_unref(group);
    free(agreement->records);
    free(agreement);
}

/* Attribute callback: the communicator is freed. */
static int delete_agreement(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    free_agreement(value);
    return MPI_SUCCESS;
}

/* Distinguishes machines on which the same root pid created a space at the same time since boot. */
static uint64_t hash_boot(void)
{
    static _Atomic uint64_t known; /* the same for all threads; 0: not yet */
    char text[64] = "";
    if (known)
        return known;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(text, sizeof(text), file))
        text[0] = 0;
    if (file)
        fclose(file);
    uint64_t found = hash_text(HASH_SEED, text);
    known = found;
    return found;
}

/* The inode of this process's PID namespace, in which it stays; 0: unknown. */
static uint64_t pid_namespace(void)
{
    static _Atomic uint64_t known; /* the same for all threads; 0: not yet */
    struct stat status;
    if (!known && stat("/proc/self/ns/pid", &status) == 0)
        known = status.st_ino;
    return known;
}

static struct identity identity_of_self(void)
{
    struct identity self = {.id = onespace_self(),
                            .boot = hash_boot(),
                            .pid_namespace = pid_namespace(),
                            .pid = getpid()};
    if (self.id < 0 || task_hold_enable() < 0) {
        self.id = -1;
        return self;
    }
    const struct space *space = space_registry();
    self.created_ns = space->created_ns;
    self.root_pid = space->root_pid;
    return self;
}

static int is_same_space(const struct identity *a, const struct identity *b)
{
    return a->id >= 0 && b->id >= 0 && a->created_ns == b->created_ns && a->boot == b->boot &&
           a->root_pid == b->root_pid;
}

/* Nonblocking, because the library's wait would keep the CPU from the ranks that it waits for. Open
 * MPI's yields the CPU (src/launch/mpi_defaults.c). */
static int exchange(const struct identity *self, struct identity *all, MPI_Comm comm)
{
    MPI_Request request;
    struct backoff backoff = {0};
    int is_done = 0;
    int result = pmpi()->Iallgather(self, sizeof(*self), MPI_BYTE, all, sizeof(*all), MPI_BYTE,
                                    comm, &request);
    if (result == MPI_SUCCESS && (pmpi_is_open_mpi() || !task_shares_cpu()))
        return pmpi()->Wait(&request, MPI_STATUS_IGNORE);
    while (result == MPI_SUCCESS && !is_done) {
        result = pmpi()->Test(&request, &is_done, MPI_STATUS_IGNORE);
        if (!is_done)
            backoff_wait(&backoff);
    }
    return result;
}

/* By rank 0, which does not use the table that it has offered. If a rank has died in the exchange,
 * another one may know more than rank 0, and use it: then it stays. */
static void discard_table(struct agreement_table *table, int is_complete)
{
    if (is_complete)
        shared_block_free(table);
    else
        shared_block_retire(table);
}

/* Finds the ranks of this one's space and node, and the table that rank 0 offers; NULL: the ranks
 * are not in one space, or rank 0 has no memory. */
static int identify(struct agreement *agreement, struct agreement_table **table)
{
    struct group *group = agreement->group;
    size_t size = sizeof(**table) + 2 * (size_t)group->ranks * AGREEMENT_RECORD_MAX;
    struct identity *all = calloc((size_t)group->ranks + 1, sizeof(*all));
    if (!all)
        return MPI_ERR_NO_MEM;
    struct identity *self = &all[group->ranks]; /* what this rank sends, behind what it receives */
    *self = identity_of_self();
    if (group->rank == 0 && group->ranks > 1 && self->id >= 0)
        self->table = shared_block_alloc(size, group->ranks - 1);
    int result = exchange(self, all, agreement->comm);
    if (result != MPI_SUCCESS)
        return result; /* MPI may still use the identities, and other ranks the table: both stay */
    int in_space = 0, is_complete = 1;
    for (int i = 0; i < group->ranks; i++) {
        group->members[i] = is_same_space(&all[i], self) ? all[i].id : -1;
        in_space += group_in_space(group, i);
        is_complete &= all[i].pid != 0;
        group->pids[i] = self->pid_namespace && all[i].pid_namespace == self->pid_namespace &&
                                 all[i].boot == self->boot
                             ? all[i].pid
                             : 0;
    }
    group->is_one_space = group->ranks == 1 || in_space == group->ranks;
    *table = group->is_one_space ? all[0].table : NULL;
    if (!*table) {
        if (self->table)
            discard_table(self->table, is_complete);
        group->is_one_space = group->ranks == 1;
    }
    free(all);
    return MPI_SUCCESS;
}

/* Ranks may be bound to other CPUs at any time, so the ranks may get different answers. A group
 * that has a CPU for each rank shares them with the job's other ranks. */
static int is_oversubscribed(const struct group *group)
{
    struct cpu_demand demand = {0};
    if (task_shares_cpu())
        return 1;
    for (int i = 0; i < group->ranks; i++)
        if (group->is_one_space)
            cpu_demand_add(&demand, onespace_pid(group->members[i]));
        else if (group_is_intra_node(group, i))
            cpu_demand_add(&demand, i == group->rank ? getpid() : group->pids[i]);
    return cpu_demand_exceeds_cpus(&demand);
}

/* Takes rank 0's table. If a rank cannot hold its memory, all ranks use MPI. Such a rank relies on
 * rank 0, which waits for it, and uses the table only if rank 0 has not ended. */
static int share_table(struct agreement *agreement, struct agreement_table *table)
{
    struct group *group = agreement->group;
    struct wait wait = WAIT_INIT(group);
    int has_hold = task_hold_acquire(group->members[0]) == 0;
    if (!has_hold && onespace_pid(group->members[0]) == -ESRCH)
        return MPI_ERR_OTHER;
    if (!has_hold)
        atomic_fetch_add_explicit(&table->without_hold, 1, memory_order_relaxed);
    if (group->rank == 0)
        table->is_oversubscribed = is_oversubscribed(group);
    int result =
        barrier_await(&table->barrier, barrier_arrive(&table->barrier, group->ranks), &wait);
    if (result == MPI_SUCCESS &&
        !atomic_load_explicit(&table->without_hold, memory_order_relaxed)) {
        agreement->table = table;
        group->is_oversubscribed = table->is_oversubscribed;
        return result;
    }
    if (group->rank == 0)
        shared_block_retire(table);
    else if (result == MPI_SUCCESS)
        shared_block_leave(table);
    if (has_hold)
        task_hold_release(group->members[0]);
    group->is_one_space = 0;
    return result;
}

static struct agreement *new_agreement(MPI_Comm comm)
{
    int rank = 0, ranks = 0;
    struct agreement *agreement = calloc(1, sizeof(*agreement));
    if (pmpi()->Comm_rank(comm, &rank) != MPI_SUCCESS ||
        pmpi()->Comm_size(comm, &ranks) != MPI_SUCCESS || !agreement) {
        free(agreement);
        return NULL;
    }
    (void)progress_enable(); /* if it fails, MPI makes no progress during waits */
    agreement->comm = comm;
    agreement->group = calloc(1, sizeof(struct group) + 2 * (size_t)ranks * sizeof(int));
    agreement->records = malloc((size_t)ranks * AGREEMENT_RECORD_MAX);
    if (!agreement->group || !agreement->records) {
        progress_disable();
        free(agreement->group);
        free(agreement->records);
        free(agreement);
        return NULL;
    }
    agreement->group->rank = rank;
    agreement->group->pids = &agreement->group->members[ranks];
    agreement->group->ranks = ranks;
    atomic_init(&agreement->group->refs, 1);
    return agreement;
}

/* A rank that is out of memory here fails alone: it cannot tell the other ranks yet. */
static struct agreement *begin_agreement(MPI_Comm comm, int *error)
{
    int is_inter = 0;
    *error = pmpi()->Comm_test_inter(comm, &is_inter);
    if (*error != MPI_SUCCESS || is_inter)
        return NULL;
    struct agreement *agreement = new_agreement(comm);
    if (!agreement) {
        *error = MPI_ERR_NO_MEM;
        return NULL;
    }
    struct group *group = agreement->group;
    struct agreement_table *table = NULL;
    group->is_oversubscribed = task_shares_cpu();
    group->spin_limit = wait_spin_limit(group->is_oversubscribed);
    *error = identify(agreement, &table);
    if (*error == MPI_SUCCESS && table)
        *error = share_table(agreement, table);
    if (!agreement->table)
        group->is_oversubscribed = is_oversubscribed(group);
    group->spin_limit = wait_spin_limit(group->is_oversubscribed);
    if (*error == MPI_SUCCESS)
        *error = pmpi()->Comm_set_attr(comm, keyval, agreement);
    if (*error != MPI_SUCCESS) {
        free_agreement(agreement);
        return NULL;
    }
    return agreement;
}

/* NULL without an error: the communicator has none yet. */
static struct agreement *find_agreement(MPI_Comm comm, int *error)
{
    struct agreement *found = NULL;
    int flag = 0;
    *error = pmpi_create_keyval(&keyval, delete_agreement);
    if (*error == MPI_SUCCESS)
        *error = pmpi()->Comm_get_attr(comm, keyval, &found, &flag);
    return *error == MPI_SUCCESS && flag ? found : NULL;
}

/* Programs that use sessions have no MPI_COMM_WORLD, and spawn no processes. */
static int is_within_world(MPI_Comm comm)
{
    int outsiders = 0;
    MPI_Group world, members, outside;
    if (!pmpi_has_world())
        return 1;
    if (pmpi()->Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return 0;
    if (pmpi()->Comm_group(comm, &members) != MPI_SUCCESS) {
        pmpi()->Group_free(&world);
        return 0;
    }
    int result = pmpi()->Group_difference(members, world, &outside);
    if (result == MPI_SUCCESS)
        result = pmpi()->Group_size(outside, &outsiders);
    if (result == MPI_SUCCESS && outsiders) /* an empty group may be MPI_GROUP_EMPTY */
        pmpi()->Group_free(&outside);
    pmpi()->Group_free(&members);
    pmpi()->Group_free(&world);
    return result == MPI_SUCCESS && !outsiders;
}

static int layer_is_on_all_ranks(void)
{
    const char *value = getenv("ONESPACE_MPI_LAYER");
    return value && strcmp(value, "all") == 0;
}

int agreement_is_possible(MPI_Comm comm)
{
    int error, ranks = 0;
    if (comm == MPI_COMM_NULL || find_agreement(comm, &error))
        return 1;
    if (pmpi()->Comm_size(comm, &ranks) == MPI_SUCCESS && ranks == 1)
        return 1;
    return layer_is_on_all_ranks() || (!job_has_ranks_without_layer() && is_within_world(comm));
}

struct agreement *agreement_get(MPI_Comm comm, int *error)
{
    *error = MPI_SUCCESS;
    struct agreement *found = comm == MPI_COMM_NULL ? NULL : find_agreement(comm, error);
    if (comm == MPI_COMM_NULL || *error != MPI_SUCCESS)
        return NULL;
    return found ? found : begin_agreement(comm, error);
}

int agreement_allgather(struct agreement *agreement, const void *record, size_t size,
                        const void **records)
{
    struct group *group = agreement->group;
    struct agreement_table *table = agreement->table;
    if (!table) {
        *records = agreement->records;
        if (group->ranks == 1) {
            memcpy(agreement->records, record, size);
            return MPI_SUCCESS;
        }
        return pmpi()->Allgather(record, (int)size, MPI_BYTE, agreement->records, (int)size,
                                 MPI_BYTE, agreement->comm);
    }
    unsigned char *set = table->records + (agreement->allgathers++ % 2) * (size_t)group->ranks *
                                              AGREEMENT_RECORD_MAX;
    struct wait wait = WAIT_INIT(group);
    memcpy(set + (size_t)group->rank * size, record, size);
    *records = set;
    return barrier_await(&table->barrier, barrier_arrive(&table->barrier, group->ranks), &wait);
}

/* ---- Agreement that survives the death of a rank ---- */

/* MPI promises nothing once a rank has died. MPICH 4.0 over UCX's TCP then completes an allreduce
 * with success and with whatever was in memory, and a commit would seem complete. So every word
 * carries its rank and the number of the call, which no earlier word had, and each rank checks all
 * words. MPI's blocking calls wait forever for a rank that has left by _exit, so the wait is a loop
 * that also checks that all ranks are alive. */

struct agreement_word {
    uint64_t call; /* its number; the first is 1 */
    int64_t rank, value;
};

enum {
    BCAST_MAX_BYTES = 256 /* stored after the words */
};

int agreement_comm_init(struct agreement_comm *ranks, const struct group *group, int rank,
                        int count)
{
    *ranks = (struct agreement_comm){
        .comm = MPI_COMM_NULL,
        .group = group,
        .rank = rank,
        .count = count,
        .words = calloc(1, ((size_t)count + 1) * sizeof(struct agreement_word) + BCAST_MAX_BYTES),
        .pending = MPI_REQUEST_NULL,
    };
    return ranks->words ? 0 : -ENOMEM;
}

void agreement_comm_free(struct agreement_comm *ranks)
{
    if (ranks->group && ranks->comm != MPI_COMM_NULL)
        pmpi()->Comm_free(&ranks->comm);
    free(ranks->words);
    ranks->words = NULL;
}

int allreduce_min_begin(struct agreement_comm *ranks, int64_t value)
{
    struct agreement_word *words = ranks->words, *own = words + ranks->count;
    if (!words)
        return -EIO;
    memset(words, 0, (size_t)ranks->count * sizeof(*words));
    *own = (struct agreement_word){own->call + 1, ranks->rank, value};
    return pmpi()->Iallgather(own, sizeof(*own), MPI_BYTE, words, sizeof(*words), MPI_BYTE,
                              ranks->comm, &ranks->pending) == MPI_SUCCESS
               ? 0
               : -EIO;
}

/* 0 or -EIO. After an error the words are leaked, because MPI may still write to them. */
static int await_pending(struct agreement_comm *ranks)
{
    struct wait wait = WAIT_INIT(ranks->group);
    int is_done = 0, result = MPI_SUCCESS;
    wait.is_for_io = 1;
    do
        result = pmpi()->Test(&ranks->pending, &is_done, MPI_STATUS_IGNORE);
    while (result == MPI_SUCCESS && !is_done && (result = wait_round(&wait)) == MPI_SUCCESS);
    if (result == MPI_SUCCESS)
        return 0;
    ranks->words = NULL;
    return -EIO;
}

int allreduce_min_end(struct agreement_comm *ranks, int64_t *min)
{
    const struct agreement_word *words = ranks->words, *own = words + ranks->count;
    if (await_pending(ranks) < 0)
        return -EIO;
    *min = own->value;
    for (int i = 0; i < ranks->count; i++) {
        if (words[i].call != own->call || words[i].rank != i)
            return -EIO;
        *min = words[i].value < *min ? words[i].value : *min;
    }
    return 0;
}

int bcast_root0(struct agreement_comm *ranks, void *data, size_t size)
{
    struct agreement_word *words = ranks->words;
    if (!words || size > BCAST_MAX_BYTES)
        return -EIO;
    /* Not the caller's memory: MPI might still write to it after this rank has stopped waiting. */
    void *buffer = words + ranks->count + 1;
    memcpy(buffer, data, size);
    if (pmpi()->Ibcast(buffer, (int)size, MPI_BYTE, 0, ranks->comm, &ranks->pending) != MPI_SUCCESS)
        return -EIO;
    if (await_pending(ranks) < 0)
        return -EIO;
    memcpy(data, buffer, size);
    return 0;
}

int allreduce_min(struct agreement_comm *ranks, int64_t value, int64_t *min)
{
    int result = allreduce_min_begin(ranks, value);
    return result == 0 ? allreduce_min_end(ranks, min) : result;
}
