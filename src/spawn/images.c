/* src/spawn/images.c: maps a program and its dynamic linker into a task's range.
 *
 * A program is entered in one of three ways:
 *
 * - Static: it is mapped and entered itself.
 * - By command: its dynamic linker is mapped, and arguments tell it to load the agent and the
 *   program. This needs options that glibc has since 2.33.
 * - As the kernel enters it, with an older dynamic linker: both are mapped, the auxiliary vector
 *   leads to the program, and the agent is the first library that the program needs (elf_extend).
 */
#include "spawn/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/code/patch.h"
#include "arch/trampoline.h"
#include "base/file_identity.h"
#include "base/page.h"
#include "interpose/interpose.h"
#include "interpose/patch/patch.h"
#include "onespace.h"
#include "space/child.h"
#include "spawn/spawn.h"

/* ---- Memory files ---- */

int memory_file_create(const char *name, unsigned flags, size_t size)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size)
        return -EFBIG; /* ftruncate would raise SIGXFSZ */
    int fd = memfd_create(name, MFD_CLOEXEC | flags);
    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        return fd;
    int error = -errno;
    if (fd >= 0)
        close(fd);
    return error;
}

/* ---- The loader image: the dynamic linker of many tasks, patched once ----
 *
 * Mapping ld.so into each task segment by segment, patching it and making it executable again would
 * be a dozen changes to an address space that all tasks share, and would dominate the time to start
 * a task. Instead the root keeps ld.so in memory files, as it lies in a task's range, with its
 * system calls already turned into jumps: after the page of trampolines that these jump to, and
 * before the trampolines' data page and the child record:
 *
 *   | trampolines | ld.so: code, constants | ld.so: data, .bss | tramp. data | child record |
 *   |<-------- mapped for execution ------>|<------------- mapped for writing ------------->|
 *
 * A task needs two private mappings of such a file and nothing else. The patched bytes depend only
 * on distances within the file, so the same file fits every range. */

enum { LOADER_IMAGES = 4, DATA_PAGES = 1 + CHILD_PAGES };

struct loader_image {
    int is_made, fd;
    int is_thread;
    struct file_identity source; /* of ld.so */
    struct stat file;            /* of the memory file, whose descriptor may be reused */
    uintptr_t built_at;          /* the address to which the recorded patch sites are relative */
    size_t loader, code_size;    /* offsets of ld.so and of its writable data */
    size_t data, size;           /* offset of the trampolines' data; of the end */
    uint32_t trampoline_count, cpuid_count;
};

/* The images, under `image_lock`; when all are in use the oldest is replaced. */
static struct loader_image loader_images[LOADER_IMAGES];
static unsigned oldest_image;
static pthread_mutex_t image_lock = PTHREAD_MUTEX_INITIALIZER;

/* Offset from `low` where the writable segments begin, or 0 when others follow them. */
static size_t data_offset(const struct elf_info *info)
{
    uint64_t data = 0;
    for (unsigned i = 0; i < info->segment_count; i++) {
        const struct elf_segment *segment = &info->segments[i];
        if ((segment->prot & PROT_WRITE) && !data)
            data = page_floor(segment->vaddr);
        else if (!(segment->prot & PROT_WRITE) && data)
            return 0;
    }
    return data > info->low ? data - info->low : 0;
}

/* The kind of code as which the interpreter with that path is patched: musl's is the libc itself.
 */
static enum interpose_code loader_code_kind(const char *path)
{
    return strstr(path, "/ld-linux") ? CODE_LDSO : CODE_LIBC;
}

/* Fills the image at `memory`. The patch sites are recorded in the image's own trampoline data. */
static int fill_image(struct loader_image *image, unsigned char *memory, int source,
                      const struct elf_program *program)
{
    const struct elf_info *info = &program->interpreter_info;
    struct space_slot *scratch = aligned_alloc(_Alignof(struct space_slot), sizeof(*scratch));
    if (!scratch)
        return -ENOMEM;
    memset(scratch, 0, sizeof(*scratch));
    int result = elf_read_image(source, info, memory + image->loader);
    arch_write_trampolines(memory, (int32_t)image->data);
    scratch->interpose.trampolines = (uintptr_t)memory;
    scratch->interpose.trampoline_data = (uintptr_t)memory + image->data;
    scratch->flags = image->is_thread ? ONESPACE_SPAWN_THREAD : 0;
    for (unsigned i = 0; i < info->segment_count && result == 0; i++) {
        const struct elf_segment *segment = &info->segments[i];
        uint64_t skew = segment->vaddr % ARCH_PAGE;
        if (segment->prot & PROT_EXEC)
            interpose_patch_writable(
                scratch, (uintptr_t)memory + image->loader + (segment->vaddr - skew - info->low),
                segment->filesz + skew, source, (long)(segment->offset - skew),
                loader_code_kind(program->interpreter_path));
    }
    image->built_at = (uintptr_t)memory;
    image->trampoline_count = atomic_load(&scratch->interpose.trampoline_count);
    image->cpuid_count = scratch->interpose.cpuid_count;
    free(scratch);
    return result;
}

