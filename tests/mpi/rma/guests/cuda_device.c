/* cuda_device.c: a library in place of CUDA's driver. Its "device" memory cannot be accessed by the
 * CPU; only cuMemcpy, in the memory's context, reads and writes it. */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SIZE = 1 << 20,
    CONTEXT = 1,
    MEMORY_TYPE = 2,
    IS_MANAGED = 8,
    DEVICE = 2,
    INVALID_VALUE = 1
};

static char *device, *contents, own_context;
static void *current;

__attribute__((visibility("default"))) void *device_memory(void)
{
    if (!device) {
        device = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        contents = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    return device;
}

static int is_device(uintptr_t address)
{
    return device && address - (uintptr_t)device < SIZE;
}

__attribute__((visibility("default"))) int cuPointerGetAttribute(void *value, int attribute,
                                                                 uintptr_t address)
{
    if (!is_device(address))
        return INVALID_VALUE;
    if (attribute == CONTEXT)
        *(void **)value = &own_context;
    else
        *(unsigned *)value = attribute == MEMORY_TYPE ? DEVICE : 0;
    return attribute == CONTEXT || attribute == MEMORY_TYPE || attribute == IS_MANAGED
               ? 0
               : INVALID_VALUE;
}

__attribute__((visibility("default"))) int cuCtxPushCurrent_v2(void *context)
{
    current = context;
    return 0;
}

__attribute__((visibility("default"))) int cuCtxPopCurrent_v2(void **context)
{
    *context = current;
    current = NULL;
    return 0;
}

static void *memory_of(uintptr_t address)
{
    return is_device(address) ? contents + (address - (uintptr_t)device) : (void *)address;
}

__attribute__((visibility("default"))) int cuMemcpy(uintptr_t to, uintptr_t from, size_t size)
{
    if (current != &own_context)
        return INVALID_VALUE;
    memcpy(memory_of(to), memory_of(from), size);
    return 0;
}
