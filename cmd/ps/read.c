/* cmd/ps/read.c: copies the registry of a space out of the memory of one of its processes.
 *
 * The space continues to run, and its memory may contain anything: a copied value is checked before
 * it is used as an index or a text. A process may end between any two steps; then another member is
 * tried. */
#include "cmd/ps/ps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/proc.h"
#include "cmd/lib/output.h"
#include "space/member.h"
#include "space/registry.h"
#include "space/shared_mappings.h"

/* ---- Copying memory ---- */

struct reading {
    const struct ps_key *key;
    const struct ps_member *members;
    unsigned count;
    const struct ps_member *source; /* whose memory is read */
    struct ps_space *space;
    struct space *head; /* the registry up to the files, as copied */
};

/* Descriptors of memory that were opened before this process became another user. */
static struct {
    int pid, memory;
} opened[4];
static unsigned opened_count;

void ps_copy_by(int pid, int memory)
{
    if (opened_count < sizeof(opened) / sizeof(opened[0])) {
        opened[opened_count].pid = pid;
        opened[opened_count++].memory = memory;
    }
}

static long copy_by(int memory, uintptr_t address, void *to, size_t size)
{
    ssize_t done = pread(memory, to, size, (off_t)address);
    return done == (ssize_t)size ? 0 : done < 0 ? -errno : -EFAULT;
}

/* /proc/PID/mem where the system call is filtered, as in many containers. */
long ps_copy(int pid, uintptr_t address, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)address, size};
    for (unsigned i = 0; i < opened_count; i++)
        if (opened[i].pid == pid)
            return copy_by(opened[i].memory, address, to, size);
    ssize_t done = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (done < 0 && (errno == EPERM || errno == ENOSYS)) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/mem", pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        long result = copy_by(fd, address, to, size);
        close(fd);
        return result;
    }
    return done == (ssize_t)size ? 0 : done < 0 ? -errno : -EFAULT;
}

struct space *ps_allocate_head(void)
{
    const size_t align = _Alignof(struct space);
    const size_t size = (offsetof(struct space, files) + align - 1) / align * align;
    struct space *head = aligned_alloc(align, size);
    return head ? memset(head, 0, size) : NULL;
}

/* A forked child still has a copy of the registry, but no mark (MADV_WIPEONFORK). */
static long copy_head(int pid, struct space *head)
{
    uint32_t mark;
    long result = ps_copy(pid, LAYOUT_MARK, &mark, sizeof(mark));
    if (result == 0 && mark == 0)
        return -ESRCH;
    if (result == 0)
        result = ps_copy(pid, LAYOUT_REGISTRY, head, offsetof(struct space, files));
    return result;
}

static int is_ours(struct reading *reading)
{
    const struct space *head = reading->head;
    char found[SHARED_TEXT], known[SHARED_TEXT];
    struct shared_header own = registry_header();
    if (registry_matches(head, NULL))
        return 1;
    if (head->header.magic == 0) /* about to be filled */
        return 0;
    shared_header_describe(found, &head->header);
    shared_header_describe(known, &own);
    snprintf(reading->space->problem, sizeof(reading->space->problem),
             "it was made by another version of onespace (%.255s, whose registry is of %s; this "
             "command knows %s): use the `onespace ps` of that version",
             head->library, found, known);
    output_clean(reading->space->problem);
    return 0;
}

/* The process that the registry names, as this command sees it: 0 unless the kernel says that it
 * maps this registry, and is of the space's user. `has_left`: it has executed another program, so
 * that it maps no registry any more. */
static int process_here(const struct reading *reading, int inner_pid, int has_left)
{
    for (unsigned i = 0; i < reading->count; i++)
        if (reading->members[i].inner_pid == inner_pid)
            return reading->members[i].user == reading->key->user ? reading->members[i].pid : 0;
    if (reading->source->pid != reading->source->inner_pid || inner_pid <= 0)
        return 0; /* in a container: this command cannot know its own number for it */
    struct ps_member later = {
        .pid = inner_pid}; /* it started after the search, or executed another program */
    if (ps_read_status(&later) != 0 || later.user != reading->key->user ||
        later.space != (has_left ? 0 : reading->key->registry))
        return 0;
    return inner_pid;
}

