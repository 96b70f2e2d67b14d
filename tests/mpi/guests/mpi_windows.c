/* mpi_windows.c CASE: one property of MPI windows, checked on all ranks; prints "rank N: M wrong".
 */
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_check.h"

static MPI_Win shared(MPI_Aint size, int unit, void *base)
{
    MPI_Win window;
    CHECK(MPI_Win_allocate_shared(size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, &window) ==
          MPI_SUCCESS);
    return window;
}

/* The parts follow one another, and every rank sees them at the same addresses. */
static void one_allocation(void)
{
    long *base, addresses[64], mine;
    MPI_Win window = shared((rank + 1) * 1000, 8, &base);
    for (int i = 0; i + 1 < ranks; i++)
        CHECK(part_of(window, i) + (i + 1) * 1000 == part_of(window, i + 1));
    for (int other = 0; other < ranks; other++) {
        mine = (long)part_of(window, other);
        MPI_Allgather(&mine, 1, MPI_LONG, addresses, 1, MPI_LONG, MPI_COMM_WORLD);
        for (int i = 0; i < ranks; i++)
            CHECK(addresses[i] == mine);
    }
    for (int i = 0; i < (rank + 1) * 125; i++)
        CHECK(base[i] == 0);
    MPI_Win_free(&window);
    CHECK(window == MPI_WIN_NULL);
}

static void loads_and_stores(void)
{
    int *base;
    MPI_Win window = shared(4 << 20, 4, &base);
    int *next = (int *)part_of(window, (rank + 1) % ranks);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1 << 20; i += 97)
            next[i] = rank * 1000 + round;
        MPI_Win_fence(0, window);
        for (int i = 0; i < 1 << 20; i += 97)
            CHECK(base[i] == (rank + ranks - 1) % ranks * 1000 + round);
        MPI_Win_fence(0, window);
    }
    MPI_Win_free(&window);
}

static void noncontiguous(void)
{
    MPI_Info info;
    MPI_Win window;
    char *base;
    MPI_Info_create(&info);
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    MPI_Win_allocate_shared(rank ? 5000 : 3, 1, info, MPI_COMM_WORLD, &base, &window);
    CHECK((uintptr_t)base % 8 == 0);
    for (int i = 0; i < ranks; i++)
        for (int j = 0; j < i; j++)
            CHECK(part_of(window, i) + (i ? 5000 : 3) <= part_of(window, j) ||
                  part_of(window, j) + (j ? 5000 : 3) <= part_of(window, i));
    MPI_Info_free(&info);
    MPI_Win_free(&window);
}

