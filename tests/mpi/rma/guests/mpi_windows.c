/* mpi_windows CASE...: properties of MPI windows, checked on all ranks. */
#include <unistd.h>

#include "mpi/guests/mpi_check.h"

static MPI_Win shared(MPI_Aint size, int unit, void *base)
{
    MPI_Win window;
    OK(MPI_Win_allocate_shared(size, unit, MPI_INFO_NULL, world, base, &window));
    return window;
}

/* The parts follow one another, and every rank sees them at the same addresses. */
CASE(one_allocation)
{
    long *base, addresses[64], own;
    MPI_Win window = shared((rank + 1) * 1000, 8, &base);
    for (int i = 0; i + 1 < ranks; i++)
        CHECK(part_of(window, i) + (i + 1) * 1000 == part_of(window, i + 1));
    for (int other = 0; other < ranks; other++) {
        own = (long)part_of(window, other);
        MPI_Allgather(&own, 1, MPI_LONG, addresses, 1, MPI_LONG, world);
        for (int i = 0; i < ranks; i++)
            CHECK(addresses[i] == own);
    }
    for (int i = 0; i < (rank + 1) * 125; i++)
        CHECK(base[i] == 0);
    MPI_Win_free(&window);
    CHECK(window == MPI_WIN_NULL);
}

CASE(loads_and_stores)
{
    int *base;
    MPI_Win window = shared(4 << 20, 4, &base);
    int *next = (int *)part_of(window, next_rank);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1 << 20; i += 97)
            next[i] = rank * 1000 + round;
        MPI_Win_fence(0, window);
        for (int i = 0; i < 1 << 20; i += 97)
            CHECK(base[i] == previous_rank * 1000 + round);
        MPI_Win_fence(0, window);
    }
    MPI_Win_free(&window);
}

CASE(noncontiguous)
{
    MPI_Info info = info_of(PAIRS("alloc_shared_noncontig=true"));
    MPI_Win window;
    char *base;
    MPI_Win_allocate_shared(rank ? 5000 : 3, 1, info, world, &base, &window);
    CHECK((uintptr_t)base % 8 == 0);
    for (int i = 0; i < ranks; i++)
        for (int j = 0; j < i; j++)
            CHECK(part_of(window, i) + (i ? 5000 : 3) <= part_of(window, j) ||
                  part_of(window, j) + (j ? 5000 : 3) <= part_of(window, i));
    MPI_Info_free(&info);
    MPI_Win_free(&window);
}

CASE(attributes)
{
    char *base, *other;
    MPI_Win window = shared(64 + rank, 2, &base), second;
    attribute(window, MPI_WIN_BASE, (long)base);
    attribute(window, MPI_WIN_SIZE, 64 + rank);
    attribute(window, MPI_WIN_DISP_UNIT, 2);
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_SHARED);
    attribute(window, MPI_WIN_MODEL, MPI_WIN_UNIFIED);
    MPI_Win_allocate(16, 1, MPI_INFO_NULL, world, &other, &second);
    attribute(second, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_ALLOCATE);
    attribute(second, MPI_WIN_BASE, (long)other);
    MPI_Win_free(&second);
    int key, flag, mark = 7;
    int *found = NULL;
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL);
    MPI_Win_set_attr(window, key, &mark);
    MPI_Win_get_attr(window, key, &found, &flag);
    CHECK(flag && found == &mark);
    MPI_Win_free_keyval(&key);
    MPI_Win_free(&window);
}

CASE(group_name_info)
{
    char *base, name[MPI_MAX_OBJECT_NAME];
    int length, count, number;
    MPI_Group group;
    MPI_Info info;
    MPI_Win window = shared(8, 1, &base);
    MPI_Win_get_group(window, &group);
    MPI_Group_size(group, &count);
    MPI_Group_rank(group, &number);
    CHECK(count == ranks && number == rank);
    MPI_Group_free(&group);
    MPI_Win_set_name(window, "windy");
    MPI_Win_get_name(window, name, &length);
    CHECK(strcmp(name, "windy") == 0);
    CHECK(MPI_Win_get_info(window, &info) == MPI_SUCCESS && info != MPI_INFO_NULL);
    MPI_Info_free(&info);
    MPI_Win_free(&window);
}

