/* src/base/shared_header.c: see shared_header.h. */
#include "base/shared_header.h"

#include "base/numbers.h"
#include "base/text.h"

char *shared_describe(char *text, const struct shared_header *header)
{
    text = numbers_write(text_append(text, "magic "), header->magic, 16);
    text = numbers_write(text_append(text, ", ABI "), header->abi, 10);
    text = numbers_write(text_append(text, ", "), header->size, 10);
    return numbers_write(text_append(text, " bytes, layout "), header->layout, 16);
}
