/* src/spawn/loader_image.c: see loader_image.h. */
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
#include "interpose/patch/cpuid.h"
#include "interpose/patch/patch.h"
#include "onespace.h"
#include "space/child.h"
#include "spawn/spawn.h"

enum { IMAGES = 4, DATA_PAGES = 1 + CHILD_PAGES };

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

static struct loader_image images[IMAGES];
static unsigned oldest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

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

enum interpose_code loader_code_kind(const char *path)
{
    return strstr(path, "/ld-linux") ? CODE_LDSO : CODE_LIBC;
}

/* Fills the image at `memory`. The patch sites are recorded in the image's own trampoline data. */
static int fill(struct loader_image *image, unsigned char *memory, int source,
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

static int build(struct loader_image *image, int source, const struct elf_program *program)
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
        result = fill(image, memory, source, program);
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

/* Whether the descriptor is still the file's: a program may close descriptors that it did not open.
 */
static int is_intact(const struct loader_image *image)
{
    struct stat now;
    return fstat(image->fd, &now) == 0 && now.st_dev == image->file.st_dev &&
           now.st_ino == image->file.st_ino;
}

/* With the lock held. NULL and a negative error number if there is none and it cannot be made. */
static struct loader_image *find(const struct elf_program *program, int is_thread, int *error)
{
    struct stat status;
    if (stat(program->interpreter_path, &status) != 0) {
        *error = -errno;
        return NULL;
    }
    struct file_identity source = file_identity_of(&status);
    for (unsigned i = 0; i < IMAGES; i++) {
        struct loader_image *image = &images[i];
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
        *error = build(&image, fd, program);
    }
    if (fd >= 0)
        close(fd);
    if (*error < 0)
        return NULL;
    struct loader_image *made = &images[oldest];
    oldest = (oldest + 1) % IMAGES;
    if (made->is_made && is_intact(made))
        close(made->fd);
    *made = image;
    return made;
}

static int map_at(const struct loader_image *image, uintptr_t base)
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
static void relocate(const struct loader_image *image, uintptr_t base, struct space_slot *slot)
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

uintptr_t loader_address(const struct space_slot *slot, size_t size, size_t align)
{
    uintptr_t range = layout_range(slot_index(space_registry(), slot));
    uint64_t next = atomic_load(&slot->interpose.files_next);
    if (ARCH_PATCH_REACH < LAYOUT_MAPPINGS || size > LAYOUT_MAPPINGS / 8)
        return round_up(next, align);
    /* So aligned the kernel maps as many of its pages by one fault as it can. */
    align = align < ARCH_HUGE_PAGE ? ARCH_HUGE_PAGE : align;
    return (range + LAYOUT_MAPPINGS - size) & -(uintptr_t)align;
}

int loader_image_map(struct space *space, struct space_slot *slot,
                     const struct elf_program *program, struct elf_mapping *mapping)
{
    const struct elf_info *info = &program->interpreter_info;
    int result;
    uintptr_t base = 0;
    interpose_init_slot(space, slot);
    pthread_mutex_lock(&lock);
    const struct loader_image *image = find(program, space_is_thread(slot), &result);
    if (image) {
        base = loader_address(slot, image->size, image->loader);
        result = map_at(image, base);
    }
    if (image && result == 0) {
        relocate(image, base, slot);
        uintptr_t bias = base + image->loader - info->low;
        *mapping = (struct elf_mapping){.base = base + image->loader,
                                        .bias = bias,
                                        .size = info->high - info->low,
                                        .entry = bias + info->entry,
                                        .phdr = info->phdr_vaddr ? bias + info->phdr_vaddr : 0};
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void loader_images_close(void)
{
    for (unsigned i = 0; i < IMAGES; i++) {
        if (images[i].is_made && is_intact(&images[i]))
            close(images[i].fd);
        images[i].is_made = 0;
    }
}
