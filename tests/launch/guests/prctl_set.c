/* prctl_set WHAT PROGRAM...: executes it with a timer slack of its own, with a kind of speculation
 * that it has given up, or without the right to memory that is writable and executable. 77: that
 * cannot be set here. */
#include <linux/prctl.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int set(const char *what)
{
    if (strcmp(what, "timer_slack") == 0)
        return prctl(PR_SET_TIMERSLACK, 123456L, 0L, 0L, 0L);
    if (strcmp(what, "store_bypass") == 0)
        return prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0L, 0L);
    if (strcmp(what, "indirect_branch") == 0)
        return prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, PR_SPEC_DISABLE, 0L, 0L);
    if (strcmp(what, "mdwe") == 0)
        return prctl(65 /* PR_SET_MDWE, Linux 6.3 */, 1L, 0L, 0L, 0L);
    return -1;
}

int main(int argc, char **argv)
{
    if (argc < 3 || set(argv[1]) != 0)
        return 77;
    execvp(argv[2], argv + 2);
    return 127;
}