CASE(query_of_proc_null)
{
    MPI_Aint size;
    int unit;
    char *base, *found;
    MPI_Win window = shared(rank == 0 ? 0 : 16 * rank, 4, &base);
    MPI_Win_shared_query(window, MPI_PROC_NULL, &size, &unit, &found);
    if (ranks > 1)
        CHECK(size == 16 && found == part_of(window, 1));
    CHECK(part_of(window, 0) == NULL && (rank > 0) == (base != NULL));
    MPI_Win_free(&window);
    window = shared(0, 1, &base);
    MPI_Win_shared_query(window, MPI_PROC_NULL, &size, &unit, &found);
    CHECK(size == 0);
    MPI_Win_fence(0, window);
    MPI_Win_free(&window);
}

CASE(many_windows)
{
    enum { WINDOWS = 300 };
    static MPI_Win windows[WINDOWS];
    static long *bases[WINDOWS];
    for (int i = 0; i < WINDOWS; i++) {
        windows[i] = shared(8 + i % 3 * 70000, 8, &bases[i]);
        bases[i][0] = i * 100 + rank;
    }
    for (int i = 0; i < WINDOWS; i += 2)
        MPI_Win_free(&windows[i]);
    MPI_Barrier(world);
    for (int i = 1; i < WINDOWS; i += 2)
        CHECK(*(long *)part_of(windows[i], next_rank) == i * 100 + next_rank);
    for (int i = 1; i < WINDOWS; i += 2)
        MPI_Win_free(&windows[i]);
}

/* Windows on parts of the ranks, on duplicates, and after their communicator is gone. */
CASE(communicators)
{
    for (int round = 0; round < 3; round++) {
        MPI_Comm half, copy;
        MPI_Win first, second;
        long *a, *b;
        int number, count;
        MPI_Comm_split(world, rank % 2, -rank, &half);
        MPI_Comm_dup(half, &copy);
        MPI_Comm_rank(half, &number);
        MPI_Comm_size(half, &count);
        MPI_Win_allocate_shared(8, 8, MPI_INFO_NULL, half, &a, &first);
        MPI_Win_allocate_shared(8, 8, MPI_INFO_NULL, copy, &b, &second);
        MPI_Comm_free(&half);
        MPI_Comm_free(&copy);
        MPI_Win_fence(0, first);
        *a = number;
        *b = number + 1000;
        MPI_Win_fence(0, first);
        MPI_Win_fence(0, second);
        CHECK(*(long *)part_of(first, (number + 1) % count) == (number + 1) % count);
        CHECK(*(long *)part_of(second, (number + 1) % count) == (number + 1) % count + 1000);
        MPI_Win_free(&second);
        MPI_Win_free(&first);
    }
}

/* Put and Get with types that have gaps, whose items differ on the two sides. */
CASE(derived_types)
{
    int *base, own[64], expected;
    MPI_Datatype column, pair;
    MPI_Win window = shared(80 * sizeof(int), sizeof(int), &base);
    MPI_Type_vector(8, 1, 8, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < 64; i++)
        own[i] = rank * 100 + i;
    for (int i = 0; i < 80; i++)
        base[i] = -1;
    MPI_Win_fence(0, window);
    MPI_Put(own, 1, column, next_rank, 3, 4, pair, window);
    MPI_Put(own, 4, pair, next_rank, 14, 1, column, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 80; i++) {
        expected = i >= 3 && i < 11 ? previous_rank * 100 + (i - 3) * 8 : -1;
        if (i >= 14 && (i - 14) % 8 == 0 && (i - 14) / 8 < 8)
            expected = previous_rank * 100 + (i - 14) / 8;
        CHECK(base[i] == expected);
    }
    MPI_Win_fence(0, window);
    int got[8];
    MPI_Get(got, 8, MPI_INT, next_rank, 3, 4, pair, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 8; i++)
        CHECK(got[i] == rank * 100 + i * 8);
    MPI_Type_free(&column);
    MPI_Type_free(&pair);
    MPI_Win_free(&window);
}

