/* src/mpi/group/agreement.c: see agreement.h.
 *
 * The table has two sets of records, used alternately. A rank that is already in the next gather
 * writes into the other set, and none can be two gathers ahead, since a gather ends only when all
 * ranks have arrived. */
#include "mpi/group/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "mpi/group/barrier.h"
#include "mpi/group/cpus.h"
#include "mpi/group/hold.h"
#include "mpi/group/progress.h"
#include "mpi/group/shared.h"
#include "mpi/group/space.h"
#include "onespace.h"
#include "space/registry.h"

struct agreement_table { /* shared.h */
    struct barrier barrier;
    int is_oversubscribed; /* written by rank 0 before the others get the table's address */
    _Alignas(SHARED_LINE) unsigned char records[]; /* [2][ranks][AGREEMENT_RECORD_MAX] */
};

struct identity { /* what a rank tells the others about itself, once per communicator */
    uint64_t created_ns, boot;
    int32_t root_pid, id; /* id -1: not in a space */
    uint64_t pids; /* inode of the PID namespace: where it differs, pids name other processes */
    int32_t pid;
};

static _Atomic int keyval = MPI_KEYVAL_INVALID; /* set once, by whoever is first */

static void free_agreement(struct agreement *agreement)
{
    struct group *group = agreement->group;
    if (agreement->table && group->rank == 0) {
        shared_retire(agreement->table);
    } else if (agreement->table) {
        shared_leave(agreement->table);
        hold_release(group->members[0]);
    }
    progress_release();
    group_release(group);
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
    static _Atomic uint64_t known; /* all threads find the same; 0: not yet */
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
    static _Atomic uint64_t known; /* all threads find the same; 0: not yet */
    struct stat pids;
    if (!known && stat("/proc/self/ns/pid", &pids) == 0)
        known = pids.st_ino;
    return known;
}

static struct identity identity_of_self(void)
{
    struct identity self = {
        .id = onespace_self(), .boot = hash_boot(), .pids = pid_namespace(), .pid = getpid()};
    if (self.id < 0 || hold_offer() < 0) {
        self.id = -1;
        return self;
    }
    const struct space *space = space_registry();
    self.created_ns = space->created_ns;
    self.root_pid = space->root_pid;
    return self;
}

static int is_same_space(const struct identity *one, const struct identity *other)
{
    return one->id >= 0 && other->id >= 0 && one->created_ns == other->created_ns &&
           one->boot == other->boot && one->root_pid == other->root_pid;
}

static int identify(struct agreement *agreement)
{
    struct group *group = agreement->group;
    struct identity self = identity_of_self();
    struct identity *all = calloc((size_t)group->ranks, sizeof(*all));
    if (!all)
        return MPI_ERR_NO_MEM;
    int result = real()->Allgather(&self, sizeof(self), MPI_BYTE, all, sizeof(self), MPI_BYTE,
                                   agreement->comm);
    int together = 0;
    for (int i = 0; i < group->ranks; i++) {
        group->members[i] = is_same_space(&all[i], &self) ? all[i].id : -1;
        together += group_in_space(group, i);
        group->pids[i] =
            self.pids && all[i].pids == self.pids && all[i].boot == self.boot ? all[i].pid : 0;
    }
    group->is_one_space = result == MPI_SUCCESS && (group->ranks == 1 || together == group->ranks);
    free(all);
    return result;
}

/* Ranks may be bound anew at any time, so answers of several ranks may differ. */
static int is_oversubscribed(const struct group *group)
{
    struct cpus cpus = {0};
    for (int i = 0; i < group->ranks; i++)
        if (group->is_one_space)
            cpus_add(&cpus, onespace_pid(group->members[i]));
        else if (group_is_intra_node(group, i))
            cpus_add(&cpus, i == group->rank ? getpid() : group->pids[i]);
    return cpus_are_fewer(&cpus);
}

/* Rank 0 allocates the table. If it cannot, or another rank cannot hold its memory, all go through
 * MPI. */
static int share_table(struct agreement *agreement)
{
    struct group *group = agreement->group;
    struct agreement_table *table = NULL;
    size_t size = sizeof(*table) + 2 * (size_t)group->ranks * AGREEMENT_RECORD_MAX;
    if (group->rank == 0)
        table = shared_new(size, group->ranks - 1);
    if (table)
        table->is_oversubscribed = is_oversubscribed(group);
    struct agreement_table *offered = table;
    int result = real()->Bcast(&offered, sizeof(offered), MPI_BYTE, 0, agreement->comm);
    if (result != MPI_SUCCESS || !offered) {
        shared_free(table);
        group->is_one_space = 0;
        return result;
    }
    int held = hold_acquire(group->members[0]) == 0, all_hold = 0;
    result = real()->Allreduce(&held, &all_hold, 1, MPI_INT, MPI_MIN, agreement->comm);
    if (result == MPI_SUCCESS && all_hold) {
        agreement->table = offered;
        group->is_oversubscribed = offered->is_oversubscribed;
        return result;
    }
    if (held)
        hold_release(group->members[0]);
    shared_free(table);
    group->is_one_space = 0;
    return result;
}

