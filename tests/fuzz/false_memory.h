/* tests/fuzz/false_memory.h: the memory of a space that never was, as a file: its offsets are the
 * addresses. The commands read it through ps_copy_by. An input is a list of changes of its parts.
 */
#ifndef ONESPACE_TESTS_FUZZ_FALSE_MEMORY_H
#define ONESPACE_TESTS_FUZZ_FALSE_MEMORY_H

#include <stddef.h>

#include "cmd/ps/ps.h"
#include "fuzz.h"

struct false_part {
    uint64_t at;
    size_t size;
};

/* The descriptor of a file in memory. */
int false_file(const char *name);
/* The memory's. It begins as zeroes; false_memory_clear clears parts of it again. */
int false_memory(void);
void false_memory_write(uint64_t at, const void *bytes, size_t size);
void false_memory_clear(const struct false_part *parts, unsigned count);
/* Applies the changes: the part's number, an offset in two bytes, a length and that many bytes. To
 * another file than the memory by `write`. */
typedef void false_writer(uint64_t at, const void *bytes, size_t size);
void false_parts_change(const struct false_part *parts, unsigned count, const uint8_t *data,
                        size_t size, false_writer *write);
/* This process, as the one member of the space with that memory; ps_copy reads it from now on. */
struct ps_member false_memory_member(void);

/* Aborts if the text has a control character other than a newline. */
void require_no_control(const char *text, size_t size);

#endif
