/* tests/run/guests/survivor.c: gives up the parent's death signal, ignores those of a terminal, and
 * sleeps. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(void)
{
    prctl(PR_SET_PDEATHSIG, 0);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGINT, SIG_IGN);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}
