/* src/mpi/storage/info.c: reads hints from an MPI_Info, and writes those in force into one. */
#include <stdio.h>

#include "mpi/storage/window.h"

struct lookup {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL + 1];
};

static const char *look_up(void *context, const char *key)
{
    struct lookup *lookup = context;
    int found = 0;
    if (lookup->info == MPI_INFO_NULL ||
        real()->Info_get(lookup->info, (char *)key, MPI_MAX_INFO_VAL, lookup->value, &found) !=
            MPI_SUCCESS ||
        !found)
        return NULL;
    return lookup->value;
}

int storage_info_read(struct storage_hints *hints, MPI_Info info, struct storage_error *error)
{
    struct lookup lookup = {.info = info};
    return storage_hints_read(hints, look_up, &lookup, error);
}

/* ---- What is in force ---- */

static int describe_file(const struct storage_window *storage, MPI_Info info)
{
    const struct storage_file *file = &storage->own.region.file;
    char text[MPI_MAX_INFO_VAL];
    int result = MPI_SUCCESS;
    if (file->fd < 0)
        return result;
    snprintf(text, sizeof(text), "%04o", (unsigned)file->mode & 0777);
    if (!file->is_device)
        result = real()->Info_set(info, "file_perm", text);
    if (result == MPI_SUCCESS && file->striping_factor) {
        snprintf(text, sizeof(text), "%u", file->striping_factor);
        result = real()->Info_set(info, "striping_factor", text);
    }
    if (result == MPI_SUCCESS && file->striping_unit) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)file->striping_unit);
        result = real()->Info_set(info, "striping_unit", text);
    }
    return result;
}

int storage_info_write(const struct storage_window *storage, MPI_Info info)
{
    const struct storage_hints *hints = &storage->hints;
    const struct storage_layout *layout = &storage->own.layout;
    if (!hints->is_storage)
        return real()->Info_set(info, (char *)"alloc_type", (char *)"memory");
    char offset[32], factor[32], versions[16], style[128];
    snprintf(offset, sizeof(offset), "%llu", (unsigned long long)layout->file_offset);
    snprintf(factor, sizeof(factor), "%.6g",
             storage_part_size(&storage->own)
                 ? (double)layout->storage_length / (double)storage_part_size(&storage->own)
                 : 1.0);
    snprintf(versions, sizeof(versions), "%u", hints->versions);
    storage_style_name(hints->style, style, sizeof(style));
    const struct {
        const char *key, *value;
    } pairs[] = {
        {"alloc_type", "storage"},
        {"storage_layer", "onespace"}, /* MPI libraries may return hints that they have ignored */
        {"storage_alloc_filename", hints->filename},
        {"storage_alloc_offset", offset},
        {"storage_alloc_factor", factor},
        {"storage_alloc_order", hints->storage_first ? "storage_first" : "memory_first"},
        {"storage_alloc_unlink", hints->unlink ? "true" : "false"},
        {"storage_alloc_discard", hints->discard ? "true" : "false"},
        {"storage_alloc_versions", versions},
        {"storage_alloc_tracking", hints->is_untracked ? "false" : "true"},
        {"access_style", style},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        int result = MPI_SUCCESS;
        if (pairs[i].value[0]) /* access_style may be nothing */
            result = real()->Info_set(info, (char *)pairs[i].key, (char *)pairs[i].value);
        if (result != MPI_SUCCESS)
            return result;
    }
    return describe_file(storage, info);
}
