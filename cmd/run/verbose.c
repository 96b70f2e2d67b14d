/* cmd/run/verbose.c: what --verbose says: a line for each rank, and one for the whole job. */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cmd/run/run.h"
#include "shim/defaults.h"
#include "spawn/spawn.h"

enum { WORDS = 3 * PATH_MAX };

/* One write for a line, since ranks write to the same terminal. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    static char line[WORDS + 1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(stderr, "onespace run: %s\n", line);
}

/* Into words: a Python interpreter that runs from its library, or nothing. */
static void python_words(const struct run_segment *segment, char words[WORDS])
{
    static struct elf_program program;
    words[0] = 0;
    if (resolve_program(AT_FDCWD, segment->argv[0], segment->argv, getenv("PATH"), &program, NULL) <
        0)
        return; /* the spawn will say why */
    if (program.requested_path[0])
        snprintf(words, WORDS, "; %s is non-PIE: its tasks run the same Python from %s",
                 program.requested_path, program.argv[1]);
    elf_program_free(&program);
}

void verbose_say_rank(const struct run_segment *segment, const char *space, const char *found_by,
                      int number, int count)
{
    static char python[WORDS];
    python_words(segment, python);
    say("space %s (%s); local rank %d of %d%s", space, found_by, number, count, python);
}

void verbose_say_own_space(const struct run_options *run)
{
    static char python[WORDS];
    say("a space of its own, root pid %d%s", getpid(),
        run->thread_mode ? "; tasks are threads of this process" : "");
    for (int s = 0; s < run->segment_count; s++) {
        python_words(&run->segments[s], python);
        if (python[0])
            say("%s", python + 2);
    }
}

void verbose_say_job(const struct run_segment *segment, const char *launcher, unsigned ranks)
{
    char settings[512];
    defaults_say(ranks, settings, sizeof(settings));
    say("launcher %s; copies between tasks %s; MPI windows are %s; %s", launcher,
        segment->flags & ONESPACE_SPAWN_NO_INTERPOSE ? "by the kernel (--no-interpose)"
                                                     : "in user space",
        segment->flags & ONESPACE_SPAWN_NO_MPI_LAYER
            ? "left to the MPI library (--mpi-layer off)"
            : "one memory for all ranks of the space (--mpi-layer auto)",
        settings);
}