/* A handle that MPI gives out again stands for the new type. */
CASE(reused_type_handles)
{
    enum { COUNT = 64 };
    int *base, own[COUNT];
    MPI_Win window = shared(COUNT * sizeof(int), sizeof(int), &base);
    for (int i = 0; i < COUNT; i++)
        own[i] = rank * 100 + i;
    for (int stride = 1; stride < 16; stride++) {
        MPI_Datatype column;
        MPI_Type_vector(4, 1, stride, MPI_INT, &column);
        MPI_Type_commit(&column);
        memset(base, -1, COUNT * sizeof(int));
        MPI_Win_fence(0, window);
        MPI_Put(own, 4, MPI_INT, next_rank, 0, 1, column, window);
        MPI_Win_fence(0, window);
        MPI_Type_free(&column);
        CHECK(column == MPI_DATATYPE_NULL);
        for (int i = 0; i < COUNT; i++)
            CHECK(base[i] ==
                  (i % stride == 0 && i / stride < 4 ? previous_rank * 100 + i / stride : -1));
        MPI_Win_fence(0, window);
    }
    MPI_Win_free(&window);
}

/* One type, to which MPI_Type_get_contents gives each thread a reference of its own. */
struct common_type {
    MPI_Win window;
    MPI_Datatype outer;
    int thread;
};

static void *use_inner(void *argument)
{
    const struct common_type *common = argument;
    int count, displacement, own[4] = {1, 2, 3, 4};
    for (int round = 0; round < 300; round++) {
        MPI_Datatype inner;
        MPI_Type_get_contents(common->outer, 1, 0, 1, &count, NULL, &inner);
        displacement = 64 * common->thread;
        own[0] = round;
        MPI_Put(own, 4, MPI_INT, 0, displacement, 1, inner, common->window);
        MPI_Win_flush(0, common->window);
        MPI_Type_free(&inner);
    }
    return NULL;
}

CASE(types_freed_by_threads)
{
    enum { THREADS = 4 };
    int *base;
    pthread_t list[THREADS];
    struct common_type common[THREADS];
    MPI_Datatype inner, outer;
    MPI_Win window = shared(64 * THREADS * sizeof(int), sizeof(int), &base);
    memset(base, -1, 64 * THREADS * sizeof(int));
    MPI_Type_vector(4, 1, 7, MPI_INT, &inner);
    MPI_Type_commit(&inner);
    MPI_Type_contiguous(2, inner, &outer);
    MPI_Type_free(&inner);
    MPI_Barrier(world);
    if (rank == 0) {
        MPI_Win_lock_all(0, window);
        for (int i = 0; i < THREADS; i++) {
            common[i] = (struct common_type){window, outer, i};
            pthread_create(&list[i], NULL, use_inner, &common[i]);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(list[i], NULL);
        MPI_Win_unlock_all(window);
        for (int i = 0; i < 64 * THREADS; i++) {
            int at = i % 64;
            CHECK(base[i] == (at % 7 || at > 21 ? -1 : at ? at / 7 + 1 : 299));
        }
    }
    MPI_Type_free(&outer);
    MPI_Win_free(&window);
}

/* All ranks add to the same elements, through a type with gaps and without: few and many at once.
 */
CASE(accumulates_are_atomic)
{
    enum { ROUNDS = 200, LARGE_AT = 256, LARGE = 512, SMALL = 40 };
    double *base, ones[LARGE], fetched[16];
    long *counter, one = 1, old, none = 0;
    MPI_Datatype spread;
    MPI_Win window = shared((LARGE_AT + LARGE) * sizeof(double), sizeof(double), &base), second;
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, world, &counter, &second);
    *counter = 0;
    MPI_Barrier(world);
    MPI_Type_vector(16, 1, 2, MPI_DOUBLE, &spread);
    MPI_Type_commit(&spread);
    for (int i = 0; i < LARGE; i++)
        ones[i] = 1;
    MPI_Win_lock_all(0, window);
    MPI_Win_lock_all(0, second);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Accumulate(ones, 16, MPI_DOUBLE, 0, 0, 1, spread, MPI_SUM, window);
        MPI_Get_accumulate(ones, 16, MPI_DOUBLE, fetched, 16, MPI_DOUBLE, 0, 40, 16, MPI_DOUBLE,
                           MPI_SUM, window);
        MPI_Accumulate(ones, LARGE, MPI_DOUBLE, 0, LARGE_AT, LARGE, MPI_DOUBLE, MPI_SUM, window);
        MPI_Accumulate(ones, SMALL, MPI_DOUBLE, 0, LARGE_AT, SMALL, MPI_DOUBLE, MPI_SUM, window);
        MPI_Accumulate(ones, 1, MPI_DOUBLE, 0, LARGE_AT, 1, MPI_DOUBLE, MPI_SUM, window);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, second);
        MPI_Win_flush(0, second);
        CHECK(old >= round && old < ROUNDS * ranks);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_unlock_all(second);
    MPI_Barrier(world);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, second);
    MPI_Fetch_and_op(&none, &old, MPI_LONG, 0, 0, MPI_NO_OP, second);
    MPI_Win_unlock(0, second);
    CHECK(old == ROUNDS * ranks);
    for (int i = 0; rank == 0 && i < 16; i++)
        CHECK(base[2 * i] == ROUNDS * ranks && base[2 * i + 1] == 0 &&
              base[40 + i] == ROUNDS * ranks);
    for (int i = 0; rank == 0 && i < LARGE; i++)
        CHECK(base[LARGE_AT + i] == ROUNDS * ranks * (1 + (i < SMALL) + (i == 0)));
    MPI_Type_free(&spread);
    MPI_Win_free(&second);
    MPI_Win_free(&window);
}

