/* src/storage/file/stripes.c: new files on Lustre with the number and size of stripes of the hints
 * striping_factor and striping_unit. On other file systems the hints have no effect, as MPI allows.
 *
 * Lustre accepts a layout only before the file has objects: the file is created with their creation
 * delayed, then an ioctl sets the layout (lustre_user.h, whose names these are in our style). */
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "storage/file/file.h"

#define LUSTRE_SUPER_MAGIC  0x0bd00bd0
#define LUSTRE_LAYOUT_MAGIC 0x0bd10bd0u
#define LUSTRE_DELAY_CREATE (O_NOCTTY | FASYNC)
#define LUSTRE_SET_STRIPES  _IOW('f', 154, long)

struct lustre_layout { /* struct lov_user_md_v1 without objects */
    uint32_t magic, pattern;
    uint64_t object_id, object_group;
    uint32_t stripe_size;
    uint16_t stripe_count, stripe_offset;
};
_Static_assert(sizeof(struct lustre_layout) == 32, "layout");

static int is_lustre(int directory)
{
    struct statfs about;
    return fstatfs(directory, &about) == 0 && about.f_type == LUSTRE_SUPER_MAGIC;
}

/* O_EXCL: a symbolic link is not followed. */
static int create(struct storage_file *file, int flags)
{
    file->fd = openat(file->entry.directory, file->entry.name,
                      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0600);
    return file->fd;
}

int storage_stripes_create(struct storage_file *file, const struct storage_hints *hints)
{
    if ((!hints->striping_factor && !hints->striping_unit) || !is_lustre(file->entry.directory))
        return create(file, O_NOCTTY);
    struct lustre_layout layout = {
        .magic = LUSTRE_LAYOUT_MAGIC,
        .stripe_size = (uint32_t)hints->striping_unit, /* 0: the default, as for the count */
        .stripe_count = (uint16_t)hints->striping_factor,
        .stripe_offset = UINT16_MAX, /* anywhere */
    };
    int fd = create(file, LUSTRE_DELAY_CREATE);
    if (fd >= 0 && ioctl(fd, LUSTRE_SET_STRIPES, &layout) == 0) {
        file->striping_factor = hints->striping_factor;
        file->striping_unit = hints->striping_unit;
    }
    return fd;
}
