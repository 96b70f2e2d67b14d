/* src/base/shared_header.c: see shared_header.h. */
#include "base/shared_header.h"

#include "abi_tag.h"
#include "base/text.h"
#include "base/raw.h"

uint64_t shared_abi_tag(void)
{
    return ONESPACE_ABI_TAG;
}

char *shared_header_describe(char *text, const struct shared_header *header)
{
    return text_append_number(text_append(text, "ABI tag "), header->tag, 16);
}

void shared_header_report(const char *what, const struct shared_header *found,
                          const char *found_file, const struct shared_header *own,
                          const char *own_file)
{
    enum { FILE_TEXT = 256 };
    char text[2 * (SHARED_TEXT + FILE_TEXT) + 256], *end = text_append(text, "onespace: ");
    end = text_append_max(end, own_file, FILE_TEXT);
    end = text_append(text_append(end, " is of another version than the "), what);
    end = text_append_max(text_append(end, " that "), found_file, FILE_TEXT);
    end = shared_header_describe(text_append(end, " made: "), own);
    end = shared_header_describe(text_append(end, " against "), found);
    end = text_append(end, ": install one version for both\n");
    raw(__NR_write, 2, text, end - text);
}
