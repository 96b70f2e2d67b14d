/* src/parallel/spawned_team.c: teams whose members the caller spawns (onespace_parallel_init).
 *
 * The new tasks run the caller's program from its beginning up to onespace_parallel_init. That call
 * recognises them by a pointer to the team's block, which they get from the spawn and in the
 * environment. Programs that they start inherit only the environment. */
#include "onespace.h"
#include "parallel/team.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"

#define WORKER_VARIABLE "ONESPACE_PARALLEL_WORKER"

enum { END_TIMEOUT_MS = 1000 };

extern char **environ;

static struct team_block *find_worker_block(void)
{
    void *data = NULL, *from_environment = NULL;
    const char *text = getenv(WORKER_VARIABLE);
    if (!text || sscanf(text, "%p", &from_environment) != 1 || onespace_spawner(&data) < 0 ||
        data != from_environment)
        return NULL;
    unsetenv(WORKER_VARIABLE);
    return data;
}

/* Runs the team's regions until it is dismissed. The export's name contains the pointer, because
 * the block must not be read before it is held. */
static int run_worker(struct team_block *block)
{
    char name[TEAM_EXPORT_NAME];
    void *held;
    int spawner = onespace_spawner(NULL);
    snprintf(name, sizeof(name), TEAM_NAME ".made.%p", (void *)block);
    int result = onespace_import(spawner, name, &held, NULL, 0);
    if (result == 0)
        result = team_check_block(block);
    if (result < 0)
        return result;
    int number = (int)atomic_fetch_add(&block->workers, 1) + 1;
    struct onespace_parallel *team = team_new((int)block->count, number, block);
    if (!team)
        return -ENOMEM;
    team->owner_id = spawner;
    team->is_spawned = 1;
    result = team_enter(team);
    if (result == 0)
        result = team_synchronize(team);
    if (result == 0)
        result = team_serve(team);
    team_leave(team);
    return result;
}

/* The environment with the variable added. The caller frees the vector. */
static char **worker_environment(char *variable)
{
    size_t count = 0;
    while (environ && environ[count])
        count++;
    char **result = calloc(count + 2, sizeof(*result));
    if (!result)
        return NULL;
    if (count > 0)
        memcpy(result, environ, count * sizeof(*result));
    result[count] = variable;
    return result;
}

static int program_path(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length < 0)
        return -errno;
    path[length] = 0;
    return 0;
}

/* ids[] is in the order of the spawns. The tasks' numbers may differ: they are assigned in the
 * order in which the tasks reach onespace_parallel_init. */
static int spawn_workers(struct onespace_parallel *team, char *const argv[], int ids[])
{
    char path[PATH_MAX], variable[64];
    int result = program_path(path, sizeof(path));
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    attr.data = team->block;
    snprintf(variable, sizeof(variable), WORKER_VARIABLE "=%p", (void *)team->block);
    char **environment = result == 0 ? worker_environment(variable) : NULL;
    if (result == 0 && !environment)
        result = -ENOMEM;
    for (int i = 1; i < team->count && result >= 0; i++) {
        result = onespace_spawn(path, argv, environment, &attr);
        ids[i] = result > 0 ? result : 0;
    }
    free(environment);
    return result < 0 ? result : 0;
}

/* Waits until all workers have a number, and then synchronizes with them. Only the spawner can find
 * that a worker ended before it had a number. */
static int await_workers(struct onespace_parallel *team, const int ids[])
{
    const struct timespec pause = {0, 200000};
    for (;;) {
        int joined = 0;
        for (int i = 1; i < team->count; i++)
            joined += atomic_load_explicit(&team->block->members[i].id, memory_order_acquire) != 0;
        if (joined == team->count - 1)
            return team_synchronize(team);
        for (int i = 1; i < team->count; i++)
            if (member_has_ended(ids[i]))
                return -EOWNERDEAD;
        nanosleep(&pause, NULL);
    }
}

/* All have the same time to end in. Those that do not are killed, and then collected. */
static void wait_or_kill_workers(const int ids[], int count)
{
    uint64_t deadline = futex_deadline(END_TIMEOUT_MS);
    for (int i = 1; i < count; i++) {
        uint64_t now = futex_now_ns();
        int left_ms = now < deadline ? (int)((deadline - now) / 1000000) : 0;
        if (ids[i] > 0 && onespace_wait(ids[i], NULL, left_ms) == -ETIMEDOUT)
            (void)!onespace_kill(ids[i], SIGKILL);
    }
    for (int i = 1; i < count; i++)
        if (ids[i] > 0)
            (void)!onespace_wait(ids[i], NULL, -1);
}

void team_end_workers(struct onespace_parallel *team)
{
    struct team_region dismissal = {.order = ORDER_DISMISS};
    int is_lost = team_fork(team, &dismissal) < 0;
    int *ids = team->worker_ids;
    for (int i = 1; i < team->count && !is_lost; i++)
        (void)!onespace_wait(ids[i], NULL, -1);
    if (is_lost)
        wait_or_kill_workers(ids, team->count);
    free(ids);
}

static int count_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int spawn_team(struct onespace_parallel **result_team, int count, char *const argv[])
{
    struct onespace_parallel *team = team_new(count, 0, NULL);
    int *ids = calloc((size_t)count, sizeof(*ids));
    int result = team && ids ? 0 : -ENOMEM;
    if (result == 0) {
        team->is_spawned = 1;
        team->worker_ids = ids;
        snprintf(team->block->export_name, TEAM_EXPORT_NAME, TEAM_NAME ".made.%p",
                 (void *)team->block);
        result = team_enter(team);
    }
    if (result == 0) {
        result = spawn_workers(team, argv, ids);
        if (result == 0)
            result = await_workers(team, ids);
        if (result == 0) {
            *result_team = team;
            return 0;
        }
        team_break(team->block, 0);
        wait_or_kill_workers(ids, count);
        team_leave(team);
    } else if (team) {
        team_free(team);
    }
    free(ids);
    return result;
}

int onespace_parallel_init(struct onespace_parallel **team, int count, char *const argv[])
{
    struct team_block *block = find_worker_block();
    if (block)
        exit(run_worker(block) == 0 ? 0 : 1);
    if (count < 0 || !argv || !argv[0])
        return -EINVAL;
    int was_member = onespace_self() >= 0;
    int self = onespace_init();
    if (self < 0)
        return self;
    int result = spawn_team(team, count ? count : count_cpus(), argv);
    if (result == 0)
        (*team)->created_space = !was_member && self == ONESPACE_ROOT;
    else if (!was_member && self == ONESPACE_ROOT)
        (void)!onespace_fini();
    return result;
}
