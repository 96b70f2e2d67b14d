/* src/reaper/thread_tasks.c: the end of tasks in thread mode, which are threads of their spawner's
 * process.
 *
 * The kernel does not report the end of another process's thread, so the reaper polls. A task's
 * exit sets `exited`, and is complete when the task has no threads left. A thread belongs to the
 * task in whose range the head of its robust list lies, because that is in its libc's memory.
 * Freestanding. */
#include "reaper/reaper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "base/proc.h"
#include "base/raw.h"
#include "interpose/interpose.h"
#include "space/member.h"

enum { EXIT_POLL_NS = 1000000, IDLE_POLL_NS = 100000000, MAX_INCOMPLETE_SCANS = 1000 };

/* The threads of one process, counted by task. */
struct thread_scan {
    struct space *space;
    int32_t process; /* 0: none counted */
    unsigned threads;
    unsigned without_list; /* threads that have no robust list yet, but may get one */
    int is_complete;       /* the kernel listed all of them */
    long error;            /* it did not let us look, so nothing follows from the counts */
    uint16_t counts[LAYOUT_SLOTS];
};

enum {
    IO_WORKER = 0x10,       /* in the flags of /proc/PID/stat */
    TICK_NS = 10000000,     /* of start_ticks, on all architectures that we support */
    LIST_WITHIN_TICKS = 100 /* a thread of a libc sets its robust list before anything else */
};

/* Whether a thread that has no robust list yet may be of a libc. The kernel's threads for io_uring
 * never have one, nor have those that a program makes by clone. */
static int may_get_list(int thread)
{
    struct proc_stat stat;
    struct timespec now;
    if (proc_read_stat(thread, &stat) != 0)
        return 1;
    raw(__NR_clock_gettime, CLOCK_BOOTTIME, &now);
    uint64_t ticks =
        (uint64_t)now.tv_sec * (1000000000 / TICK_NS) + (uint64_t)now.tv_nsec / TICK_NS;
    return !(stat.flags & IO_WORKER) && ticks < stat.start_ticks + LIST_WITHIN_TICKS;
}

static void count_thread(void *context, int thread, int directory)
{
    struct thread_scan *scan = context;
    uintptr_t head = 0;
    size_t size;
    (void)directory;
    long result = raw(__NR_get_robust_list, thread, &head, &size);
    if (result == -ESRCH)
        return; /* it has just ended */
    if (result < 0)
        scan->error = result;
    unsigned index = layout_slot_of(head);
    scan->threads++;
    scan->without_list += head == 0 && may_get_list(thread);
    if (index == 0 || index >= LAYOUT_SLOTS)
        return;
    struct space_slot *slot = &scan->space->slots[index];
    scan->counts[index]++;
    if (atomic_load_explicit(&slot->exited, memory_order_acquire)) {
        siginfo_t info = {.si_signo = THREAD_MODE_SIGNAL, .si_code = SI_QUEUE};
        info.si_value.sival_ptr = slot;
        raw(__NR_rt_tgsigqueueinfo, scan->process, thread, THREAD_MODE_SIGNAL, &info);
    }
}

/* The number of a process's threads, from the link count of its task directory. */
static long thread_count(const char *path)
{
    struct stat status;
    return raw(__NR_newfstatat, AT_FDCWD, path, &status, 0) == 0 ? (long)status.st_nlink - 2 : -1;
}

static void list_threads(struct thread_scan *scan, const char *path)
{
    scan->threads = scan->without_list = 0;
    for (unsigned i = 0; i < LAYOUT_SLOTS; i++)
        scan->counts[i] = 0;
    scan->error = 0;
    /* The kernel's listing stops early if the thread that it has reached ends. */
    long before = thread_count(path);
    long result = proc_each_number(path, count_thread, scan);
    if (result < 0 && result != -ENOENT) /* for lack of descriptors, say; else there is no /proc */
        scan->error = result;
    scan->is_complete = result == 0 && before == scan->threads && thread_count(path) == before;
}

/* Only privileged processes may read robust lists of a process whose memory is not dumpable
 * (dumpable.c, or the program's own choice): for the moment it is. */
static void count_threads(struct thread_scan *scan, int32_t process)
{
    static int32_t foreign; /* the last process that has other credentials: that does not help */
    char path[32];
    proc_path(path, process, "task");
    scan->process = process;
    list_threads(scan, path);
    if (scan->error != -EPERM || foreign == process || raw(__NR_prctl, PR_GET_DUMPABLE) == 1)
        return;
    raw(__NR_prctl, PR_SET_DUMPABLE, 1);
    list_threads(scan, path);
    raw(__NR_prctl, PR_SET_DUMPABLE, 0);
    foreign = scan->error == -EPERM ? process : 0;
}

static int is_live_thread_task(const struct space_slot *slot)
{
    return slot_is_alive(slot_state(slot)) && slot_is_thread(slot);
}

/* Whether the task has no threads left. Precondition: its main thread had ended before the scan.
 * A thread without a robust list gets one within moments. If other tasks' threads end all the time,
 * or there is no /proc, no list is complete: then so many incomplete ones in a row that show none
 * suffice. */
static int has_no_threads(const struct thread_scan *scan, struct space_slot *slot)
{
    int is_certain = scan->is_complete && !scan->without_list;
    if (scan->error || scan->counts[slot_index(scan->space, slot)]) {
        slot->incomplete_scans = 0;
        return 0;
    }
    return is_certain || ++slot->incomplete_scans >= MAX_INCOMPLETE_SCANS;
}

uint64_t thread_tasks_poll(struct space *space)
{
    static struct thread_scan scan; /* only the reaper calls this */
    static uint8_t without_main[LAYOUT_SLOTS];
    uint64_t timeout = 0;
    if (!atomic_load(&space->had_threads))
        return 0;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++)
        without_main[i] =
            is_live_thread_task(&space->slots[i]) && main_thread_has_ended(space, &space->slots[i]);
    scan.space = space;
    scan.process = 0;
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        if (!is_live_thread_task(slot))
            continue;
        uint32_t exited = atomic_load_explicit(&slot->exited, memory_order_acquire);
        if ((without_main[i] || exited) && scan.process != atomic_load(&slot->pid))
            count_threads(&scan, atomic_load(&slot->pid));
        if (without_main[i] &&
            has_no_threads(&scan, slot)) /* status 0 if its threads made raw exit calls */
            members_ended(space, &(struct member_end){slot, (int)(exited & 0xff) << 8}, 1);
        else if (exited)
            timeout = EXIT_POLL_NS;
        else if (!timeout)
            timeout = IDLE_POLL_NS;
    }
    return timeout;
}

void thread_tasks_end_with_process(struct space *space, const struct space_slot *owner, int status)
{
    if (!atomic_load(&space->had_threads) || slot_is_thread(owner))
        return;
    uint32_t highest = atomic_load(&space->highest);
    for (uint32_t i = 1; i <= highest; i++) {
        struct space_slot *slot = &space->slots[i];
        if (is_live_thread_task(slot) && atomic_load(&slot->pid) == atomic_load(&owner->pid))
            members_ended(space, &(struct member_end){slot, status}, 1);
    }
}
