/* cmd/core/extract.c: extracts the core of the crashed task from the kernel's core of a whole
 * space.
 *
 * The core is read in one pass, because it may come through a pipe from the kernel (core(5)):
 * headers, notes, memory by ascending address. The registry comes before all tasks. The crashed
 * task is the one whose range contains the crashed thread's thread pointer; its record in the
 * registry, and the overflow of that, list its mappings elsewhere; those shared with other tasks
 * are in the registry, too. The task's memory is written as it arrives. The notes are
 * written last, because those about the task's own program are made from its memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/page.h"
#include "cmd/core/core.h"

enum { BUFFER = 1 << 20, NOTES_MAX = 64 << 20, NOTE_NAME_MAX = 8, HEADERS_MAX = 1 << 24 };

struct extraction {
    struct core_extract *result;
    Elf64_Phdr *headers, *kept; /* the kernel's, ours */
    unsigned count, kept_count;
    unsigned char *notes;
    size_t notes_size;
    uint64_t at, out; /* places in both files */
    unsigned slot;
    uintptr_t vdso;
    struct space *head;          /* the registry up to the files; NULL: not seen */
    struct space_shared *shared; /* NULL: not seen */
    _Atomic uint64_t *overflow;  /* of the task's mappings elsewhere */
    size_t overflow_count;
    struct core_record record;
    int has_slot, has_child;
    struct code code;              /* of the space; path empty: no thread runs it */
    unsigned char code_page[4096]; /* its first */
    size_t code_bytes;
    char *buffer;
};

/* ---- Reading ---- */

/* Reads `size` bytes, or fewer at the end of the file. */
static size_t read_some(struct extraction *x, void *to, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t done = read(x->result->from, (char *)to + got, size - got);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            break;
        got += (size_t)done;
    }
    x->at += got;
    return got;
}

/* Skips to an offset. 0, or -ENODATA if the file ends before it. */
static int skip_to(struct extraction *x, uint64_t offset)
{
    if (offset > x->at && lseek(x->result->from, (off_t)offset, SEEK_SET) >= 0)
        x->at = offset; /* no pipe */
    while (x->at < offset) {
        uint64_t left = offset - x->at;
        if (read_some(x, x->buffer, left < BUFFER ? left : BUFFER) == 0)
            return -ENODATA;
    }
    return 0;
}

/* Reads the program headers after the first, and the notes. */
static int read_header_table(struct extraction *x, const Elf64_Phdr *first)
{
    const size_t rest = (x->count - 1) * sizeof(*x->headers);
    x->headers = calloc(x->count, sizeof(*x->headers));
    x->kept = calloc(x->count, sizeof(*x->kept));
    if (!x->headers || !x->kept)
        return -ENOMEM;
    x->headers[0] = *first;
    if (read_some(x, x->headers + 1, rest) != rest || first->p_type != PT_NOTE ||
        first->p_filesz > NOTES_MAX)
        return -ENOEXEC;
    x->notes_size = first->p_filesz;
    x->notes = malloc(x->notes_size + 1);
    if (!x->notes)
        return -ENOMEM;
    return skip_to(x, first->p_offset) == 0 &&
                   read_some(x, x->notes, x->notes_size) == x->notes_size
               ? 0
               : -ENOEXEC;
}

