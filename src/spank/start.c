/* src/spank/start.c: what srun executes instead of a rank's program. Before Slurm 23.11 a plug-in
 * can change only the program's name: it executes `onespace run OPTIONS PROGRAM ARGUMENT...`.
 *
 * No shell script, since some shells leave variables out that are not names for them, such as
 * bash's functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 64 };

/* Returns the value of a variable and removes it from the rank's environment. */
static char *take_variable(const char *name)
{
    const char *value = getenv(name);
    char *copy = value ? strdup(value) : NULL;
    unsetenv(name);
    return copy;
}

int main(int argc, char **argv)
{
    static char *command, *options, *program, **words; /* until the end of the process */
    command = take_variable("ONESPACE_SPANK_COMMAND");
    options = take_variable("ONESPACE_SPANK_OPTIONS");
    program = take_variable("ONESPACE_SPANK_PROGRAM");
    if (!command || !options || !program || argc < 1) {
        fprintf(stderr, "onespace: this program is for Slurm's plug-in: use srun --onespace\n");
        return 2;
    }
    words = calloc((size_t)argc + WORDS_MAX + 3, sizeof(*words));
    int count = 0;
    if (!words)
        return 1;
    words[count++] = command;
    words[count++] = "run";
    for (char *save, *word = strtok_r(options, " \t", &save); word;
         word = strtok_r(NULL, " \t", &save)) {
        if (count == WORDS_MAX + 2) {
            fprintf(stderr, "onespace: --onespace has too many options\n");
            return 2;
        }
        words[count++] = word;
    }
    words[count++] = program;
    memcpy(words + count, argv + 1, (size_t)(argc - 1) * sizeof(*words));
    execvp(command, words);
    fprintf(stderr,
            "onespace: %s: %s: install onespace on this node, or name it by onespace=PATH in "
            "plugstack.conf\n",
            command, strerror(errno));
    return 127;
}