static void attributes(void)
{
    char *base, *other;
    MPI_Win window = shared(64 + rank, 2, &base), second;
    attribute(window, MPI_WIN_BASE, (long)base);
    attribute(window, MPI_WIN_SIZE, 64 + rank);
    attribute(window, MPI_WIN_DISP_UNIT, 2);
    attribute(window, MPI_WIN_CREATE_FLAVOR, MPI_WIN_FLAVOR_SHARED);
    attribute(window, MPI_WIN_MODEL, MPI_WIN_UNIFIED);
    MPI_Win_allocate(16, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &other, &second);
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

static void group_name_info(void)
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

static void query_of_no_rank(void)
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

static void many_windows(void)
{
    enum { MANY = 300 };
    static MPI_Win windows[MANY];
    static long *bases[MANY];
    for (int i = 0; i < MANY; i++) {
        windows[i] = shared(8 + i % 3 * 70000, 8, &bases[i]);
        bases[i][0] = i * 100 + rank;
    }
    for (int i = 0; i < MANY; i += 2)
        MPI_Win_free(&windows[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 1; i < MANY; i += 2)
        CHECK(*(long *)part_of(windows[i], (rank + 1) % ranks) == i * 100 + (rank + 1) % ranks);
    for (int i = 1; i < MANY; i += 2)
        MPI_Win_free(&windows[i]);
}

/* Windows on parts of the ranks, on duplicates, and after their communicator is gone. */
static void communicators(void)
{
    for (int round = 0; round < 3; round++) {
        MPI_Comm half, twin;
        MPI_Win first, second;
        long *a, *b;
        int number, count;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
        MPI_Comm_dup(half, &twin);
        MPI_Comm_rank(half, &number);
        MPI_Comm_size(half, &count);
        MPI_Win_allocate_shared(8, 8, MPI_INFO_NULL, half, &a, &first);
        MPI_Win_allocate_shared(8, 8, MPI_INFO_NULL, twin, &b, &second);
        MPI_Comm_free(&half);
        MPI_Comm_free(&twin);
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
static void derived_types(void)
{
    int *base, mine[64], expected;
    MPI_Datatype column, pair;
    MPI_Win window = shared(80 * sizeof(int), sizeof(int), &base);
    MPI_Type_vector(8, 1, 8, MPI_INT, &column);
    MPI_Type_commit(&column);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    for (int i = 0; i < 64; i++)
        mine[i] = rank * 100 + i;
    for (int i = 0; i < 80; i++)
        base[i] = -1;
    MPI_Win_fence(0, window);
    MPI_Put(mine, 1, column, (rank + 1) % ranks, 3, 4, pair, window);
    MPI_Put(mine, 4, pair, (rank + 1) % ranks, 14, 1, column, window);
    MPI_Win_fence(0, window);
    int left = (rank + ranks - 1) % ranks;
    for (int i = 0; i < 80; i++) {
        expected = i >= 3 && i < 11 ? left * 100 + (i - 3) * 8 : -1;
        if (i >= 14 && (i - 14) % 8 == 0 && (i - 14) / 8 < 8)
            expected = left * 100 + (i - 14) / 8;
        CHECK(base[i] == expected);
    }
    MPI_Win_fence(0, window);
    int got[8];
    MPI_Get(got, 8, MPI_INT, (rank + 1) % ranks, 3, 4, pair, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < 8; i++)
        CHECK(got[i] == rank * 100 + i * 8);
    MPI_Type_free(&column);
    MPI_Type_free(&pair);
    MPI_Win_free(&window);
}

/* A handle that MPI gives out again stands for the new type. */
static void types_made_anew(void)
{
    enum { ROOM = 64 };
    int *base, mine[ROOM], next = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Win window = shared(ROOM * sizeof(int), sizeof(int), &base);
    for (int i = 0; i < ROOM; i++)
        mine[i] = rank * 100 + i;
    for (int stride = 1; stride < 16; stride++) {
        MPI_Datatype column;
        MPI_Type_vector(4, 1, stride, MPI_INT, &column);
        MPI_Type_commit(&column);
        memset(base, -1, ROOM * sizeof(int));
        MPI_Win_fence(0, window);
        MPI_Put(mine, 4, MPI_INT, next, 0, 1, column, window);
        MPI_Win_fence(0, window);
        MPI_Type_free(&column);
        CHECK(column == MPI_DATATYPE_NULL);
        for (int i = 0; i < ROOM; i++)
            CHECK(base[i] == (i % stride == 0 && i / stride < 4 ? left * 100 + i / stride : -1));
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
    int count, displacement, mine[4] = {1, 2, 3, 4};
    for (int round = 0; round < 300; round++) {
        MPI_Datatype inner;
        MPI_Type_get_contents(common->outer, 1, 0, 1, &count, NULL, &inner);
        displacement = 64 * common->thread;
        mine[0] = round;
        MPI_Put(mine, 4, MPI_INT, 0, displacement, 1, inner, common->window);
        MPI_Win_flush(0, common->window);
        MPI_Type_free(&inner);
    }
    return NULL;
}

static void types_freed_by_threads(void)
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
    MPI_Barrier(MPI_COMM_WORLD);
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

enum { OPERANDS = 131 }; /* enough for the widest registers, and some that are left over */

/* Every predefined operation on one type: as MPI_Reduce_local has it. */
static void operate(MPI_Datatype type, const char *values, const char *others, MPI_Op op,
                    MPI_Win window, char *base)
{
    MPI_Aint lower, extent;
    char expected[OPERANDS * 32], fetched[OPERANDS * 32];
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    memcpy(expected, values, OPERANDS * (size_t)extent);
    memcpy(base, values, OPERANDS * (size_t)extent);
    if (op == MPI_REPLACE)
        memcpy(expected, others, OPERANDS * (size_t)extent);
    else if (MPI_Reduce_local(others, expected, OPERANDS, type, op) != MPI_SUCCESS)
        return;
    memset(fetched, 0, sizeof(fetched));
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    MPI_Get_accumulate(others, OPERANDS, type, fetched, OPERANDS, type, rank, 0, OPERANDS, type, op,
                       window);
    MPI_Win_unlock(rank, window);
    CHECK(memcmp(fetched, values, OPERANDS * (size_t)extent) == 0);
    CHECK(memcmp(base, expected, OPERANDS * (size_t)extent) == 0);
    memcpy(base, values, OPERANDS * (size_t)extent);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    for (int i = 0; i < OPERANDS; i++)
        MPI_Fetch_and_op(others + i * extent, fetched + i * extent, type, rank, i * extent, op,
                         window);
    MPI_Win_unlock(rank, window);
    CHECK(memcmp(base, expected, OPERANDS * (size_t)extent) == 0);
}

static const char some[7] = {3, 1, 0, 1, 7, 5, 2}, more[7] = {2, 0, 0, 1, 9, 4, 2};

#define FILL(type, name)                                                                           \
    type name##_a[OPERANDS], name##_b[OPERANDS];                                                   \
    for (int i = 0; i < OPERANDS; i++)                                                             \
    name##_a[i] = (type)some[i % 7], name##_b[i] = (type)more[i % 7]
#define EACH_OF(name, mpi, list)                                                                   \
    for (size_t o = 0; o < sizeof(list) / sizeof(list[0]); o++)                                    \
    operate(mpi, (char *)name##_a, (char *)name##_b, list[o], window, base)
#define PAIRS(type, name)                                                                          \
    struct {                                                                                       \
        type value;                                                                                \
        int at;                                                                                    \
    } name##_a[OPERANDS], name##_b[OPERANDS];                                                      \
    memset(name##_a, 0, sizeof(name##_a));                                                         \
    memset(name##_b, 0, sizeof(name##_b));                                                         \
    for (int i = 0; i < OPERANDS; i++)                                                             \
    name##_a[i].value = (type)(i % 3), name##_a[i].at = i, name##_b[i].value = 1,                  \
    name##_b[i].at = OPERANDS - 1 - i

static void operations(void)
{
    char *base;
    MPI_Win window = shared(OPERANDS * 32, 1, &base);
    const MPI_Op all[] = {MPI_SUM,  MPI_PROD, MPI_MAX, MPI_MIN,  MPI_LAND,   MPI_LOR,
                          MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR, MPI_REPLACE};
    const MPI_Op numeric[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN, MPI_REPLACE};
    const MPI_Op algebraic[] = {MPI_SUM, MPI_PROD, MPI_REPLACE};
    const MPI_Op logical[] = {MPI_LAND, MPI_LOR, MPI_LXOR, MPI_REPLACE};
    const MPI_Op located[] = {MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE};
    FILL(int8_t, i8);
    FILL(int16_t, i16);
    FILL(int32_t, i32);
    FILL(int64_t, i64);
    FILL(float, f);
    FILL(double, d);
    FILL(_Bool, b);
    FILL(float _Complex, cf);
    FILL(double _Complex, cd);
    long double ld_a[OPERANDS], ld_b[OPERANDS]; /* their padding is compared too */
    memset(ld_a, 0, sizeof(ld_a));
    memset(ld_b, 0, sizeof(ld_b));
    EACH_OF(i8, MPI_SIGNED_CHAR, all);
    EACH_OF(i8, MPI_UINT8_T, all);
    EACH_OF(i16, MPI_SHORT, all);
    EACH_OF(i16, MPI_UINT16_T, all);
    EACH_OF(i32, MPI_INT, all);
    EACH_OF(i32, MPI_UINT32_T, all);
    EACH_OF(i64, MPI_LONG_LONG, all);
    EACH_OF(i64, MPI_UINT64_T, all);
    EACH_OF(i64, MPI_AINT, all);
    EACH_OF(f, MPI_FLOAT, numeric);
    EACH_OF(d, MPI_DOUBLE, numeric);
    EACH_OF(b, MPI_C_BOOL, logical);
    EACH_OF(cf, MPI_C_FLOAT_COMPLEX, algebraic);
    EACH_OF(cd, MPI_C_DOUBLE_COMPLEX, algebraic);
    EACH_OF(ld, MPI_LONG_DOUBLE, algebraic);
    EACH_OF(i32, MPI_INTEGER, all);
    EACH_OF(d, MPI_DOUBLE_PRECISION, numeric);
    PAIRS(double, di);
    PAIRS(float, fi);
    PAIRS(long, li);
    PAIRS(int, ii);
    EACH_OF(di, MPI_DOUBLE_INT, located);
    EACH_OF(fi, MPI_FLOAT_INT, located);
    EACH_OF(li, MPI_LONG_INT, located);
    EACH_OF(ii, MPI_2INT, located);
    MPI_Win_free(&window);
}

/* All ranks add to the same elements, through a type with gaps and without: few and many at once.
 */
static void accumulates_are_atomic(void)
{
    enum { ROUNDS = 200, MANY_AT = 256, MANY = 512, FEW = 40 };
    double *base, ones[MANY], fetched[16];
    long *counter, one = 1, old, none = 0;
    MPI_Datatype spread;
    MPI_Win window = shared((MANY_AT + MANY) * sizeof(double), sizeof(double), &base), second;
    MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &counter, &second);
    *counter = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_vector(16, 1, 2, MPI_DOUBLE, &spread);
    MPI_Type_commit(&spread);
    for (int i = 0; i < MANY; i++)
        ones[i] = 1;
    MPI_Win_lock_all(0, window);
    MPI_Win_lock_all(0, second);
    for (int round = 0; round < ROUNDS; round++) {
        MPI_Accumulate(ones, 16, MPI_DOUBLE, 0, 0, 1, spread, MPI_SUM, window);
        MPI_Get_accumulate(ones, 16, MPI_DOUBLE, fetched, 16, MPI_DOUBLE, 0, 40, 16, MPI_DOUBLE,
                           MPI_SUM, window);
        MPI_Accumulate(ones, MANY, MPI_DOUBLE, 0, MANY_AT, MANY, MPI_DOUBLE, MPI_SUM, window);
        MPI_Accumulate(ones, FEW, MPI_DOUBLE, 0, MANY_AT, FEW, MPI_DOUBLE, MPI_SUM, window);
        MPI_Accumulate(ones, 1, MPI_DOUBLE, 0, MANY_AT, 1, MPI_DOUBLE, MPI_SUM, window);
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 0, MPI_SUM, second);
        MPI_Win_flush(0, second);
        CHECK(old >= round && old < ROUNDS * ranks);
    }
    MPI_Win_unlock_all(window);
    MPI_Win_unlock_all(second);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, second);
    MPI_Fetch_and_op(&none, &old, MPI_LONG, 0, 0, MPI_NO_OP, second);
    MPI_Win_unlock(0, second);
    CHECK(old == ROUNDS * ranks);
    for (int i = 0; rank == 0 && i < 16; i++)
        CHECK(base[2 * i] == ROUNDS * ranks && base[2 * i + 1] == 0 &&
              base[40 + i] == ROUNDS * ranks);
    for (int i = 0; rank == 0 && i < MANY; i++)
        CHECK(base[MANY_AT + i] == ROUNDS * ranks * (1 + (i < FEW) + (i == 0)));
    MPI_Type_free(&spread);
    MPI_Win_free(&second);
    MPI_Win_free(&window);
}

static void compare_and_swap(void)
{
    long *base, next = rank + 1, none = 0, old, winners = 0, mine;
    MPI_Win window = shared(sizeof(long), sizeof(long), &base);
    MPI_Win_lock_all(0, window);
    MPI_Compare_and_swap(&next, &none, &old, MPI_LONG, 0, 0, window);
    MPI_Win_unlock_all(window);
    mine = old == 0;
    MPI_Allreduce(&mine, &winners, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(winners == 1);
    if (mine)
        CHECK(*(long *)part_of(window, 0) == next);
    MPI_Win_free(&window);
}

static void requests(void)
{
    int *base, value = rank + 5, got = -1, old = -1, other = (rank + 1) % ranks;
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

/* An exclusive lock keeps everybody else out, also those of MPI_Win_lock_all. */
static void locks_exclude(void)
{
    enum { ROUNDS = 100 };
    long *base, sum = 0;
    MPI_Win window = shared(2 * sizeof(long), sizeof(long), &base);
    long *first = (long *)part_of(window, 0);
    MPI_Barrier(MPI_COMM_WORLD);
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
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(sum == 0 && first[0] == ROUNDS * ranks);
    MPI_Win_free(&window);
}

static void post_start_complete_wait(void)
{
    int *base, value, left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks, flag;
    MPI_Group all, to, from;
    MPI_Win window = shared(sizeof(int), sizeof(int), &base);
    MPI_Win_get_group(window, &all);
    MPI_Group_incl(all, 1, &right, &to);
    MPI_Group_incl(all, 1, &left, &from);
    for (int round = 0; round < 50; round++) {
        MPI_Win_post(from, 0, window);
        MPI_Win_start(to, 0, window);
        value = rank * 1000 + round;
        MPI_Put(&value, 1, MPI_INT, right, 0, 1, MPI_INT, window);
        MPI_Win_complete(window);
        if (round % 2)
            MPI_Win_wait(window);
        else
            for (flag = 0; !flag;)
                MPI_Win_test(window, &flag);
        CHECK(*base == left * 1000 + round);
    }
    MPI_Group_free(&all);
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    MPI_Win_free(&window);
}

/* A rank that waits in a fence lets a large send to it go on. */
static void waiting_makes_progress(void)
{
    enum { COUNT = 1 << 20 };
    int *base, *message = malloc(COUNT * sizeof(int));
    MPI_Request request;
    MPI_Win window = shared(8, 1, &base);
    for (int i = 0; i < COUNT; i++)
        message[i] = rank;
    if (rank == 0) {
        MPI_Irecv(message, COUNT, MPI_INT, 1, 0, MPI_COMM_WORLD, &request);
        MPI_Win_fence(0, window);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(message[COUNT - 1] == 1);
    } else {
        if (rank == 1)
            MPI_Send(message, COUNT, MPI_INT, 0, 0, MPI_COMM_WORLD);
        MPI_Win_fence(0, window);
    }
    free(message);
    MPI_Win_free(&window);
}

/* What one rank cannot have, none gets, and the communicator's error handler hears of it. */
static void failure_is_everybodys(void)
{
    char *base;
    MPI_Win window;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK(MPI_Win_allocate_shared(rank == 1 ? (MPI_Aint)1 << 60 : 8, 1, MPI_INFO_NULL,
                                  MPI_COMM_WORLD, &base, &window) != MPI_SUCCESS);
    CHECK(MPI_Win_allocate_shared(rank == 0 ? (MPI_Aint)1 << 45 : 8, 1, MPI_INFO_NULL,
                                  MPI_COMM_WORLD, &base, &window) != MPI_SUCCESS);
    CHECK(MPI_Win_allocate_shared(8, rank == 1 ? 0 : 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base,
                                  &window) != MPI_SUCCESS);
    window = shared(8, 1, &base);
    base[0] = 1;
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    CHECK(MPI_Put(base, 1, MPI_CHAR, ranks, 0, 1, MPI_CHAR, window) != MPI_SUCCESS);
    CHECK(MPI_Win_unlock(0, window) != MPI_SUCCESS);
    MPI_Win_free(&window);
}

static void left_at_finalize(void)
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

static void threads(void)
{
    enum { THREADS = 3 };
    pthread_t list[THREADS];
    MPI_Comm comms[THREADS];
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&list[i], NULL, work, &comms[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(list[i], NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&comms[i]);
}

#if MPI_VERSION >= 4
static void large_counts(void)
{
    long *base, value = rank, got = -1;
    MPI_Aint size, unit;
    long *found;
    MPI_Win window;
    MPI_Win_allocate_shared_c(64, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window);
    MPI_Win_shared_query_c(window, (rank + 1) % ranks, &size, &unit, &found);
    CHECK(size == 64 && unit == 8);
    MPI_Win_fence(0, window);
    MPI_Put_c(&value, 1, MPI_LONG, (rank + 1) % ranks, 2, 1, MPI_LONG, window);
    MPI_Accumulate_c(&value, 1, MPI_LONG, (rank + 1) % ranks, 3, 1, MPI_LONG, MPI_SUM, window);
    MPI_Win_fence(0, window);
    MPI_Get_c(&got, 1, MPI_LONG, (rank + 1) % ranks, 2, 1, MPI_LONG, window);
    MPI_Win_fence(0, window);
    CHECK(got == rank && found[3] == rank);
    MPI_Win_free(&window);
}
#endif

static const struct {
    const char *name;
    void (*function)(void);
} cases[] = {
    {"one_allocation", one_allocation},
    {"loads_and_stores", loads_and_stores},
    {"noncontiguous", noncontiguous},
    {"attributes", attributes},
    {"group_name_info", group_name_info},
    {"query_of_no_rank", query_of_no_rank},
    {"many_windows", many_windows},
    {"communicators", communicators},
    {"derived_types", derived_types},
    {"types_made_anew", types_made_anew},
    {"types_freed_by_threads", types_freed_by_threads},
    {"operations", operations},
    {"accumulates_are_atomic", accumulates_are_atomic},
    {"compare_and_swap", compare_and_swap},
    {"requests", requests},
    {"locks_exclude", locks_exclude},
    {"post_start_complete_wait", post_start_complete_wait},
    {"waiting_makes_progress", waiting_makes_progress},
    {"failure_is_everybodys", failure_is_everybodys},
    {"threads", threads},
#if MPI_VERSION >= 4
    {"large_counts", large_counts},
#endif
    {"left_at_finalize", left_at_finalize},
};

int main(int argc, char **argv)
{
    int provided, ran = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int word = 1; word < argc; word++)
            if (strcmp(argv[word], cases[i].name) == 0) {
                cases[i].function();
                ran++;
            }
    MPI_Finalize();
    if (ran != argc - 1)
        printf("rank %d: unknown case\n", rank);
    printf("rank %d: %d wrong\n", rank, wrong);
    return 0;
}
