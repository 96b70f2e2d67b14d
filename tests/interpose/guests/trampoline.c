/* tests/interpose/guests/trampoline.c: nested functions whose address is taken need an executable
 * stack. */
#include <stdio.h>

static int apply(int (*function)(int), int value)
{
    __asm__ volatile("" : "+r"(function)); /* not to be inlined */
    return function(value);
}

int main(int argc, char **argv)
{
    (void)argv;
    int factor = argc + 5;
    int multiply(int value)
    {
        return value * factor;
    }
    printf("%d\n", apply(multiply, 7));
    return 0;
}