/* A member of the program's may lie there, or another rank's data behind the last pair. */
CASE(padding_of_pairs_stays)
{
    struct pair {
        double value;
        int index, own;
    } * base, origin = {10 + rank, rank, 7}, fetched = {0, 0, 9};
    MPI_Win window = shared(sizeof(struct pair), 1, &base);
    MPI_Datatype spread; /* the same pair as an item of another type */
    MPI_Type_contiguous(1, MPI_DOUBLE_INT, &spread);
    MPI_Type_commit(&spread);
    *base = (struct pair){5, 100, 42};
    MPI_Win_fence(0, window);
    MPI_Accumulate(&origin, 1, MPI_DOUBLE_INT, next_rank, 0, 1, MPI_DOUBLE_INT, MPI_MAXLOC, window);
    MPI_Win_fence(0, window);
    CHECK(base->value == 10 + previous_rank && base->index == previous_rank && base->own == 42);
    MPI_Barrier(world);
    origin.value = 1;
    MPI_Get_accumulate(&origin, 1, MPI_DOUBLE_INT, &fetched, 1, MPI_DOUBLE_INT, next_rank, 0, 1,
                       spread, MPI_REPLACE, window);
    MPI_Win_fence(0, window);
    CHECK(base->value == 1 && base->index == previous_rank && base->own == 42);
    CHECK(fetched.value == 10 + rank && fetched.index == rank && fetched.own == 9);
    MPI_Barrier(world);
    MPI_Accumulate(&origin, 1, MPI_DOUBLE_INT, next_rank, 0, 1, spread, MPI_MINLOC, window);
    MPI_Win_fence(0, window);
    CHECK(base->value == 1 && base->own == 42);
    MPI_Type_free(&spread);
    MPI_Win_free(&window);
}

CASE(compare_and_swap)
{
    long *base, next = rank + 1, none = 0, old, winners = 0, own;
    MPI_Win window = shared(sizeof(long), sizeof(long), &base);
    MPI_Win_lock_all(0, window);
    MPI_Compare_and_swap(&next, &none, &old, MPI_LONG, 0, 0, window);
    MPI_Win_unlock_all(window);
    own = old == 0;
    MPI_Allreduce(&own, &winners, 1, MPI_LONG, MPI_SUM, world);
    CHECK(winners == 1);
    if (own)
        CHECK(*(long *)part_of(window, 0) == next);
    MPI_Win_free(&window);
}

