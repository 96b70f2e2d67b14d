/* src/agent/agent.c: libonespace-agent.so, preloaded into each task before its program.
 *
 * Freestanding, without DT_NEEDED, so that one file serves glibc and musl of any version; the few
 * libc functions that it calls are weak references. Most of what a task needs is done by the root's
 * library through system call interposition; the agent does what must happen inside the task once
 * its libc is ready: it reports that the task's libraries are loaded, sets the allocator's options
 * on request, lets a function of the program run in place of main, and provides syscall(), by which
 * some programs make calls that are interposed, and free() (see free.c). */
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>

#include "agent/agent.h"
#include "base/raw.h"
#include "onespace.h"
#include "space/child.h"

extern unsigned long getauxval(unsigned long) WEAK;
extern int mallopt(int, int) WEAK;
extern int *__errno_location(void) WEAK;
extern struct r_debug _r_debug WEAK;        /* glibc */
extern struct r_debug *_dl_debug_addr WEAK; /* musl */
extern char **environ WEAK;
extern int dladdr(const void *, Dl_info *) WEAK;

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

struct space *agent_space;
struct space_slot *agent_self;
uintptr_t agent_low;

/* On request: a heap that keeps free memory makes fewer system calls and page faults. Any of these
 * options ends glibc's adapting of the others, hence all three. docs/memory.md has the price. */
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

static uintptr_t first_link_map(void)
{
    if (&_r_debug)
        return (uintptr_t)_r_debug.r_map;
    return &_dl_debug_addr ? (uintptr_t)_dl_debug_addr->r_map : 0;
}

/* The auxiliary vector follows the environment. ld.so has moved both over its own arguments. */
static void note_auxv(char **envp)
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

/* glibc calls constructors with what main gets; nothing has changed its environment yet. */
__attribute__((constructor)) static void attach(int argc, char **argv, char **envp)
{
    (void)argc, (void)argv;
    if (!find_space())
        return;
    note_auxv(&_r_debug ? envp : &environ ? environ : NULL);
    if (space_is_thread(agent_self))
        divert_exit();
    agent_space->operations.task_loaded(agent_self, first_link_map());
    tune_heap();
    find_libc_free();
    clear_errno();
}

/* exit runs destructors, the agent's last; _exit runs none. */
__attribute__((destructor)) static void note_exit(void)
{
    if (agent_space && process_in_space() && /* not in a forked child or a vfork child */
        raw(__NR_getpid) == atomic_load_explicit(&agent_self->pid, memory_order_relaxed))
        atomic_store_explicit(&agent_self->called_exit, 1, memory_order_relaxed);
}

/* The spawner may name a function of the program to run in place of main. A program's entry code
 * passes main to the libc's __libc_start_main; the agent's passes that function on instead. */
typedef int start_main_function(main_function *, int, char **, void (*)(void), void (*)(void),
                                void (*)(void), void *);
start_main_function __libc_start_main;
extern void *__libc_dlsym(void *, const char *) WEAK; /* glibc 2.33 has dlsym in libdl */
extern void *__libc_dlopen_mode(const char *, int) WEAK;
extern int dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *) WEAK;

static start_main_function *real_start_main(void)
{
    if (dlsym)
        return (start_main_function *)dlsym(RTLD_NEXT, "__libc_start_main");
    void *libc = __libc_dlsym ? __libc_dlopen_mode("libc.so.6", 0x80000002) : NULL;
    return libc ? (start_main_function *)__libc_dlsym(libc, "__libc_start_main") : NULL;
}

/* The first object is the program. */
static int note_bias(struct dl_phdr_info *info, size_t size, void *bias)
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
    dl_iterate_phdr(note_bias, &bias);
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
    }
    if (child && child->start)
        main = dl_iterate_phdr ? call_start : NULL;
    if (main && child && (agent_self->flags & ONESPACE_SPAWN_CALLS))
        main = main_with_call_donors(main);
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
