/* src/host/room/room.c: see room.h. */
#include "host/room/room.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/room/cgroup.h"
#include "host/room/groups.h"
#include "host/room/mappings.h"

/* What the space and each of its ranks need. A static program has 10 mappings, a dynamic one 25, a
 * rank of MPICH 100, of Open MPI 165. Open MPI's ranks have three threads, and each has a shim.
 * Where mappings are short, the shim has a rank of Open MPI load less, which then has 114. */
struct need {
    uint64_t own, each;
};
static const struct {
    const char *what, *limit, *unit;
    struct need least, likely;
} kinds[ROOM_KINDS] = {
    {"descriptors", "ulimit -Hn", "", {24, 1}, {24, 1}},
    {"mappings", "vm.max_map_count", "", {60, 10}, {100, 125}},
    {"processes", "ulimit -u and pids.max", "", {0, 1}, {4, 4}},
    {"memory", "the machine's memory and memory.max", " KiB", {4096, 128}, {32768, 8192}},
};

static uint64_t needed(const struct need *need, uint64_t ranks)
{
    return need->own + ranks * need->each;
}

static unsigned fitting(const struct need *need, uint64_t there)
{
    uint64_t ranks = there < need->own ? 0 : (there - need->own) / need->each;
    return ranks < UINT_MAX ? (unsigned)ranks : UINT_MAX;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
        return ROOM_UNLIMITED;
    return limit.rlim_max;
}

/* Processes and threads of this user, as RLIMIT_NPROC counts them. */
static uint64_t users_threads(void)
{
    uint64_t count = 0;
    char path[64];
    struct stat status;
    DIR *list = opendir("/proc");
    for (struct dirent *entry; list && (entry = readdir(list));) {
        snprintf(path, sizeof(path), "/proc/%.16s/task", entry->d_name);
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && stat(path, &status) == 0 &&
            status.st_uid == getuid() && status.st_nlink > 2)
            count += status.st_nlink - 2;
    }
    if (list)
        closedir(list);
    return count;
}

