/* src/interpose/guard/place.c: see place.h. Little stack: it runs in signal handlers. */
#include "interpose/guard/place.h"

#include <fcntl.h>
#include <stddef.h>

#include "base/raw.h"
#include "base/text.h"

enum { CHUNK = 512, LINE = 256 };

/* Below and above the libc's record of a main thread, where its thread-local storage lies. */
enum { TLS_BELOW = 4096, TLS_ABOVE = 2048 };

static uint64_t read_hex(const char **text)
{
    uint64_t value = 0;
    for (;; ++*text) {
        char c = **text;
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        else
            return value;
    }
}

struct search {
    uintptr_t address, last_end;
    int last_is_guard; /* the mapping before was inaccessible */
    struct place *place;
};

/* The next character, if there is one. */
static const char *next(const char *at)
{
    return *at ? at + 1 : at;
}

/* "start-end rwxp offset device inode   path": whether the search is over. */
static int look(struct search *search, const char *line)
{
    const char *at = line;
    uintptr_t start = read_hex(&at);
    at = next(at);
    uintptr_t end = read_hex(&at);
    if (start > search->address)
        return 1;
    char rights[5] = "";
    at = next(at);
    for (int i = 0; i < 5; i++, at = next(at))
        rights[i] = *at;
    uint64_t offset = read_hex(&at);
    const char *path = at;
    while (*path && *path != '/')
        path++;
    if (layout_slot_of(start) != layout_slot_of(search->address)) {
        search->place->file[0] = 0;
    } else if (*path && offset == 0) {
        text_append_max(search->place->file, text_basename(path), PLACE_NAME - 1);
        search->place->file_start = start;
    }
    search->place->follows_guard = search->last_is_guard && search->last_end == start;
    search->last_is_guard = rights[0] == '-' && rights[1] == '-' && rights[2] == '-';
    search->last_end = end;
    return 0;
}

void place_find(uintptr_t address, struct place *place)
{
    struct search search = {.address = address, .place = place};
    char chunk[CHUNK], line[LINE];
    size_t length = 0;
    long got, fd = raw(__NR_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    *place = (struct place){.file = ""};
    while (fd >= 0 && (got = raw(__NR_read, fd, chunk, sizeof(chunk))) > 0)
        for (long i = 0; i < got; i++) {
            if (chunk[i] != '\n') {
                if (length < LINE - 1)
                    line[length++] = chunk[i];
                continue;
            }
            line[length] = 0;
            length = 0;
            if (look(&search, line)) {
                raw(__NR_close, fd);
                return;
            }
        }
    if (fd >= 0)
        raw(__NR_close, fd);
}

static int is_thread_local(const struct space_slot *owner, uintptr_t address)
{
    uintptr_t record = owner->robust.previous; /* the list's head is in it */
    return atomic_load(&owner->robust.at) && address + TLS_BELOW >= record &&
           address < record + TLS_ABOVE;
}

static int is_of_loader(const struct place *place)
{
    return text_skip_prefix(place->file, "memfd:") || text_skip_prefix(place->file, "ld-");
}

char *place_say(char *text, const struct place *place, const struct space_slot *owner,
                uintptr_t address)
{
    uintptr_t at = address - layout_range(slot_index(space_registry(), owner));
    if (is_thread_local(owner, address))
        return text_append(text, "the thread-local storage");
    if (at >= LAYOUT_STACK)
        return text_append(text, "the main stack");
    if (at >= LAYOUT_BREAK)
        return text_append(text, "the heap");
    if (at >= LAYOUT_MAPPINGS)
        return text_append(text, place->follows_guard ? "a thread's stack" : "mapped memory");
    if (at < LAYOUT_FILES || is_of_loader(place) || !place->file[0])
        return text_append(text, "the dynamic linker's data");
    if (text_skip_prefix(text_basename(owner->program), place->file))
        return text_append(text, "the globals");
    return text_append(text_append(text, "the data of "), place->file);
}
