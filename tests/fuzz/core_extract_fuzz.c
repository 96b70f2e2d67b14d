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

#include "arch/elf.h"
#include "cmd/core/core.h"
#include "false_memory.h"

enum { SLOT = 3, HEADERS = 6, NOTES_AT = 4096, REGISTRY_AT = 1 << 16, NAME_ROOM = 8 };
static const uint64_t range = LAYOUT_REGION + SLOT * LAYOUT_RANGE;
#define REGISTRY_SIZE (offsetof(struct space, slots) + (SLOT + 1) * sizeof(struct space_slot))

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
    uint64_t files[11] = {1, 4096, range + 4096, range + 8192, 0};
    Elf64_auxv_t vector[2] = {{AT_SYSINFO_EHDR, {range}}, {AT_NULL, {0}}};
#if defined(__x86_64__)
    registers.fs_base = registers.rsp = range + 4096;
#endif
    memcpy(&status.pr_reg, &registers, sizeof(registers));
    memcpy(files + 5, "/bin/task", 10);
    size_t size = put_note(NOTES_AT, NT_PRSTATUS, &status, sizeof(status));
    size += put_note(NOTES_AT + size, NT_PRPSINFO, &info, sizeof(info));
    size += put_note(NOTES_AT + size, NT_AUXV, vector, sizeof(vector));
    return size + put_note(NOTES_AT + size, NT_FILE, files, sizeof(files));
}

/* The core that is right. */
static void make_core(void)
{
    static const Elf64_auxv_t vector[2] = {{AT_ENTRY, {0}}, {AT_NULL, {0}}};
    static struct space_slot slot;
    static struct child child;
    Elf64_Phdr headers[HEADERS] = {{.p_type = PT_NOTE, .p_offset = NOTES_AT}};
    Elf64_Ehdr header = core_header(HEADERS);
    struct shared_header own = space_header();
    require(ftruncate(core, 0) == 0, "an empty core");
    headers[0].p_filesz = put_notes();
    headers[1] = (Elf64_Phdr){.p_type = PT_LOAD,
                              .p_offset = REGISTRY_AT,
                              .p_vaddr = LAYOUT_REGISTRY,
                              .p_filesz = REGISTRY_SIZE,
                              .p_memsz = REGISTRY_SIZE};
    for (unsigned i = 2; i < HEADERS; i++)
        headers[i] = (Elf64_Phdr){.p_type = PT_LOAD,
                                  .p_offset = task_at() + (i - 2) * 8192,
                                  .p_vaddr = range + (i - 2) * 8192,
                                  .p_filesz = 8192,
                                  .p_memsz = 8192};
    atomic_store(&slot.debug.program.maps, 1);
    slot.debug.map.bias = range;
    slot.child_record = range + 8192;
    child.auxv = range + 4096;
    child.strings.name = child.strings.arguments = range + 5000;
    child.strings.name_end = child.strings.environment = range + 5010;
    put(0, &header, sizeof(header));
    put(sizeof(header), headers, sizeof(headers));
    put(REGISTRY_AT, &own, sizeof(own));
    put(REGISTRY_AT + REGISTRY_SIZE - sizeof(slot), &slot, sizeof(slot));
    header.e_phnum = 0;
    put(task_at(), &header, sizeof(header)); /* of the program */
    put(task_at() + 4096, vector, sizeof(vector));
    put(task_at() + 8192, &child, sizeof(child));
    require(ftruncate(core, (off_t)(task_at() + (HEADERS - 2) * 8192)) == 0, "a whole core");
}

static void change(const uint8_t *data, size_t size)
{
    const struct false_part parts[] = {
        {0, sizeof(Elf64_Ehdr) + HEADERS * sizeof(Elf64_Phdr)},
        {NOTES_AT, 2048},
        {REGISTRY_AT, 4096},
        {REGISTRY_AT + REGISTRY_SIZE - sizeof(struct space_slot), sizeof(struct space_slot)},
        {task_at(), 8192},
        {task_at() + 8192, 16384}};
    while (size >= 4) {
        const struct false_part *part = &parts[data[0] % (sizeof(parts) / sizeof(parts[0]))];
        size_t offset = (data[1] | (size_t)data[2] << 8) % part->size, length = data[3];
        data += 4;
        size -= 4;
        length = length < size ? length : size;
        size_t fits = length < part->size - offset ? length : part->size - offset;
        put(part->at + offset, data, fits);
        data += length;
        size -= length;
    }
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
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
    struct core_extract request = {.from = core, .to = to, .opens_nothing = 1};
    int result = core_extract(&request);
    require(result <= 0, "a result");
    if (result == 0)
        check_result(to);
    require(size > 1 || data[0] == 0xff || result == 0, "the core that is right is accepted");
    return 0;
}
