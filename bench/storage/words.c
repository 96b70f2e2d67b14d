/* bench/storage/words.c: splitting texts into words, and counting them. */
#include "words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "window.h"

enum { BLOCK_BYTES = 1 << 20, FIRST_ROOM = 1 << 12 };

/* The case-folded byte of a word; 0: not part of a word. */
static char folded_byte(unsigned char byte)
{
    if (byte >= 'A' && byte <= 'Z')
        return (char)(byte + 'a' - 'A');
    return (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte > 127 ? (char)byte
                                                                                      : 0;
}

static const char *fold_table(void)
{
    static char table[256];
    if (!table['a'])
        for (int byte = 0; byte < 256; byte++)
            table[byte] = folded_byte((unsigned char)byte);
    return table;
}

uint64_t word_hash(const char *word, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ (unsigned char)word[at]) * 0x100000001b3u;
    hash ^= hash >> 32;
    return hash * 0x9e3779b97f4a7c15u;
}

/* ---- Parts of a text ---- */

void text_open(struct text *text, const char *path, int64_t part_bytes)
{
    struct stat status;
    if (stat(path, &status) != 0)
        fail("cannot read %s: %s", path, strerror(errno));
    if (part_bytes < 1)
        fail("parts of a text have one byte at least");
    *text = (struct text){path, status.st_size, part_bytes,
                          (long)((status.st_size + part_bytes - 1) / part_bytes)};
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

struct extent text_extent(const struct text *text, long part)
{
    int64_t begin = part * text->part_bytes, offset = begin - (part > 0);
    int64_t end = smaller(begin + text->part_bytes + WORD_BYTES_MAX, text->bytes);
    return (struct extent){offset, (size_t)(end - offset)};
}

void text_split(const struct text *text, long part, char *bytes, word_function *take, void *context)
{
    const char *fold = fold_table();
    size_t length = text_extent(text, part).length, at = 0;
    size_t end =
        (size_t)smaller(text->part_bytes, text->bytes - part * text->part_bytes) + (part > 0);
    if (part > 0) /* skip the rest of a word that began before */
        while (at < length && fold[(unsigned char)bytes[at]])
            at++;
    while (at < end) {
        size_t begin = at;
        for (char folded; at < length && (folded = fold[(unsigned char)bytes[at]]); at++)
            bytes[at] = folded;
        /* A word that begins after the part belongs to the next one; begin < end excludes it. */
        if (at > begin)
            take(context, bytes + begin, (size_t)smaller((int64_t)(at - begin), WORD_BYTES_MAX));
        else
            at++;
    }
}

/* ---- Counts ---- */

struct block {
    struct block *next;
    size_t used;
    char bytes[BLOCK_BYTES];
};

static const char *keep(struct counts *counts, const char *word, size_t length)
{
    struct block *block = counts->blocks;
    if (!block || block->used + length > BLOCK_BYTES) {
        block = malloc(sizeof(*block));
        if (!block)
            fail("no memory for the words");
        block->next = counts->blocks;
        block->used = 0;
        counts->blocks = block;
    }
    char *place = block->bytes + block->used;
    memcpy(place, word, length);
    block->used += length;
    return place;
}

static struct count *find(const struct counts *counts, const char *word, size_t length,
                          uint64_t hash)
{
    for (size_t at = hash;; at++) {
        struct count *entry = &counts->entries[at & (counts->room - 1)];
        if (!entry->word || (entry->hash == hash && entry->length == length &&
                             memcmp(entry->word, word, length) == 0))
            return entry;
    }
}

static void grow(struct counts *counts)
{
    struct counts larger = *counts;
    larger.room = counts->room ? 2 * counts->room : FIRST_ROOM;
    larger.entries = calloc(larger.room, sizeof(*larger.entries));
    if (!larger.entries)
        fail("no memory for %zu words", larger.room);
    for (size_t at = 0; at < counts->room; at++)
        if (counts->entries[at].word)
            *find(&larger, counts->entries[at].word, counts->entries[at].length,
                  counts->entries[at].hash) = counts->entries[at];
    free(counts->entries);
    *counts = larger;
}

void counts_add(struct counts *counts, const char *word, size_t length, uint64_t hash,
                uint64_t times)
{
    if (counts->used * 2 >= counts->room)
        grow(counts);
    struct count *entry = find(counts, word, length, hash);
    if (!entry->word) {
        *entry = (struct count){keep(counts, word, length), hash, 0, length};
        counts->used++;
    }
    entry->times += times;
}

void counts_free(struct counts *counts)
{
    for (struct block *block = counts->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    free(counts->entries);
    *counts = (struct counts){0};
}

static int compare(const void *a, const void *b)
{
    const struct count *x = a, *y = b;
    int order = memcmp(x->word, y->word, x->length < y->length ? x->length : y->length);
    return order ? order : x->length < y->length ? -1 : x->length > y->length;
}

void counts_sort(struct counts *counts)
{
    size_t used = 0;
    for (size_t at = 0; at < counts->room; at++)
        if (counts->entries[at].word)
            counts->entries[used++] = counts->entries[at];
    if (used)
        qsort(counts->entries, used, sizeof(*counts->entries), compare);
}
