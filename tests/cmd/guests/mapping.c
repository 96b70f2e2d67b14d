/* tests/cmd/guests/mapping.c SECONDS: maps and unmaps memory for that much CPU time. */
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { SIZE = 1 << 20 };

__attribute__((noinline)) static int map_in_program(void)
{
    void *at =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return at != MAP_FAILED && munmap(at, SIZE) == 0;
}

int main(int argc, char **argv)
{
    clock_t until = clock() + (argc > 1 ? atoi(argv[1]) : 1) * CLOCKS_PER_SEC;
    while (clock() < until)
        if (!map_in_program())
            return 1;
    return 0;
}
