/* src/api/init.c: creates a space and ends it.
 *
 * onespace_init maps the registry and fences the program break, fills the registry, starts the
 * reaper, and only then makes the caller the root. onespace_fini stops the reaper first, while the
 * caller is still the root, and then undoes the rest. */
#include "onespace.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "api/kernel.h"
#include "arch/copy.h"
#include "arch/trampoline.h"
#include "base/futex.h"
#include "base/page.h"
#include "base/proc.h"
#include "base/raw.h"
#include "base/text.h"
#include "interpose/interpose.h"
#include "policy/policy.h"
#include "reaper/reaper.h"
#include "space/member.h"
#include "space/registry.h"
#include "spawn/spawn.h"

#ifndef PR_FUTEX_HASH
#define PR_FUTEX_HASH           78
#define PR_FUTEX_HASH_SET_SLOTS 1
#endif

enum { FUTEX_HASH_SLOTS = 1024, FENCE_TRIES = 16 };

/* ---- What a space maps: registry, mark, trampolines, fence ---- */

/* The registry is a private mapping of a named file: copied on write like anonymous memory, so that
 * a forked child cannot write to it, but found by name in /proc/PID/maps by `onespace ps`. Where a
 * limit on file sizes allows no file it is anonymous memory, and `onespace ps` does not see the
 * space. */
static long map_registry(void)
{
    int fd = memory_file_create("onespace-space", 0, sizeof(struct space));
    if (fd < 0 && fd != -EFBIG)
        return fd;
    void *memory =
        mmap((void *)LAYOUT_REGISTRY, sizeof(struct space), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED_NOREPLACE | MAP_NORESERVE | (fd < 0 ? MAP_ANONYMOUS : 0),
             fd < 0 ? -1 : fd, 0);
    long result = memory == MAP_FAILED ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return result;
}

/* Anonymous memory that is zero in a forked child. */
static long map_wiped(void *at, size_t size, int flags)
{
    void *memory =
        mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return memory == MAP_FAILED || madvise(memory, size, MADV_WIPEONFORK) != 0 ? -errno : 0;
}

/* Fork makes private memory read-only, and the next store copies the page. A store by the kernel,
 * such as that of CLONE_PARENT_SETTID, then waits for the fork, and is omitted if the caller is
 * killed while it waits. Memory that is wiped in a forked child stays writable. */
static long map_pids(struct space *space)
{
    size_t size = sizeof(*space) - offsetof(struct space, pids);
    return map_wiped(space->pids, size, MAP_FIXED | MAP_NORESERVE);
}

static long map_mark(void)
{
    long result = map_wiped((void *)LAYOUT_MARK, ARCH_PAGE, MAP_FIXED_NOREPLACE);
    if (result == 0)
        *(volatile uint32_t *)LAYOUT_MARK = 1;
    return result;
}

