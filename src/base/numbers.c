/* src/base/numbers.c: see numbers.h. */
#include "base/numbers.h"

#include <fcntl.h>

#include "base/raw.h"
#include "base/text.h"

const char *numbers_read(const char *text, uint64_t *number)
{
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (value <= UINT64_MAX / 10 - 1)
            value = value * 10 + (uint64_t)(*text - '0');
    *number = value;
    return text;
}

long numbers_each(const char *path, numbers_visit *visit, void *context)
{
    _Alignas(8) char entries[2048];
    long directory = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return directory;
    for (long size; (size = raw(__NR_getdents64, directory, entries, sizeof(entries))) > 0;) {
        for (long at = 0; at < size;) {
            /* struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name */
            const char *name = entries + at + 19;
            uint64_t number;
            if (numbers_read(name, &number) != name)
                visit(context, (int)number, (int)directory);
            at += *(unsigned short *)(entries + at + 16);
        }
    }
    raw(__NR_close, directory);
    return 0;
}

char *numbers_write(char *text, uint64_t number, unsigned base)
{
    char digits[64];
    unsigned count = 0;
    do
        digits[count++] = "0123456789abcdef"[number % base];
    while (number /= base);
    if (base == 16)
        text = text_append(text, "0x");
    while (count > 0)
        *text++ = digits[--count];
    *text = 0;
    return text;
}
