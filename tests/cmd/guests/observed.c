/* tests/cmd/guests/observed.c: does something that `onespace ps` shows, says "ready", and waits for
 * the end of its input.
 *   heap MIB    touches that much of its program break
 *   map MIB     touches that much of a mapping
 *   copy FILE   number 0 writes its pid and an address to FILE, number 1 copies 1 MiB from there,
 * in 4 calls */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static char data[256 << 10], copy[256 << 10];

static void copy_from_other(const char *path)
{
    FILE *file;
    int pid;
    void *address;
    if (atoi(getenv("ONESPACE_TASK_ID")) == 0) {
        char draft[4096];
        snprintf(draft, sizeof(draft), "%s.draft", path);
        file = fopen(draft, "w");
        fprintf(file, "%d %p\n", getpid(), (void *)data);
        fclose(file);
        rename(draft, path);
        return;
    }
    while (!(file = fopen(path, "r")))
        usleep(10000);
    if (fscanf(file, "%d %p", &pid, &address) != 2)
        exit(3);
    for (int i = 0; i < 4; i++) {
        struct iovec to = {copy, sizeof(copy)}, from = {address, sizeof(copy)};
        if (process_vm_readv(pid, &to, 1, &from, 1, 0) != sizeof(copy))
            exit(4);
    }
}

int main(int argc, char **argv)
{
    size_t size = argc > 2 ? (size_t)atol(argv[2]) << 20 : 0;
    if (argc > 2 && strcmp(argv[1], "heap") == 0)
        memset(sbrk((long)size), 1, size);
    if (argc > 2 && strcmp(argv[1], "map") == 0)
        memset(mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1,
               size);
    if (argc > 2 && strcmp(argv[1], "copy") == 0)
        copy_from_other(argv[2]);
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