CASE(requests)
{
    int *base, value = rank + 5, got = -1, old = -1, other = next_rank;
    MPI_Request list[2];
    MPI_Status statuses[2];
    MPI_Win window = shared(4 * sizeof(int), sizeof(int), &base);
    MPI_Win_lock_all(0, window);
    MPI_Rput(&value, 1, MPI_INT, other, 0, 1, MPI_INT, window, &list[0]);
    MPI_Raccumulate(&value, 1, MPI_INT, other, 1, 1, MPI_INT, MPI_SUM, window, &list[1]);
    MPI_Waitall(2, list, statuses);
    MPI_Win_flush(other, window);
    MPI_Rget(&got, 1, MPI_INT, other, 0, 1, MPI_INT, window, &list[0]);
    MPI_Rget_accumulate(&value, 1, MPI_INT, &old, 1, MPI_INT, other, 1, 1, MPI_INT, MPI_SUM, window,
                        &list[1]);
    MPI_Waitall(2, list, statuses);
    CHECK(got == value && old == value);
    MPI_Rput(&value, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window, &list[0]);
    MPI_Wait(&list[0], MPI_STATUS_IGNORE);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
}

/* An exclusive lock excludes all others, also those of MPI_Win_lock_all. */
CASE(locks_exclude)
{
    enum { ROUNDS = 100 };
    long *base, sum = 0;
    MPI_Win window = shared(2 * sizeof(long), sizeof(long), &base);
    long *first = (long *)part_of(window, 0);
    MPI_Barrier(world);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, window);
        first[0]++;
        MPI_Win_sync(window);
        first[1]++;
        MPI_Win_unlock(0, window);
        MPI_Win_lock_all(0, window);
        sum += first[0] != first[1];
        MPI_Win_unlock_all(window);
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        sum += first[0] != first[1];
        MPI_Win_unlock(0, window);
    }
    MPI_Barrier(world);
    CHECK(sum == 0 && first[0] == ROUNDS * ranks);
    MPI_Win_free(&window);
}

CASE(post_start_complete_wait)
{
    int *base, value, flag;
    MPI_Group all, to, from;
    MPI_Win window = shared(sizeof(int), sizeof(int), &base);
    MPI_Win_get_group(window, &all);
    MPI_Group_incl(all, 1, &next_rank, &to);
    MPI_Group_incl(all, 1, &previous_rank, &from);
    for (int round = 0; round < 50; round++) {
        MPI_Win_post(from, 0, window);
        MPI_Win_start(to, 0, window);
        value = rank * 1000 + round;
        MPI_Put(&value, 1, MPI_INT, next_rank, 0, 1, MPI_INT, window);
        MPI_Win_complete(window);
        if (round % 2)
            MPI_Win_wait(window);
        else
            for (flag = 0; !flag;)
                MPI_Win_test(window, &flag);
        CHECK(*base == previous_rank * 1000 + round);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Win_free(&window);
}

/* A rank that waits in a fence lets a large send to it go on. */
CASE(waiting_makes_progress)
{
    enum { COUNT = 1 << 20 };
    int *base, *message = malloc(COUNT * sizeof(int));
    MPI_Request request;
    MPI_Win window = shared(8, 1, &base);
    for (int i = 0; i < COUNT; i++)
        message[i] = rank;
    if (rank == 0) {
        MPI_Irecv(message, COUNT, MPI_INT, 1, 0, world, &request);
        MPI_Win_fence(0, window);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(message[COUNT - 1] == 1);
    } else {
        if (rank == 1)
            MPI_Send(message, COUNT, MPI_INT, 0, 0, world);
        MPI_Win_fence(0, window);
    }
    free(message);
    MPI_Win_free(&window);
}

/* No rank gets a window that one rank cannot have; each calls the communicator's error handler. */
CASE(failure_on_one_rank_fails_all)
{
    char *base;
    MPI_Win window;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    CHECK(MPI_Win_allocate_shared(rank == 1 ? (MPI_Aint)1 << 60 : 8, 1, MPI_INFO_NULL, world, &base,
                                  &window) != MPI_SUCCESS);
    CHECK(MPI_Win_allocate_shared(rank == 0 ? (MPI_Aint)1 << 50 : 8, 1, MPI_INFO_NULL, world, &base,
                                  &window) != MPI_SUCCESS);
    CHECK(MPI_Win_allocate_shared(8, rank == 1 ? 0 : 1, MPI_INFO_NULL, world, &base, &window) !=
          MPI_SUCCESS);
    window = shared(8, 1, &base);
    base[0] = 1;
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    CHECK(MPI_Put(base, 1, MPI_CHAR, ranks, 0, 1, MPI_CHAR, window) != MPI_SUCCESS);
    CHECK(MPI_Win_unlock(0, window) != MPI_SUCCESS);
    MPI_Win_free(&window);
}

/* The function that deletes an attribute may still use all memory of the window. */
static int read_when_deleted(MPI_Win window, int key, void *value, void *sum)
{
    (void)window, (void)key;
    usleep(rank == 0 ? 0 : 100000);
    for (int i = 0; i < ranks; i++)
        *(long *)sum += ((long **)value)[i][0];
    return MPI_SUCCESS;
}

CASE(memory_stays_while_attributes_are_deleted)
{
    long *base, **parts = calloc((size_t)ranks, sizeof(*parts)), sum = 0;
    int key;
    MPI_Win window = shared(1 << 20, 8, &base);
    base[0] = rank + 1;
    for (int i = 0; i < ranks; i++)
        parts[i] = part_of(window, i);
    MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, read_when_deleted, &key, &sum);
    MPI_Win_set_attr(window, key, parts);
    MPI_Win_free(&window);
    CHECK(sum == (long)ranks * (ranks + 1) / 2);
    MPI_Win_free_keyval(&key);
    free(parts);
}

