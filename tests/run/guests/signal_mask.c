/* signal_mask: prints which signals are blocked; signal_mask block N... -- PROGRAM...: blocks
 * exactly those and executes. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    sigset_t set;
    sigemptyset(&set);
    if (argc > 2) {
        int i = 2;
        for (; strcmp(argv[i], "--") != 0; i++)
            sigaddset(&set, atoi(argv[i]));
        sigprocmask(SIG_SETMASK, &set, NULL);
        execvp(argv[i + 1], argv + i + 1);
        return 3;
    }
    sigprocmask(SIG_BLOCK, NULL, &set);
    printf("blocked: ");
    for (int number = 1, count = 0; number < 65; number++)
        if (sigismember(&set, number) == 1)
            printf("%s%d", count++ ? " " : "", number);
    printf("\n");
    return 0;
}
