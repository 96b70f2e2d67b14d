/* parallel: teams of tasks.
 *
 *   parallel made COUNT CASE    the program makes the team
 *   parallel joined COUNT CASE  it is one of the tasks that were started together
 *
 * Each case checks its results, prints "ok" in member 0, and prints what was wrong. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onespace/parallel.h"

enum { LENGTH = 1000, MEMBERS = 64 };

/* REGION(name): what each member of the team does in that case. */
typedef int region(struct onespace_parallel *team, void *unused);
#define REGION(name)                                                                               \
    static int name(struct onespace_parallel *team, void *unused __attribute__((unused)))

static int own_global = 1; /* each member's own */

#define EXPECT(condition) expect((condition), #condition, __LINE__)
static int failures;

static void expect(int holds, const char *what, int line)
{
    if (!holds)
        fprintf(stderr, "line %d: %s does not hold\n", line, what);
    failures += !holds;
}

/* Which member has made which iteration, and how often it was made; shared by the team. */
struct mark {
    int *counts, *members;
    int number;
};

static void mark_part(long begin, long end, void *argument)
{
    struct mark *mark = argument;
    for (long i = begin; i < end; i++) {
        __atomic_fetch_add(&mark->counts[i + LENGTH], 1, __ATOMIC_RELAXED);
        mark->members[i + LENGTH] = mark->number;
    }
}

static void check_counts(const int *counts, long begin, long end)
{
    int wrong = 0;
    for (long i = -LENGTH; i < LENGTH; i++)
        wrong += counts[i + LENGTH] != (i >= begin && i < end);
    EXPECT(wrong == 0);
}

static void *shared(struct onespace_parallel *team, const char *name, size_t size)
{
    void *address = NULL;
    EXPECT(onespace_parallel_shared(team, name, size, &address) == 0);
    return address;
}

static struct mark mark_of(struct onespace_parallel *team)
{
    return (struct mark){shared(team, "counts", 2 * LENGTH * sizeof(int)),
                         shared(team, "members", 2 * LENGTH * sizeof(int)),
                         onespace_parallel_number(team)};
}

REGION(loops)
{
    static const long bounds[][2] = {{0, LENGTH}, {-7, 30}, {5, 6}, {3, 3}, {4, -4}, {-LENGTH, 0}};
    static const long schedules[] = {ONESPACE_PARALLEL_STATIC,     ONESPACE_PARALLEL_DYNAMIC(1),
                                     ONESPACE_PARALLEL_DYNAMIC(7), ONESPACE_PARALLEL_CYCLIC(1),
                                     ONESPACE_PARALLEL_CYCLIC(9),  ONESPACE_PARALLEL_DYNAMIC(5000)};
    struct mark mark = mark_of(team);
    for (unsigned b = 0; b < sizeof(bounds) / sizeof(bounds[0]); b++)
        for (unsigned s = 0; s < sizeof(schedules) / sizeof(schedules[0]); s++) {
            if (mark.number == 0)
                memset(mark.counts, 0, 2 * LENGTH * sizeof(int));
            EXPECT(onespace_parallel_barrier(team) == 0);
            EXPECT(onespace_parallel_for(team, bounds[b][0], bounds[b][1], schedules[s], mark_part,
                                         &mark) == 0);
            check_counts(mark.counts, bounds[b][0], bounds[b][1]);
            EXPECT(onespace_parallel_barrier(team) == 0);
        }
    return failures != 0;
}

