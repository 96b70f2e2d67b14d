/* cmd/core/segments.c: which memory of a task its core contains, and the file itself.
 *
 * A core contains the mappings of the task: its range, its mappings elsewhere, and the vDSO. Like
 * the kernel's cores it holds the contents that /proc/PID/coredump_filter selects: by default
 * memory that is in no file, and the first page of ELF files. Debuggers read the rest from the
 * files.
 *
 * Private pages that were never touched are zero, and holes in the core. The kernel shows which
 * pages of shared memory this process has touched, without allocating the others. So the others are
 * not in the core at all: a debugger reports them as missing, where zeroes would be wrong. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "cmd/core/core.h"
#include "cmd/lib/array.h"
#include "cmd/lib/files.h"
#include "onespace.h"

/* ---- Segments ---- */

enum {
    PRIVATE_ANONYMOUS = 1,
    SHARED_ANONYMOUS = 2,
    PRIVATE_FILES = 4,
    SHARED_FILES = 8,
    ELF_HEADERS = 16,
    PRIVATE_HUGE = 32,
    SHARED_HUGE = 64,
    FILTER_DEFAULT = 0x33,
    /* Shorter gaps in shared memory are written, too: each piece costs a program header. */
    GAP_PAGES = 16,
    PAGES_MAX = 4096, /* examined at once */
};

static unsigned read_filter(int pid)
{
    char text[32];
    unsigned filter = FILTER_DEFAULT;
    if (file_read_process(pid, "coredump_filter", text, sizeof(text)) == 0)
        sscanf(text, "%x", &filter);
    return filter;
}

/* Whether the pages are there, in memory or swapped out. Returns how many were examined. */
static size_t find_present_pages(const struct core_memory *memory, uintptr_t start, uintptr_t end,
                                 unsigned char present[PAGES_MAX])
{
    static uint64_t entries[PAGES_MAX];
    size_t pages = (end - start) / ARCH_PAGE;
    pages = pages < PAGES_MAX ? pages : PAGES_MAX;
    ssize_t done = memory->page_map < 0 ? -1
                                        : pread(memory->page_map, entries, pages * sizeof(*entries),
                                                (off_t)(start / ARCH_PAGE * sizeof(*entries)));
    for (size_t i = 0; i < pages; i++) /* bits 63 and 62: in memory, swapped out */
        present[i] = done < 0 || (i < (size_t)done / sizeof(*entries) && entries[i] >> 62 != 0);
    return pages;
}

/* The segments ascend. */
static int insert(struct core_memory *memory, const struct core_segment *segment)
{
    struct core_segment *more =
        array_grow(memory->segments, &memory->capacity, memory->count + 1, sizeof(*more));
    if (!more)
        return -ENOMEM;
    memory->segments = more;
    size_t at = memory->count++;
    for (; at > 0 && more[at - 1].start > segment->start; at--)
        more[at] = more[at - 1];
    more[at] = *segment;
    return 0;
}

static int has_text(const struct map_region *region, const char *text)
{
    return region->name && strstr(region->name, text) != NULL;
}

/* Mapped from a file that has no name any more, as a task's ld.so is: no debugger finds it. */
static int is_nameless(const struct map_region *region)
{
    return !region->name || has_text(region, " (deleted)");
}

static int starts_with_elf(const struct core_memory *memory, const struct map_region *region)
{
    char magic[4];
    return region->offset == 0 && pread(memory->memory, magic, 4, (off_t)region->start) == 4 &&
           memcmp(magic, "\177ELF", 4) == 0;
}

