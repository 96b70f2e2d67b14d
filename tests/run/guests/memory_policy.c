/* memory_policy: prints its memory policy; memory_policy set PROGRAM...: binds to node 0 and
 * executes. */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned long nodes[16] = {1};
    int mode = 2; /* MPOL_BIND */
    if (argc > 2 && strcmp(argv[1], "set") == 0) {
        if (syscall(SYS_set_mempolicy, mode, nodes, 64) != 0)
            return 2;
        execvp(argv[2], argv + 2);
        return 3;
    }
    memset(nodes, 0, sizeof(nodes));
    if (syscall(SYS_get_mempolicy, &mode, nodes, 1024, NULL, 0) != 0)
        return 4;
    printf(mode == 2 && nodes[0] == 1 ? "bind to node 0\n" : "mode %d nodes %lx\n", mode, nodes[0]);
    return 0;
}
