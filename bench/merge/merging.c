/* merging COMMAND...: executes the command as a program whose equal pages the kernel may merge:
 * all its private memory, and that of the programs that it executes (prctl(2), Linux 6.7). */
#include <sys/prctl.h>

#include "../lib/bench.h"

#ifndef PR_SET_MEMORY_MERGE /* headers before Linux 6.4 */
#define PR_SET_MEMORY_MERGE 67
#endif

int main(int argc, char **argv)
{
    if (argc < 2)
        bench_fail("usage: merging COMMAND...", NULL);
    if (prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) != 0)
        bench_fail("PR_SET_MEMORY_MERGE", strerror(errno));
    execvp(argv[1], argv + 1);
    bench_fail(argv[1], strerror(errno));
}
