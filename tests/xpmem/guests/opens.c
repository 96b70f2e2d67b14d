/* tests/xpmem/guests/opens.c: opens a library and says which version of XPMEM it has, or why not.
 *
 * opens NAME [exec]: with exec in a program that the process executes. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[2], "exec") == 0) {
        execl("/proc/self/exe", argv[0], argv[1], (char *)NULL);
        return 120;
    }
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library)
        return printf("not found\n") < 0;
    int (*version)(void) = (int (*)(void))dlsym(library, "xpmem_version");
    if (!version)
        return printf("no version\n") < 0;
    errno = 0;
    int result = version();
    return printf("%#x %d\n", (unsigned)result, result == -1 ? errno : 0) < 0;
}
