/* src/base/numbers.c: see numbers.h. */
#include "base/numbers.h"

#include <fcntl.h>

#include "base/raw.h"

/* The decimal number that a directory entry's name is, or -1. */
static int number_of(const char *text)
{
    int value = 0;
    if (*text < '0' || *text > '9')
        return -1;
    for (; *text >= '0' && *text <= '9'; text++)
        value = value * 10 + (*text - '0');
    return value;
}

long numbers_each(const char *path, numbers_visit *visit, void *context)
{
    _Alignas(8) char entries[2048];
    long folder = raw(__NR_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return folder;
    for (long size; (size = raw(__NR_getdents64, folder, entries, sizeof(entries))) > 0;) {
        for (long at = 0; at < size;) {
            /* struct linux_dirent64: ino 8, off 8, reclen 2, type 1, name */
            int number = number_of(entries + at + 19);
            if (number >= 0)
                visit(context, number, (int)folder);
            at += *(unsigned short *)(entries + at + 16);
        }
    }
    raw(__NR_close, folder);
    return 0;
}

char *numbers_write(char *text, int number)
{
    int scale = 1;
    while (number / scale >= 10)
        scale *= 10;
    for (; scale; scale /= 10)
        *text++ = (char)('0' + number / scale % 10);
    *text = 0;
    return text;
}
