/* Moves the program break itself while malloc is in use, and checks every byte that it got from
 * either. */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 100000, PIECES = 50 };

static int holds(const unsigned char *from, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++)
        if (from[i] != value)
            return 0;
    return 1;
}

int main(void)
{
    unsigned char own = (unsigned char)getpid(), *pieces[PIECES], *blocks[PIECES];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < PIECES; i++) {
            pieces[i] = sbrk(PIECE);
            blocks[i] = malloc(PIECE / 2);
            if (pieces[i] == (void *)-1 || !blocks[i])
                return 2;
            if (round == 0 && !holds(pieces[i], PIECE, 0))
                return 3;
            memset(pieces[i], own, PIECE);
            memset(blocks[i], own + 1, PIECE / 2);
        }
        for (int i = 0; i < PIECES; i++) {
            if (!holds(pieces[i], PIECE, own) || !holds(blocks[i], PIECE / 2, own + 1))
                return 4;
            free(blocks[i]);
        }
        /* Down only when nothing of malloc's lies above. */
        uintptr_t top = (uintptr_t)sbrk(0);
        if (top == (uintptr_t)pieces[PIECES - 1] + PIECE && sbrk(-PIECE) == (void *)-1)
            return 5;
    }
    puts("intact");
    return 0;
}