/* Which member has which iteration of the two fixed schedules. */
REGION(shares)
{
    int count = onespace_parallel_count(team), wrong = 0, least = LENGTH, most = 0;
    struct mark mark = mark_of(team);
    int shares[MEMBERS] = {0};
    EXPECT(onespace_parallel_for(team, 0, 100, ONESPACE_PARALLEL_CYCLIC(3), mark_part, &mark) == 0);
    for (int i = 0; i < 100; i++)
        wrong += mark.members[i + LENGTH] != i / 3 % count;
    EXPECT(wrong == 0);
    EXPECT(onespace_parallel_barrier(team) == 0);
    EXPECT(onespace_parallel_for(team, 0, 100, ONESPACE_PARALLEL_STATIC, mark_part, &mark) == 0);
    for (int i = 0; i < 100; i++) {
        shares[mark.members[i + LENGTH]]++;
        wrong += i > 0 && mark.members[i + LENGTH] < mark.members[i + LENGTH - 1];
    }
    for (int i = 0; i < count; i++) {
        least = shares[i] < least ? shares[i] : least;
        most = shares[i] > most ? shares[i] : most;
    }
    EXPECT(wrong == 0);
    EXPECT(most - least <= 1);
    return failures != 0;
}

enum { DYNAMIC_CHUNKS = 40, HANG_MS = 180000 };

static int count_marked(const struct mark *mark)
{
    int marked = 0;
    for (int i = 0; i < DYNAMIC_CHUNKS; i++)
        marked += __atomic_load_n(&mark->counts[i + LENGTH], __ATOMIC_RELAXED) != 0;
    return marked;
}

/* The slowest member gets little of a dynamic loop: it stays in its first chunk until the others
 * have done all that they can. */
static void slow_part(long begin, long end, void *argument)
{
    struct mark *mark = argument;
    mark_part(begin, end, argument);
    for (int ms = 0; mark->number == 0 && count_marked(mark) < DYNAMIC_CHUNKS && ms < HANG_MS; ms++)
        usleep(1000);
}

REGION(dynamic)
{
    struct mark mark = mark_of(team);
    int of_slow = 0;
    EXPECT(onespace_parallel_for(team, 0, DYNAMIC_CHUNKS, ONESPACE_PARALLEL_DYNAMIC(1), slow_part,
                                 &mark) == 0);
    for (int i = 0; i < DYNAMIC_CHUNKS; i++)
        of_slow += mark.members[i + LENGTH] == 0;
    EXPECT(of_slow <= 1);
    return failures != 0;
}

static void longest(void *into, const void *from, size_t count)
{
    char(*a)[8] = into;
    const char(*b)[8] = from;
    for (size_t i = 0; i < count; i++)
        if (strlen(b[i]) > strlen(a[i]))
            memcpy(a[i], b[i], 8);
}

static int reduce_longs(struct onespace_parallel *team, long *values, size_t count)
{
    return onespace_parallel_reduce(team, values, count, ONESPACE_PARALLEL_LONG,
                                    ONESPACE_PARALLEL_SUM);
}

static int reduce_doubles(struct onespace_parallel *team, double *values, size_t count, int op)
{
    return onespace_parallel_reduce(team, values, count, ONESPACE_PARALLEL_DOUBLE, op);
}

REGION(reduce)
{
    int me = onespace_parallel_number(team), n = onespace_parallel_count(team), wrong = 0;
    static double numbers[LENGTH];
    for (int round = 0; round < 50; round++) {
        long values[3] = {me + round, -me, me};
        EXPECT(reduce_longs(team, values, 3) == 0);
        EXPECT(values[0] == n * (n - 1) / 2 + n * round && values[1] == -values[2]);
        double lowest = 0.5 + (me + round) % n, highest = lowest;
        EXPECT(reduce_doubles(team, &lowest, 1, ONESPACE_PARALLEL_MIN) == 0);
        EXPECT(reduce_doubles(team, &highest, 1, ONESPACE_PARALLEL_MAX) == 0);
        EXPECT(lowest == 0.5 && highest == n - 0.5);
    }
    for (int i = 0; i < LENGTH; i++)
        numbers[i] = i + 1e-3 * me;
    EXPECT(reduce_doubles(team, numbers, LENGTH, ONESPACE_PARALLEL_SUM) == 0);
    for (int i = 0; i < LENGTH; i++) {
        double sum = i;
        for (int m = 1; m < n; m++)
            sum += i + 1e-3 * m; /* in the order of the numbers: the same bits */
        wrong += numbers[i] != sum;
    }
    EXPECT(wrong == 0);
    char word[8] = "a";
    memset(word, 'a', (size_t)(me % 7));
    EXPECT(onespace_parallel_combine(team, word, 1, 8, longest) == 0);
    EXPECT(strlen(word) == (size_t)(n < 7 ? n > 1 ? n - 1 : 1 : 6));
    return failures != 0;
}

