/* src/interpose/patch/patch_sites.c: which patch sites a file has. The list is cached in the
 * registry under the file's identity. */
#include <sys/stat.h>

#include "arch/code/patch.h"
#include "base/raw.h"
#include "interpose/calls.h"
#include "interpose/patch/patch.h"

static void search_calls(const unsigned char *code, size_t size, int is_loader,
                         struct patch_sites *list)
{
    struct arch_patch_site found;
    list->count = list->left_out = 0;
    for (size_t at = arch_next_patch_site(code, size, 0, &found); at < size && at <= UINT32_MAX;
         at = arch_next_patch_site(code, size, at + 1, &found)) {
        unsigned where = interposed_where(found.nr);
        if (is_loader ? !where : !(where & (IN_LIBC | IN_PROGRAM)))
            continue;
        if (list->count == SPACE_FILE_PATCH_SITES) {
            list->left_out += list->left_out < UINT16_MAX;
            continue;
        }
        list->items[list->count++] = (struct space_patch_site){.at = (uint32_t)at,
                                                               .nr = (uint16_t)found.nr,
                                                               .length = found.length,
                                                               .displaced = found.displaced};
    }
}

/* Removes the sites that must not be patched. */
static void remove_unsafe(const unsigned char *code, size_t size, struct patch_sites *list)
{
    struct arch_span spans[SPACE_FILE_PATCH_SITES];
    uint16_t kept = 0;
    for (unsigned i = 0; i < list->count; i++)
        spans[i] =
            (struct arch_span){list->items[i].at, list->items[i].length, list->items[i].displaced};
    arch_reject_unsafe(code, size, spans, list->count);
    for (unsigned i = 0; i < list->count; i++)
        if (spans[i].length) {
            list->items[kept] = list->items[i];
            list->items[kept++].displaced = spans[i].displaced;
        }
    list->count = kept;
}

/* The cache key of a list of patch sites. */
struct cache_key {
    struct file_identity identity;
    uint64_t offset, length, is_loader;
};

static int has_key(const struct space_file *file, const struct cache_key *key)
{
    return file_is_unchanged(&file->identity, &key->identity) && file->offset == key->offset &&
           file->length == key->length && file->is_loader == key->is_loader;
}

/* Caches a list. An entry has one writer, who moves it from EMPTY to FILLING by compare-and-swap.
 * READY, stored with release, pairs with the readers' acquire. */
static void cache_store(struct space *space, const struct cache_key *key,
                        const struct patch_sites *list)
{
    for (unsigned i = 0; i < SPACE_FILES; i++) {
        struct space_file *file = &space->files[i];
        uint32_t expected = FILE_EMPTY;
        if (!atomic_compare_exchange_strong(&file->state, &expected, FILE_FILLING))
            continue;
        file->identity = key->identity;
        file->offset = key->offset;
        file->length = key->length;
        file->is_loader = key->is_loader;
        file->count = list->count;
        file->left_out = list->left_out;
        for (uint32_t s = 0; s < list->count; s++)
            file->patch_sites[s] = list->items[s];
        atomic_store_explicit(&file->state, FILE_READY, memory_order_release);
        return;
    }
    counter_add(&space->overflows.files, 1);
}

/* Whether the cache has a list for the key. */
static int cache_find(struct space *space, const struct cache_key *key, struct patch_sites *list)
{
    for (unsigned i = 0; i < SPACE_FILES; i++) {
        struct space_file *file = &space->files[i];
        uint32_t state = atomic_load_explicit(&file->state, memory_order_acquire);
        if (state == FILE_EMPTY)
            return 0;
        if (state != FILE_READY || !has_key(file, key))
            continue;
        list->count = file->count;
        list->left_out = file->left_out;
        for (uint32_t s = 0; s < file->count; s++)
            list->items[s] = file->patch_sites[s];
        return 1;
    }
    return 0;
}

int patch_sites_find(uintptr_t code, size_t size, int fd, long offset, int is_loader,
                     struct patch_sites *list)
{
    struct space *space = space_registry();
    struct cache_key key = {
        .offset = (uint64_t)offset, .length = size, .is_loader = (uint64_t)is_loader};
    struct stat status;
    int is_file = fd >= 0 && raw(__NR_fstat, fd, &status) == 0;
    if (is_file)
        key.identity = file_identity_of(&status);
    if (is_file && cache_find(space, &key, list))
        return 0;
    search_calls((const unsigned char *)code, size, is_loader, list);
    remove_unsafe((const unsigned char *)code, size, list);
    if (ARCH_HAS_CPUID && is_loader)
        cpuid_search((const unsigned char *)code, size, list);
    if (is_file && key.identity.is_settled)
        cache_store(space, &key, list);
    return 1;
}
