/* src/agent/registrations.c: registrations of memory with a device, and the notifier, a thread of
 * the task's libc that is notified when other tasks unmap such memory (space/registrations.h).
 *
 * Libraries register by ioctl (libibverbs) and by functions of liburing, which the agent replaces
 * by functions that record the memory and call the next function of that name. */
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>

#include "agent/agent.h"
#include "base/raw.h"

extern int pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) WEAK;
extern int pthread_detach(pthread_t) WEAK;
extern int munmap(void *, size_t) WEAK;
extern struct r_debug *_dl_debug_addr WEAK; /* musl */
extern int __cxa_atexit(void (*)(void *), void *, void *) WEAK;

/* ---- The notifier ---- */

/* As the program does: libraries replace the code of munmap, or its address in the tables of all
 * loaded objects, the agent's too. */
static void call_libc_munmap(uintptr_t start, uintptr_t bytes)
{
    (void)munmap((void *)start, bytes);
}

static void *notifier_thread(void *unused)
{
    (void)unused;
    agent_space->operations.deliver(agent_space, agent_self, call_libc_munmap);
    return NULL;
}

static void stop_at_exit(void *unused)
{
    (void)unused;
    if (process_in_space() && raw(__NR_getpid) == atomic_load(&agent_self->pid))
        agent_space->operations.stop_deliveries(agent_space, agent_self);
}

/* musl changes the ids of all threads by this signal and waits until each has handled it; in glibc
 * it is the program's. */
static void unblock_musl_signal(void)
{
    enum { SIGSYNCCALL = 34 };
    const uint64_t signal = UINT64_C(1) << (SIGSYNCCALL - 1);
    if (&_dl_debug_addr)
        raw(__NR_rt_sigprocmask, SIG_UNBLOCK, &signal, NULL, ARCH_SIGNAL_SET_BYTES);
}

/* Called with signals blocked, which the thread inherits (space/registrations.c).
 * glibc before 2.34 has threads in a library of its own. Functions for the exit run in reverse
 * order: this one before those of the libraries that are loaded now. */
int start_notifier(void)
{
    static _Atomic int is_registered;
    pthread_t thread;
    unblock_musl_signal();
    if (!pthread_create || !pthread_detach || !munmap ||
        pthread_create(&thread, NULL, notifier_thread, NULL) != 0)
        return -1;
    pthread_detach(thread);
    if (__cxa_atexit && !atomic_exchange(&is_registered, 1))
        __cxa_atexit(stop_at_exit, NULL, NULL);
    return 0;
}

/* ---- Calls that register ---- */

static int is_recorded(void)
{
    return agent_space && !(agent_self->flags & ONESPACE_SPAWN_NO_INTERPOSE);
}

typedef int ioctl_function(int, unsigned long, ...);

/* The libc's, or that of another preloaded library. NULL before the agent's constructor, and
 * without dlsym (glibc before 2.34, without libdl): then it is the system call. */
static ioctl_function *next_ioctl;

void find_next_ioctl(void)
{
    next_ioctl = dlsym ? (ioctl_function *)dlsym(RTLD_NEXT, "ioctl") : NULL;
}

static int call_ioctl(int fd, unsigned long request, void *argument)
{
    if (next_ioctl)
        return next_ioctl(fd, request, argument);
    long result = raw(__NR_ioctl, fd, request, argument);
    if (!raw_failed(result))
        return (int)result;
    if (__errno_location)
        *__errno_location() = (int)-result;
    return -1;
}

ioctl_function ioctl;

EXPORTED int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    /* The C library of musl declares the request as an int. */
    int is_verbs = (uint32_t)request == (uint32_t)RDMA_VERBS_IOCTL && is_recorded();
    if (is_verbs)
        agent_space->operations.record_verbs_call(agent_self, argument);
    int result = call_ioctl(fd, request, argument);
    if (is_verbs && result == 0)
        agent_space->operations.record_verbs_call(agent_self, argument);
    return result;
}

/* liburing's own function. A library that the program has opened without RTLD_GLOBAL is in no scope
 * that RTLD_NEXT searches. */
static void *find_in_liburing(const char *name)
{
    void *found = dlsym ? dlsym(RTLD_NEXT, name) : NULL;
    if (found || !dlsym || !dlopen)
        return found;
    void *library = dlopen("liburing.so.2", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        library = dlopen("liburing.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

/* liburing makes its system calls without the libc. */
#define URING_BUFFERS(name, parameters, arguments, buffers, count)                                 \
    EXPORTED int name parameters;                                                                  \
    int name parameters                                                                            \
    {                                                                                              \
        int(*next) parameters = (int(*) parameters)find_in_liburing(#name);                        \
        if (!next)                                                                                 \
            return -ENOSYS;                                                                        \
        if (is_recorded())                                                                         \
            agent_space->operations.record_buffers(agent_self, buffers, count);                    \
        int result = next arguments;                                                               \
        if (result >= 0 && is_recorded())                                                          \
            agent_space->operations.record_buffers(agent_self, buffers, count);                    \
        return result;                                                                             \
    }

URING_BUFFERS(io_uring_register_buffers, (void *ring, const void *buffers, unsigned count),
              (ring, buffers, count), buffers, count)
URING_BUFFERS(io_uring_register_buffers_tags,
              (void *ring, const void *buffers, const void *tags, unsigned count),
              (ring, buffers, tags, count), buffers, count)
URING_BUFFERS(io_uring_register_buffers_update_tag,
              (void *ring, unsigned first, const void *buffers, const void *tags, unsigned count),
              (ring, first, buffers, tags, count), buffers, count)
