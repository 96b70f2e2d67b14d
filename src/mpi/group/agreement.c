/* src/mpi/group/agreement.c: see agreement.h.
 *
 * The table has two sets of records, used in turn: a rank that is already in the next gather writes
 * into the other set, and it cannot be two gathers ahead, since each ends when all have come. */
#include "mpi/group/agreement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mpi/group/barrier.h"
#include "mpi/group/hold.h"
#include "mpi/group/progress.h"
#include "mpi/group/shared.h"
#include "onespace.h"
#include "space/registry.h"

struct meeting_table { /* shared.h */
    struct barrier barrier;
    _Alignas(SHARED_LINE) unsigned char records[]; /* [2][ranks][MEETING_RECORD_MAX] */
};

struct identity { /* what a rank tells the others about itself, once per communicator */
    uint64_t created_ns, boot;
    int32_t root_pid, id; /* id -1: not in a space */
    uint64_t pids;        /* tells apart where pids mean different processes */
    int32_t pid;
};

static _Atomic int keyval = MPI_KEYVAL_INVALID; /* set once, by whoever is first */

static void free_meeting(struct meeting *meeting)
{
    struct party *party = meeting->party;
    if (meeting->table && party->rank == 0) {
        shared_retire(meeting->table);
    } else if (meeting->table) {
        shared_leave(meeting->table);
        hold_give(party->members[0]);
    }
    progress_release();
    party_release(party);
    free(meeting->records);
    free(meeting);
}

/* The communicator is freed. */
static int delete_meeting(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)extra;
    free_meeting(value);
    return MPI_SUCCESS;
}

static int make_keyval(void)
{
    int made = MPI_KEYVAL_INVALID, none = MPI_KEYVAL_INVALID;
    int result = real()->Comm_create_keyval(real_no_copy, delete_meeting, &made, NULL);
    if (result == MPI_SUCCESS && !atomic_compare_exchange_strong(&keyval, &none, made))
        real()->Comm_free_keyval(&made); /* another thread was first */
    return result;
}

/* Tells machines apart on which the same root pid made a space at the same moment after boot. */
static uint64_t hash_boot(void)
{
    char text[64] = "";
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(text, sizeof(text), file))
        text[0] = 0;
    if (file)
        fclose(file);
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    return hash;
}