static int read_headers(struct extraction *x)
{
    Elf64_Ehdr header;
    Elf64_Phdr first;
    if (read_some(x, &header, sizeof(header)) != sizeof(header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_type != ET_CORE ||
        header.e_machine != ARCH_ELF_MACHINE || header.e_phentsize != sizeof(Elf64_Phdr) ||
        header.e_phnum == 0 || skip_to(x, header.e_phoff) != 0 ||
        read_some(x, &first, sizeof(first)) != sizeof(first))
        return -ENOEXEC;
    x->count = header.e_phnum;
    if (header.e_phnum == PN_XNUM) {
        /* The number is in a section header at the end of the file. But the kernel writes the
         * notes, which the first header is about, right behind the headers. */
        uint64_t count = (first.p_offset - header.e_phoff) / sizeof(first);
        if (first.p_offset < header.e_phoff || count < PN_XNUM || count > HEADERS_MAX)
            return -ENOEXEC;
        x->count = (unsigned)count;
    }
    return read_header_table(x, &first);
}

/* ---- Notes ---- */

struct note {
    const char *name;
    unsigned type;
    size_t size;
    unsigned char *content;
};

/* The note at *at, which is moved on. 0 at the end. */
static int next_note(const struct extraction *x, size_t *at, struct note *note)
{
    Elf64_Nhdr header;
    if (*at + sizeof(header) > x->notes_size)
        return 0;
    memcpy(&header, x->notes + *at, sizeof(header));
    size_t name = *at + sizeof(header), content = name + (header.n_namesz + UINT64_C(3)) / 4 * 4;
    size_t end = content + (header.n_descsz + UINT64_C(3)) / 4 * 4;
    if (end > x->notes_size || header.n_namesz == 0 || header.n_namesz > NOTE_NAME_MAX)
        return 0;
    x->notes[name + header.n_namesz - 1] = 0;
    *note = (struct note){(const char *)x->notes + name, header.n_type, header.n_descsz,
                          x->notes + content};
    *at = end;
    return 1;
}

/* The thread that crashed comes first. */
static int find_task(struct extraction *x)
{
    struct note note;
    struct elf_prstatus status;
    struct user_regs_struct registers;
    int found = 0;
    for (size_t at = 0; next_note(x, &at, &note);) {
        if (note.type == NT_PRSTATUS && note.size == sizeof(status) && !found) {
            memcpy(&status, note.content, sizeof(status));
            memcpy(&registers, &status.pr_reg, sizeof(registers));
            x->slot = layout_slot_of(arch_own_address_of(&registers));
            x->result->signal = status.pr_cursig;
            x->result->pid = status.pr_pid;
            found = 1;
        }
        if (note.type == NT_PRPSINFO && note.size == sizeof(struct elf_prpsinfo))
            memcpy(&x->result->pid, note.content + offsetof(struct elf_prpsinfo, pr_pid),
                   sizeof(x->result->pid));
        for (size_t i = 0; note.type == NT_AUXV && i + sizeof(Elf64_auxv_t) <= note.size;
             i += sizeof(Elf64_auxv_t)) {
            Elf64_auxv_t entry;
            memcpy(&entry, note.content + i, sizeof(entry));
            if (entry.a_type == AT_SYSINFO_EHDR)
                x->vdso = entry.a_un.a_val;
        }
    }
    return found && x->slot > 0 && x->slot < LAYOUT_SLOTS ? 0 : -ESRCH;
}

/* ---- Memory ---- */

static int put(struct extraction *x, const void *bytes, size_t size, uint64_t offset)
{
    int result = core_put(x->result->to, bytes, size, offset, &x->result->written);
    if (result != 0)
        x->result->write_error = -result;
    return result != 0 ? -EIO : 0;
}

static int is_zero(const char *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static_assert(offsetof(struct space, files) <= offsetof(struct space, shared) &&
                  offsetof(struct space, shared) < offsetof(struct space, slots),
              "the order in which a pipe is read");

static void read_shared(struct extraction *x)
{
    x->shared = malloc(sizeof(*x->shared));
    if (x->shared && read_some(x, x->shared, sizeof(*x->shared)) == sizeof(*x->shared))
        return;
    free(x->shared);
    x->shared = NULL;
}

/* Whether the task uses the mapping, which several tasks may share. */
static int uses_shared(const struct extraction *x, uintptr_t start)
{
    return x->shared &&
           shared_mapping_is_used_by(&x->shared->mappings[shared_window_index(start)], x->slot);
}

static uintptr_t overflow_at(const struct extraction *x)
{
    return intervals_overflow(x->slot, INTERVALS_OUT_OF_RANGE);
}

/* Whether the segment, which is before those that the task may share, holds the overflow of the
 * list of the task's mappings elsewhere. */
static int has_overflow(const struct extraction *x, const Elf64_Phdr *header)
{
    return !x->overflow && header->p_vaddr <= overflow_at(x) &&
           overflow_at(x) - header->p_vaddr < header->p_filesz;
}

static int read_overflow(struct extraction *x, const Elf64_Phdr *header)
{
    uint64_t from = overflow_at(x) - header->p_vaddr, size = header->p_filesz - from;
    size = size < INTERVALS_OVERFLOW_BYTES ? size : INTERVALS_OVERFLOW_BYTES;
    x->overflow = malloc(INTERVALS_OVERFLOW_BYTES);
    if (!x->overflow)
        return -ENOMEM;
    int result = skip_to(x, header->p_offset + from);
    if (result == 0)
        x->overflow_count = read_some(x, x->overflow, size) / sizeof(*x->overflow);
    return result;
}

static int has_interval(const _Atomic uint64_t *words, size_t count, uintptr_t address)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);
        if (interval_is_certain(word) && address >= interval_start(word) &&
            address < interval_end(word))
            return 1;
    }
    return 0;
}

