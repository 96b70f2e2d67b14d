/* tests/cmd/guests/burning.c SECONDS: says "ready" and burns that much CPU time, half of it
 * in a function of its own, half in libc's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static unsigned char bytes[1 << 16];

__attribute__((noinline)) static void burn_in_program(void)
{
    for (volatile int i = 0; i < 20000; i++)
        ;
}

int main(int argc, char **argv)
{
    long sum = 0;
    clock_t until = clock() + (argc > 1 ? atoi(argv[1]) : 1) * CLOCKS_PER_SEC;
    printf("ready\n");
    fflush(stdout);
    while (clock() < until) {
        burn_in_program();
        for (size_t i = 0; i < 10; i++) /* of different sizes: else the compiler calls it once */
            sum += memchr(bytes, 1, sizeof(bytes) - i) != NULL;
    }
    return sum != 0;
}
