/* tests/xpmem/guests/xpmem.c: a user of XPMEM that does what its standard input says, one line
 * each, and answers with one line: the result and errno (0 when it succeeded). Numbers are decimal,
 * or hexadecimal with 0x. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xpmem.h"

static long long number(int index, char **words)
{
    return words[index] ? (long long)strtoull(words[index], NULL, 0) : 0;
}

static void *pointer(int index, char **words)
{
    return (void *)(uintptr_t)number(index, words);
}

/* memory BYTES VALUE: pages of that value. */
static long long memory(char **words)
{
    size_t size = (size_t)number(1, words);
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -1;
    memset(at, (int)number(2, words), size);
    return (long long)(uintptr_t)at;
}

/* make-many COUNT ADDRESS: segments of one page each; the number made. */
static long long make_many(char **words)
{
    long long made = 0;
    while (made < number(1, words) && xpmem_make((char *)pointer(2, words) + made * 4096, 4096,
                                                 XPMEM_PERMIT_MODE, (void *)0600) > 0)
        made++;
    return made;
}

static long long obey(char **words);

/* child COMMAND...: in a forked child. */
static long long in_child(char **words)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        errno = 0;
        _exit(obey(words + 1) == -1 ? errno : 0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -2;
    errno = WIFEXITED(status) ? WEXITSTATUS(status) : 255;
    return errno ? -1 : 0;
}

static long long obey(char **words)
{
    const char *word = words[0];
    struct xpmem_addr addr = {number(1, words), number(2, words)};
    if (strcmp(word, "make") == 0)
        return xpmem_make(pointer(1, words), (size_t)number(2, words), XPMEM_PERMIT_MODE,
                          pointer(3, words));
    if (strcmp(word, "make-many") == 0)
        return make_many(words);
    if (strcmp(word, "remove") == 0)
        return xpmem_remove(number(1, words));
    if (strcmp(word, "get") == 0)
        return xpmem_get(number(1, words), (int)number(2, words), XPMEM_PERMIT_MODE, NULL);
    if (strcmp(word, "release") == 0)
        return xpmem_release(number(1, words));
    if (strcmp(word, "attach") == 0)
        return (long long)(intptr_t)xpmem_attach(addr, (size_t)number(3, words), pointer(4, words));
    if (strcmp(word, "detach") == 0)
        return xpmem_detach(pointer(1, words));
    if (strcmp(word, "version") == 0)
        return xpmem_version();
    if (strcmp(word, "init") == 0)
        return xpmem_init();
    if (strcmp(word, "memory") == 0)
        return memory(words);
    if (strcmp(word, "read") == 0)
        return *(volatile unsigned char *)pointer(1, words);
    if (strcmp(word, "write") == 0)
        return *(volatile unsigned char *)pointer(1, words) = (unsigned char)number(2, words);
    if (strcmp(word, "pid") == 0)
        return getpid();
    if (strcmp(word, "become") == 0) /* another user */
        return setresgid((gid_t)number(1, words), (gid_t)number(1, words),
                         (gid_t)number(1, words)) |
               setresuid((uid_t)number(1, words), (uid_t)number(1, words), (uid_t)number(1, words));
    if (strcmp(word, "child") == 0)
        return in_child(words);
    if (strcmp(word, "exec") == 0)
        return execvp(words[1], words + 1);
    errno = ENOSYS;
    return -1;
}

/* [IN OUT]: descriptors instead of the standard ones, which threads share. */
int main(int argc, char **argv)
{
    char line[256];
    FILE *in = argc == 3 ? fdopen(atoi(argv[1]), "r") : stdin;
    FILE *out = argc == 3 ? fdopen(atoi(argv[2]), "w") : stdout;
    if (!in || !out)
        return 1;
    setvbuf(out, NULL, _IOLBF, 0);
    while (fgets(line, sizeof(line), in)) {
        char *words[9] = {NULL};
        int count = 0;
        for (char *word = strtok(line, " \n"); word && count < 8; word = strtok(NULL, " \n"))
            words[count++] = word;
        errno = 0;
        long long result = count ? obey(words) : 0;
        fprintf(out, "%lld %d\n", result, result == -1 ? errno : 0);
    }
    return 0;
}