CASE(left_at_finalize)
{
    long *base;
    for (int i = 0; i < 5; i++) {
        (void)shared(1 << 18, 8, &base);
        base[0] = 1;
    }
}

/* Threads of one process make, use and free windows at the same time. */
static void *work(void *argument)
{
    enum { ROUNDS = 30 };
    MPI_Comm comm = *(MPI_Comm *)argument;
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Win window;
        long *base, one = 1, old = -1;
        MPI_Win_allocate_shared(8 + round * 4096, 8, MPI_INFO_NULL, comm, &base, &window);
        MPI_Win_lock_all(0, window);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, window);
        MPI_Win_unlock_all(window);
        CHECK(old >= 0 && old < ranks);
        MPI_Win_fence(0, window);
        CHECK(*(long *)part_of(window, 0) == ranks);
        MPI_Win_free(&window);
    }
    return NULL;
}

CASE(threads)
{
    run_threads(work);
}

#if MPI_VERSION >= 4
CASE(large_counts)
{
    long *base, value = rank, got = -1;
    MPI_Aint size, unit;
    long *found;
    MPI_Win window;
    MPI_Win_allocate_shared_c(64, 8, MPI_INFO_NULL, world, &base, &window);
    MPI_Win_shared_query_c(window, next_rank, &size, &unit, &found);
    CHECK(size == 64 && unit == 8);
    MPI_Win_fence(0, window);
    MPI_Put_c(&value, 1, MPI_LONG, next_rank, 2, 1, MPI_LONG, window);
    MPI_Accumulate_c(&value, 1, MPI_LONG, next_rank, 3, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get_c(&got, 1, MPI_LONG, next_rank, 2, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    const MPI_Count beyond = ((MPI_Count)1 << 61) + 1; /* times 8 is 8, if it overflows */
    CHECK(MPI_Put_c(&value, beyond, MPI_LONG, next_rank, 2, 1, MPI_LONG, window) != MPI_SUCCESS);
    MPI_Win_fence(0, window);
    CHECK(got == rank && found[3] == rank);
    MPI_Win_free(&window);
}
#endif

int main(int argc, char **argv)
{
    (void)mpi_begin_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    run_cases(argv + 1);
    return mpi_end();
}
