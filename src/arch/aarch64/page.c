/* src/arch/aarch64/page.c: the size of the kernel's pages. Part of each library that rounds to
 * pages: hidden, so that code that runs on another program's thread reads its own copy. */
#include <sys/auxv.h>

#include "arch/constants.h"

/* Until the constructor has run, what is right for most kernels. */
unsigned arch_page_size = ARCH_PAGE_MIN;

/* By the C library that loads the file: glibc 2.16 and musl have it. */
__attribute__((constructor(101))) static void find_page_size(void)
{
    unsigned long size = getauxval(AT_PAGESZ);
    if (size)
        arch_page_size = (unsigned)size;
}
