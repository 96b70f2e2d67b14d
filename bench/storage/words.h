/* bench/storage/words.h: the words of a text, and how often each occurs.
 *
 * A word is a run of letters, digits and bytes above 127; ASCII capitals are folded to lower case;
 * of a longer run only the first WORD_BYTES_MAX bytes count. A text is divided into parts of equal
 * size; a word belongs to the part that it begins in. */
#ifndef BENCH_STORAGE_WORDS_H
#define BENCH_STORAGE_WORDS_H

#include <stddef.h>
#include <stdint.h>

enum { WORD_BYTES_MAX = 255 };

typedef void word_function(void *context, const char *word, size_t length);

/* ---- Parts of a text ---- */

struct text {
    const char *path;
    int64_t bytes, part_bytes;
    long parts;
};

void text_open(struct text *text, const char *path, int64_t part_bytes);

/* The bytes to read for a part: the byte before it, if any, the part, and room for the rest of its
 * last word. */
struct extent {
    int64_t offset;
    size_t length;
};
struct extent text_extent(const struct text *text, long part);

/* The part's words, from the bytes of its extent, which are folded in place. */
void text_split(const struct text *text, long part, char *bytes, word_function *take,
                void *context);

uint64_t word_hash(const char *word, size_t length);

/* ---- Counts ---- */

struct count {
    const char *word; /* in one of the blocks */
    uint64_t hash, times;
    size_t length;
};

struct counts {
    struct count *entries; /* open addressing; word NULL: free */
    size_t room, used;
    struct block *blocks;
};

void counts_add(struct counts *counts, const char *word, size_t length, uint64_t hash,
                uint64_t times);

/* Frees the memory; the counts are empty then. */
void counts_free(struct counts *counts);

/* Moves the counts->used entries to the front, sorted by word. Only counts_free may follow. */
void counts_sort(struct counts *counts);

#endif
