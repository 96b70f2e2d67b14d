/* tests/fuzz/core_extract_fuzz.c: any bytes in the kernel's core of a space, of which `onespace
 * core
 * --from` takes one task.
 *
 * An input changes a core that is right: its headers, its notes, the registry, the task's slot and
 * its child record. Or, by the first byte, it is the core. Beyond not crashing: what is written of
 * an accepted core lies within the file, and its notes can be read. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/constants.h"
#include "cmd/core/core.h"
#include "false_memory.h"

enum {
    SLOT = 3,
    TASK_HEADERS = 4,
    HEADERS = TASK_HEADERS + 3,
    NOTES_AT = 4096,
    REGISTRY_AT = 1 << 16,
    NAME_ROOM = 8
};
static const uint64_t range = LAYOUT_REGION + SLOT * LAYOUT_RANGE;
#define REGISTRY_SIZE (offsetof(struct space, slots) + (SLOT + 1) * sizeof(struct space_slot))

static const uint64_t code = 0x560000000000;

static uint64_t task_at(void)
{
    return (REGISTRY_AT + REGISTRY_SIZE + 4095) / 4096 * 4096;
}

static int core = -1;

static void put(uint64_t at, const void *bytes, size_t size)
{
    require(pwrite(core, bytes, size, (off_t)at) == (ssize_t)size, "writing the core");
}

static size_t put_note(uint64_t at, unsigned type, const void *content, size_t size)
{
    Elf64_Nhdr header = {5, (Elf64_Word)size, type};
    char name[NAME_ROOM] = "CORE";
    put(at, &header, sizeof(header));
    put(at + sizeof(header), name, sizeof(name));
    put(at + sizeof(header) + sizeof(name), content, size);
    return sizeof(header) + sizeof(name) + (size + 3) / 4 * 4;
}

static size_t put_notes(void)
{
    struct elf_prstatus status = {.pr_pid = 7, .pr_cursig = 11};
    struct elf_prpsinfo info = {.pr_pid = 7, .pr_fname = "task"};
    struct user_regs_struct registers = {0};
    struct {
        uint64_t count, page, rows[6];
        char names[32];
    } files = {2, 4096, {range + 4096, range + 8192, 0, code, code + 8192, 0}, "/bin/task"};
    Elf64_auxv_t vector[2] = {{AT_SYSINFO_EHDR, {range}}, {AT_NULL, {0}}};
#if defined(__x86_64__)
    registers.fs_base = registers.rsp = range + 4096;
    registers.rip = code + 64;
#endif
    memcpy(files.names + sizeof("/bin/task"), "/bin/onespace", sizeof("/bin/onespace"));
    memcpy(&status.pr_reg, &registers, sizeof(registers));
    size_t size = put_note(NOTES_AT, NT_PRSTATUS, &status, sizeof(status));
    size += put_note(NOTES_AT + size, NT_PRPSINFO, &info, sizeof(info));
    size += put_note(NOTES_AT + size, NT_AUXV, vector, sizeof(vector));
    return size + put_note(NOTES_AT + size, NT_FILE, &files, sizeof(files));
}

/* The core that is right. */
static void make_core(void)
{
    static const Elf64_auxv_t vector[2] = {{AT_ENTRY, {0}}, {AT_NULL, {0}}};
    static struct space_slot slot;
    static struct child child;
    const uint64_t inside = code + 128;
    Elf64_Phdr program[2] = {{.p_type = PT_LOAD}, {.p_type = PT_DYNAMIC, .p_vaddr = 256}};
    Elf64_Phdr headers[HEADERS] = {{.p_type = PT_NOTE, .p_offset = NOTES_AT}};
    Elf64_Ehdr header = core_header(HEADERS);
    struct shared_header own = registry_header();
    require(ftruncate(core, 0) == 0, "an empty core");
    headers[0].p_filesz = put_notes();
    headers[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                              .p_offset = REGISTRY_AT,
                              .p_vaddr = LAYOUT_REGISTRY,
                              .p_filesz = REGISTRY_SIZE,
                              .p_memsz = REGISTRY_SIZE};
    headers[HEADERS - 1] = (Elf64_Phdr){.p_type = PT_LOAD,
                                        .p_offset = task_at() + TASK_HEADERS * 8192,
                                        .p_vaddr = code,
                                        .p_filesz = 4096,
                                        .p_memsz = 8192};
    for (unsigned i = 2; i < HEADERS - 1; i++)
        headers[i] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_offset = task_at() + (i - 2) * 8192,
                                  .p_vaddr = range + (i - 2) * 8192,
                                  .p_filesz = 8192,
                                  .p_memsz = 8192};
    atomic_store(&slot.debug.program.maps, 1);
    atomic_store(&slot.debug.libraries.maps, range + 24576);
    slot.debug.map.bias = range;
    slot.child_record = range + 8192;
    child.auxv = range + 4096;
    child.strings.name = child.strings.arguments = range + 5000;
    child.strings.name_end = child.strings.environment = range + 5010;
    put(0, &header, sizeof(header));
    put(sizeof(header), headers, sizeof(headers));
    put(REGISTRY_AT, &own, sizeof(own));
    put(REGISTRY_AT + offsetof(struct space, operations) +
            offsetof(struct space_operations, interpose),
        &inside, sizeof(inside));
    put(REGISTRY_AT + REGISTRY_SIZE - sizeof(slot), &slot, sizeof(slot));
    header.e_phnum = 0;
    put(task_at(), &header, sizeof(header)); /* of the program */
    put(task_at() + 4096, vector, sizeof(vector));
    put(task_at() + 8192, &child, sizeof(child));
    header.e_phnum = 2;
    header.e_phoff = sizeof(header);
    put(task_at() + TASK_HEADERS * 8192, &header, sizeof(header)); /* of the code */
    put(task_at() + TASK_HEADERS * 8192 + sizeof(header), program, sizeof(program));
    require(ftruncate(core, (off_t)(task_at() + TASK_HEADERS * 8192 + 4096)) == 0, "a whole core");
}

