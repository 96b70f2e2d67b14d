/* cmd/core/notes.c: the notes of a core: the process, its threads' registers, its auxiliary
 * vector and its mapped files.
 *
 * The kernel has one auxiliary vector for a space, the root's. A task's own vector is on its stack,
 * and its child record has the address. Debuggers take the program's address from AT_ENTRY, and
 * find the task's list of libraries by the program's DT_DEBUG entry. musl, which like all dynamic
 * linkers of tasks is started as a command, leaves its own entry point in the vector. So the
 * entries that lead to the program are set again, from the data that the task provides for
 * debuggers. */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/constants.h"
#include "base/proc.h"
#include "cmd/core/core.h"
#include "cmd/lib/array.h"
#include "cmd/lib/user.h"

int core_read_slot(const struct ps_space *space, const struct ps_task *task,
                   struct space_slot *slot)
{
    uintptr_t at = LAYOUT_REGISTRY + offsetof(struct space, slots) + task->slot * sizeof(*slot);
    return task->id == 0 || ps_copy(space->source_pid, at, slot, sizeof(*slot)) != 0 ? -1 : 0;
}

static int read_record(const struct ps_space *space, const struct ps_task *task,
                       struct core_record *record)
{
    if (core_read_slot(space, task, &record->slot) != 0 ||
        ps_copy(space->source_pid, record->slot.child_record, &record->child,
                sizeof(record->child)) != 0)
        return -1;
    record->child.program[PATH_MAX - 1] = 0;
    return 0;
}

/* ---- Notes ---- */

/* More bytes at the end of the notes, zero; NULL: out of memory. */
static void *reserve(struct core_notes *notes, size_t size)
{
    unsigned char *more = array_grow(notes->bytes, &notes->capacity, notes->size + size, 1);
    notes->failed |= !more;
    if (!more)
        return NULL;
    notes->bytes = more;
    notes->size += size;
    return memset(more + notes->size - size, 0, size);
}

void core_add_note(struct core_notes *notes, const char *name, unsigned type, const void *content,
                   size_t size)
{
    Elf64_Nhdr header = {
        .n_namesz = (Elf64_Word)strlen(name) + 1, .n_descsz = (Elf64_Word)size, .n_type = type};
    const size_t name_size = (header.n_namesz + UINT64_C(3)) / 4 * 4;
    unsigned char *place = reserve(notes, sizeof(header) + name_size + (size + 3) / 4 * 4);
    if (!place)
        return;
    memcpy(place, &header, sizeof(header));
    memcpy(place + sizeof(header), name, header.n_namesz);
    memcpy(place + sizeof(header) + name_size, content, size);
}

/* ---- The process ---- */

static size_t read_strings(core_reader *read, const void *context, uintptr_t from, uintptr_t to,
                           char *text, size_t capacity)
{
    size_t size = to > from ? to - from : 0;
    return read(context, from, text, size < capacity ? size : capacity);
}

void core_set_arguments(struct elf_prpsinfo *info, const struct child_strings *strings,
                        core_reader *read, const void *context)
{
    enum { CAPACITY = sizeof(info->pr_psargs) - 1 };
    char *text = info->pr_psargs;
    memset(text, 0, sizeof(info->pr_psargs));
    size_t size = read_strings(read, context, strings->name, strings->name_end, text, CAPACITY);
    size += read_strings(read, context, strings->arguments, strings->environment, text + size,
                         CAPACITY - size);
    for (size_t i = 0; i + 1 < size; i++)
        if (!text[i])
            text[i] = ' ';
}

static void note_process(const struct ps_task *task, const struct core_memory *memory,
                         const struct core_record *record, struct core_notes *notes)
{
    struct elf_prpsinfo info = {.pr_sname = 'T', .pr_state = 3, .pr_pid = task->pid};
    struct proc_stat stat;
    if (proc_read_stat(task->pid, &stat) == 0) {
        info.pr_ppid = stat.parent;
        snprintf(info.pr_fname, sizeof(info.pr_fname), "%.15s", stat.name);
    }
    info.pr_pgrp = getpgid(task->pid);
    info.pr_sid = getsid(task->pid);
    if (record)
        core_set_arguments(&info, &record->child.strings, core_read_memory, memory);
    else
        snprintf(info.pr_psargs, sizeof(info.pr_psargs), "%.*s", (int)sizeof(info.pr_psargs) - 1,
                 task->program);
    core_add_note(notes, "CORE", NT_PRPSINFO, &info, sizeof(info));
}

