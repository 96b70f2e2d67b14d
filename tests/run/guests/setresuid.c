/* Becomes another user and says so; "sleep": then sleeps. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    (void)argv;
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0)
        return 1;
    printf("user %d\n", geteuid());
    fflush(stdout);
    if (argc > 1)
        sleep(600);
    return 0;
}