static void change(const uint8_t *data, size_t size)
{
    const struct false_part parts[] = {
        {0, sizeof(Elf64_Ehdr) + HEADERS * sizeof(Elf64_Phdr)},
        {NOTES_AT, 2048},
        {REGISTRY_AT, 4096},
        {REGISTRY_AT + REGISTRY_SIZE - sizeof(struct space_slot), sizeof(struct space_slot)},
        {task_at(), 8192},
        {task_at() + 8192, 16384},
        {task_at() + 24576, 12288}};
    false_parts_change(parts, sizeof(parts) / sizeof(parts[0]), data, size, put);
}

static void check_notes(const unsigned char *notes, size_t size)
{
    for (size_t at = 0; at < size;) {
        Elf64_Nhdr header;
        require(at + sizeof(header) <= size, "a whole header of a note");
        memcpy(&header, notes + at, sizeof(header));
        require(header.n_namesz <= NAME_ROOM && header.n_descsz <= size, "a name and a content");
        at += sizeof(header) + (header.n_namesz + 3) / 4 * 4 + (header.n_descsz + 3) / 4 * 4;
        require(at <= size, "a note within the notes");
    }
}

static void check_result(int to)
{
    Elf64_Ehdr header;
    Elf64_Phdr entry;
    off_t end = lseek(to, 0, SEEK_END);
    require(pread(to, &header, sizeof(header), 0) == sizeof(header) &&
                memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_type == ET_CORE,
            "an ELF core");
    for (unsigned i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + i * sizeof(entry));
        require(pread(to, &entry, sizeof(entry), at) == sizeof(entry), "a program header");
        if (entry.p_type != PT_NOTE)
            continue;
        require(entry.p_offset + entry.p_filesz <= (uint64_t)end, "notes within the file");
        unsigned char *notes = malloc(entry.p_filesz + 1);
        require(notes && pread(to, notes, entry.p_filesz, (off_t)entry.p_offset) ==
                             (ssize_t)entry.p_filesz,
                "notes that can be read");
        check_notes(notes, entry.p_filesz);
        free(notes);
    }
}

/* Whether the code was added to the libraries. */
static int has_code(int to)
{
    Elf64_Ehdr header;
    Elf64_Phdr entry;
    int has = 0;
    require(pread(to, &header, sizeof(header), 0) == sizeof(header), "a header");
    for (unsigned i = 0; i < header.e_phnum; i++) {
        off_t at = (off_t)(header.e_phoff + i * sizeof(entry));
        require(pread(to, &entry, sizeof(entry), at) == sizeof(entry), "a program header");
        has |= entry.p_type == PT_LOAD && entry.p_vaddr == CORE_ENTRY_AT;
    }
    return has;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int to = -1;
    if (core < 0) {
        core = false_file("core");
        to = false_file("task");
    }
    if (size == 0)
        return 0;
    if (data[0] == 0xff) {
        require(ftruncate(core, 0) == 0, "an empty core");
        put(0, data + 1, size - 1);
    } else {
        make_core();
        change(data + 1, size - 1);
    }
    require(ftruncate(to, 0) == 0 && lseek(core, 0, SEEK_SET) == 0, "files");
    struct core_extract request = {.from = core, .to = to, .most = UINT64_MAX, .opens_nothing = 1};
    int result = core_extract(&request);
    require(result <= 0, "a result");
    if (result == 0)
        check_result(to);
    require(size > 1 || data[0] == 0xff || (result == 0 && has_code(to)),
            "the core that is right is accepted");
    return 0;
}
