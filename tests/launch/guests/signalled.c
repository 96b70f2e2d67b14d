/* signalled NUMBER...: catches these signals and prints the first that comes, and its value if it
 * was queued with one. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t got, value;

static void note(int number, siginfo_t *info, void *context)
{
    (void)context;
    got = number;
    value = info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO};
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    for (int i = 1; i < argc; i++)
        sigaction(atoi(argv[i]), &action, NULL);
    puts("ready");
    fflush(stdout);
    alarm(600);
    while (!got)
        sigsuspend(&before);
    printf("got %d value %d\n", (int)got, (int)value);
    return 0;
}