REGION(shared_memory)
{
    int me = onespace_parallel_number(team), n = onespace_parallel_count(team);
    void *none = &none;
    char name[ONESPACE_PARALLEL_NAME_MAX + 2];
    long *sum = shared(team, "sum", 5000);
    EXPECT(sum[0] == 0 || sum[0] < n);
    __atomic_fetch_add(sum, 1, __ATOMIC_RELAXED);
    EXPECT(onespace_parallel_barrier(team) == 0);
    EXPECT(*sum == n && ((uintptr_t)sum & 4095) == 0);
    EXPECT(onespace_parallel_shared(team, "sum", 5001, &none) == -EEXIST);
    EXPECT(onespace_parallel_shared(team, "", 1, &none) == -EINVAL);
    EXPECT(onespace_parallel_shared(team, "empty", 0, &none) == -EINVAL);
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = 0;
    EXPECT(onespace_parallel_shared(team, name, 8, &none) == -ENAMETOOLONG);
    EXPECT(none == &none);
    /* Every member is the first for some of them. */
    for (int i = 1; i < ONESPACE_PARALLEL_SHARED_MAX; i++) {
        int which = 1 + (i + me * 17) % (ONESPACE_PARALLEL_SHARED_MAX - 1);
        snprintf(name, sizeof(name), "instance %d", which);
        long *cell = shared(team, name, 8);
        __atomic_fetch_add(cell, which, __ATOMIC_RELAXED);
    }
    EXPECT(onespace_parallel_barrier(team) == 0);
    for (int i = 1; i < ONESPACE_PARALLEL_SHARED_MAX; i++) {
        snprintf(name, sizeof(name), "instance %d", i);
        EXPECT(*(long *)shared(team, name, 8) == (long)i * n);
    }
    EXPECT(onespace_parallel_shared(team, "one more", 8, &none) == -ENOSPC);
    EXPECT(onespace_parallel_barrier(team) == 0);
    return failures != 0;
}

REGION(globals)
{
    int me = onespace_parallel_number(team);
    int **places = shared(team, "places", MEMBERS * sizeof(int *));
    own_global += me * 10;
    places[me] = &own_global;
    EXPECT(onespace_parallel_barrier(team) == 0);
    for (int i = 0; i < onespace_parallel_count(team); i++)
        EXPECT(*places[i] == 1 + i * 10 && (i == me || places[i] != &own_global));
    EXPECT(onespace_parallel_barrier(team) == 0);
    return failures != 0;
}

/* The last member is killed while the others wait for it, or beside one that computes. */
REGION(killed)
{
    int me = onespace_parallel_number(team), last = onespace_parallel_count(team) - 1;
    long value = 1;
    if (me == last)
        shared(team, "bytes", 4096);
    EXPECT(onespace_parallel_barrier(team) == 0);
    char *bytes = shared(team, "bytes", 4096);
    EXPECT(onespace_parallel_barrier(team) == 0);
    if (me == last)
        kill(getpid(), SIGKILL);
    EXPECT(reduce_longs(team, &value, 1) == -EOWNERDEAD);
    EXPECT(onespace_parallel_barrier(team) == -EOWNERDEAD);
    EXPECT(onespace_parallel_lost(team) == last);
    EXPECT(bytes[17] == 0); /* its memory stays */
    if (failures == 0)
        printf("noticed\n");
    fflush(stdout);
    /* The member that made the others ends those that are late. */
    __atomic_fetch_add(bytes, 1, __ATOMIC_RELAXED);
    for (int ms = 0; me == 0 && __atomic_load_n(bytes, __ATOMIC_RELAXED) < last && ms < HANG_MS;
         ms++)
        usleep(1000);
    return failures != 0;
}

