/* tests/cmd/guests/library.c: stands in for an MPI library: VERSION is what it says of itself. With
 * HANG or CRASH its constructor does that; with CMA it calls process_vm_readv, with XPMEM it
 * names libxpmem.so.0. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

int MPI_Get_library_version(char *text, int *length);
long use_cma(void);
const char *xpmem_name(void);

int MPI_Get_library_version(char *text, int *length)
{
    strcpy(text, VERSION);
    *length = (int)strlen(text);
    return 0;
}

__attribute__((constructor)) static void start(void)
{
#ifdef HANG
    pause();
#endif
#ifdef CRASH
    abort();
#endif
}

long use_cma(void)
{
#ifdef CMA
    return process_vm_readv(0, NULL, 0, NULL, 0, 0);
#else
    return 0;
#endif
}

const char *xpmem_name(void)
{
#ifdef XPMEM
    return "libxpmem.so.0";
#else
    return "";
#endif
}
