/* tests/fuzz/false_memory.c: see false_memory.h. */
#include "false_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/lib/output.h"

void require_no_control(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        require((byte >= ' ' || byte == '\n') && byte != 0x7f, "no control character");
        require(byte != 0xc2 || i + 1 == size || (unsigned char)text[i + 1] >= 0xa0 ||
                    (unsigned char)text[i + 1] < 0x80,
                "no control character of C1");
    }
}

int false_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    require(fd >= 0, "a memory file");
    return fd;
}

int false_memory(void)
{
    static int memory = -1;
    if (memory < 0) {
        memory = false_file("memory");
        require(ftruncate(memory, (off_t)1 << 46) == 0, "a large file");
    }
    return memory;
}

void false_memory_write(uint64_t at, const void *bytes, size_t size)
{
    require(pwrite(false_memory(), bytes, size, (off_t)at) == (ssize_t)size, "writing memory");
}

void false_memory_clear(const struct false_part *parts, unsigned count)
{
    static const char zeroes[(1 << 16) + 256]; /* more cannot have been changed */
    for (unsigned i = 0; i < count; i++)
        false_memory_write(parts[i].at, zeroes,
                           parts[i].size < sizeof(zeroes) ? parts[i].size : sizeof(zeroes));
}

void false_parts_change(const struct false_part *parts, unsigned count, const uint8_t *data,
                        size_t size, false_writer *write)
{
    while (size >= 4) {
        const struct false_part *part = &parts[data[0] % count];
        size_t offset = (data[1] | (size_t)data[2] << 8) % part->size, length = data[3];
        data += 4;
        size -= 4;
        length = length < size ? length : size;
        size_t fits = length < part->size - offset ? length : part->size - offset;
        write(part->at + offset, data, fits);
        data += length;
        size -= length;
    }
}

struct ps_member false_memory_member(void)
{
    static int is_known;
    if (!is_known++)
        ps_copy_by(getpid(), false_memory());
    return (struct ps_member){.pid = getpid(),
                              .inner_pid = getpid(),
                              .parent = getppid(),
                              .space = 1,
                              .user = geteuid(),
                              .group = getegid(),
                              .owner = geteuid(),
                              .command = "fuzzed"};
}
