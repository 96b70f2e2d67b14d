/* cmd/pip/printpipmode.c: printpipmode: the execution mode that pip_init chooses here. */
#include "pip/pip.h"

int main(void)
{
    int ntasks = 1, error = pip_init(NULL, &ntasks, NULL, 0);
    if (error) {
        fprintf(stderr, "printpipmode: pip_init: %s\n", strerror(error));
        return 1;
    }
    printf("%s\n", pip_get_mode_str());
    return 0;
}
