/* mpi_window_device LIBRARY: origins of puts, gets and accumulating calls in the memory of a GPU,
 * whose library is loaded while an epoch is open. LIBRARY is cuda_device.c's. */
#include <dlfcn.h>

#include "mpi/guests/mpi_check.h"

enum { COUNT = 8 };

static char *device;
static int (*copy)(uintptr_t, uintptr_t, size_t);
static int (*push)(void *), (*pop)(void **);
static int (*get_attribute)(void *, int, uintptr_t);

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library);
    if (!library)
        exit(1);
    device = ((char *(*)(void))dlsym(library, "device_memory"))();
    copy = (int (*)(uintptr_t, uintptr_t, size_t))dlsym(library, "cuMemcpy");
    push = (int (*)(void *))dlsym(library, "cuCtxPushCurrent_v2");
    pop = (int (*)(void **))dlsym(library, "cuCtxPopCurrent_v2");
    get_attribute = (int (*)(void *, int, uintptr_t))dlsym(library, "cuPointerGetAttribute");
}

static void copy_in_context(uintptr_t to, uintptr_t from, size_t size)
{
    void *context;
    CHECK(get_attribute(&context, 1, (uintptr_t)device) == 0 && push(context) == 0);
    CHECK(copy(to, from, size) == 0 && pop(&context) == 0);
}

static void set(int at, long value)
{
    copy_in_context((uintptr_t)(device + at * (int)sizeof(long)), (uintptr_t)&value, sizeof(value));
}

static long value_of(int at)
{
    long value = 0;
    copy_in_context((uintptr_t)&value, (uintptr_t)(device + at * (int)sizeof(long)), sizeof(value));
    return value;
}

static long *place(int at)
{
    return (long *)(device + at * (int)sizeof(long));
}

int main(int argc, char **argv)
{
    long *base, seen;
    MPI_Win window;
    MPI_Datatype every_other;
    mpi_begin(&argc, &argv);
    MPI_Type_vector(2, 1, 2, MPI_LONG, &every_other);
    MPI_Type_commit(&every_other);
    OK(MPI_Win_allocate(COUNT * sizeof(long), sizeof(long), MPI_INFO_NULL, world, &base, &window));
    memset(base, 0, COUNT * sizeof(long));
    OK(MPI_Win_fence(0, window));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, window));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next_rank, 0, window));
    seen = 1;
    OK(MPI_Put(&seen, 1, MPI_LONG, next_rank, 7, 1, MPI_LONG, window));
    load(argv[1]);

    set(0, 41);
    OK(MPI_Put(place(0), 1, MPI_LONG, next_rank, 0, 1, MPI_LONG, window));
    OK(MPI_Get(&seen, 1, MPI_LONG, next_rank, 0, 1, MPI_LONG, window));
    CHECK(seen == 41);
    OK(MPI_Get(place(1), 1, MPI_LONG, next_rank, 0, 1, MPI_LONG, window));
    CHECK(value_of(1) == 41);

    set(2, 1);
    OK(MPI_Accumulate(place(2), 1, MPI_LONG, next_rank, 0, 1, MPI_LONG, MPI_SUM, window));
    OK(MPI_Get_accumulate(place(2), 1, MPI_LONG, place(3), 1, MPI_LONG, next_rank, 0, 1, MPI_LONG,
                          MPI_SUM, window));
    CHECK(value_of(3) == 42);
    OK(MPI_Fetch_and_op(NULL, place(3), MPI_LONG, next_rank, 0, MPI_NO_OP, window));
    CHECK(value_of(3) == 43);
    set(2, 50);
    OK(MPI_Compare_and_swap(place(2), place(3), place(4), MPI_LONG, next_rank, 0, window));
    CHECK(value_of(4) == 43);
    OK(MPI_Get(&seen, 1, MPI_LONG, next_rank, 0, 1, MPI_LONG, window));
    CHECK(seen == 50);

    /* The gaps between the elements stay unchanged. */
    for (int i = 0; i < 3; i++)
        set(i, 10 + i);
    OK(MPI_Put(place(0), 1, every_other, next_rank, 1, 2, MPI_LONG, window));
    long values[2] = {0};
    OK(MPI_Get(values, 2, MPI_LONG, next_rank, 1, 2, MPI_LONG, window));
    CHECK(values[0] == 10 && values[1] == 12);
    for (int i = 4; i < 7; i++)
        set(i, 20 + i);
    OK(MPI_Get(place(4), 1, every_other, next_rank, 1, 2, MPI_LONG, window));
    CHECK(value_of(4) == 10 && value_of(5) == 25 && value_of(6) == 12);
    OK(MPI_Win_unlock(next_rank, window));
    OK(MPI_Win_free(&window));
    MPI_Type_free(&every_other);
    return mpi_end();
}