/* The bytes of the mapping, from its start, that the core contains. */
static uint64_t bytes_of(const struct core_memory *memory, const struct map_region *region,
                         unsigned filter)
{
    uint64_t size = region->end - region->start;
    int is_shared = region->permissions[3] == 's', is_anonymous = is_nameless(region);
    if (region->name && strcmp(region->name, "[vdso]") == 0)
        return size;
    if (region->is_device || region->not_dumped)
        return 0;
    if (region->is_hugetlb)
        return filter & (is_shared ? SHARED_HUGE : PRIVATE_HUGE) ? size : 0;
    if (is_shared)
        return filter & (is_anonymous ? SHARED_ANONYMOUS : SHARED_FILES) ? size : 0;
    /* Without smaps (CONFIG_PROC_PAGE_MONITOR) nothing says what was touched. The code of files was
     * not; memory that cannot be accessed is mostly reserved. */
    int is_code_of_file =
        region->name && region->permissions[1] != 'w' && region->permissions[2] == 'x';
    int may_be_touched = !memory->map.counted && region->permissions[0] == 'r' && !is_code_of_file;
    if ((region->anonymous > 0 || may_be_touched) && (filter & PRIVATE_ANONYMOUS))
        return size;
    if (!region->name) /* nothing was touched */
        return 0;
    if ((is_anonymous && has_text(region, "/memfd:")) || (filter & PRIVATE_FILES))
        return size;
    return filter & ELF_HEADERS && starts_with_elf(memory, region) ? ARCH_PAGE : 0;
}

/* Where the run of pages ends that begins at `at`: of present ones, with short gaps, or of absent
 * ones. */
static uintptr_t end_of_run(const struct core_memory *memory, uintptr_t at, uintptr_t end,
                            int *is_present)
{
    static unsigned char present[PAGES_MAX];
    uintptr_t last = at; /* past the last page that is like the first */
    for (uintptr_t page = at; page < end;) {
        size_t pages = find_present_pages(memory, page, end, present);
        if (page == at)
            *is_present = present[0];
        for (size_t i = 0; i < pages; i++, page += ARCH_PAGE) {
            if (present[i] == *is_present)
                last = page + ARCH_PAGE;
            else if (!*is_present || page - last >= GAP_PAGES * ARCH_PAGE)
                return last;
        }
    }
    return *is_present ? last : end;
}

static int add_shared(struct core_memory *memory, const struct map_region *region)
{
    int result = 0, is_present = 0;
    for (uintptr_t at = region->start; result == 0 && at < region->end;) {
        uintptr_t end = end_of_run(memory, at, region->end, &is_present);
        struct core_segment segment = {region, at, end, is_present ? end - at : 0, 0, NULL};
        result = insert(memory, &segment);
        at = end;
    }
    return result;
}

static int add_region(struct core_memory *memory, const struct map_region *region, unsigned filter)
{
    uint64_t bytes = bytes_of(memory, region, filter);
    if (region->permissions[3] == 's' && bytes)
        return add_shared(memory, region);
    struct core_segment segment = {region, region->start, region->end, bytes, !region->name, NULL};
    return insert(memory, &segment);
}