static struct agreement *new_agreement(MPI_Comm comm)
{
    int rank = 0, ranks = 0;
    struct agreement *agreement = calloc(1, sizeof(*agreement));
    if (real()->Comm_rank(comm, &rank) != MPI_SUCCESS ||
        real()->Comm_size(comm, &ranks) != MPI_SUCCESS || !agreement) {
        free(agreement);
        return NULL;
    }
    (void)progress_hold(); /* without it waiting works, but MPI makes no progress meanwhile */
    agreement->comm = comm;
    agreement->group = calloc(1, sizeof(struct group) + 2 * (size_t)ranks * sizeof(int));
    agreement->records = malloc((size_t)ranks * AGREEMENT_RECORD_MAX);
    if (!agreement->group || !agreement->records) {
        progress_release();
        free(agreement->group);
        free(agreement->records);
        free(agreement);
        return NULL;
    }
    agreement->group->rank = rank;
    agreement->group->pids = &agreement->group->members[ranks];
    agreement->group->ranks = ranks;
    atomic_init(&agreement->group->users, 1);
    return agreement;
}

/* A rank that is out of memory here fails alone: it has no means yet to tell the others. */
static struct agreement *begin_agreement(MPI_Comm comm, int *error)
{
    int is_inter = 0;
    *error = real()->Comm_test_inter(comm, &is_inter);
    if (*error != MPI_SUCCESS || is_inter)
        return NULL;
    struct agreement *agreement = new_agreement(comm);
    if (!agreement) {
        *error = MPI_ERR_NO_MEM;
        return NULL;
    }
    *error = identify(agreement);
    if (*error == MPI_SUCCESS && agreement->group->is_one_space && agreement->group->ranks > 1)
        *error = share_table(agreement);
    if (!agreement->table)
        agreement->group->is_oversubscribed = is_oversubscribed(agreement->group);
    agreement->group->spins = wait_spins(agreement->group->is_oversubscribed);
    if (*error == MPI_SUCCESS)
        *error = real()->Comm_set_attr(comm, keyval, agreement);
    if (*error != MPI_SUCCESS) {
        free_agreement(agreement);
        return NULL;
    }
    return agreement;
}

/* NULL without an error: there is none yet. */
static struct agreement *find_agreement(MPI_Comm comm, int *error)
{
    struct agreement *found = NULL;
    int flag = 0;
    *error = real_make_keyval(&keyval, delete_agreement);
    if (*error == MPI_SUCCESS)
        *error = real()->Comm_get_attr(comm, keyval, &found, &flag);
    return *error == MPI_SUCCESS && flag ? found : NULL;
}

/* Programs that use sessions have no MPI_COMM_WORLD, and spawn no processes. */
static int is_within_world(MPI_Comm comm)
{
    int has_world = 0, strangers = 0;
    MPI_Group world, members, outside;
    if (real()->Initialized(&has_world) != MPI_SUCCESS || !has_world)
        return 1;
    if (real()->Comm_group(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return 0;
    if (real()->Comm_group(comm, &members) != MPI_SUCCESS) {
        real()->Group_free(&world);
        return 0;
    }
    int result = real()->Group_difference(members, world, &outside);
    if (result == MPI_SUCCESS)
        result = real()->Group_size(outside, &strangers);
    if (result == MPI_SUCCESS && strangers) /* without ranks it may be MPI_GROUP_EMPTY */
        real()->Group_free(&outside);
    real()->Group_free(&members);
    real()->Group_free(&world);
    return result == MPI_SUCCESS && !strangers;
}

static int user_says_all(void)
{
    const char *value = getenv("ONESPACE_MPI_LAYER");
    return value && strcmp(value, "all") == 0;
}

int agreement_is_possible(MPI_Comm comm)
{
    int error, ranks = 0;
    if (comm == MPI_COMM_NULL || find_agreement(comm, &error))
        return 1;
    if (real()->Comm_size(comm, &ranks) == MPI_SUCCESS && ranks == 1)
        return 1;
    return user_says_all() || (!space_lacks_ranks() && is_within_world(comm));
}

struct agreement *agreement_of(MPI_Comm comm, int *error)
{
    *error = MPI_SUCCESS;
    struct agreement *found = comm == MPI_COMM_NULL ? NULL : find_agreement(comm, error);
    if (comm == MPI_COMM_NULL || *error != MPI_SUCCESS)
        return NULL;
    return found ? found : begin_agreement(comm, error);
}

int agreement_gather(struct agreement *agreement, const void *mine, size_t size, const void **all)
{
    struct group *group = agreement->group;
    struct agreement_table *table = agreement->table;
    if (!table) {
        *all = agreement->records;
        if (group->ranks == 1) {
            memcpy(agreement->records, mine, size);
            return MPI_SUCCESS;
        }
        return real()->Allgather(mine, (int)size, MPI_BYTE, agreement->records, (int)size, MPI_BYTE,
                                 agreement->comm);
    }
    unsigned char *records =
        table->records + (agreement->gathers++ % 2) * (size_t)group->ranks * AGREEMENT_RECORD_MAX;
    struct wait wait = WAIT_INIT(group);
    memcpy(records + (size_t)group->rank * size, mine, size);
    *all = records;
    return barrier_await(&table->barrier, barrier_arrive(&table->barrier, group->ranks), &wait);
}