/* Reads the head of the registry and the task's slot. */
static int read_registry(struct extraction *x)
{
    const size_t head = offsetof(struct space, files);
    uint64_t start = x->at, slot = offsetof(struct space, slots) + x->slot * sizeof(x->record.slot);
    x->head = ps_allocate_head();
    if (!x->head)
        return -ENOMEM;
    if (read_some(x, x->head, head) != head || !registry_matches(x->head, NULL))
        return -ESRCH;
    if (skip_to(x, start + offsetof(struct space, shared)) == 0)
        read_shared(x);
    if (slot < head) /* the slots begin within what was read */
        memcpy(&x->record.slot, (const char *)x->head + slot, sizeof(x->record.slot));
    else if (skip_to(x, start + slot) != 0 ||
             read_some(x, &x->record.slot, sizeof(x->record.slot)) != sizeof(x->record.slot))
        return -ESRCH;
    x->has_slot = 1;
    x->result->id = atomic_load(&x->record.slot.id);
    return 0;
}

static int is_its_own(const struct extraction *x, uintptr_t start, uintptr_t end)
{
    if (layout_slot_of(start) == x->slot || (x->vdso >= start && x->vdso < end))
        return 1;
    if (shared_windows_contain(start))
        return uses_shared(x, start);
    const _Atomic uint64_t *words = x->record.slot.interpose.interval_words[INTERVALS_OUT_OF_RANGE];
    return x->has_slot && (has_interval(words, INTERVALS_IN_SLOT, start) ||
                           has_interval(x->overflow, x->overflow_count, start));
}

/* The file that holds the code of the space, if a thread is in that code: a system call that
 * onespace handles. */
static void find_code(struct extraction *x)
{
    const struct space_operations *operations = &x->head->operations;
    uintptr_t inside = 0;
    struct note note;
    struct elf_prstatus status;
    struct user_regs_struct registers;
    unsigned threads = 0;
    memcpy(&inside, &operations->interpose, sizeof(inside));
    for (size_t at = 0; next_note(x, &at, &note);)
        if (note.type == NT_FILE)
            core_file_at(note.content, note.size, inside, &x->code);
    for (size_t at = 0; x->code.path[0] && next_note(x, &at, &note);)
        if (note.type == NT_PRSTATUS && note.size == sizeof(status)) {
            memcpy(&status, note.content, sizeof(status));
            memcpy(&registers, &status.pr_reg, sizeof(registers));
            threads += arch_instruction_of(&registers) - x->code.low < x->code.high - x->code.low;
        }
    if (threads == 0)
        x->code.path[0] = 0;
}

/* The headers in the first page of that file. */
static int read_code(struct extraction *x, const Elf64_Phdr *header)
{
    size_t size = header->p_filesz < sizeof(x->code_page) ? header->p_filesz : sizeof(x->code_page);
    int result = skip_to(x, header->p_offset);
    if (result == 0)
        x->code_bytes = read_some(x, x->code_page, size);
    return result;
}