static int open_file(int pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The code of the space: a thread may be in a system call that onespace handles. */
static int is_code(const struct core_memory *memory, const struct map_region *region)
{
    return region->name && memory->code.path[0] && region->permissions[1] != 'w' &&
           region->owner == MAP_ROOT && strcmp(region->name, memory->code.path) == 0;
}

static int is_its_own(const struct ps_space *space, const struct core_memory *memory,
                      const struct map_region *region, const struct ps_task *task)
{
    if (shared_windows_contain(region->start))
        return ps_uses_shared(space, task, region->start);
    if (region->name && strcmp(region->name, "[vdso]") == 0)
        return 1;
    if (is_code(memory, region))
        return 1;
    if (region->owner == MAP_NOBODY) /* the root's, or a task's without interposition */
        return task->id == 0 || (task->flags & ONESPACE_SPAWN_NO_INTERPOSE);
    return task->id == 0 ? region->owner == MAP_ROOT
                         : region->owner == MAP_TASK && region->slot == task->slot;
}

int core_select_memory(const struct ps_space *space, const struct ps_task *task, int thread,
                       struct core_memory *memory)
{
    unsigned filter = read_filter(thread);
    *memory = (struct core_memory){.memory = -1, .page_map = -1};
    if (code_find(space, &memory->code) != 0)
        memory->code.path[0] = 0;
    int result = map_read(space, &memory->map);
    if (result != 0)
        return result;
    map_set_owners(&memory->map);
    memory->memory = open_file(thread, "mem");
    if (memory->memory < 0)
        result = -errno;
    memory->page_map = open_file(thread, "pagemap");
    for (size_t i = 0; result == 0 && i < memory->map.count; i++)
        if (is_its_own(space, memory, &memory->map.regions[i], task))
            result = add_region(memory, &memory->map.regions[i], filter);
    if (result != 0)
        core_free_memory(memory);
    return result;
}

void core_free_memory(struct core_memory *memory)
{
    if (memory->memory >= 0)
        close(memory->memory);
    if (memory->page_map >= 0)
        close(memory->page_map);
    free(memory->segments);
    free(memory->added);
    map_free(&memory->map);
    *memory = (struct core_memory){.memory = -1, .page_map = -1};
}

/* ---- The code of the space, for debuggers ----
 *
 * A thread in a system call that onespace handles runs code of the root's library, which is in no
 * list of the task. Without unwind tables for that code a debugger's backtrace ends there. So the
 * core, and only the core, gets one more entry at the end of the task's list of libraries. The
 * entry lies at an address where the space keeps nothing of the task's, and the last entry of the
 * list is changed to lead to it. */

enum { LIBRARIES_MAX = 65536 };

/* The last of the task's link maps: its address, or 0 when the list is being changed or damaged. */
static uintptr_t last_library(core_reader *read, const void *context, uintptr_t first)
{
    struct space_link_map map;
    uintptr_t previous = 0;
    for (unsigned i = 0; i < LIBRARIES_MAX && first; i++) {
        if (read(context, first, &map, sizeof(map)) != sizeof(map) ||
            (i > 0 && map.previous != previous))
            return 0;
        previous = first;
        first = map.next;
    }
    return first ? 0 : previous;
}

/* Where the code was loaded, and its dynamic section, by the headers in its first page. */
static int describe_code(core_reader *read, const void *context, uintptr_t base,
                         struct space_link_map *map)
{
    Elf64_Ehdr header;
    Elf64_Phdr program;
    int has_load = 0, has_dynamic = 0;
    if (read(context, base, &header, sizeof(header)) != sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        if (read(context, base + header.e_phoff + i * sizeof(program), &program, sizeof(program)) !=
            sizeof(program))
            return -ENOEXEC;
        if (program.p_type == PT_LOAD && !has_load++)
            map->bias = base - program.p_vaddr / ARCH_PAGE * ARCH_PAGE;
        if (program.p_type == PT_DYNAMIC && !has_dynamic++)
            map->dynamic = program.p_vaddr;
    }
    map->dynamic += map->bias;
    return has_load && has_dynamic ? 0 : -ENOEXEC;
}

uintptr_t core_make_entry(core_reader *read, const void *context, const struct space_slot *slot,
                          core_reader *read_code, const void *code_context, const struct code *code,
                          struct core_entry *entry)
{
    uintptr_t last = last_library(read, context, atomic_load(&slot->debug.libraries.maps));
    *entry = (struct core_entry){.name = ""};
    if (!last || !code->path[0] ||
        describe_code(read_code, code_context, code->base, &entry->map) != 0)
        return 0;
    entry->map.name = (const char *)(CORE_ENTRY_AT + offsetof(struct core_entry, name));
    entry->map.previous = last;
    snprintf(entry->name, sizeof(entry->name), "%s", code->path);
    return last + offsetof(struct space_link_map, next);
}

/* ---- Of a task that runs ---- */

size_t core_read_memory(const void *context, uint64_t at, void *to, size_t size)
{
    const struct core_memory *memory = context;
    ssize_t done = pread(memory->memory, to, size, (off_t)at);
    return done > 0 ? (size_t)done : 0;
}

static int is_free(const struct map *map, uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < map->count; i++)
        if (map->regions[i].start < end && map->regions[i].end > start)
            return 0;
    return 1;
}

