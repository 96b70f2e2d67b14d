/* src/storage/versions/crc.c: see crc.h.
 *
 * Uses the instruction of SSE 4.2 where the CPU has it: about 8 bytes in 3 cycles, so that
 * checksums are never what a commit waits for. */
#include "storage/versions/crc.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[256];

static void fill_table(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = (value >> 1) ^ (value & 1 ? UINT32_C(0x82f63b78) : 0);
        table[i] = value;
    }
}

uint32_t versions_crc_plain(const void *data, size_t size)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *at = data;
    uint32_t crc = UINT32_MAX;
    pthread_once(&once, fill_table);
    for (size_t i = 0; i < size; i++)
        crc = (crc >> 8) ^ table[(crc ^ at[i]) & 255];
    return ~crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static uint32_t crc_sse(const void *data, size_t size)
{
    const unsigned char *at = data;
    uint64_t crc = UINT32_MAX;
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    for (; size; size--, at++)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *at);
    return ~(uint32_t)crc;
}

uint32_t versions_crc(const void *data, size_t size)
{
    return __builtin_cpu_supports("sse4.2") ? crc_sse(data, size) : versions_crc_plain(data, size);
}
#else
uint32_t versions_crc(const void *data, size_t size)
{
    return versions_crc_plain(data, size);
}
#endif
