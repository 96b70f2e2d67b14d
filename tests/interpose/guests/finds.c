/* finds LIBRARY: whether the dynamic linker finds it. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    printf(dlopen(argv[1], RTLD_NOW) ? "opened\n" : "not found\n");
    return 0;
}
