/* bench/spawn/empty.c: a program that does nothing until end-of-file on its standard input. */
#include <unistd.h>

int main(void)
{
    char byte;
    return read(STDIN_FILENO, &byte, 1) != 0;
}