/* Whether the core has the contents of that address. */
static int is_written(const struct core_memory *memory, uintptr_t at, size_t size)
{
    for (size_t i = 0; i < memory->count; i++) {
        const struct core_segment *segment = &memory->segments[i];
        if (at >= segment->start && at + size <= segment->start + segment->bytes)
            return 1;
    }
    return 0;
}

int core_add_code(const struct space_slot *slot, struct core_memory *memory)
{
    static const struct map_region region = {
        .start = CORE_ENTRY_AT, .end = CORE_ENTRY_AT + LAYOUT_MIB, .permissions = "r--p"};
    const size_t size = page_ceiling(sizeof(struct core_entry));
    struct core_segment segment = {&region, CORE_ENTRY_AT, CORE_ENTRY_AT + size, size, 0, NULL};
    struct core_entry *entry = calloc(1, size);
    if (!entry)
        return -ENOMEM;
    uintptr_t next_at = core_make_entry(core_read_memory, memory, slot, core_read_memory, memory,
                                        &memory->code, entry);
    int result = next_at && is_written(memory, next_at, sizeof(uintptr_t)) &&
                         is_free(&memory->map, CORE_ENTRY_AT, CORE_ENTRY_AT + size)
                     ? 0
                     : -ENOENT;
    segment.content = entry;
    if (result == 0)
        result = insert(memory, &segment);
    if (result != 0) {
        free(entry);
        return result;
    }
    memory->added = entry;
    memory->change_at = next_at;
    memory->change = CORE_ENTRY_AT;
    return 0;
}

/* ---- The file: ELF header, program headers, notes, memory ----
 *
 * With 65,535 program headers or more, their number is in the first section header, which exists
 * for that purpose only (elf(5), PN_XNUM). */

enum { BUFFER = 1 << 20 };

struct writing {
    int fd;
    off_t at;
    int64_t written;
    int result;
};

int core_put(int fd, const void *bytes, size_t size, uint64_t offset, int64_t *written)
{
    const char *from = bytes;
    while (size > 0) {
        ssize_t done = pwrite(fd, from, size, (off_t)offset);
        if (done <= 0)
            return done < 0 ? -errno : -EIO;
        from += done;
        offset += (uint64_t)done;
        size -= (size_t)done;
        *written += done;
    }
    return 0;
}

static void put(struct writing *writing, const void *bytes, size_t size)
{
    if (writing->result == 0)
        writing->result =
            core_put(writing->fd, bytes, size, (uint64_t)writing->at, &writing->written);
    writing->at += (off_t)size;
}

Elf64_Ehdr core_header(uint64_t headers)
{
    Elf64_Ehdr header = {
        .e_type = ET_CORE,
        .e_machine = ARCH_ELF_MACHINE,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof(header),
        .e_ehsize = sizeof(header),
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = headers < PN_XNUM ? (Elf64_Half)headers : PN_XNUM,
    };
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    return header;
}

static void put_header(struct writing *writing, uint64_t headers, uint64_t sections)
{
    Elf64_Ehdr header = core_header(headers);
    if (sections) {
        header.e_shoff = sections;
        header.e_shentsize = sizeof(Elf64_Shdr);
        header.e_shnum = 1;
    }
    put(writing, &header, sizeof(header));
}

static Elf64_Word flags_of(const char *permissions)
{
    return (permissions[0] == 'r' ? PF_R : 0u) | (permissions[1] == 'w' ? PF_W : 0u) |
           (permissions[2] == 'x' ? PF_X : 0u);
}