/* Through a pipe the kernel sends zeroes; they become holes. */
static int copy_memory(struct extraction *x, const Elf64_Phdr *header)
{
    uint64_t left = header->p_filesz;
    int result = skip_to(x, header->p_offset) != 0 ? -ENODATA : 0;
    while (left > 0 && result == 0) {
        size_t wanted = left < ARCH_PAGE * 16 ? left : ARCH_PAGE * 16;
        size_t got = read_some(x, x->buffer, wanted);
        if (!is_zero(x->buffer, got))
            result = put(x, x->buffer, got, x->out + (header->p_filesz - left));
        if (got < wanted && result == 0)
            result = -ENODATA;
        left -= got;
    }
    return result;
}

static int keep(struct extraction *x, const Elf64_Phdr *header)
{
    /* The notes come after it and would not fit. The kernel stops when the pipe is closed. */
    if (header->p_filesz > x->result->most || x->out > x->result->most - header->p_filesz) {
        x->result->write_error = EFBIG;
        return -EIO;
    }
    Elf64_Phdr *kept = &x->kept[x->kept_count++];
    int result = copy_memory(x, header);
    *kept = *header;
    kept->p_offset = x->out;
    x->out += header->p_filesz;
    return result;
}

static int is_registry(const struct extraction *x, const Elf64_Phdr *header)
{
    const uint64_t least = offsetof(struct space, slots) + (x->slot + 1) * sizeof(x->record.slot);
    return header->p_vaddr == LAYOUT_REGISTRY && header->p_filesz >= least;
}

/* Whether the segment has lists of the task's mappings elsewhere that have not been read yet. */
static int has_lists(const struct extraction *x, const Elf64_Phdr *header)
{
    return header->p_type == PT_LOAD &&
           (x->has_slot ? has_overflow(x, header) : is_registry(x, header));
}

static int read_lists(struct extraction *x, const Elf64_Phdr *header)
{
    if (x->has_slot)
        return read_overflow(x, header);
    int result = skip_to(x, header->p_offset);
    result = result == 0 ? read_registry(x) : result;
    if (result == 0)
        find_code(x);
    return result;
}

/* Reads the lists before the pass over all memory: some of the mappings have lower addresses than
 * the registry. Not through a pipe, which has each byte once. */
static int read_lists_first(struct extraction *x)
{
    uint64_t begin = x->at;
    int result = 0;
    if (lseek(x->result->from, (off_t)begin, SEEK_SET) != (off_t)begin)
        return 0;
    for (unsigned i = 1; i < x->count && result == 0; i++)
        if (has_lists(x, &x->headers[i])) /* in the order in which the kernel writes */
            result = x->headers[i].p_offset < x->at ? -ENODATA : read_lists(x, &x->headers[i]);
    x->at = begin;
    if (result == 0 && lseek(x->result->from, (off_t)begin, SEEK_SET) != (off_t)begin)
        result = -errno;
    return result;
}

static int pass_memory(struct extraction *x)
{
    int result = read_lists_first(x);
    for (unsigned i = 1; i < x->count && result == 0; i++) {
        const Elf64_Phdr *header = &x->headers[i];
        if (header->p_type != PT_LOAD)
            continue;
        if (has_lists(x, header))
            result = read_lists(x, header);
        else if (x->code.path[0] && header->p_vaddr == x->code.base && header->p_filesz)
            result = read_code(x, header);
        else if (is_its_own(x, header->p_vaddr, header->p_vaddr + header->p_memsz))
            result = keep(x, header);
    }
    x->result->is_cut = result == -ENODATA;
    return result == -ENODATA && x->kept_count ? 0 : result;
}

/* ---- Writing notes ---- */