static long map_trampolines(struct space *space)
{
    void *page = mmap(NULL, ARCH_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return -errno;
    arch_write_trampolines(page, -ARCH_PAGE);
    space->trampoline_page = (uintptr_t)page;
    return mprotect(page, ARCH_PAGE, PROT_READ | PROT_EXEC) == 0 ? 0 : -errno;
}

/* Fences the program break. The address space has one, and the libc of every program that is not
 * interposed assumes that it owns it. A page directly above the break makes every brk fail; those
 * libcs then take their heap from mmap. One page is allocated first by the root's own sbrk, so that
 * the root's libc never lowers the break, which would open a gap below the fence. */
static long fence_break(struct space *space)
{
    for (int tries = 0; tries < FENCE_TRIES; tries++) {
        if (sbrk(ARCH_PAGE) == (void *)-1)
            return 0; /* an existing mapping there is the fence */
        uintptr_t end = page_ceiling((uintptr_t)raw(__NR_brk, 0));
        void *fence =
            mmap((void *)end, ARCH_PAGE, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (fence != MAP_FAILED) {
            space->fence_low = end;
            space->fence_high = end + ARCH_PAGE;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

/* Precondition of a space: nothing is mapped in the region and in the windows of shared mappings
 * above it, because it would be unmapped with a task's range or window. Only unusual layouts put a
 * mapping there: setarch -L, vm.legacy_va_layout, a stack limit of dozens of TiB, on aarch64 an
 * unlimited stack. */
static long check_region(void)
{
    char buffer[4096];
    struct proc_maps maps;
    struct proc_mapping mapping;
    long result = proc_maps_open(&maps, 0, buffer, sizeof(buffer));
    if (result < 0)
        return result;
    while (result == 0 && proc_maps_next(&maps, &mapping))
        if (mapping.end > LAYOUT_REGION && mapping.start < SHARED_END)
            result = -ENOMEM;
    proc_maps_close(&maps);
    return result;
}

/* Unmaps what map_space maps, and the memory of ended tasks. */
static void unmap_space(struct space *space)
{
    if (space->fence_high)
        munmap((void *)space->fence_low, space->fence_high - space->fence_low);
    if (space->trampoline_page)
        munmap((void *)space->trampoline_page, ARCH_PAGE);
    /* The registry, the mark, and memory of ended tasks that was still held. */
    (void)memory_unmap(LAYOUT_REGION, LAYOUT_SLOTS * LAYOUT_RANGE);
}

/* Maps the registry, the mark and the page of trampolines, and fences the program break. Returns 0;
 * -errno with nothing mapped; -ENOMEM also if the region is not free. */
static long map_space(struct space *space)
{
    long result = check_region();
    if (result < 0)
        return result;
    result = map_registry();
    if (result < 0)
        return result == -EEXIST ? -ENOMEM : result;
    result = map_pids(space);
    if (result == 0)
        result = map_mark();
    if (result == 0)
        result = map_trampolines(space);
    if (result == 0)
        result = fence_break(space);
    if (result < 0)
        unmap_space(space);
    return result;
}

/* ---- The chain that debuggers follow (space/member.c), appended to that of the root's ld.so ----
 */

/* Where debuggers start: the DT_DEBUG entry of the root's program. NULL before glibc 2.35, whose
 * struct r_debug no r_next follows. */
static struct space_namespace *first_namespace(const struct space *space)
{
    const struct link_map *program = (const struct link_map *)space->slots[0].link_map;
    unsigned major = 0, minor = 0;
    (void)sscanf(gnu_get_libc_version(), "%u.%u", &major, &minor);
    if (!program || major < 2 || (major == 2 && minor < 35))
        return NULL;
    for (const ElfW(Dyn) *entry = program->l_ld; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_DEBUG)
            return (struct space_namespace *)entry->d_un.d_ptr;
    return NULL;
}

/* ld.so appends to its chain under a lock that is not accessible from here: if a thread of the root
 * calls dlmopen during onespace_init, the space's chain may be cut off and remain invisible. */
static void append_debugger_chain(struct space *space)
{
    struct space_namespace *first = first_namespace(space), *last = first;
    space->debug_head.version = space->debug_tail.version = SPACE_NAMESPACES;
    atomic_store(&space->debug_head.next, (uintptr_t)&space->debug_tail);
    if (!first)
        return;
    for (uintptr_t next; (next = atomic_load(&last->next));)
        last = (struct space_namespace *)next;
    atomic_store_explicit(&last->next, (uintptr_t)&space->debug_head, memory_order_release);
    /* As in ld.so itself, the version of the first one says whether r_next exists. */
    if (first->version < SPACE_NAMESPACES)
        first->version = SPACE_NAMESPACES;
}

static void remove_debugger_chain(struct space *space)
{
    for (struct space_namespace *at = first_namespace(space); at;) {
        uintptr_t next = atomic_load(&at->next);
        if (next == (uintptr_t)&space->debug_head)
            atomic_store(&at->next, atomic_load(&space->debug_tail.next));
        at = next == (uintptr_t)&space->debug_head ? NULL : (struct space_namespace *)next;
    }
}

/* ---- Creating and ending ---- */

/* The object that holds this function is the root's copy of the library. */
static int find_library_code(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct space_unwind unwind = {.trampoline_frame = (uintptr_t)arch_trampoline_frame};
    uintptr_t here = (uintptr_t)find_library_code;
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
    dl_iterate_phdr(find_library_code, &space->unwind);
    space->operations.task_loaded = task_loaded;
    space->operations.interpose = interpose_call;
    space->operations.prepare = interpose_map_trampolines;
    space->operations.child_clone = child_clone;
    agent_sibling_path("libxpmem.so.0", space->xpmem_library, sizeof(space->xpmem_library));
    space->operations.thread_exit = thread_mode_exit;
    space->operations.thread_mode_handler = thread_mode_handler;
    space->operations.thread_mode_handler_behind = thread_mode_handler_behind;
    space->operations.record_verbs_call = interpose_record_verbs_call;
    space->operations.record_buffers = interpose_record_buffers;
    space->operations.deliver = registrations_deliver;
    space->operations.stop_deliveries = registrations_stop;
    for (const struct member_hooks *const *layer = hooks_of_layers; *layer; layer++)
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
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = 0;
    slot_store_program(root, path);
    struct link_map *first = NULL;
    void *program = dlopen(NULL, RTLD_LAZY);
    if (program && dlinfo(program, RTLD_DI_LINKMAP, &first) == 0)
        root->link_map = (uintptr_t)first;
    append_debugger_chain(space);
    atomic_store(&root->memory, MEMORY_PRESENT);
    atomic_store(&root->state, SLOT_RUNNING);
}

/* With the batch job and the login that the space belongs to. */
static void log_space_start(const struct space *space)
{
    static const char *const variables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"};
    char login[16] = "", owner[160];
    if (!space->log)
        return;
    int fd = open("/proc/self/loginuid", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, login, sizeof(login) - 1);
    if (fd >= 0)
        close(fd);
    snprintf(owner, sizeof(owner), "login %s", length > 0 ? login : "unknown");
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (getenv(variables[i])) {
            snprintf(owner + strlen(owner), sizeof(owner) - strlen(owner), ", %s %.64s",
                     variables[i], getenv(variables[i]));
            break;
        }
    member_log(space, "space-start", NULL, &(struct audit_field){"OWNER", owner, 0});
}

static long create_space(const struct policy *policy)
{
    struct space *space = space_registry();
    long result = map_space(space);
    if (result < 0)
        return result;
    /* Fixes the size of the futex hash before the first task, so that no wake-up is lost while the
     * kernel resizes it (Linux 6.16 and later; older kernels have neither the call nor the hash).
     */
    prctl(PR_FUTEX_HASH, PR_FUTEX_HASH_SET_SLOTS, FUTEX_HASH_SLOTS, 0, 0);
#if ARCH_DETECTS
    arch_detect();
#endif
    if (must_clear_dumpable(getenv("ONESPACE_DUMPABLE")))
        dumpable_clear(); /* decides which signals the reaper will handle */
    fill_registry(space);
    space->tasks_max = policy->max_tasks;
    space->require_guard = policy->require_guard;
    space->log = policy->log;
    space->log_digest = policy->log_digest;
    result = reaper_start(space);
    if (result < 0) {
        dumpable_restore();
        remove_debugger_chain(space);
        unmap_space(space);
        return result;
    }
    space_set_root(space);
    log_space_start(space);
    if (getpid() == raw(__NR_gettid)) {
        membership_mark_attach(&space->slots[0]);
        reaper_wake(space); /* which sleeps on the mark, too, from now on */
    }
    return 0;
}

/* Valgrind lets one of a program's threads run at a time. The reaper, a process in the same memory,
 * would not pass that lock on when valgrind ends it, and the root would wait for ever. */
static int is_under_valgrind(void)
{
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded && strstr(preloaded, "/vgpreload_");
}

/* Makes a space, unless the machine's policy forbids it; then standard error says why. */
static long admit_and_create(void)
{
    static struct policy policy; /* 8 KiB; the caller holds a lock */
    char message[512];
    int refused = policy_admit(&policy, message, sizeof(message));
    if (refused < 0) {
        fprintf(stderr, "onespace: %s\n", message);
        return refused;
    }
    return create_space(&policy);
}

int onespace_init(void)
{
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    int cancel_state; /* as in onespace_spawn */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
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
        result = admit_and_create();
    if (result >= 0 && force_libc_locking() < 0)
        result = -EAGAIN;
    pthread_mutex_unlock(&once);
    pthread_setcancelstate(cancel_state, NULL);
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
    for (const struct member_hooks *const *layer = hooks_of_layers; *layer; layer++)
        if ((*layer)->space_ending)
            (*layer)->space_ending(space);
    membership_mark_detach(&space->slots[0]);
    dumpable_restore();
    space_set_root(NULL);
    loader_images_close();
    remove_debugger_chain(space);
    unmap_space(space);
    return 0;
}

const char *onespace_version(void)
{
    return ONESPACE_VERSION; /* the project's, from CMakeLists.txt */
}
