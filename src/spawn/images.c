/* src/spawn/images.c: see images.h. */
#include "spawn/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/page.h"
#include "interpose/patch/patch.h"
#include "spawn/spawn.h"

/* Whether what ends there lies in the task's range: elf_map would take what is free of another's.
 */
static int fits(const struct spawn *spawn, uintptr_t end)
{
    return end <= layout_range(slot_index(spawn->space, spawn->slot)) + LAYOUT_RANGE;
}

/* Where the task's next file goes. */
static uintptr_t next_place(const struct space_slot *slot, size_t align)
{
    return round_up(atomic_load(&slot->interpose.files_next), align);
}

/* Maps the file at that place, with its system calls patched. The descriptor, or -errno. */
static int map_file(struct spawn *spawn, const char *path, const struct elf_info *info,
                    uintptr_t place, enum interpose_code kind, struct elf_mapping *mapping)
{
    struct space_slot *slot = spawn->slot;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int result =
        fits(spawn, place + (info->high - info->low)) ? elf_map(fd, info, place, mapping) : -EFBIG;
    if (result < 0) {
        close(fd);
        return result;
    }
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        if (!(segment->prot & PROT_EXEC) || (spawn->attr.flags & ONESPACE_SPAWN_NO_INTERPOSE))
            continue;
        uint64_t skew = segment->vaddr % ARCH_PAGE;
        interpose_patch_mapping(slot, mapping->bias + segment->vaddr - skew, segment->filesz + skew,
                                fd, (long)(segment->offset - skew), kind);
    }
    if (place == next_place(slot, info->align))
        atomic_store(&slot->interpose.files_next, mapping->base + mapping->size);
    return fd;
}

/* The program headers with the agent, behind the program. */
static int map_extension(struct spawn *spawn, int fd, struct images *images)
{
    const struct elf_info *info = &spawn->program.info;
    const char *agent = agent_path();
    size_t size = agent ? page_ceiling(elf_extension_size(info)) : 0;
    images->phdr = images->program.phdr;
    if (!size)
        return 0;
    uintptr_t place = atomic_load(&spawn->slot->interpose.files_next);
    void *block = mmap((void *)place, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (block == MAP_FAILED)
        return -errno;
    atomic_store(&spawn->slot->interpose.files_next, place + size);
    images->phdr = place;
    images->extension_size = size;
    return elf_extend(fd, info, &images->program, spawn->program.path, agent, block);
}

/* The program, for a dynamic linker that is entered as by the kernel, or that is not there. */
static int map_program(struct spawn *spawn, struct images *images)
{
    const struct elf_info *info = &spawn->program.info;
    int fd = map_file(spawn, spawn->program.path, info, next_place(spawn->slot, info->align),
                      CODE_PROGRAM, &images->program);
    if (fd < 0)
        return fd;
    images->phdr = images->program.phdr;
    images->phnum = info->phnum;
    images->program_entry = images->program.entry;
    images->stack_prot |= info->executable_stack ? PROT_EXEC : 0;
    int result = images->loader.size ? map_extension(spawn, fd, images) : 0;
    close(fd);
    return result;
}

/* The root maps a copy that it keeps patched, unless nothing is patched. */
static int map_loader(struct spawn *spawn, struct elf_mapping *mapping)
{
    const char *path = spawn->program.interpreter_path;
    if (spawn->self == &spawn->space->slots[0] &&
        !(spawn->attr.flags & ONESPACE_SPAWN_NO_INTERPOSE) &&
        loader_image_map(spawn->space, spawn->slot, &spawn->program, mapping) == 0)
        return 0;
    int result = (int)spawn->space->operations.prepare(spawn->space, spawn->slot);
    const struct elf_info *info = &spawn->program.interpreter_info;
    int fd = result < 0 ? result
                        : map_file(spawn, path, info,
                                   loader_address(spawn->slot, info->high - info->low, info->align),
                                   loader_code_kind(path), mapping);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? fd : 0;
}

static void note_interpreter(struct space_slot *slot, const struct elf_info *info, uintptr_t bias)
{
    slot->interpreter_bias = bias;
    slot->interpreter_dynamic = bias + info->dynamic_vaddr;
}

static int map_static(struct spawn *spawn, struct images *images)
{
    int result = (int)spawn->space->operations.prepare(spawn->space, spawn->slot);
    if (result == 0)
        result = map_program(spawn, images);
    note_interpreter(spawn->slot, &spawn->program.info, images->program.bias);
    images->entry = images->program.entry;
    return result;
}

int images_map(struct spawn *spawn, struct images *images)
{
    images->stack_prot = PROT_READ | PROT_WRITE;
    const struct elf_info *info = &spawn->program.interpreter_info;
    if (!spawn->program.interpreter_path[0])
        return map_static(spawn, images);
    int result = map_loader(spawn, &images->loader);
    if (result < 0)
        return result;
    note_interpreter(spawn->slot, info, images->loader.bias);
    images->entry = images->loader.entry;
    images->is_command = info->takes_argv0_preload;
    if (!images->is_command) {
        images->base = images->loader.bias;
        return map_program(spawn, images);
    }
    images->phdr = images->loader.phdr;
    images->phnum = info->phnum;
    images->program_entry = images->loader.entry;
    return 0;
}
