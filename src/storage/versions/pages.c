/* src/storage/versions/pages.c: see pages.h. */
#include "storage/versions/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t page_count(const struct version_pages *pages)
{
    return pages->length / VERSIONS_PAGE + (pages->length % VERSIONS_PAGE != 0);
}

static size_t word_count(const struct version_pages *pages)
{
    return (page_count(pages) + 63) / 64;
}

int version_pages_new(struct version_pages *pages, size_t length, int is_full)
{
    pages->length = length;
    pages->word = calloc(word_count(pages) + 1, sizeof(uint64_t));
    if (!pages->word)
        return -ENOMEM;
    if (is_full)
        version_pages_fill(pages);
    return 0;
}

void version_pages_free(struct version_pages *pages)
{
    free(pages->word);
    pages->word = NULL;
}

/* Also sets bits behind the last page, which version_pages_next does not look at. */
void version_pages_fill(struct version_pages *pages)
{
    memset(pages->word, 0xff, word_count(pages) * sizeof(uint64_t));
}

void version_pages_clear(struct version_pages *pages)
{
    memset(pages->word, 0, word_count(pages) * sizeof(uint64_t));
}

void version_pages_add(struct version_pages *pages, const struct storage_ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++) {
        struct storage_range range = ranges->range[i];
        if (!range.length || range.offset >= pages->length)
            continue;
        size_t end = range.length > pages->length - range.offset ? pages->length
                                                                 : range.offset + range.length;
        for (size_t page = range.offset / VERSIONS_PAGE; page <= (end - 1) / VERSIONS_PAGE; page++)
            pages->word[page / 64] |= UINT64_C(1) << page % 64;
    }
}

void version_pages_copy(struct version_pages *pages, const struct version_pages *from)
{
    memcpy(pages->word, from->word, word_count(pages) * sizeof(uint64_t));
}

static int has_page(const struct version_pages *pages, size_t page)
{
    return pages->word[page / 64] >> page % 64 & 1;
}

int version_pages_next(const struct version_pages *pages, size_t from, struct storage_range *run)
{
    size_t count = page_count(pages), page = (from + VERSIONS_PAGE - 1) / VERSIONS_PAGE;
    while (page < count && !has_page(pages, page))
        page += pages->word[page / 64] >> page % 64 ? 1 : 64 - page % 64;
    if (page >= count)
        return 0;
    size_t end = page;
    while (end < count && has_page(pages, end))
        end++;
    run->offset = page * VERSIONS_PAGE;
    run->length = (end == count ? pages->length : end * VERSIONS_PAGE) - run->offset;
    return 1;
}
