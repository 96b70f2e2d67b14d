/* src/space/self.c: the calling program's membership, in its own copy of the library. */
#include "space/member.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>

/* Set once, by attach() or space_set_root. Threads that call first at the same time store the same
 * values. The release of `mine` pairs with the acquire in space_mine, so `self` is visible with it.
 */
static struct space *_Atomic mine;
static struct space_slot *_Atomic self;

static void publish(struct space *space, struct space_slot *slot)
{
    atomic_store(&space_is_mapped, space != NULL);
    atomic_store_explicit(&self, slot, memory_order_relaxed);
    atomic_store_explicit(&mine, space, memory_order_release);
}

void space_set_root(struct space *space)
{
    publish(space, space ? &space->slots[0] : NULL);
}

/* A task finds the space in its auxiliary vector. */
static void attach(void)
{
    struct space *space = (struct space *)getauxval(SPACE_AT_REGISTRY);
    struct space_slot *slot = (struct space_slot *)getauxval(SPACE_AT_SLOT);
    Dl_info library;
    if (!space || !slot)
        return;
    const char *file = dladdr((void *)attach, &library) ? library.dli_fname : "libonespace";
    static _Atomic int has_warned; /* a program may ask several times */
    if (!registry_matches(space, atomic_exchange(&has_warned, 1) ? NULL : file))
        return;
    publish(space, slot);
}

struct space *space_mine(void)
{
    struct space *space = atomic_load_explicit(&mine, memory_order_acquire);
    if (!space) {
        attach();
        space = atomic_load_explicit(&mine, memory_order_acquire);
    }
    return space && process_in_space() ? space : NULL;
}

struct space_slot *space_self(void)
{
    return space_mine() ? atomic_load_explicit(&self, memory_order_relaxed) : NULL;
}

int forked_from_member(void)
{
    return atomic_load_explicit(&mine, memory_order_relaxed) && !process_in_space();
}

/* As long as a program has created no thread, its libc omits atomic instructions: glibc in mutexes
 * that are not process-shared and in malloc, libstdc++ in the counts of std::shared_ptr. Tasks
 * share memory without being threads of one another, so two such programs could both acquire a
 * lock. After a thread was created, the libc uses atomic instructions for the rest of the program.
 */

/* glibc 2.32 and later; other libcs have no such shortcut. */
extern char __libc_single_threaded __attribute__((weak));

static void *empty_thread(void *argument)
{
    return argument;
}

int force_libc_locking(void)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, mask;
    if (!&__libc_single_threaded || !__libc_single_threaded)
        return 0;
    /* The program's signals must not be delivered to this thread. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 128 * 1024);
    int error = pthread_create(&thread, &attr, empty_thread, NULL);
    if (error == EINVAL) /* the program's thread-local storage does not fit */
        error = pthread_create(&thread, NULL, empty_thread, NULL);
    if (error == 0)
        pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    /* EPERM, from a filter that forbids threads, is not a failure: the program cannot create
     * threads of its own either. */
    return error && error != EPERM ? -EAGAIN : 0;
}
