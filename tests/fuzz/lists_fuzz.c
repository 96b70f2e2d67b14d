/* tests/fuzz/lists_fuzz.c: any text as a list of CPUs (--cpu-bind) or as Slurm's list of tasks per
 * node.
 *
 * The first byte: TASKS, and the number of the rank or node; the rest is the text. Beyond not
 * crashing: a list of CPUs gives each rank one CPU, or a message; Slurm's list
 * gives each node a number that stands in the text, and none behind its last node. */
#include <sched.h>
#include <string.h>

#include "launch/launch.h"
#include "fuzz.h"

enum { TASKS = 0x80, NUMBER = 0x7f };

static int stands_in(const char *text, int number)
{
    for (char *end; *text; text = end > text ? end : text + 1) {
        end = (char *)text;
        if (*text >= '0' && *text <= '9' && strtol(text, &end, 10) == number)
            return 1;
    }
    return 0;
}

static void check_tasks(const char *text, int node)
{
    int tasks = launcher_slurm_tasks(text, node);
    require(tasks == -1 || stands_in(text, tasks), "the number of tasks is one of the list");
    require(launcher_slurm_tasks(text, -1) == -1, "there is no node -1");
    if (tasks == -1)
        require(launcher_slurm_tasks(text, node + 1) == -1,
                "no node follows one that is not there");
}

static void check_cpus(const char *text, int number)
{
    cpu_set_t cpus;
    char message[256] = "";
    if (strcmp(text, "core") == 0 || strcmp(text, "none") == 0)
        return;
    int bound = cpu_binding_find(text, number, NUMBER + 1, &cpus, message, sizeof(message));
    if (bound < 0)
        require(message[0] != 0, "a bad list is explained");
    else
        require(bound == 1 && CPU_COUNT(&cpus) == 1, "one CPU for each");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc(size); /* of that size, so that reading behind it is noticed */
    require(text != NULL, "memory");
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] & TASKS)
        check_tasks(text, data[0] & NUMBER);
    else
        check_cpus(text, data[0] & NUMBER);
    free(text);
    return 0;
}