REGION(stuck)
{
    if (onespace_parallel_number(team) == 1)
        raise(SIGKILL);
    if (onespace_parallel_number(team) > 1)
        pause();
    EXPECT(onespace_parallel_barrier(team) == -EOWNERDEAD);
    return failures != 0;
}

REGION(barriers)
{
    long *sum = shared(team, "sum", sizeof(*sum));
    for (int i = 0; i < 2000; i++) {
        if (onespace_parallel_number(team) == i % onespace_parallel_count(team))
            *sum += 1;
        EXPECT(onespace_parallel_barrier(team) == 0);
    }
    EXPECT(*sum == 2000);
    return failures != 0;
}

REGION(wait)
{
    if (onespace_parallel_number(team) == 0) {
        printf("ready\n");
        fflush(stdout);
        getchar();
    }
    int result = onespace_parallel_barrier(team);
    if (result == -EOWNERDEAD)
        printf("lost %d\n", onespace_parallel_lost(team));
    return result;
}

static void touch(long begin, long end, void *argument)
{
    __atomic_fetch_add((long *)argument, end - begin, __ATOMIC_RELAXED);
}

/* All that members do together, until one of them has died. */
REGION(endless)
{
    static double numbers[100];
    char name[ONESPACE_PARALLEL_NAME_MAX + 1];
    int result = 0;
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; result == 0; i++) {
        void *address;
        double number = i;
        snprintf(name, sizeof(name), "instance %d", i % (ONESPACE_PARALLEL_SHARED_MAX - 1));
        result = onespace_parallel_shared(team, name, 4096, &address);
        if (result == 0)
            result =
                onespace_parallel_for(team, 0, 50, ONESPACE_PARALLEL_DYNAMIC(3), touch, address);
        if (result == 0)
            result = reduce_doubles(team, &number, 1, ONESPACE_PARALLEL_MAX);
        EXPECT(result < 0 || number == i);
        if (result == 0)
            result = reduce_doubles(team, numbers, 100, ONESPACE_PARALLEL_SUM);
    }
    printf("%s, lost %d\n", strerror(-result), onespace_parallel_lost(team));
    return failures != 0;
}

REGION(fails)
{
    return onespace_parallel_number(team) > 0 ? 10 * onespace_parallel_number(team) : 0;
}

REGION(nested)
{
    int is_first = onespace_parallel_number(team) == 0;
    EXPECT(onespace_parallel_run(team, fails, NULL) == (is_first ? -EDEADLK : -EINVAL));
    EXPECT(onespace_parallel_fini(team) == -EDEADLK);
    return failures != 0;
}

#define CASE(name, result)                                                                         \
    {                                                                                              \
#name, name, result                                                                        \
    }
static const struct {
    const char *name;
    region *function;
    int result; /* of the region, if nothing is wrong */
} cases[] = {CASE(loops, 0),         CASE(shares, 0),  CASE(dynamic, 0), CASE(reduce, 0),
             CASE(shared_memory, 0), CASE(globals, 0), CASE(killed, 0),  CASE(stuck, 0),
             CASE(barriers, 0),      CASE(wait, 0),    CASE(endless, 0), CASE(fails, 10),
             CASE(nested, 0)};

/* By member 0, alone: each call is a region. */
static void add_own(long begin, long end, void *argument)
{
    __atomic_fetch_add((long *)argument, (end - begin) * own_global, __ATOMIC_RELAXED);
}

static int outside(struct onespace_parallel *team)
{
    static long sum;
    EXPECT(onespace_parallel_barrier(team) == -EDEADLK);
    EXPECT(reduce_longs(team, &sum, 1) == -EDEADLK);
    own_global = 100; /* of this task; the others' are 1 */
    for (int i = 0; i < 20; i++)
        EXPECT(onespace_parallel_for(team, 0, 4L * onespace_parallel_count(team),
                                     ONESPACE_PARALLEL_STATIC, add_own, &sum) == 0);
    EXPECT(sum == 20L * 4 * (100 + onespace_parallel_count(team) - 1));
    return failures != 0;
}

