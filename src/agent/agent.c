/* src/agent/agent.c: libonespace-agent.so, preloaded into each task before its program.
 *
 * Freestanding, without DT_NEEDED, so that one file serves glibc and musl of any version; the few
 * libc functions that it calls are weak references. Most of what a task needs is done by the root's
 * library through system call interposition. The agent does what must happen inside the task once
 * its libc is ready: it reports that the task's libraries are loaded, sets the allocator's options
 * on request, diverts _exit in thread mode, starts to serve calls, runs a function of the program
 * in place of main, and provides syscall(), free() (free.c), functions that register memory
 * (registrations.c), epoll_wait() and jumps to MPI functions (mpi.c), and what unwinders ask
 * (unwind.c). */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/limits.h>
#include <linux/memfd.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "agent/agent.h"
#include "arch/code/patch.h"
#include "base/text.h"
#include "base/page.h"
#include "base/raw.h"
#include "onespace.h"
#include "space/child.h"

extern int mallopt(int, int) WEAK;
extern struct r_debug _r_debug WEAK;        /* glibc */
extern struct r_debug *_dl_debug_addr WEAK; /* musl */
extern char **environ WEAK;
extern void _exit(int) WEAK;

typedef int main_function(int, char **, char **);

long syscall(long nr, ...);

enum { /* glibc's malloc.h, which a freestanding file cannot rely on */
       OPTION_TRIM_THRESHOLD = -1,
       OPTION_TOP_PAD = -2,
       OPTION_MMAP_THRESHOLD = -3,
};
enum {
    HEAP_PAD = 1 << 20,   /* grow the break by at least this much */
    HEAP_TRIM = 64 << 20, /* keep at most this much free memory at the heap's top */
    HEAP_MMAP = 32 << 20, /* larger blocks by mmap, which are unmapped when they are freed */
};

/* Never written. Constant, because each task has its own copy of all other zeroes. */
static const struct space_slot no_slot;

struct space *agent_space;
struct space_slot *agent_self = (struct space_slot *)&no_slot;
uintptr_t agent_low;

/* On request: a heap that keeps free memory makes fewer system calls and page faults. Each of these
 * options stops glibc from adapting the others, hence all three. docs/memory.md has the cost. */
static void tune_heap(void)
{
    if (!mallopt || !(agent_self->flags & ONESPACE_SPAWN_HEAP_TUNED))
        return;
    mallopt(OPTION_TOP_PAD, HEAP_PAD);
    mallopt(OPTION_TRIM_THRESHOLD, HEAP_TRIM);
    mallopt(OPTION_MMAP_THRESHOLD, HEAP_MMAP);
}

/* The agent's own file, for messages. */
static const char *agent_file(void)
{
    Dl_info self;
    return dladdr && dladdr((void *)agent_file, &self) && self.dli_fname ? self.dli_fname
                                                                         : "libonespace-agent.so";
}

static int find_space(void)
{
    if (agent_space || !getauxval)
        return agent_space != NULL;
    struct space *space = (struct space *)getauxval(SPACE_AT_REGISTRY);
    struct space_slot *self = (struct space_slot *)getauxval(SPACE_AT_SLOT);
    if (!space || !self || !registry_matches(space, agent_file()))
        return 0;
    agent_self = self;
    agent_space = space;
    if (!(self->flags & ONESPACE_SPAWN_NO_INTERPOSE))
        agent_low = layout_range(slot_index(space, self));
    return 1;
}

/* The auxiliary vector follows the environment. ld.so has moved both over its own arguments. */
static void record_auxv(char **envp)
{
    if (!envp)
        return;
    while (*envp)
        envp++;
    ((struct child *)agent_self->child_record)->auxv = (uintptr_t)(envp + 1);
}

/* A program starts with errno 0 (C11, 7.5), whatever the agent's own calls leave there. */
static void clear_errno(void)
{
    if (__errno_location)
        *__errno_location() = 0;
}

/* ---- Files beside the agent: the other libraries of onespace ---- */