static void put_program_headers(struct writing *writing, const struct core_memory *memory,
                                uint64_t notes, uint64_t notes_size, uint64_t data)
{
    Elf64_Phdr note = {.p_type = PT_NOTE, .p_offset = notes, .p_filesz = notes_size, .p_align = 4};
    put(writing, &note, sizeof(note));
    for (size_t i = 0; i < memory->count && writing->result == 0; i++) {
        const struct core_segment *segment = &memory->segments[i];
        Elf64_Phdr header = {
            .p_type = PT_LOAD,
            .p_flags = flags_of(segment->region->permissions),
            .p_offset = data,
            .p_vaddr = segment->start,
            .p_filesz = segment->bytes,
            .p_memsz = segment->end - segment->start,
            .p_align = ARCH_PAGE,
        };
        put(writing, &header, sizeof(header));
        data += segment->bytes;
    }
}

/* Writes up to BUFFER bytes. Unreadable memory, such as that past the end of a file, becomes a
 * hole.
 */
static void put_memory(struct writing *writing, const struct core_memory *memory, uintptr_t from,
                       size_t size, char *buffer)
{
    while (size > 0 && writing->result == 0) {
        ssize_t done = pread(memory->memory, buffer, size, (off_t)from);
        if (done > 0)
            put(writing, buffer, (size_t)done);
        size_t passed = done > 0 ? (size_t)done : ARCH_PAGE - from % ARCH_PAGE;
        passed = passed < size ? passed : size;
        if (done <= 0)
            writing->at += (off_t)passed;
        from += passed;
        size -= passed;
    }
}

static void put_segment(struct writing *writing, const struct core_memory *memory,
                        const struct core_segment *segment, char *buffer)
{
    static unsigned char present[PAGES_MAX];
    uintptr_t end = segment->start + segment->bytes;
    off_t begin = writing->at;
    if (segment->content) {
        put(writing, segment->content, segment->bytes);
        return;
    }
    for (uintptr_t at = segment->start; at < end && writing->result == 0;) {
        size_t pages = BUFFER / ARCH_PAGE, run = 0;
        uintptr_t until = end - at < BUFFER ? end : at + BUFFER;
        if (!segment->is_sparse) {
            put_memory(writing, memory, at, until - at, buffer);
            at = until;
            continue;
        }
        pages = find_present_pages(memory, at, until, present);
        while (run < pages && present[run] == present[0])
            run++;
        if (present[0])
            put_memory(writing, memory, at, run * ARCH_PAGE, buffer);
        else
            writing->at += (off_t)(run * ARCH_PAGE);
        at += run * ARCH_PAGE;
    }
    if (memory->change_at >= segment->start && memory->change_at < end && writing->result == 0 &&
        pwrite(writing->fd, &memory->change, sizeof(memory->change),
               begin + (off_t)(memory->change_at - segment->start)) != sizeof(memory->change))
        writing->result = -errno;
}

int64_t core_write(int fd, const struct core_memory *memory, const struct core_notes *notes)
{
    struct writing writing = {.fd = fd};
    uint64_t headers = memory->count + 1;
    uint64_t at = sizeof(Elf64_Ehdr) + headers * sizeof(Elf64_Phdr);
    uint64_t sections = headers < PN_XNUM ? 0 : at;
    uint64_t notes_at = at + (sections ? sizeof(Elf64_Shdr) : 0);
    char *buffer = malloc(BUFFER);
    if (!buffer)
        return -ENOMEM;
    put_header(&writing, headers, sections);
    put_program_headers(&writing, memory, notes_at, notes->size,
                        page_ceiling(notes_at + notes->size));
    if (sections) {
        Elf64_Shdr section = {.sh_type = SHT_NULL, .sh_info = (Elf64_Word)headers};
        put(&writing, &section, sizeof(section));
    }
    put(&writing, notes->bytes, notes->size);
    writing.at = (off_t)page_ceiling((uint64_t)writing.at);
    for (size_t i = 0; i < memory->count && writing.result == 0; i++)
        put_segment(&writing, memory, &memory->segments[i], buffer);
    free(buffer);
    if (writing.result == 0 && ftruncate(fd, writing.at) != 0)
        writing.result = -errno;
    return writing.result < 0 ? writing.result : writing.written;
}