static struct identity identity_of_self(void)
{
    struct stat pids = {0};
    struct identity self = {.id = onespace_self(), .boot = hash_boot(), .pid = getpid()};
    if (stat("/proc/self/ns/pid", &pids) == 0)
        self.pids = pids.st_ino;
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

static int identify(struct meeting *meeting)
{
    struct party *party = meeting->party;
    struct identity self = identity_of_self();
    struct identity *all = calloc((size_t)party->ranks, sizeof(*all));
    if (!all)
        return MPI_ERR_NO_MEM;
    int result = real()->Allgather(&self, sizeof(self), MPI_BYTE, all, sizeof(self), MPI_BYTE,
                                   meeting->comm);
    int together = 0;
    for (int i = 0; i < party->ranks; i++) {
        party->members[i] = is_same_space(&all[i], &self) ? all[i].id : -1;
        together += party_in_space(party, i);
        party->pids[i] =
            self.pids && all[i].pids == self.pids && all[i].boot == self.boot ? all[i].pid : 0;
    }
    party->is_one_space = result == MPI_SUCCESS && (party->ranks == 1 || together == party->ranks);
    free(all);
    return result;
}

/* Rank 0 makes the table; if it cannot, or another rank cannot hold it, all do without. */
static int share_table(struct meeting *meeting)
{
    struct party *party = meeting->party;
    struct meeting_table *table = NULL;
    size_t size = sizeof(*table) + 2 * (size_t)party->ranks * MEETING_RECORD_MAX;
    if (party->rank == 0)
        table = shared_new(size, party->ranks - 1);
    struct meeting_table *offered = table;
    int result = real()->Bcast(&offered, sizeof(offered), MPI_BYTE, 0, meeting->comm);
    if (result != MPI_SUCCESS || !offered) {
        shared_free(table);
        party->is_one_space = 0;
        return result;
    }
    int held = hold_take(party->members[0]) == 0, all_hold = 0;
    result = real()->Allreduce(&held, &all_hold, 1, MPI_INT, MPI_MIN, meeting->comm);
    if (result == MPI_SUCCESS && all_hold) {
        meeting->table = offered;
        return result;
    }
    if (held)
        hold_give(party->members[0]);
    shared_free(table);
    party->is_one_space = 0;
    return result;
}

static struct meeting *new_meeting(MPI_Comm comm)
{
    int rank = 0, ranks = 0;
    struct meeting *meeting = calloc(1, sizeof(*meeting));
    if (real()->Comm_rank(comm, &rank) != MPI_SUCCESS ||
        real()->Comm_size(comm, &ranks) != MPI_SUCCESS || !meeting) {
        free(meeting);
        return NULL;
    }
    (void)progress_hold(); /* without it waiting works, but lets MPI do nothing meanwhile */
    meeting->comm = comm;
    meeting->party = calloc(1, sizeof(struct party) + 2 * (size_t)ranks * sizeof(int));
    meeting->records = malloc((size_t)ranks * MEETING_RECORD_MAX);
    if (!meeting->party || !meeting->records) {
        progress_release();
        free(meeting->party);
        free(meeting->records);
        free(meeting);
        return NULL;
    }
    meeting->party->rank = rank;
    meeting->party->pids = &meeting->party->members[ranks];
    meeting->party->ranks = ranks;
    meeting->party->spins = wait_spins(ranks);
    atomic_init(&meeting->party->users, 1);
    return meeting;
}

/* A rank without memory for a few words cannot tell the others. */
static struct meeting *begin_meeting(MPI_Comm comm, int *error)
{
    int is_inter = 0;
    *error = real()->Comm_test_inter(comm, &is_inter);
    if (*error != MPI_SUCCESS || is_inter)
        return NULL;
    struct meeting *meeting = new_meeting(comm);
    if (!meeting) {
        *error = MPI_ERR_NO_MEM;
        return NULL;
    }
    *error = identify(meeting);
    if (*error == MPI_SUCCESS && meeting->party->is_one_space && meeting->party->ranks > 1)
        *error = share_table(meeting);
    if (*error == MPI_SUCCESS)
        *error = real()->Comm_set_attr(comm, keyval, meeting);
    if (*error != MPI_SUCCESS) {
        free_meeting(meeting);
        return NULL;
    }
    return meeting;
}

struct meeting *meeting_of(MPI_Comm comm, int *error)
{
    struct meeting *found = NULL;
    int flag = 0;
    *error = MPI_SUCCESS;
    if (comm == MPI_COMM_NULL)
        return NULL;
    if (keyval == MPI_KEYVAL_INVALID && (*error = make_keyval()) != MPI_SUCCESS)
        return NULL;
    *error = real()->Comm_get_attr(comm, keyval, &found, &flag);
    if (*error != MPI_SUCCESS)
        return NULL;
    return flag ? found : begin_meeting(comm, error);
}

int meeting_gather(struct meeting *meeting, const void *mine, size_t size, const void **all)
{
    struct party *party = meeting->party;
    struct meeting_table *table = meeting->table;
    if (!table) {
        *all = meeting->records;
        if (party->ranks == 1) {
            memcpy(meeting->records, mine, size);
            return MPI_SUCCESS;
        }
        return real()->Allgather(mine, (int)size, MPI_BYTE, meeting->records, (int)size, MPI_BYTE,
                                 meeting->comm);
    }
    unsigned char *records =
        table->records + (meeting->gathers++ % 2) * (size_t)party->ranks * MEETING_RECORD_MAX;
    struct wait wait = WAIT_INIT(party);
    memcpy(records + (size_t)party->rank * size, mine, size);
    *all = records;
    return barrier_await(&table->barrier, barrier_arrive(&table->barrier, party->ranks), &wait);
}
