/* src/mpi/rma/gpu.c: origins of transfers in a GPU's memory. */
#include "mpi/rma/rma.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "mpi/pmpi/message.h"

/* The part of CUDA's driver interface that the layer uses, by its binary interface. */
enum { ATTRIBUTE_CONTEXT = 1, ATTRIBUTE_MEMORY_TYPE = 2, ATTRIBUTE_IS_MANAGED = 8 };
enum { MEMORY_TYPE_DEVICE = 2 };
struct driver {
    int (*get_attribute)(void *value, int attribute, uintptr_t address);
    int (*copy)(uintptr_t to, uintptr_t from, size_t size);
    int (*push)(void *context);
    int (*pop)(void **context);
};

const _Atomic uint32_t *_Atomic gpu_flag;

/* ---- The driver's library ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct driver found; /* under the mutex until `driver` is set; then constant */
static const struct driver *_Atomic driver; /* set once (release), read with acquire */
static unsigned long long searched_adds;    /* dlpi_adds at the last search; under the mutex */

struct search {
    unsigned long long adds;
    const char *path;
};

static int check_object(struct dl_phdr_info *object, size_t size, void *context)
{
    struct search *search = context;
    const char *name = strrchr(object->dlpi_name, '/');
    (void)size;
    search->adds = object->dlpi_adds;
    if (search->adds == searched_adds)
        return 1;
    if (name && strncmp(name, "/libcuda.so", sizeof("/libcuda.so") - 1) == 0)
        search->path = object->dlpi_name;
    return search->path != NULL;
}

/* The mutex is held. dlopen by a name alone would search the file system, which takes 20 us. */
static void find_driver(void)
{
    struct search search = {0};
    dl_iterate_phdr(check_object, &search);
    searched_adds = search.path ? 0 : search.adds;
    void *library = search.path ? dlopen(search.path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    if (!library)
        return;
    found.get_attribute = (int (*)(void *, int, uintptr_t))dlsym(library, "cuPointerGetAttribute");
    found.copy = (int (*)(uintptr_t, uintptr_t, size_t))dlsym(library, "cuMemcpy");
    found.push = (int (*)(void *))dlsym(library, "cuCtxPushCurrent_v2");
    found.pop = (int (*)(void **))dlsym(library, "cuCtxPopCurrent_v2");
    if (found.get_attribute && found.copy && found.push && found.pop)
        atomic_store_explicit(&driver, &found, memory_order_release);
}

/* NULL: the library is not loaded yet. */
static const struct driver *find_loaded_driver(void)
{
    const struct driver *known = atomic_load_explicit(&driver, memory_order_acquire);
    if (known)
        return known;
    pthread_mutex_lock(&mutex);
    if (!atomic_load_explicit(&driver, memory_order_relaxed))
        find_driver();
    pthread_mutex_unlock(&mutex);
    return atomic_load_explicit(&driver, memory_order_acquire);
}

void gpu_detect(void)
{
    static _Atomic uint32_t is_loaded;
    const _Atomic uint32_t *word = task_gpu_flag();
    if (!word && find_loaded_driver())
        atomic_store_explicit(&is_loaded, 1, memory_order_relaxed);
    atomic_store_explicit(&gpu_flag, word ? word : &is_loaded, memory_order_relaxed);
}

/* ---- Copies ---- */

/* Whether only the GPU can read the address; sets *context to that of its memory. */
static int is_on_device(const struct driver *of, uintptr_t address, void **context)
{
    unsigned type = 0, is_managed = 0;
    return of->get_attribute(&type, ATTRIBUTE_MEMORY_TYPE, address) == 0 &&
           type == MEMORY_TYPE_DEVICE &&
           !(of->get_attribute(&is_managed, ATTRIBUTE_IS_MANAGED, address) == 0 && is_managed) &&
           of->get_attribute(context, ATTRIBUTE_CONTEXT, address) == 0;
}

static int copy_with_driver(const struct driver *of, void *context, uintptr_t to, uintptr_t from,
                            size_t size)
{
    void *before;
    int error = of->push(context);
    if (error == 0) {
        error = of->copy(to, from, size);
        (void)of->pop(&before);
    }
    if (error == 0)
        return MPI_SUCCESS;
    layer_message(0, "cannot copy %zu bytes between the GPU and a window: CUDA's error %d", size,
                  error);
    return MPI_ERR_OTHER;
}

int gpu_copy_in(struct buf_desc *buf, struct gpu_copy *copy)
{
    const struct driver *of = find_loaded_driver();
    const struct type_layout *layout;
    int64_t lower, upper;
    void *context;
    *copy = (struct gpu_copy){0};
    int error = of ? type_layout_find(buf->type, &layout) : MPI_SUCCESS;
    if (of && error == MPI_SUCCESS)
        error = type_layout_bounds(layout, buf->count, &lower, &upper);
    if (!of || error != MPI_SUCCESS || lower == upper)
        return error;
    uintptr_t first = (uintptr_t)buf->address + (uintptr_t)lower;
    size_t size = (size_t)(upper - lower);
    if (!is_on_device(of, first, &context))
        return MPI_SUCCESS;
    char *host = malloc(size);
    error = host ? copy_with_driver(of, context, (uintptr_t)host, first, size) : MPI_ERR_NO_MEM;
    if (error != MPI_SUCCESS) {
        free(host);
        return error;
    }
    *copy = (struct gpu_copy){host, first, size};
    buf->address = (void *)((uintptr_t)host - (uintptr_t)lower);
    return MPI_SUCCESS;
}

int gpu_copy_out(struct gpu_copy *copy, int is_changed)
{
    const struct driver *of = find_loaded_driver();
    void *context;
    int error = MPI_SUCCESS;
    if (copy->host && is_changed && is_on_device(of, copy->device, &context))
        error = copy_with_driver(of, context, copy->device, (uintptr_t)copy->host, copy->size);
    free(copy->host);
    return error;
}
