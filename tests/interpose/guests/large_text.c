/* tests/interpose/guests/large_text.c: prints whether 16 MiB of code that is never executed are
 * resident. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define UNUSED_BYTES 16777216

__asm__(".text\n.globl unused_code\nunused_code:\n.fill 16777216, 1, 0x90\n");
extern const char unused_code[];

/* KiB, or -1. Executable mappings that follow one another count as one. */
static long resident_kib(void)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    long sum = -1;
    int is_mine = 0;
    uintptr_t at = (uintptr_t)unused_code;
    while (smaps && fgets(line, sizeof(line), smaps)) {
        unsigned long low, high, kib;
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
            is_mine = low < at + UNUSED_BYTES && high > at;
        else if (is_mine && sscanf(line, "Rss: %lu kB", &kib) == 1)
            sum = (sum < 0 ? 0 : sum) + (long)kib;
    }
    if (smaps)
        fclose(smaps);
    return sum;
}

int main(void)
{
    long kib = resident_kib();
    puts(kib >= 0 && kib < UNUSED_BYTES / 1024 / 4 ? "mostly not resident" : "resident");
    return 0;
}
