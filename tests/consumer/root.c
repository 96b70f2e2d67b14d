/* tests/consumer/root.c: a program of Process-in-Process builds against an installed copy, and
 * runs. */
#include <pip/pip.h>
#include <stdio.h>

int main(void)
{
    int id = 0, tasks = 1;
    if (pip_init(&id, &tasks, NULL, 0) != 0 || id != PIP_PIPID_ROOT)
        return 1;
    printf("PiP consumer: mode %s\n", pip_get_mode_str());
    return pip_fin() != 0;
}
