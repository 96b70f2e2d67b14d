/* cmd/pip/pip-exec.c: pip-exec: a PiP root that runs programs as PiP tasks and waits for them. */
#include <stdlib.h>
#include <sys/wait.h>

#include "pip/pip.h"

static const char usage[] =
    "usage: pip-exec [-n N] [-f FUNCTION] [-c CORE] PROGRAM [ARGUMENT...]\n"
    "           [: [OPTION...] PROGRAM [ARGUMENT...]]...\n"
    "\n"
    "Runs programs as PiP tasks of one root. Use `onespace run` for MPI programs\n"
    "and programs that do not use Process-in-Process.\n"
    "\n"
    "  -n N         run N tasks of the next program (default 1; at most 300 in all)\n"
    "  -f FUNCTION  start at `int FUNCTION(void *)` instead of main\n"
    "  -c CORE      bind the first task to the CORE-th CPU, the second to the next,\n"
    "               and so on (default: not bound)\n"
    "  -h, --help   print this help\n"
    "\n"
    "Exit status: the largest of the tasks'; 128+N if signal N killed a task; 2 on a\n"
    "usage error.\n";

struct segment {
    char **argv;
    const char *function;
    int count;
    long core; /* -1: not bound */
};

static int is_separator(const char *word)
{
    return strcmp(word, ":") == 0 || strcmp(word, "::") == 0;
}

static int parse_number(const char *text, long least, long most, long *value)
{
    char *end;
    if (!text)
        return -1;
    *value = strtol(text, &end, 10);
    return end == text || *end || *value < least || *value > most ? -1 : 0;
}

/* Takes the words up to a separator: how many, or -1. */
static int parse_segment(char **words, struct segment *segment)
{
    long number;
    int at = 0;
    *segment = (struct segment){.count = 1, .core = -1};
    for (; words[at] && words[at][0] == '-' && words[at][1]; at += 2) {
        char option = words[at][1];
        if (words[at][2] || !words[at + 1])
            return -1;
        if (option == 'n' && parse_number(words[at + 1], 1, PIP_NTASKS_MAX, &number) == 0)
            segment->count = (int)number;
        else if (option == 'c' && parse_number(words[at + 1], 0, 1 << 19, &number) == 0)
            segment->core = number;
        else if (option == 'f')
            segment->function = words[at + 1];
        else
            return -1;
    }
    if (!words[at] || is_separator(words[at]))
        return -1;
    segment->argv = words + at;
    while (words[at] && !is_separator(words[at]))
        at++;
    return at;
}

static int spawn_all(const struct segment *segment, int first)
{
    pip_spawn_program_t program;
    for (int i = 0; i < segment->count; i++) {
        int pipid = first + i;
        uint32_t core =
            segment->core < 0 ? PIP_CPUCORE_ASIS : (uint32_t)segment->core + (uint32_t)i;
        if (segment->function)
            pip_spawn_from_func(&program, segment->argv[0], (char *)(uintptr_t)segment->function,
                                NULL, NULL, NULL);
        else
            pip_spawn_from_main(&program, segment->argv[0], segment->argv, NULL, NULL);
        int error = pip_task_spawn(&program, core, 0, &pipid, NULL);
        if (error) {
            fprintf(stderr, "pip-exec: %s: %s\n", segment->argv[0], strerror(error));
            return error == ENOENT ? 127 : 126;
        }
    }
    return 0;
}

static int wait_all(void)
{
    int pipid, status, worst = 0;
    while (pip_wait_any(&pipid, &status) == 0) {
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (WIFSIGNALED(status))
            fprintf(stderr, "pip-exec: task %d was ended by signal %d (%s)\n", pipid,
                    WTERMSIG(status), strsignal(WTERMSIG(status)));
        worst = code > worst ? code : worst;
    }
    return worst;
}

int main(int argc, char **argv)
{
    static struct segment segments[PIP_NTASKS_MAX];
    int count = 0, total = 0, length = -1;
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    for (char **word = argv + 1; argc > 1 && *word && count < PIP_NTASKS_MAX; count++) {
        length = parse_segment(word, &segments[count]);
        if (length < 0)
            break;
        total += segments[count].count;
        word += length;
        if (*word)
            *word++ = NULL;
    }
    if (length < 0 || total > PIP_NTASKS_MAX) {
        if (length >= 0)
            fprintf(stderr, "pip-exec: %d tasks: there can be %d\n", total, PIP_NTASKS_MAX);
        fputs(usage, stderr);
        return 2;
    }
    int error = pip_init(NULL, &total, NULL, 0);
    if (error) {
        fprintf(stderr, "pip-exec: cannot make a space: %s (see `onespace doctor`)\n",
                strerror(error));
        return 1;
    }
    for (int i = 0, first = 0; i < count; first += segments[i++].count) {
        error = spawn_all(&segments[i], first);
        if (error) {
            (void)pip_kill_all_child_tasks();
            (void)wait_all();
            return error;
        }
    }
    return wait_all();
}
