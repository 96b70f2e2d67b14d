/* tests/storage/written.h: what this process has written; for C and C++. */
#ifndef ONESPACE_TESTS_STORAGE_WRITTEN_H
#define ONESPACE_TESTS_STORAGE_WRITTEN_H

#include <stdio.h>

/* Bytes dirtied or written so far; -1 where the kernel does not count them. */
static inline long written_bytes(void)
{
    char line[128];
    long bytes = -1;
    FILE *file = fopen("/proc/self/io", "r");
    while (file && fgets(line, sizeof(line), file))
        sscanf(line, "write_bytes: %ld", &bytes);
    if (file)
        fclose(file);
    return bytes;
}

#endif