/* Reads the task's memory from the file that is being written. */
static size_t read_kept(const void *context, uint64_t from, void *to, size_t size)
{
    const struct extraction *x = context;
    for (unsigned i = 0; i < x->kept_count; i++) {
        const Elf64_Phdr *kept = &x->kept[i];
        uint64_t inside = from - kept->p_vaddr;
        if (from < kept->p_vaddr || inside >= kept->p_filesz)
            continue;
        size = kept->p_filesz - inside < size ? kept->p_filesz - inside : size;
        ssize_t done = pread(x->result->to, to, size, (off_t)(kept->p_offset + inside));
        size_t got = done > 0 ? (size_t)done : 0;
        memset((char *)to + got, 0, size - got); /* a hole after what has been written so far */
        return size;
    }
    return 0;
}

static size_t read_code_page(const void *context, uint64_t at, void *to, size_t size)
{
    const struct extraction *x = context;
    uint64_t inside = at - x->code.base;
    if (inside > x->code_bytes || size > x->code_bytes - inside)
        return 0;
    memcpy(to, x->code_page + inside, size);
    return size;
}

/* Adds the code of the space to the list of libraries (core_make_entry). */
static int add_code(struct extraction *x)
{
    static struct core_entry entry;
    uintptr_t next = CORE_ENTRY_AT;
    unsigned at = x->kept_count;
    uintptr_t next_at = x->code_bytes == 0 ? 0
                                           : core_make_entry(read_kept, x, &x->record.slot,
                                                             read_code_page, x, &x->code, &entry);
    for (unsigned i = 0; next_at && i < x->kept_count; i++) {
        const Elf64_Phdr *kept = &x->kept[i];
        if (next_at < kept->p_vaddr || next_at - kept->p_vaddr >= kept->p_filesz)
            continue;
        int result = put(x, &next, sizeof(next), kept->p_offset + (next_at - kept->p_vaddr));
        result = result == 0 ? put(x, &entry, sizeof(entry), x->out) : result;
        for (; at > 0 && x->kept[at - 1].p_vaddr > CORE_ENTRY_AT; at--)
            x->kept[at] = x->kept[at - 1];
        x->kept[at] = (Elf64_Phdr){.p_type = PT_LOAD,
                                   .p_flags = PF_R,
                                   .p_offset = x->out,
                                   .p_vaddr = CORE_ENTRY_AT,
                                   .p_filesz = sizeof(entry),
                                   .p_memsz = sizeof(entry),
                                   .p_align = 1};
        x->kept_count++;
        x->out += page_ceiling(sizeof(entry));
        return result;
    }
    return 0;
}

static void note_process(const struct extraction *x, const struct note *note,
                         struct core_notes *notes)
{
    struct elf_prpsinfo info;
    memcpy(&info, note->content, sizeof(info));
    if (x->has_child)
        core_set_arguments(&info, &x->record.child.strings, read_kept, x);
    core_add_note(notes, note->name, note->type, &info, sizeof(info));
}

static size_t read_loaded(const void *context, uint64_t offset, void *to, size_t size)
{
    const struct extraction *x = context;
    return read_kept(x, x->record.slot.debug.map.bias + offset, to, size);
}

/* The kernel's vector is the root's, so this is the task's own. */
static void note_vector(const struct extraction *x, struct core_notes *notes)
{
    Elf64_auxv_t vector[CORE_AUXV_MAX];
    size_t size = x->has_child ? read_kept(x, x->record.child.auxv, vector, sizeof(vector)) : 0;
    for (unsigned i = 0; i < size / sizeof(*vector); i++)
        if (vector[i].a_type == AT_NULL) {
            core_set_program(&x->record, vector, i + 1, read_loaded, x, !x->result->opens_nothing);
            core_add_note(notes, "CORE", NT_AUXV, vector, (i + 1) * sizeof(*vector));
            return;
        }
}

