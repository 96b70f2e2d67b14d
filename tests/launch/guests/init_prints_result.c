/* Prints what onespace_init returns. */
#include <stdio.h>

#include "onespace.h"

int main(void)
{
    printf("%d\n", onespace_init());
    return 0;
}