/* CPU time and, if wanted, seconds since the start. */
static void read_times(int pid, double *cpu_seconds, double *seconds)
{
    struct proc_stat stat;
    struct timespec up;
    if (proc_read_stat(pid, &stat) < 0)
        return;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    *cpu_seconds = (double)(stat.user_ticks + stat.system_ticks) / ticks;
    if (seconds && clock_gettime(CLOCK_BOOTTIME, &up) == 0)
        *seconds = (double)up.tv_sec + (double)up.tv_nsec / 1e9 - (double)stat.start_ticks / ticks;
}

static const char *state_name(uint32_t state)
{
    switch (state) {
    case SLOT_CLAIMED:
    case SLOT_STARTING:
        return "starting";
    case SLOT_RUNNING:
        return "running";
    case SLOT_LEFT:
        return "executed";
    case SLOT_ENDED:
    case SLOT_COLLECTED:
        return "ended";
    default:
        return NULL;
    }
}

/* The program that the task has executed. */
static void read_executed(struct ps_task *task)
{
    char path[64], program[4096];
    snprintf(path, sizeof(path), "/proc/%d/exe", task->pid);
    ssize_t length = readlink(path, program, sizeof(program) - 1);
    if (length <= 0)
        return;
    program[length] = 0;
    ssize_t cut = length < SPACE_PROGRAM_MAX ? 0 : length - (SPACE_PROGRAM_MAX - 1);
    memcpy(task->program, program + cut, (size_t)(length - cut) + 1);
}

/* Reads the intervals in the slot and those that did not fit into it. */
static void read_out_of_range(const struct reading *reading, struct ps_task *task,
                              const struct space_slot *slot)
{
    const struct space_intervals *table = &slot->interpose.intervals[INTERVALS_OUT_OF_RANGE];
    uint32_t used = atomic_load_explicit(&table->used, memory_order_relaxed);
    used = used < INTERVALS_MAX ? used : INTERVALS_MAX;
    uint32_t inside = used < INTERVALS_IN_SLOT ? used : INTERVALS_IN_SLOT, beyond = used - inside;
    if (!used || !(task->out_of_range = calloc(used, sizeof(*task->out_of_range))))
        return;
    memcpy(task->out_of_range, (const void *)slot->interpose.interval_words[INTERVALS_OUT_OF_RANGE],
           inside * sizeof(*task->out_of_range));
    task->out_of_range_count = inside;
    if (beyond &&
        ps_copy(reading->source->pid, intervals_overflow(task->slot, INTERVALS_OUT_OF_RANGE),
                task->out_of_range + inside, beyond * sizeof(*task->out_of_range)) == 0)
        task->out_of_range_count = used;
}

static void fill_task(const struct reading *reading, struct ps_task *task, unsigned index,
                      struct space_slot *slot)
{
    uint32_t state = slot_state(slot);
    uint64_t now = futex_now_ns();
    int inner_pid = atomic_load_explicit(&slot->pid, memory_order_relaxed);
    *task = (struct ps_task){
        .id = atomic_load_explicit(&slot->id, memory_order_relaxed),
        .slot = index,
        .flags = slot->flags,
        .state = state_name(state),
        .number = slot->number,
        .ended = state == SLOT_ENDED || state == SLOT_COLLECTED,
        .status = slot->status,
        .seconds = now > slot->started_ns ? (double)(now - slot->started_ns) / 1e9 : 0,
        .cpu_seconds = -1,
        .copies = atomic_load_explicit(&slot->stats.cma_calls, memory_order_relaxed),
        .copied_bytes = atomic_load_explicit(&slot->stats.cma_bytes, memory_order_relaxed),
        .out_of_range_lost =
            atomic_load_explicit(&slot->interpose.out_of_range_lost, memory_order_relaxed),
    };
    slot->program[SPACE_PROGRAM_MAX - 1] = 0;
    strcpy(task->program, slot->program);
    read_out_of_range(reading, task, slot);
    task->pid = inner_pid > 0 ? process_here(reading, inner_pid, state == SLOT_LEFT) : 0;
    if (task->ended)
        task->cpu_seconds = (double)(slot->user_us + slot->system_us) / 1e6;
    else if (task->pid > 0)
        read_times(task->pid, &task->cpu_seconds, NULL);
    if (state == SLOT_LEFT && task->pid > 0)
        read_executed(task);
}

