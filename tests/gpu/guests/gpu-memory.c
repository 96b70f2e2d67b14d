/* gpu-memory.c: a library for mpi_window_device.c with memory of a real GPU. It opens the driver's
 * library when it is first asked for memory, and hands the calls on to it. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

/* As cuda.h declares them, but the first. */
EXPORTED void *device_memory(void);
EXPORTED int cuPointerGetAttribute(void *value, int attribute, uintptr_t address);
EXPORTED int cuCtxPushCurrent_v2(void *context);
EXPORTED int cuCtxPopCurrent_v2(void **context);
EXPORTED int cuMemcpy(uintptr_t to, uintptr_t from, size_t size);

enum { MEMORY_BYTES = 1 << 20 };

static void *driver;

static void *function(const char *name)
{
    void *found = driver ? dlsym(driver, name) : NULL;
    if (!found) {
        printf("libcuda.so.1 has no %s\n", name);
        exit(1);
    }
    return found;
}

static void expect(int result, const char *what)
{
    if (result == 0)
        return;
    printf("%s: error %d\n", what, result);
    exit(1);
}

/* Memory whose context is not current, as in a program that uses several. */
void *device_memory(void)
{
    static uint64_t memory;
    void *context;
    int device;
    if (memory)
        return (void *)memory;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    expect(((int (*)(unsigned))function("cuInit"))(0), "cuInit");
    expect(((int (*)(int *, int))function("cuDeviceGet"))(&device, 0), "cuDeviceGet");
    expect(((int (*)(void **, unsigned, int))function("cuCtxCreate_v2"))(&context, 0, device),
           "cuCtxCreate");
    expect(((int (*)(uint64_t *, size_t))function("cuMemAlloc_v2"))(&memory, MEMORY_BYTES),
           "cuMemAlloc");
    expect(((int (*)(void **))function("cuCtxPopCurrent_v2"))(&context), "cuCtxPopCurrent");
    return (void *)memory;
}

int cuPointerGetAttribute(void *value, int attribute, uintptr_t address)
{
    return ((int (*)(void *, int, uintptr_t))function(__func__))(value, attribute, address);
}

int cuCtxPushCurrent_v2(void *context)
{
    return ((int (*)(void *))function(__func__))(context);
}

int cuCtxPopCurrent_v2(void **context)
{
    return ((int (*)(void **))function(__func__))(context);
}

int cuMemcpy(uintptr_t to, uintptr_t from, size_t size)
{
    return ((int (*)(uintptr_t, uintptr_t, size_t))function(__func__))(to, from, size);
}