/* Keeps the rows of the task's own mappings. */
static void note_files(const struct extraction *x, const struct note *note,
                       struct core_notes *notes)
{
    uint64_t *from = calloc(1, note->size + 1), *table = calloc(1, note->size + 1);
    if (from && table)
        memcpy(from, note->content, note->size); /* which may lie anywhere */
    if (!from || !table || note->size < 2 * sizeof(*from) ||
        from[0] > (note->size / sizeof(*from) - 2) / 3) {
        free(from);
        free(table);
        return;
    }
    const char *name = (const char *)(from + 2 + 3 * from[0]);
    const char *end = (const char *)from + note->size;
    uint64_t count = 0;
    for (int pass = 0; pass < 2; pass++) { /* the rows, then the names after them */
        char *to = (char *)(table + 2 + 3 * count);
        const char *at = name;
        uint64_t kept = 0;
        for (uint64_t i = 0; i < from[0] && at < end;
             i++, at += strnlen(at, (size_t)(end - at)) + 1) {
            const uint64_t *row = from + 2 + 3 * i;
            if (!is_its_own(x, row[0], row[1]) || strstr(at, " (deleted)"))
                continue;
            memcpy(table + 2 + 3 * kept++, row, 3 * sizeof(*row));
            if (pass == 1)
                to = stpncpy(to, at, (size_t)(end - at)) + 1;
        }
        count = kept;
        table[0] = count;
        table[1] = from[1];
        if (pass == 1)
            core_add_note(notes, note->name, note->type, table, (size_t)(to - (char *)table));
    }
    free(from);
    free(table);
}

static int write_notes(struct extraction *x)
{
    struct core_notes notes = {0};
    struct note note;
    x->has_child = x->has_slot && read_kept(x, x->record.slot.child_record, &x->record.child,
                                            sizeof(x->record.child)) == sizeof(x->record.child);
    x->record.child.program[PATH_MAX - 1] = 0;
    for (size_t at = 0; next_note(x, &at, &note);) {
        if (note.type == NT_PRPSINFO && note.size == sizeof(struct elf_prpsinfo))
            note_process(x, &note, &notes);
        else if (note.type == NT_AUXV)
            note_vector(x, &notes);
        else if (note.type == NT_FILE)
            note_files(x, &note, &notes);
        else
            core_add_note(&notes, note.name, note.type, note.content, note.size);
    }
    Elf64_Phdr header = {
        .p_type = PT_NOTE, .p_offset = x->out, .p_filesz = notes.size, .p_align = 4};
    Elf64_Ehdr file = core_header(x->kept_count + 1);
    Elf64_Shdr section = {.sh_info =
                              x->kept_count + 1}; /* the number, if it is too large for `file` */
    if (file.e_phnum == PN_XNUM) {
        file.e_shoff = x->out + page_ceiling(notes.size);
        file.e_shentsize = sizeof(section);
        file.e_shnum = 1;
    }
    int result = notes.failed ? -ENOMEM : put(x, notes.bytes, notes.size, x->out);
    free(notes.bytes);
    if (result == 0 && file.e_shoff)
        result = put(x, &section, sizeof(section), file.e_shoff);
    if (result == 0)
        result = put(x, &file, sizeof(file), 0);
    if (result == 0)
        result = put(x, &header, sizeof(header), sizeof(file));
    if (result == 0)
        result = put(x, x->kept, x->kept_count * sizeof(*x->kept), sizeof(file) + sizeof(header));
    return result;
}

int core_extract(struct core_extract *extract)
{
    struct extraction x = {.result = extract, .buffer = malloc(BUFFER)};
    extract->id = -1;
    int result = x.buffer ? read_headers(&x) : -ENOMEM;
    if (result == 0)
        result = find_task(&x);
    x.out = page_ceiling(sizeof(Elf64_Ehdr) + x.count * sizeof(Elf64_Phdr));
    if (result == 0)
        result = pass_memory(&x);
    if (result == 0 && !x.has_slot)
        result = -ESRCH;
    if (result == 0)
        result = add_code(&x);
    if (result == 0)
        result = write_notes(&x);
    free(x.headers);
    free(x.kept);
    free(x.notes);
    free(x.head);
    free(x.shared);
    free(x.overflow);
    free(x.buffer);
    return result;
}