/* A slot that is COLLECTED and has no memory counts as free. */
static int is_in_use(struct space_slot *slot)
{
    uint32_t state = slot_state(slot);
    return state_name(state) &&
           (state != SLOT_COLLECTED ||
            atomic_load_explicit(&slot->memory, memory_order_relaxed) != MEMORY_NONE);
}

static void read_tasks(struct reading *reading, unsigned highest)
{
    struct ps_space *space = reading->space;
    static struct space_slot slot;
    const uintptr_t slots = LAYOUT_REGISTRY + offsetof(struct space, slots);
    for (unsigned i = 0; i <= highest; i++) {
        if (ps_copy(reading->source->pid, slots + i * sizeof(slot), &slot, sizeof(slot)) != 0 ||
            !is_in_use(&slot))
            continue;
        fill_task(reading, &space->tasks[space->task_count++], i, &slot);
    }
}

static void read_channels(struct reading *reading)
{
    if (!atomic_load_explicit(&reading->head->insitu, memory_order_relaxed))
        return;
    int count = channels_read(reading->source->pid, &reading->space->channels);
    reading->space->channel_count = count > 0 ? (unsigned)count : 0;
}

static void read_unmapping(struct reading *reading, uint64_t now)
{
    const struct space *head = reading->head;
    uint32_t first = atomic_load_explicit(&head->unmapping, memory_order_relaxed);
    uint64_t since = atomic_load_explicit(&head->unmapping_since_ns, memory_order_relaxed);
    int32_t id = -1;
    const uintptr_t ids = LAYOUT_REGISTRY + offsetof(struct space, slots[0].id);
    if (first == 0 || first >= UNMAPPER_JOBS || since > now)
        return;
    if (first < UNMAPPER_CHANNELS &&
        ps_copy(reading->source->pid, ids + first * sizeof(struct space_slot), &id, sizeof(id)) !=
            0)
        return;
    reading->space->unmapping = id;
    reading->space->unmapping_seconds = (double)(now - since) / 1e9;
}

/* Reads the entries that were ever used, for each size of windows; the others are empty. */
static void read_shared(struct reading *reading)
{
    const uintptr_t shared = LAYOUT_REGISTRY + offsetof(struct space, shared);
    struct ps_space *space = reading->space;
    uint32_t reach[SPACE_SHARED_SIZES];
    if (ps_copy(reading->source->pid, shared + offsetof(struct space_shared, reach), reach,
                sizeof(reach)) != 0 ||
        !(space->shared = calloc(SPACE_SHARED_MAX, sizeof(*space->shared))))
        return;
    for (int s = 0; s < SPACE_SHARED_SIZES; s++) {
        int first, count = shared_window_class(s, &first);
        size_t used = reach[s] < (uint32_t)count ? reach[s] : (uint32_t)count;
        if (used && ps_copy(reading->source->pid,
                            shared + offsetof(struct space_shared, mappings) +
                                (size_t)first * sizeof(*space->shared),
                            &space->shared[first], used * sizeof(*space->shared)) != 0)
            memset(&space->shared[first], 0, used * sizeof(*space->shared));
    }
}

static long read_space(struct reading *reading)
{
    struct ps_space *space = reading->space;
    const struct space *head = reading->head;
    uint64_t now = futex_now_ns();
    struct timespec real;
    unsigned highest = atomic_load_explicit(&head->highest, memory_order_relaxed);
    highest = highest < LAYOUT_SLOTS ? highest : LAYOUT_SLOTS - 1;
    memcpy(space->name, head->name, sizeof(space->name) - 1);
    space->source_pid = reading->source->pid;
    space->fence_low = head->fence_low;
    space->fence_high = head->fence_high;
    space->trampoline_page = head->trampoline_page;
    memcpy(&space->overflows, &head->overflows, sizeof(space->overflows));
    space->root_pid = process_here(reading, head->root_pid, 0);
    space->reaper_pid =
        process_here(reading, atomic_load_explicit(&head->reaper_pid, memory_order_relaxed), 0);
    clock_gettime(CLOCK_REALTIME, &real);
    space->created = (double)real.tv_sec + (double)real.tv_nsec / 1e9 -
                     (double)(int64_t)(now - head->created_ns) / 1e9;
    space->tasks = calloc(highest + 1, sizeof(*space->tasks));
    if (!space->tasks)
        return -ENOMEM;
    read_tasks(reading, highest);
    read_channels(reading);
    read_shared(reading);
    read_unmapping(reading, now);
    return space->task_count ? 0 : -ESRCH;
}