/* Two teams of one maker at once do not disturb each other. */
static int twice(struct onespace_parallel *team, int count, char **argv)
{
    struct onespace_parallel *other = NULL;
    int result = onespace_parallel_init(&other, count, argv);
    EXPECT(result == 0);
    for (int i = 0; i < 3 && result == 0; i++) {
        EXPECT(onespace_parallel_run(team, reduce, NULL) == 0);
        EXPECT(onespace_parallel_run(other, loops, NULL) == 0);
    }
    EXPECT(result < 0 || onespace_parallel_fini(other) == 0);
    return failures != 0;
}

static int run_made(int count, const char *what, char **argv)
{
    struct onespace_parallel *team = NULL;
    int result = onespace_parallel_init(&team, count, argv), wrong = 1;
    if (result < 0)
        return printf("init: %s\n", strerror(-result)) > 0;
    if (strcmp(what, "outside") == 0)
        wrong = outside(team);
    if (strcmp(what, "twice") == 0)
        wrong = twice(team, count, argv);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(what, cases[i].name) == 0) {
            int expected = onespace_parallel_count(team) > 1 ? cases[i].result : 0;
            result = onespace_parallel_run(team, cases[i].function, NULL);
            if (result < 0)
                printf("run: %s\n", strerror(-result));
            wrong = result != expected && result != -EOWNERDEAD;
        }
    result = onespace_parallel_fini(team);
    if (result < 0)
        printf("fini: %s\n", strerror(-result));
    return wrong;
}

static long served; /* times that this member has been dismissed */

/* As it should be: 0, and -EBUSY in the last member, so that the region's result is that. */
static int has_served(struct onespace_parallel *team, void *rounds)
{
    int number = onespace_parallel_number(team);
    if (number > 0 && served != *(long *)rounds)
        return -EPERM;
    return number == onespace_parallel_count(team) - 1 ? -EBUSY : 0;
}

/* Each run belongs to the serve that began after the dismissal before it. */
static int serve_often(struct onespace_parallel *team)
{
    enum { ROUNDS = 2000 };
    int wrong = 0;
    for (long i = 0; i < ROUNDS && !wrong; i++)
        if (onespace_parallel_number(team) == 0) /* what a region returns is not the dismissal's */
            wrong = onespace_parallel_run(team, has_served, &i) != -EBUSY ||
                    onespace_parallel_dismiss(team);
        else
            wrong = onespace_parallel_serve(team) || ++served != i + 1;
    return wrong;
}

static int run_joined(int count, const char *what)
{
    struct onespace_parallel *team = NULL;
    int result = onespace_parallel_join(&team, count), wrong = 1;
    if (result < 0)
        return printf("join: %s\n", strerror(-result)) > 0;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(what, cases[i].name) == 0)
            wrong = cases[i].function(team, NULL);
    if (strcmp(what, "serve") == 0 && onespace_parallel_number(team) == 0)
        wrong = onespace_parallel_run(team, loops, NULL) ||
                onespace_parallel_run(team, reduce, NULL) || onespace_parallel_dismiss(team);
    else if (strcmp(what, "serve") == 0)
        wrong = onespace_parallel_serve(team);
    else if (strcmp(what, "serve_often") == 0)
        wrong = serve_often(team);
    result = onespace_parallel_fini(team);
    if (result < 0)
        printf("fini: %s\n", strerror(-result));
    return wrong;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int wrong = strcmp(argv[1], "made") == 0 ? run_made(atoi(argv[2]), argv[3], argv)
                                             : run_joined(atoi(argv[2]), argv[3]);
    printf(wrong ? "wrong\n" : "ok\n");
    return wrong != 0;
}