static void note_thread(const struct ps_task *task, const struct core_thread *thread,
                        struct core_notes *notes)
{
    struct elf_prstatus status = {.pr_pid = thread->id, .pr_fpvalid = 1};
    struct proc_stat stat;
    status.pr_cursig = (short)thread->signal;
    status.pr_info.si_signo = thread->signal;
    if (proc_read_stat(task->pid, &stat) == 0)
        status.pr_ppid = stat.parent;
    status.pr_pgrp = getpgid(task->pid);
    status.pr_sid = getsid(task->pid);
    static_assert(sizeof(status.pr_reg) == sizeof(thread->registers), "the same registers");
    memcpy(&status.pr_reg, &thread->registers, sizeof(status.pr_reg));
    core_add_note(notes, "CORE", NT_PRSTATUS, &status, sizeof(status));
    core_add_note(notes, "CORE", NT_PRFPREG, &thread->float_registers,
                  sizeof(thread->float_registers));
    if (thread->extended_size)
        core_add_note(notes, "LINUX", ARCH_MORE_REGISTERS, thread->extended, thread->extended_size);
}

/* ---- The auxiliary vector ---- */

static void set_entry(Elf64_auxv_t *vector, unsigned count, uint64_t type, uint64_t value)
{
    for (unsigned i = 0; i < count; i++)
        if (vector[i].a_type == type)
            vector[i].a_un.a_val = value;
}

