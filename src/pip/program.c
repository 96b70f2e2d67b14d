/* src/pip/program.c: libpip.so as a program. The configure scripts of packages that use
 * Process-in-Process run `libpip.so --version` and the like to find out what is installed. The
 * dynamic linker starts it at libpip_start, as a program without main. The libraries that it needs,
 * such as the C library, are initialised then. */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "onespace.h"

#if defined(__x86_64__)
#define LOADER "/lib64/ld-linux-x86-64.so.2"
/* The stack begins with the number of arguments and the arguments. */
__asm__(".pushsection .text\n"
        ".globl libpip_start\n.hidden libpip_start\n.type libpip_start, @function\n"
        "libpip_start:\n"
        "    xorl %ebp, %ebp\n"
        "    movq %rsp, %rdi\n"
        "    andq $-16, %rsp\n"
        "    call libpip_run\n"
        "    hlt\n"
        ".size libpip_start, .-libpip_start\n.popsection\n");
#elif defined(__aarch64__)
#define LOADER "/lib/ld-linux-aarch64.so.1"
__asm__(".pushsection .text\n"
        ".globl libpip_start\n.hidden libpip_start\n.type libpip_start, %function\n"
        "libpip_start:\n"
        "    mov x29, #0\n"
        "    mov x0, sp\n"
        "    bl libpip_run\n"
        "    brk #1\n"
        ".size libpip_start, .-libpip_start\n.popsection\n");
#else
#error "the start of a program and the name of the dynamic linker on this CPU"
#endif

/* The kernel starts a file with this section through the dynamic linker. */
static const char interpreter[] __attribute__((section(".interp"), used)) = LOADER;

/* The version of Process-in-Process whose interface this library provides. */
static const char pip_version[] = "2.4.1";

enum { TEXT_SIZE = PATH_MAX };

/* The directory above that of the library. */
static const char *find_prefix(char text[TEXT_SIZE])
{
    Dl_info library;
    if (!dladdr(pip_version, &library) || !library.dli_fname || !realpath(library.dli_fname, text))
        return "unknown";
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(text, '/');
        if (slash)
            *slash = 0;
    }
    return text[0] ? text : "/";
}

static const char *find_system(char text[TEXT_SIZE])
{
    struct utsname names;
    if (uname(&names) != 0)
        return "unknown";
    snprintf(text, TEXT_SIZE, "%s %s %s", names.sysname, names.release, names.machine);
    return text;
}

static const char *const options[] = {"--name",   "--version", "--license", "--os",     "--cc",
                                      "--prefix", "--glibc",   "--ldlinux", "--commit", "--debug"};
enum { OPTION_COUNT = sizeof(options) / sizeof(options[0]) };

static void print(int option, int with_names)
{
    char text[TEXT_SIZE];
    const char *const values[OPTION_COUNT] = {
        "process-in-process of onespace",
        pip_version,
        "BSD-3-Clause",
        find_system(text),
        __VERSION__,
        NULL,
        gnu_get_libc_version(), /* the system's: onespace needs no patched one */
        LOADER,
        onespace_version(),
#ifdef NDEBUG
        "no",
#else
        "yes",
#endif
    };
    const char *value = values[option] ? values[option] : find_prefix(text);
    if (with_names)
        printf("%-9s %s\n", options[option] + 2, value);
    else
        printf("%s\n", value);
}

/* Called by libpip_start. */
__attribute__((noreturn, used, visibility("hidden"))) void libpip_run(const intptr_t *stack);

void libpip_run(const intptr_t *stack)
{
    int argc = (int)stack[0], status = 0;
    char *const *argv = (char *const *)(stack + 1);
    for (int option = 0; argc < 2 && option < OPTION_COUNT; option++)
        print(option, 1);
    for (int i = 1; i < argc && status == 0; i++) {
        int option = 0;
        while (option < OPTION_COUNT && strcmp(argv[i], options[option]) != 0)
            option++;
        if (option < OPTION_COUNT) {
            print(option, 0);
            continue;
        }
        printf("usage: libpip.so");
        for (option = 0; option < OPTION_COUNT; option++)
            printf(" [%s]", options[option]);
        printf("\nThe library of Process-in-Process, with onespace. Prints what is installed.\n");
        status = 1; /* for --help too, as Process-in-Process does */
    }
    fflush(NULL);
    _exit(status);
}
