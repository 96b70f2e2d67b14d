/* bench/spawn/empty.c: a program that does nothing, until its standard input ends. */
#include <unistd.h>

int main(void)
{
    char byte;
    return read(STDIN_FILENO, &byte, 1) != 0;
}
