/* cuda-steps STEP...: what a CUDA program does to a GPU, step by step, through the driver's
 * library, which is opened at run time so that the build needs no CUDA. Each step prints a line.
 *
 *   copy         random bytes to the GPU and back, from pageable and pinned memory
 *   used         MiB of the GPU's memory that are in use, by all programs
 *   hold MIB     allocates so much
 *   wait         prints "ready" and reads standard input to its end
 *   export FILE  makes 64 MiB with a pattern available to others by CUDA IPC
 *   import FILE  waits for that file, reads the pattern there, and removes it
 *
 * Exit status: 0; 1 if a call or a comparison failed; 77 if there is no GPU or no driver. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NO_GPU = 77, IPC_LAZY_PEER_ACCESS = 1 };
enum { ALLOCATED_BYTES = 64 << 20, COPY_BYTES = 4 << 20, PINNED_BYTES = 1 << 20, COPIES = 4 };
enum { PATTERN = 0x5eed1234 };

typedef uint64_t device_address;
struct ipc_handle {
    char opaque[64];
};

/* The driver's functions, as cuda.h declares them. 0 is success. */
static struct {
    int (*init)(unsigned);
    int (*device_get)(int *, int);
    int (*ctx_create)(void **, unsigned, int);
    int (*mem_alloc)(device_address *, size_t);
    int (*mem_alloc_host)(void **, size_t);
    int (*to_device)(device_address, const void *, size_t);
    int (*to_host)(void *, device_address, size_t);
    int (*fill)(device_address, unsigned, size_t);
    int (*mem_get_info)(size_t *, size_t *);
    int (*ipc_get)(struct ipc_handle *, device_address);
    int (*ipc_open)(device_address *, struct ipc_handle, unsigned);
    int (*error_name)(int, const char **);
} cuda;

static device_address memory;

static void expect(int result, const char *what)
{
    const char *name = "?";
    if (result == 0)
        return;
    cuda.error_name(result, &name);
    printf("%s: %s\n", what, name);
    exit(1);
}

static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    const struct {
        void *to;
        const char *name;
    } functions[] = {{&cuda.init, "cuInit"},
                     {&cuda.device_get, "cuDeviceGet"},
                     {&cuda.ctx_create, "cuCtxCreate_v2"},
                     {&cuda.mem_alloc, "cuMemAlloc_v2"},
                     {&cuda.mem_alloc_host, "cuMemAllocHost_v2"},
                     {&cuda.to_device, "cuMemcpyHtoD_v2"},
                     {&cuda.to_host, "cuMemcpyDtoH_v2"},
                     {&cuda.fill, "cuMemsetD32_v2"},
                     {&cuda.mem_get_info, "cuMemGetInfo_v2"},
                     {&cuda.ipc_get, "cuIpcGetMemHandle"},
                     {&cuda.ipc_open, "cuIpcOpenMemHandle_v2"},
                     {&cuda.error_name, "cuGetErrorName"}};
    for (size_t i = 0; library && i < sizeof(functions) / sizeof(*functions); i++) {
        void *found = dlsym(library, functions[i].name);
        memcpy(functions[i].to, &found, sizeof(found));
        if (!found) {
            printf("libcuda.so.1 has no %s\n", functions[i].name);
            exit(NO_GPU);
        }
    }
    if (!library || cuda.init(0) != 0) {
        printf("no GPU: %s\n", library ? "cuInit fails" : dlerror());
        exit(NO_GPU);
    }
}

/* Bytes that differ from task to task and from call to call. */
static void fill_randomly(unsigned char *bytes, size_t size)
{
    static uint32_t state;
    state = state ? state : (uint32_t)getpid();
    for (size_t i = 0; i < size; i++) {
        state = state * 1664525 + 1013904223;
        bytes[i] = (unsigned char)(state >> 24);
    }
}

