/* src/base/text.c: numbers in strings. */
#include "base/text.h"

const char *text_read_number(const char *text, uint64_t *number)
{
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        if (value <= UINT64_MAX / 10 - 1)
            value = value * 10 + (uint64_t)(*text - '0');
    *number = value;
    return text;
}

const char *text_read_hex(const char *text, uint64_t *number)
{
    for (*number = 0;; text++) {
        char c = *text;
        if (c >= '0' && c <= '9')
            *number = *number << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            *number = *number << 4 | (uint64_t)(c - 'a' + 10);
        else
            return text;
    }
}

char *text_append_number(char *text, uint64_t number, unsigned base)
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