/* Without access to the memory: what /proc tells of the members. */
static long list_members(struct reading *reading, long error)
{
    struct ps_space *space = reading->space;
    if (!space->problem[0])
        snprintf(space->problem, sizeof(space->problem),
                 "its registry cannot be read (%s): %s; what follows is what /proc tells",
                 strerror((int)-error),
                 access_yama_scope() == YAMA_NO_ATTACH
                     ? "kernel.yama.ptrace_scope is 3, which forbids it even to root until the "
                       "next reboot"
                     : "set kernel.yama.ptrace_scope to 0, or in a container allow ptrace");
    space->tasks = calloc(reading->count ? reading->count : 1, sizeof(*space->tasks));
    if (!space->tasks)
        return -ENOMEM;
    for (unsigned i = 0; i < reading->count; i++) {
        const struct ps_member *member = &reading->members[i];
        int parent_inside = 0;
        for (unsigned m = 0; m < reading->count; m++)
            parent_inside |= reading->members[m].pid == member->parent;
        if (strcmp(member->command, PS_REAPER) == 0) {
            space->reaper_pid = member->pid;
            continue;
        }
        struct ps_task *task = &space->tasks[space->task_count++];
        *task = (struct ps_task){.id = parent_inside ? -1 : 0,
                                 .pid = member->pid,
                                 .number = -1,
                                 .state = "running",
                                 .seconds = -1,
                                 .cpu_seconds = -1};
        strcpy(task->program, member->command);
        read_times(member->pid, &task->cpu_seconds, &task->seconds);
        if (!parent_inside)
            space->root_pid = member->pid;
    }
    return 0;
}

void ps_free(struct ps_space *space)
{
    for (unsigned i = 0; i < space->task_count; i++)
        free(space->tasks[i].out_of_range);
    free(space->tasks);
    free(space->channels);
    free(space->shared);
    space->tasks = NULL;
    space->channels = NULL;
    space->shared = NULL;
    space->task_count = space->channel_count = 0;
}

int ps_read(const struct ps_key *key, const struct ps_member *members, unsigned count,
            struct ps_space *space)
{
    struct reading reading = {.key = key, .members = members, .count = count, .space = space};
    *space = (struct ps_space){.key = *key, .created = -1};
    long result = -ESRCH, refused = 0;
    reading.head = ps_allocate_head();
    if (!reading.head)
        return -ENOMEM;
    for (unsigned i = 0; i < count && result != 0; i++) {
        reading.source = &members[i];
        result = copy_head(members[i].pid, reading.head);
        if (result == -EPERM || result == -EACCES)
            refused = result;
        if (result != 0)
            continue;
        result = is_ours(&reading) ? read_space(&reading) : -ESRCH;
        if (result != 0)
            ps_free(space);
        if (space->problem[0])
            break;
    }
    if (result != 0 && (refused || space->problem[0])) {
        space->source_pid = 0;
        result = list_members(&reading, refused);
    }
    free(reading.head);
    return (int)result;
}

/* ---- The code of the space ---- */

int code_find(const struct ps_space *space, struct code *code)
{
    uintptr_t inside, base = 0;
    char buffer[PATH_MAX + 128];
    struct proc_maps maps;
    struct proc_mapping mapping;
    const uintptr_t operations = LAYOUT_REGISTRY + offsetof(struct space, operations);
    code->low = 0;
    if (ps_copy(space->source_pid, operations + offsetof(struct space_operations, interpose),
                &inside, sizeof(inside)) != 0 ||
        space->root_pid <= 0 || proc_maps_open(&maps, space->root_pid, buffer, sizeof(buffer)) < 0)
        return -1;
    while (!code->low && proc_maps_next(&maps, &mapping)) {
        if (*mapping.name && mapping.offset == 0)
            base = mapping.start;
        if (*mapping.name && inside >= mapping.start && inside < mapping.end) {
            snprintf(code->path, sizeof(code->path), "%s", mapping.name);
            code->base = base, code->low = mapping.start, code->high = mapping.end;
        }
    }
    proc_maps_close(&maps);
    return code->low ? 0 : -1;
}