/* Whether the bytes come back from that offset as they went. */
static int comes_back(const void *from, void *to, size_t size, size_t offset)
{
    memset(to, 0, size);
    expect(cuda.to_device(memory + offset, from, size), "copy to the GPU");
    expect(cuda.to_host(to, memory + offset, size), "copy from the GPU");
    return memcmp(from, to, size) == 0;
}

static void copy(void)
{
    unsigned char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    void *pinned;
    int wrong = 0;
    expect(cuda.mem_alloc_host(&pinned, PINNED_BYTES), "allocation of pinned memory");
    for (size_t i = 0; i < COPIES; i++) {
        fill_randomly(from, COPY_BYTES);
        wrong += !comes_back(from, to, COPY_BYTES, i * COPY_BYTES);
        memcpy(pinned, from, PINNED_BYTES);
        wrong += !comes_back(pinned, to, PINNED_BYTES, i * PINNED_BYTES);
    }
    printf("copy: %d wrong\n", wrong);
    free(from);
    free(to);
    if (wrong)
        exit(1);
}

static void print_used(void)
{
    size_t unused, all;
    expect(cuda.mem_get_info(&unused, &all), "the amount of free memory");
    printf("used: %zu MiB\n", (all - unused) >> 20);
}

static void export_to(const char *name)
{
    struct ipc_handle handle;
    char other[4096];
    expect(cuda.fill(memory, PATTERN, ALLOCATED_BYTES / 4), "memset on the GPU");
    expect(cuda.ipc_get(&handle, memory), "CUDA IPC export");
    snprintf(other, sizeof(other), "%s.new", name);
    FILE *file = fopen(other, "w");
    if (!file || fwrite(&handle, sizeof(handle), 1, file) != 1 || fclose(file) != 0 ||
        rename(other, name) != 0) {
        perror(name);
        exit(1);
    }
    while (access(name, F_OK) == 0) /* until the importer has read the memory */
        usleep(10000);
    printf("export: taken\n");
}

static void import_from(const char *name)
{
    struct ipc_handle handle;
    device_address theirs;
    unsigned word = 0;
    while (access(name, F_OK) != 0)
        usleep(10000);
    FILE *file = fopen(name, "r");
    if (!file || fread(&handle, sizeof(handle), 1, file) != 1) {
        perror(name);
        exit(1);
    }
    fclose(file);
    int result = cuda.ipc_open(&theirs, handle, IPC_LAZY_PEER_ACCESS);
    if (result == 0)
        result = cuda.to_host(&word, theirs + ALLOCATED_BYTES - sizeof(word), sizeof(word));
    unlink(name);
    expect(result, "CUDA IPC import");
    printf("import: %s\n", word == PATTERN ? "right" : "wrong");
    if (word != PATTERN)
        exit(1);
}

int main(int argc, char **argv)
{
    void *context;
    int device;
    setvbuf(stdout, NULL, _IOLBF, 0);
    find_driver();
    expect(cuda.device_get(&device, 0), "cuDeviceGet");
    expect(cuda.ctx_create(&context, 0, device), "cuCtxCreate");
    expect(cuda.mem_alloc(&memory, ALLOCATED_BYTES), "allocation on the GPU");
    for (int i = 1; i < argc; i++) {
        const char *step = argv[i], *argument = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(step, "copy") == 0) {
            copy();
        } else if (strcmp(step, "used") == 0) {
            print_used();
        } else if (strcmp(step, "wait") == 0) {
            printf("ready\n");
            while (getchar() != EOF)
                ;
        } else if (strcmp(step, "hold") == 0) {
            device_address held;
            expect(cuda.mem_alloc(&held, strtoul(argument, NULL, 10) << 20),
                   "allocation on the GPU");
            i++;
        } else if (strcmp(step, "export") == 0) {
            export_to(argument);
            i++;
        } else if (strcmp(step, "import") == 0) {
            import_from(argument);
            i++;
        } else {
            printf("no step %s\n", step);
            return 2;
        }
    }
    return 0;
}
