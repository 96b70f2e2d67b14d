/* tests/interpose/guests/pieces.c: maps as a GPU's library does: reserves addresses at a low hint,
 * and then maps pieces at fixed addresses in them. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "programs/scene.h"

enum { PIECE = 2 << 20, FILE_PIECES = 8 };
#define RESERVED (UINT64_C(1) << 33)
#define HINT     ((void *)0x200000000)

static int wait_for_line(void)
{
    int byte;
    while ((byte = getchar()) != EOF && byte != '\n')
        ;
    return byte == '\n';
}

static char *reserve(void)
{
    return mmap(HINT, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Those that are not as `reserve` left them: each tenth is unmapped, the others have their numbers.
 */
static long count_wrong(const char *area, long count)
{
    long wrong = 0;
    for (long i = 0; i < count; i++)
        if (i % 10)
            wrong += *(const volatile int *)(const void *)(area + i * 2 * PIECE) != i % FILE_PIECES;
    return wrong;
}

/* reserve COUNT: reserves, and maps so many pieces with gaps between them; unmaps each tenth. Says
 * where they begin and what is wrong, and this again for each line of its input. Each piece has its
 * number. */
SCENE(reserve)
{
    long count = argc > 1 ? atol(argv[1]) : 0;
    char *area = reserve();
    int fd = memfd_create("pieces", MFD_CLOEXEC);
    if (area == MAP_FAILED || fd < 0 || ftruncate(fd, (off_t)PIECE * FILE_PIECES) != 0)
        return 1;
    for (long i = 0; i < count; i++)
        if (mmap(area + i * 2 * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                 i % FILE_PIECES * PIECE) == MAP_FAILED)
            return 2;
    for (long i = 0; i < count; i++)
        *(volatile int *)(void *)(area + i * 2 * PIECE) = (int)(i % FILE_PIECES);
    for (long i = 0; i < count; i += 10)
        if (munmap(area + i * 2 * PIECE, PIECE) != 0)
            return 3;
    do
        printf("%p wrong %ld\n", (void *)area, count_wrong(area, count));
    while (wait_for_line());
    return 0;
}

/* scattered COUNT: pieces far from one another, which nothing joins. */
SCENE(scattered)
{
    long count = argc > 1 ? atol(argv[1]) : 0;
    int fd = memfd_create("pieces", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, PIECE) != 0)
        return 1;
    for (long i = 0; i < count; i++)
        if (mmap((char *)(UINT64_C(1) << 44) + i * 2 * PIECE, PIECE, PROT_READ,
                 MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
            return 2;
    printf("mapped\n");
    while (wait_for_line())
        ;
    return 0;
}

/* over ADDRESS LETTER: maps a piece there whatever is there, filled with the letter; for each line
 * of its input says what the piece has. */
SCENE(over)
{
    void *place;
    if (argc < 3 || sscanf(argv[1], "%p", &place) != 1 ||
        mmap(place, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != place)
        return 1;
    memset(place, argv[2][0], PIECE);
    printf("mapped\n");
    while (wait_for_line())
        printf("%c %c\n", *(volatile char *)place, ((volatile char *)place)[PIECE - 1]);
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
