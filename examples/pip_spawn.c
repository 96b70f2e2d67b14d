/* examples/pip_spawn.c: the calls of Process-in-Process as in its paper (HPDC'18, figure 3): the
 * root spawns this program, reads a variable of each task by its name, and synchronises with them
 * at a barrier.
 *
 *   cc pip_spawn.c -o pip_spawn $(pkg-config --cflags --libs onespace) -lpip
 *   ./pip_spawn 4
 */
#include <pip/pip.h>
#include <stdlib.h>
#include <sys/wait.h>

int answer; /* one per task */
static pip_barrier_t barrier;

static int run_root(int ntasks, char **argv)
{
    int failures = 0, status;
    for (int i = 0; i < ntasks; i++) {
        int id = i;
        int error = pip_spawn(argv[0], argv, NULL, PIP_CPUCORE_ASIS, &id, NULL, NULL, NULL);
        if (error) {
            fprintf(stderr, "pip_spawn: %s\n", strerror(error));
            return 1;
        }
    }
    pip_barrier_wait(&barrier); /* all have set their variables */
    for (int i = 0; i < ntasks; i++) {
        int *its = NULL;
        if (pip_get_addr(i, "answer", (void **)&its) == 0)
            printf("task %d has %d, the root has %d\n", i, *its, answer);
    }
    pip_barrier_wait(&barrier); /* all have been read */
    for (int i = 0; i < ntasks; i++)
        failures += pip_wait(i, &status) != 0 || status != 0;
    return failures;
}

int main(int argc, char **argv)
{
    int id, ntasks = argc > 1 ? atoi(argv[1]) : 2;
    void *exported = &barrier; /* in the root: its export; in a task: the root's */
    int error = pip_init(&id, &ntasks, &exported, 0);
    if (error) {
        fprintf(stderr, "pip_init: %s\n", strerror(error));
        return 1;
    }
    if (id == PIP_PIPID_ROOT) {
        pip_barrier_init(&barrier, ntasks + 1);
        int failures = run_root(ntasks, argv);
        return pip_fin() != 0 || failures;
    }
    answer = 42 + id;
    pip_barrier_wait(exported);
    pip_barrier_wait(exported);
    return 0;
}
