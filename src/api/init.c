/* src/api/init.c: make a space and end it. The composition root of the layers below. */
#include "onespace.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "arch/copy.h"
#include "arch/trampoline.h"
#include "base/futex.h"
#include "base/raw.h"
#include "base/text.h"
#include "interpose/interpose.h"
#include "interpose/thread_mode.h"
#include "spawn/attach.h"
#include "api/debugger.h"
#include "space/member.h"
#include "api/mappings.h"
#include "spawn/spawn.h"
#include "reaper/reaper.h"
#include "spawn/internal.h"
#include "api/kernel.h"

#ifndef PR_FUTEX_HASH
#define PR_FUTEX_HASH           78
#define PR_FUTEX_HASH_SET_SLOTS 1
#endif

enum { FUTEX_HASH_SLOTS = 1024 };

/* The object that holds this function is the root's copy of the library. */
static int note_object(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct space_unwind unwind = {.trampoline_frame = (uintptr_t)arch_trampoline_frame};
    uintptr_t here = (uintptr_t)note_object;
    (void)size;
    for (unsigned i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        uintptr_t low = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_GNU_EH_FRAME)
            unwind.table = low;
        if (segment->p_type == PT_LOAD && here - low < segment->p_memsz) {
            unwind.code_low = low;
            unwind.code_high = low + segment->p_memsz;
        }
    }
    if (unwind.code_low)
        *(struct space_unwind *)argument = unwind;
    return unwind.code_low != 0;
}

static void fill_registry(struct space *space)
{
    struct space_slot *root = &space->slots[0];
    Dl_info library;
    if (dladdr((void *)fill_registry, &library) && library.dli_fname)
        text_append_max(space->library, library.dli_fname, sizeof(space->library) - 1);
    space->header = registry_header();
    dl_iterate_phdr(note_object, &space->unwind);
    space->operations.task_loaded = task_loaded;
    space->operations.interpose = interpose_call;
    space->operations.prepare = interpose_map_trampolines;
    space->operations.child_clone = child_clone;
    agent_sibling_path("libxpmem.so.0", space->xpmem_library, sizeof(space->xpmem_library));
    space->operations.thread_exit = thread_mode_exit;
    for (const struct member_hooks *const *layer = member_hooks; *layer; layer++)
        if ((*layer)->space_created)
            (*layer)->space_created(space);
    space->root_pid = getpid();
    space->reaper_ignored = ignored_signals_of_process() & ~reaper_handled_signals();
    for (int i = 0; i < SPACE_LIMITS; i++)
        (void)getrlimit(i, &space->reaper_limits[i]);
    space->created_ns = futex_now_ns();
    atomic_store(&space->requests, -1);
    atomic_store(&space->free_hint, 1);
    atomic_store(&space->pids[0], space->root_pid);
    atomic_store(&root->pid, space->root_pid);
    root->number = root->ntasks = -1;
    root->started_ns = space->created_ns;
    ssize_t length = readlink("/proc/self/exe", root->program, SPACE_PROGRAM_MAX - 1);
    root->program[length > 0 ? length : 0] = 0;
    struct link_map *first = NULL;
    void *program = dlopen(NULL, RTLD_LAZY);
    if (program && dlinfo(program, RTLD_DI_LINKMAP, &first) == 0)
        root->link_map = (uintptr_t)first;
    debugger_chain_append(space);
    atomic_store(&root->memory, MEMORY_PRESENT);
    atomic_store(&root->state, SLOT_RUNNING);
}

static long create_space(void)
{
    struct space *space = space_registry();
    long result = space_map(space);
    if (result < 0)
        return result;
    /* Fixes the size of the futex hash before the first task, so that no wake-up is lost while the
     * kernel resizes it (Linux 6.16 and later; older kernels have neither the call nor the hash).
     */
    prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, FUTEX_HASH_SLOTS, 0, 0);
#if ARCH_DETECTS
    arch_detect();
#endif
    fill_registry(space);
    if (must_clear_dumpable(getenv("ONESPACE_DUMPABLE")))
        dumpable_clear();
    result = reaper_start(space);
    if (result < 0) {
        dumpable_restore();
        debugger_chain_remove(space);
        space_unmap(space);
        return result;
    }
    space_set_root(space);
    if (getpid() == raw(__NR_gettid))
        membership_mark_attach(&space->slots[0]);
    return 0;
}

/* Valgrind lets one of a program's threads run at a time. The reaper, a process in the same memory,
 * would not pass that lock on when valgrind ends it, and the root would wait for ever. */
static int is_under_valgrind(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded && strstr(preloaded, "/vgpreload_");
}

int onespace_init(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&once);
    struct space_slot *slot = space_self();
    long result = 0;
    if (slot)
        result = atomic_load(&slot->id);
    else if (forked_from_member())
        result = -EPERM;
    else if (is_under_valgrind() || kernel_may_stall("onespace"))
        result = -ENOTSUP;
    else
        result = create_space();
    if (result >= 0 && force_libc_locking() < 0)
        result = -EAGAIN;
    pthread_mutex_unlock(&once);
    return (int)result;
}

int onespace_fini(void)
{
    struct space *space = space_mine();
    if (!space || space_self() != &space->slots[0])
        return -EPERM;
    long result = reaper_stop(space);
    if (result < 0)
        return (int)result;
    for (const struct member_hooks *const *layer = member_hooks; *layer; layer++)
        if ((*layer)->space_ending)
            (*layer)->space_ending(space);
    membership_mark_detach(&space->slots[0]);
    dumpable_restore();
    space_set_root(NULL);
    loader_images_close();
    debugger_chain_remove(space);
    space_unmap(space);
    return 0;
}

const char *onespace_version(void)
{
    return ONESPACE_VERSION; /* the project's, from CMakeLists.txt */
}