static int build_image(struct loader_image *image, int source, const struct elf_program *program)
{
    const struct elf_info *info = &program->interpreter_info;
    size_t data = data_offset(info);
    if (!data)
        return -ENOTSUP;
    image->loader = info->align > ARCH_PAGE ? info->align : ARCH_PAGE;
    image->code_size = image->loader + data;
    image->data = image->loader + (info->high - info->low);
    image->size = image->data + DATA_PAGES * ARCH_PAGE;
    int fd = memory_file_create("onespace-loader", MFD_ALLOW_SEALING, image->size),
        result = fd < 0 ? fd : 0;
    if (result < 0)
        return result;
    void *memory = mmap(NULL, image->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        result = -errno;
    if (result == 0)
        result = fill_image(image, memory, source, program);
    if (memory != MAP_FAILED)
        munmap(memory, image->size);
    if (result == 0 &&
        (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
         fstat(fd, &image->file) != 0))
        result = -errno;
    image->fd = fd;
    image->is_made = result == 0;
    if (result < 0)
        close(fd);
    return result;
}

/* Whether the descriptor still refers to the file. A program may close descriptors that it did not
 * open. */
static int is_intact(const struct loader_image *image)
{
    struct stat now;
    return fstat(image->fd, &now) == 0 && now.st_dev == image->file.st_dev &&
           now.st_ino == image->file.st_ino;
}

/* Finds or builds the image, with the lock held. NULL and *error (-errno) if it cannot be built. */
static struct loader_image *find_image(const struct elf_program *program, int is_thread, int *error)
{
    struct stat status;
    if (stat(program->interpreter_path, &status) != 0) {
        *error = -errno;
        return NULL;
    }
    struct file_identity source = file_identity_of(&status);
    for (unsigned i = 0; i < LOADER_IMAGES; i++) {
        struct loader_image *image = &loader_images[i];
        if (image->is_made && image->is_thread == is_thread &&
            file_is_unchanged(&image->source, &source)) {
            if (is_intact(image))
                return image;
            image->is_made = 0;
        }
    }
    struct loader_image image = {.is_thread = is_thread};
    int fd = open(program->interpreter_path, O_RDONLY | O_CLOEXEC);
    *error = fd < 0 || fstat(fd, &status) != 0 ? -errno : 0;
    if (*error == 0) {
        image.source = file_identity_of(&status);
        *error = build_image(&image, fd, program);
    }
    if (fd >= 0)
        close(fd);
    if (*error < 0)
        return NULL;
    struct loader_image *made = &loader_images[oldest_image];
    oldest_image = (oldest_image + 1) % LOADER_IMAGES;
    if (made->is_made && is_intact(made))
        close(made->fd);
    *made = image;
    return made;
}

static int map_image(const struct loader_image *image, uintptr_t base)
{
    int common = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
    size_t rest = image->size - image->code_size;
    if (mmap((void *)base, image->code_size, PROT_READ | PROT_EXEC, common, image->fd, 0) !=
        (void *)base)
        return -ENOMEM;
    /* Populate: all of these pages are written soon, and each would be a fault and a copy. */
    if (mmap((void *)(base + image->code_size), rest, PROT_READ | PROT_WRITE, common | MAP_POPULATE,
             image->fd, (off_t)image->code_size) == (void *)(base + image->code_size))
        return 0;
    munmap((void *)base, image->size);
    return -ENOMEM;
}

/* Fills the trampolines' data page of the task: moves the recorded patch sites from the address
 * where the image was built to the task's. */
static void relocate_patch_sites(const struct loader_image *image, uintptr_t base,
                                 struct space_slot *slot)
{
    struct arch_trampoline_data *data = (struct arch_trampoline_data *)(base + image->data);
    uintptr_t moved = base - image->built_at;
    interpose_init_data(data, slot);
    for (uint32_t i = 0; i < image->trampoline_count; i++) {
        data->calls[i].self = slot;
        data->calls[i].resume += moved;
    }
    if (ARCH_HAS_CPUID)
        cpuid_relocate(data, image->cpuid_count, moved);
    slot->interpose.trampolines = base;
    slot->interpose.trampoline_data = (uintptr_t)data;
    atomic_store(&slot->interpose.trampoline_count, image->trampoline_count);
    slot->interpose.cpuid_count = image->cpuid_count;
    slot->child_record = (uintptr_t)data + ARCH_PAGE;
    if (base == atomic_load(&slot->interpose.files_next))
        atomic_store(&slot->interpose.files_next, base + image->size);
}

/* The address of an interpreter of `size` bytes in the slot's range: at the end of the area for
 * files if it can reach the trampolines from there. As in a process, it then lies above the
 * program, as programs expect that take the writable memory below their own end for theirs (Open
 * MPI's OpenSHMEM). Otherwise it is the first file. */
static uintptr_t loader_address(const struct space_slot *slot, size_t size, size_t align)
{
    uintptr_t range = layout_range(slot_index(space_registry(), slot));
    uint64_t next = atomic_load(&slot->interpose.files_next);
    if (ARCH_PATCH_REACH < LAYOUT_MAPPINGS || size > LAYOUT_MAPPINGS / 8)
        return round_up(next, align);
    /* With this alignment the kernel maps as many pages as it can by one fault. */
    align = align < ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : align;
    return (range + LAYOUT_MAPPINGS - size) & -(uintptr_t)align;
}

/* Maps the interpreter of the program into the claimed slot's empty range and prepares its
 * interposition, in place of interpose_map_trampolines, elf_map and interpose_patch_mapping. Only
 * for the root, which owns the files. Returns 0, or -errno with nothing mapped: then use those
 * three. */
static int loader_image_map(struct space *space, struct space_slot *slot,
                            const struct elf_program *program, struct elf_mapping *mapping)
{
    const struct elf_info *info = &program->interpreter_info;
    int result;
    uintptr_t base = 0;
    interpose_init_slot(space, slot);
    pthread_mutex_lock(&image_lock);
    const struct loader_image *image = find_image(program, slot_is_thread(slot), &result);
    if (image) {
        base = loader_address(slot, image->size, image->loader);
        result = map_image(image, base);
    }
    if (image && result == 0) {
        relocate_patch_sites(image, base, slot);
        uintptr_t bias = base + image->loader - info->low;
        *mapping = (struct elf_mapping){.base = base + image->loader,
                                        .bias = bias,
                                        .size = info->high - info->low,
                                        .entry = bias + info->entry,
                                        .phdr = info->phdr_vaddr ? bias + info->phdr_vaddr : 0};
    }
    pthread_mutex_unlock(&image_lock);
    return result;
}

/* Closes the files. No other thread may be spawning. */
void loader_images_close(void)
{
    for (unsigned i = 0; i < LOADER_IMAGES; i++) {
        if (loader_images[i].is_made && is_intact(&loader_images[i]))
            close(loader_images[i].fd);
        loader_images[i].is_made = 0;
    }
}

/* ---- Mapping a task's images ---- */

/* The address of the task's next file. */
static uintptr_t next_file_address(const struct space_slot *slot, size_t align)
{
    return round_up(atomic_load(&slot->interpose.files_next), align);
}

/* Maps the file at that address and patches its system calls. Returns its descriptor or -errno. */
static int map_file(struct spawn *spawn, const char *path, const struct elf_info *info,
                    uintptr_t address, enum interpose_code kind, struct elf_mapping *mapping)
{
    struct space_slot *slot = spawn->slot;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* elf_map would use free addresses of another task's range. */
    uintptr_t range_end = layout_range(slot_index(spawn->space, slot)) + LAYOUT_RANGE;
    int result = address + (info->high - info->low) <= range_end
                     ? elf_map(fd, info, address, mapping)
                     : -EFBIG;
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
    if (address == next_file_address(slot, info->align))
        atomic_store(&slot->interpose.files_next, mapping->base + mapping->size);
    return fd;
}

/* Maps the program headers with the agent, after the program. */
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

/* Maps the program, when it is static or its dynamic linker is entered as by the kernel. */
static int map_program(struct spawn *spawn, struct images *images)
{
    const struct elf_info *info = &spawn->program.info;
    int fd = map_file(spawn, spawn->program.path, info, next_file_address(spawn->slot, info->align),
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

/* Maps the dynamic linker: the root from a loader image, unless nothing is to be patched. */
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

static void record_interpreter(struct space_slot *slot, const struct elf_info *info, uintptr_t bias)
{
    slot->interpreter_bias = bias;
    slot->interpreter_dynamic = bias + info->dynamic_vaddr;
}

static int map_static(struct spawn *spawn, struct images *images)
{
    int result = (int)spawn->space->operations.prepare(spawn->space, spawn->slot);
    if (result == 0)
        result = map_program(spawn, images);
    record_interpreter(spawn->slot, &spawn->program.info, images->program.bias);
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
    record_interpreter(spawn->slot, info, images->loader.bias);
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
