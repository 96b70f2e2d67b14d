/* tests/differential/guests/steps/main.c: steps PROGRAM [FROM TO]: runs the program in that file, a
 * line of the trace for each step. FROM and TO: a part of it, as when a step has executed this
 * program anew. */
#include "steps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_MAX = 1 << 14, DEPTH_MAX = 4 };

struct step {
    operation *run;
    const char *name;
    int a[ARGUMENTS];
};

static struct step steps[STEPS_MAX];
static int step_count, step_end;
static char text[1 << 20];
static char line[1 << 13];
static size_t line_length;
static int step_now;

const char *program_path, *own_path;
int next_step;

static void fail(const char *what)
{
    dprintf(2, "steps: %s: %s: %s\n", program_path, what, strerror(errno));
    exit(99);
}

/* ---- The trace ---- */

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + line_length, sizeof(line) - line_length, format, arguments);
    va_end(arguments);
    if (length > 0)
        line_length += (size_t)length;
    if (line_length > sizeof(line) - 2)
        line_length = sizeof(line) - 2;
}

void say_result(long result)
{
    int error = errno;
    if (result == -1)
        say(" = -E%d", error);
    else
        say(" = %ld", result);
}

void end_line(void)
{
    say_noted();
    line[line_length++] = '\n';
    for (size_t written = 0; written < line_length;) {
        ssize_t result = write(1, line + written, line_length - written);
        if (result < 0 && errno != EINTR)
            _exit(98);
        written += result > 0 ? (size_t)result : 0;
    }
    line_length = 0;
}

void *bad_pointer(void)
{
    static void *volatile address = (void *)8; /* unknown to the compiler, which would warn */
    return address;
}

uint32_t checksum(uint32_t sum, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ ((const unsigned char *)bytes)[i]) * 16777619u;
    return sum;
}

void say_address(const void *address)
{
    const char *p = address;
    for (int i = 0; i < 2; i++) {
        if (arenas[i] && p >= arenas[i] && p < arenas[i] + (size_t)ARENA_PAGES * PAGE) {
            say(" %c+%#zx", "AB"[i], (size_t)(p - arenas[i]));
            return;
        }
    }
    if (heap_start && p >= heap_start && p < heap_start + (64 << 20))
        say(" H+%#zx", (size_t)(p - heap_start));
    else
        say(p ? " elsewhere" : " 0");
}

/* ---- The program ---- */

static const struct operation_name *find_operation(const char *name)
{
    const struct operation_name *entry = __start_operations;
    while (entry < __stop_operations && strcmp(entry->name, name) != 0)
        entry++;
    return entry < __stop_operations ? entry : NULL;
}

static void read_line(char *from)
{
    char *rest, *name = strtok_r(from, " ", &rest);
    if (!name || *name == '#')
        return;
    const struct operation_name *found = find_operation(name);
    errno = EINVAL;
    if (!found || step_count == STEPS_MAX)
        fail(name);
    struct step *step = &steps[step_count++];
    step->run = found->run;
    step->name = found->name;
    for (int i = 0; i < ARGUMENTS; i++) {
        char *word = strtok_r(NULL, " ", &rest);
        step->a[i] = word ? (int)strtol(word, NULL, 10) & 0xffff : 0;
    }
}

static void read_program(void)
{
    int fd = open(program_path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (length < 0)
        fail("not read");
    close(fd);
    char *rest;
    for (char *from = strtok_r(text, "\n", &rest); from; from = strtok_r(NULL, "\n", &rest))
        read_line(from);
}

int end_of(int count)
{
    return next_step + count < step_end ? next_step + count : step_end;
}

void run_steps(int end)
{
    static int depth;
    int outer_end = step_end;
    depth++;
    step_end = end;
    while (next_step < end) {
        const struct step *step = &steps[next_step];
        step_now = next_step++;
        say("%d %s", step_now, step->name);
        if (depth <= DEPTH_MAX)
            step->run(step->a);
        end_line();
    }
    step_end = outer_end;
    depth--;
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: %s PROGRAM [FROM TO]\n", argv[0]);
        return 2;
    }
    own_path = argv[0];
    program_path = argv[1];
    read_program();
    prepare_heap();
    make_arenas();
    prepare_signals();
    for (int i = 0; i < DESCRIPTORS; i++)
        descriptors[i] = -1;
    step_end = step_count;
    if (argc == 4) {
        next_step = atoi(argv[2]);
        step_end = atoi(argv[3]) < step_count ? atoi(argv[3]) : step_count;
    }
    run_steps(step_end);
    say("end");
    end_line();
    return 0;
}