static uint64_t processes(void)
{
    static const char *const names[2] = {"pids.max", "pids.max"};
    uint64_t left = groups_left("pids", names, "pids.current"), taken;
    struct rlimit limit;
    if (getuid() == 0 || getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return left; /* the limit does not bind root */
    taken = users_threads();
    return lower(left, limit.rlim_cur > taken ? limit.rlim_cur - taken : 0);
}

/* In KiB, or ROOM_UNLIMITED. It counts the whole space. */
static uint64_t address_space(void)
{
    struct rlimit limit;
    int is_set = getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return is_set ? limit.rlim_cur / 1024 : ROOM_UNLIMITED;
}

/* KiB. A group's limit counts, not what is left of it: much of what is taken is page cache. */
static uint64_t memory(void)
{
    static const char *const names[2] = {"memory.max", "memory.limit_in_bytes"};
    uint64_t group = groups_limit("memory", names);
    uint64_t free = (cgroup_machine("MemAvailable") + cgroup_machine("SwapFree")) / 1024;
    group = group == GROUPS_UNLIMITED ? group : group / 1024;
    return lower(lower(free ? free : ROOM_UNLIMITED, group), address_space());
}

/* The next power of two, for limits that people type. */
static uint64_t rounded(uint64_t value)
{
    uint64_t power = 1024;
    while (power < value)
        power *= 2;
    return power;
}

static void advise(enum room_kind kind, struct room *room)
{
    size_t size = sizeof(room->fix);
    uint64_t wanted = rounded(room->likely);
    if (kind == ROOM_DESCRIPTORS)
        snprintf(room->fix, size, "raise it: ulimit -Hn %" PRIu64 " (limits.conf, LimitNOFILE=)",
                 wanted);
    else if (kind == ROOM_MAPPINGS)
        snprintf(room->fix, size, "raise it: sysctl -w vm.max_map_count=%" PRIu64,
                 wanted < 262144 ? 262144 : wanted);
    else if (kind == ROOM_PROCESSES)
        snprintf(room->fix, size,
                 "raise what binds: ulimit -u %" PRIu64 ", or the cgroup's pids.max (TasksMax=)",
                 wanted);
    else if (address_space() != ROOM_UNLIMITED)
        snprintf(room->fix, size, "lift it: ulimit -v unlimited");
    else
        snprintf(room->fix, size, "ask for more memory, or start fewer ranks on the node");
}

void room_look(enum room_kind kind, unsigned ranks, struct room *room)
{
    static uint64_t (*const there[ROOM_KINDS])(void) = {descriptors, mappings_allowed, processes,
                                                        memory};
    *room = (struct room){.what = kinds[kind].what,
                          .limit = kinds[kind].limit,
                          .unit = kinds[kind].unit,
                          .there = there[kind](),
                          .least = needed(&kinds[kind].least, ranks),
                          .likely = needed(&kinds[kind].likely, ranks)};
    if (kind == ROOM_MEMORY && address_space() != ROOM_UNLIMITED)
        room->limit = "ulimit -v, which counts the whole space";
    room->fit_least = fitting(&kinds[kind].least, room->there);
    room->fit_likely = fitting(&kinds[kind].likely, room->there);
    advise(kind, room);
}

int room_is_short(unsigned ranks)
{
    static const struct need usual = {100, 170};
    return needed(&usual, ranks) > mappings_allowed();
}

int room_check(enum room_starter starter, unsigned ranks, char *message, size_t size)
{
    struct room room;
    int result = 0;
    for (unsigned kind = 0; kind < ROOM_KINDS; kind++) {
        if (kind == ROOM_DESCRIPTORS && starter == ROOM_BY_HAND)
            continue;
        room_look(kind, ranks, &room);
        if (room.least > room.there) {
            snprintf(message, size,
                     "%u ranks do not fit on this node: they need %" PRIu64 "%s %s at least, and "
                     "there are %" PRIu64 " (%s), enough for %u; %s",
                     ranks, room.least, room.unit, room.what, room.there, room.limit,
                     room.fit_least, room.fix);
            return -EAGAIN;
        }
        if (result || room.likely <= room.there || starter == ROOM_BY_HAND)
            continue;
        snprintf(message, size,
                 "%u ranks of an MPI program may not fit on this node: they take about %" PRIu64
                 "%s %s, and there are %" PRIu64 " (%s), enough for about %u; %s",
                 ranks, room.likely, room.unit, room.what, room.there, room.limit, room.fit_likely,
                 room.fix);
        result = 1;
    }
    return result;
}

static int mappings_run_out(void)
{
    struct mappings mappings;
    mappings_count(&mappings);
    return mappings_are_gone(&mappings);
}

/* What a rank of this program takes at least is what the largest has so far. */
static void advise_mappings(const struct mappings *mappings, unsigned ranks, struct room *room)
{
    uint64_t wanted = 2 * ranks * mappings->largest;
    if (wanted > room->likely)
        room->likely = wanted;
    advise(ROOM_MAPPINGS, room);
}

int room_say_mappings(unsigned running, unsigned ranks, char *message, size_t size)
{
    struct mappings mappings;
    struct room room;
    size_t length = strlen(message);
    mappings_count(&mappings);
    room_look(ROOM_MAPPINGS, ranks, &room);
    advise_mappings(&mappings, ranks, &room);
    length += (size_t)snprintf(message + length, size - length,
                               "%sout of mappings (vm.max_map_count): %u of %u ranks run",
                               length ? ": " : "", running, ranks);
    if (mappings.largest && length < size)
        length += (size_t)snprintf(message + length, size - length,
                                   ", and the largest has %" PRIu64 " of %" PRIu64
                                   ", which is enough for %" PRIu64 " such",
                                   mappings.largest, mappings.most_there,
                                   mappings.most_there / mappings.largest);
    if (length < size)
        snprintf(message + length, size - length, "; %s", room.fix);
    return mappings_are_gone(&mappings);
}

void room_explain(int error, unsigned started, unsigned ranks, char *message, size_t size)
{
    enum { NEXT_TO_NONE = 64 };
    struct room room;
    enum room_kind kind = ROOM_MEMORY;
    size_t length = strlen(message);
    if (error == -EMFILE || error == -ENFILE)
        kind = ROOM_DESCRIPTORS;
    else if (error == -EAGAIN)
        kind = ROOM_PROCESSES;
    else if (error != -ENOMEM)
        return;
    else if (mappings_run_out()) {
        (void)room_say_mappings(started, ranks, message, size);
        return;
    }
    room_look(kind, ranks, &room);
    if (kind == ROOM_PROCESSES && room.there > NEXT_TO_NONE)
        return; /* the space is full, or the rank was killed */
    snprintf(message + length, size - length, "%sout of %s (%s): %u of %u ranks run; %s",
             length ? ": " : "", room.what, room.limit, started, ranks, room.fix);
}
