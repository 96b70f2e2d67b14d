/* bench/storage/corpus.c: writes a text whose word frequencies follow Zipf's law: the share of the
 * n-th word is proportional to 1/n.
 *
 *   corpus BYTES [WORDS [SEED]] >TEXT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 24 };

static uint64_t state;

static uint64_t next_random(void)
{
    uint64_t value = state += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

/* The n-th word of an artificial language: syllables that spell n, so all words differ. */
static void spell(char *word, long n)
{
    static const char *const syllables[] = {"ba",  "ke",  "mi",  "to",  "lu",  "ran", "sel",
                                            "din", "por", "gu",  "va",  "ne",  "xi",  "fo",
                                            "hu",  "tas", "wer", "lim", "jon", "cy"};
    *word = '\0';
    do {
        strcat(word, syllables[n % 20]);
        n /= 20;
    } while (n > 0);
}

/* The first index whose cumulative sum is above `wanted`. */
static long find(const double *sums, long count, double wanted)
{
    long low = 0, high = count - 1;
    while (low < high) {
        long middle = (low + high) / 2;
        if (sums[middle] > wanted)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int main(int argc, char **argv)
{
    long bytes = argc > 1 ? atol(argv[1]) : 0, count = argc > 2 ? atol(argv[2]) : 100000,
         column = 0;
    state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    if (bytes < 1 || count < 1 || argc > 4) {
        fprintf(stderr, "usage: corpus BYTES [WORDS [SEED]] >TEXT\n");
        return 2;
    }
    double *sums = malloc((size_t)count * sizeof(*sums)), sum = 0;
    char(*words)[LONGEST] = malloc((size_t)count * sizeof(*words));
    if (!sums || !words) {
        fprintf(stderr, "corpus: no memory for %ld words\n", count);
        return 1;
    }
    for (long n = 0; n < count; n++) {
        sums[n] = sum += 1.0 / (double)(n + 1);
        spell(words[n], n);
    }
    while (bytes > 0) {
        const char *word = words[find(sums, count, (double)(next_random() >> 11) * 0x1p-53 * sum)];
        long length = (long)strlen(word);
        if (length >= bytes) /* the last byte is a newline */
            length = bytes - 1;
        fwrite(word, 1, (size_t)length, stdout);
        bytes -= length + 1;
        column += length + 1;
        putchar(column > 100 || bytes == 0 ? '\n' : ' ');
        column = column > 100 ? 0 : column;
    }
    if (fflush(stdout) != 0) {
        perror("corpus");
        return 1;
    }
    return 0;
}