/* The agent may have been named through a descriptor, so its link is resolved. */
int sibling_path(const char *name, char *path, size_t size)
{
    Dl_info self;
    if (!dladdr || !dladdr((void *)&sibling_path, &self) || !self.dli_fname)
        return -1;
    long length = raw(__NR_readlinkat, AT_FDCWD, self.dli_fname, path, size - 1);
    if (length < 0 || path[0] != '/')
        length = text_append_max(path, self.dli_fname, size - 1) - path;
    path[length] = 0;
    char *file = path + (text_basename(path) - path);
    if (file == path || (size_t)(file - path) + text_length(name) >= size)
        return -1;
    text_append(file, name);
    return 0;
}

/* ---- Thread mode: the end of the program must not end the process ----
 *
 * The beginning of the libc's _exit becomes a jump to end_thread, so that all calls of it end the
 * task's thread, also calls from inside the libc. No other thread runs this libc yet. */

static void end_thread(int status)
{
    agent_space->operations.thread_exit(agent_self, status);
}

/* Maps the changed code from a memory file. PR_SET_MDWE, of the process or a member, and some
 * security modules forbid to execute memory that was writable. Returns 0 or -errno. */
static long map_from_memory_file(uintptr_t page, size_t size)
{
    struct rlimit limit;
    /* Writing beyond the limit would raise SIGXFSZ. */
    if (raw(__NR_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || limit.rlim_cur < size)
        return -EFBIG;
    long fd = raw(__NR_memfd_create, "onespace-exit", MFD_CLOEXEC);
    if (fd < 0)
        return fd;
    long result = raw(__NR_write, fd, page, size) == (long)size ? 0 : -EIO;
    if (result == 0)
        result = raw(__NR_mmap, page, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0);
    raw(__NR_close, fd);
    return raw_failed(result) ? result : 0;
}

static int write_jump(uintptr_t at)
{
    uintptr_t page = page_floor(at);
    size_t size = page_ceiling(at + ARCH_JUMP_BYTES) - page;
    if (!at || raw(__NR_mprotect, page, size, PROT_READ | PROT_WRITE) != 0)
        return -1;
    int failed = arch_write_jump(at, (uintptr_t)end_thread);
    if (raw(__NR_mprotect, page, size, PROT_READ | PROT_EXEC) != 0 &&
        map_from_memory_file(page, size) != 0)
        return -1;
    return failed;
}

static void divert_exit(void)
{
    char text[256], *end = text_append(text, "onespace: task ");
    if (write_jump((uintptr_t)_exit) == 0)
        return;
    end = text_append_number(end, (uint64_t)atomic_load(&agent_self->id), 10);
    end = text_append(
        end,
        ": its libc's code cannot be changed here (PR_SET_MDWE or a security module forbids it): "
        "start it without thread mode\n");
    raw(__NR_write, 2, text, end - text);
    end_thread(127);
}

/* ---- The constructor and destructor ---- */

/* glibc calls constructors with what main gets; nothing has changed its environment yet. */
__attribute__((constructor)) static void attach(int argc, char **argv, char **envp)
{
    (void)argc, (void)argv;
    if (!find_space())
        return;
    record_auxv(&_r_debug ? envp : &environ ? environ : NULL);
    if (slot_is_thread(agent_self))
        divert_exit();
    const struct r_debug *debug = &_r_debug ? &_r_debug : &_dl_debug_addr ? _dl_debug_addr : NULL;
    agent_space->operations.task_loaded(agent_self, debug ? (uintptr_t)debug->r_map : 0);
    agent_self->registrations.start_notifier = (uintptr_t)start_notifier;
    tune_heap();
    find_libc_free();
    find_next_ioctl();
    clear_errno();
}

/* exit runs destructors, the agent's last; _exit runs none. */
__attribute__((destructor)) static void record_exit(void)
{
    if (agent_space && process_in_space() && /* not in a forked child or a vfork child */
        raw(__NR_getpid) == atomic_load_explicit(&agent_self->pid, memory_order_relaxed))
        atomic_store_explicit(&agent_self->called_exit, 1, memory_order_relaxed);
}

/* ---- A task that serves calls (ONESPACE_SPAWN_CALLS) ----
 *
 * The task's own libonespace creates the threads; it is loaded for that if the program does not use
 * it. Right before main, when the program's libraries are ready. */

static main_function *program_main;

/* Clears the flag, so that callers do not wait for this task. */
static void report_no_service(const char *what, const char *why)
{
    agent_self->flags &= ~ONESPACE_SPAWN_CALLS;
    const char *parts[] = {"onespace: the task serves no calls: ", what, why, "\n"};
    struct iovec pieces[4];
    for (int i = 0; i < 4; i++)
        pieces[i] = (struct iovec){(void *)parts[i], text_length(parts[i])};
    raw(__NR_writev, 2, pieces, 4);
}

static void start_serving(void)
{
    char path[PATH_MAX];
    if (!dlopen || !dlsym || sibling_path("libonespace.so.0", path, sizeof(path)) < 0) {
        report_no_service("its libc cannot load libonespace.so.0", "");
        return;
    }
    void *library = dlopen("libonespace.so.0", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*begin)(void) = library ? (int (*)(void))dlsym(library, "onespace_call_serve") : NULL;
    const char *(*message)(void) =
        library ? (const char *(*)(void))dlsym(library, "onespace_call_message") : NULL;
    if (!begin || !message)
        report_no_service("libonespace.so.0 cannot be loaded: ", dlerror ? dlerror() : "");
    else if (begin() < 0)
        report_no_service("", message());
}

static int serve_and_run_main(int argc, char **argv, char **envp)
{
    start_serving();
    return program_main(argc, argv, envp);
}

/* ---- The start of the program ----
 *
 * A program's entry code passes main to the libc's __libc_start_main. The agent's function of that
 * name passes on another function if the spawner has named one (onespace_spawn_attr.start). */

typedef int start_main_function(main_function *, int, char **, void (*)(void), void (*)(void),
                                void (*)(void), void *);
start_main_function __libc_start_main;
extern void *__libc_dlsym(void *, const char *) WEAK; /* glibc 2.33 has dlsym in libdl */
extern void *__libc_dlopen_mode(const char *, int) WEAK;

static start_main_function *real_start_main(void)
{
    if (dlsym)
        return (start_main_function *)dlsym(RTLD_NEXT, "__libc_start_main");
    void *libc = __libc_dlsym ? __libc_dlopen_mode("libc.so.6", 0x80000002) : NULL;
    return libc ? (start_main_function *)__libc_dlsym(libc, "__libc_start_main") : NULL;
}

/* The first object is the program. */
static int first_bias(struct dl_phdr_info *info, size_t size, void *bias)
{
    (void)size;
    *(uintptr_t *)bias = info->dlpi_addr;
    return 1;
}

static int call_start(int argc, char **argv, char **envp)
{
    (void)argc, (void)argv, (void)envp;
    const struct child *child = (const struct child *)agent_self->child_record;
    uintptr_t bias = 0;
    dl_iterate_phdr(first_bias, &bias);
    return ((int (*)(void *))(bias + child->start))(child->start_argument);
}

EXPORTED int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void),
                               void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
    start_main_function *real = real_start_main();
    /* musl runs constructors later than this. */
    const struct child *child =
        find_space() ? (const struct child *)agent_self->child_record : NULL;
    if (child) {
        disable_ucx_sysv();
        place_symmetric_heap();
        check_launcher();
    }
    if (child && child->start)
        main = dl_iterate_phdr ? call_start : NULL;
    if (main && child && (agent_self->flags & ONESPACE_SPAWN_CALLS)) {
        program_main = main;
        main = serve_and_run_main;
    }
    if (!real || !main)
        for (;;)
            raw(__NR_exit_group, 127);
    clear_errno();
    return real(main, argc, argv, init, fini, rtld_fini, stack_end);
}

/* libfabric and UCX make some of the interposed calls through syscall(). */
EXPORTED long syscall(long nr, ...)
{
    long a[6];
    va_list list;
    va_start(list, nr);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    long result = agent_space && !(agent_self->flags & ONESPACE_SPAWN_NO_INTERPOSE)
                      ? agent_space->operations.interpose(agent_self, nr, a)
                      : raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (!raw_failed(result))
        return result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}