static int set_program(const struct core_record *record, Elf64_auxv_t *vector, unsigned count,
                       core_reader *read, const void *context)
{
    uintptr_t bias = record->slot.debug.map.bias, headers = 0;
    Elf64_Ehdr header;
    Elf64_Phdr program;
    if (read(context, 0, &header, sizeof(header)) != sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return -1;
    for (unsigned i = 0; i < header.e_phnum; i++)
        if (read(context, header.e_phoff + i * sizeof(program), &program, sizeof(program)) ==
                sizeof(program) &&
            program.p_type == PT_PHDR)
            headers = program.p_vaddr;
    set_entry(vector, count, AT_PHDR, bias + (headers ? headers : header.e_phoff));
    set_entry(vector, count, AT_PHNUM, header.e_phnum);
    set_entry(vector, count, AT_ENTRY, bias + header.e_entry);
    set_entry(vector, count, AT_BASE, record->slot.interpreter_bias);
    return 0;
}

/* A file, or a program in memory, whose first page begins with its headers. */
struct image {
    int fd;
    uintptr_t start; /* in the file behind fd */
};

static size_t read_image(const void *context, uint64_t offset, void *to, size_t size)
{
    const struct image *image = context;
    ssize_t done = pread(image->fd, to, size, (off_t)(image->start + offset));
    return done > 0 ? (size_t)done : 0;
}

/* The program as the task shows it to debuggers. Its first page is usually in the memory. The path
 * is from the task's memory, so that it may name anything. */
void core_set_program(const struct core_record *record, Elf64_auxv_t *vector, unsigned count,
                      core_reader *read, const void *context, int may_open)
{
    const struct space_debug *debug = &record->slot.debug;
    if ((!atomic_load(&debug->program.maps) && !atomic_load(&debug->libraries.maps)) ||
        set_program(record, vector, count, read, context) == 0 || !may_open)
        return;
    struct image file = {.fd = user_open_regular(record->child.program)};
    if (file.fd < 0)
        return;
    set_program(record, vector, count, read_image, &file);
    close(file.fd);
}

static unsigned read_vector(const struct ps_task *task, const struct core_memory *memory,
                            const struct core_record *record, Elf64_auxv_t vector[CORE_AUXV_MAX])
{
    char path[64];
    ssize_t done;
    if (record)
        done = pread(memory->memory, vector, CORE_AUXV_MAX * sizeof(*vector),
                     (off_t)record->child.auxv);
    else {
        snprintf(path, sizeof(path), "/proc/%d/auxv", task->pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        done = fd < 0 ? -1 : read(fd, vector, CORE_AUXV_MAX * sizeof(*vector));
        if (fd >= 0)
            close(fd);
    }
    unsigned count = done > 0 ? (unsigned)((size_t)done / sizeof(*vector)) : 0;
    for (unsigned i = 0; i < count; i++)
        if (vector[i].a_type == AT_NULL)
            return i + 1;
    return 0;
}

static void note_vector(const struct ps_task *task, const struct core_memory *memory,
                        const struct core_record *record, struct core_notes *notes)
{
    Elf64_auxv_t vector[CORE_AUXV_MAX];
    unsigned count = read_vector(task, memory, record, vector);
    if (count && record) {
        struct image loaded = {memory->memory, record->slot.debug.map.bias};
        core_set_program(record, vector, count, read_image, &loaded, 1);
    }
    if (count)
        core_add_note(notes, "CORE", NT_AUXV, vector, count * sizeof(*vector));
}

/* ---- Mapped files ---- */

/* Debuggers cannot open a deleted file, in memory or not. */
static int is_file(const struct core_memory *memory, size_t at)
{
    const char *name = memory->segments[at].region->name;
    return name && name[0] == '/' && !strstr(name, " (deleted)") &&
           (at == 0 || memory->segments[at - 1].region != memory->segments[at].region);
}

static void note_files(const struct core_memory *memory, struct core_notes *notes)
{
    size_t count = 0, size, names = 0;
    for (size_t i = 0; i < memory->count; i++)
        if (is_file(memory, i)) {
            count++;
            names += strlen(memory->segments[i].region->name) + 1;
        }
    size = (2 + 3 * count) * sizeof(uint64_t);
    uint64_t *table = calloc(1, size + names);
    notes->failed |= !table;
    if (!table)
        return;
    uint64_t *row = table + 2;
    char *name = (char *)table + size;
    table[0] = count;
    table[1] = ARCH_PAGE;
    for (size_t i = 0; i < memory->count; i++) {
        const struct map_region *region = memory->segments[i].region;
        if (!is_file(memory, i))
            continue;
        *row++ = region->start;
        *row++ = region->end;
        *row++ = region->offset / ARCH_PAGE;
        name = stpcpy(name, region->name) + 1;
    }
    core_add_note(notes, "CORE", NT_FILE, table, size + names);
    free(table);
}

void core_file_at(const void *content, size_t size, uintptr_t address, struct code *code)
{
    const char *bytes = content, *end = bytes + size;
    uint64_t count, row[3];
    code->path[0] = 0;
    if (size < 2 * sizeof(count))
        return;
    memcpy(&count, bytes, sizeof(count));
    if (count > (size / sizeof(count) - 2) / 3)
        return;
    const char *rows = bytes + 2 * sizeof(count), *name = rows + count * sizeof(row), *first = name;
    for (uint64_t i = 0; i < count && name < end; i++) {
        size_t length = strnlen(name, (size_t)(end - name));
        memcpy(row, rows + i * sizeof(row), sizeof(row));
        if (row[2] == 0) { /* the beginning of a file */
            code->base = row[0];
            first = name;
        }
        if (address >= row[0] && address < row[1] && length < sizeof(code->path) &&
            name + length < end && strncmp(first, name, length + 1) == 0) {
            code->low = row[0];
            code->high = row[1];
            memcpy(code->path, name, length);
            code->path[length] = 0;
            return;
        }
        name += length + 1;
    }
}

void core_note(const struct ps_space *space, const struct ps_task *task,
               const struct core_threads *threads, const struct core_memory *memory,
               struct core_notes *notes)
{
    static struct core_record found;
    const struct core_record *record = read_record(space, task, &found) == 0 ? &found : NULL;
    *notes = (struct core_notes){0};
    note_process(task, memory, record, notes);
    for (unsigned i = 0; i < threads->count; i++)
        note_thread(task, &threads->all[i], notes);
    note_vector(task, memory, record, notes);
    note_files(memory, notes);
}
