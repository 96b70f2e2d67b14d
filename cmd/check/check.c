/* cmd/check/check.c: onespace check: can a program be a task; if not, why, and what to do.
 *
 * The verdict is that of resolve_program, which onespace_spawn uses, too, so that the two agree.
 * This file adds notes: which program really runs, and what will differ. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/lib/files.h"
#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/lib/patch_sites.h"
#include "elf/elf.h"
#include "spawn/spawn.h"

enum { NOTES_MAX = 6, NOTE_SIZE = 2 * PATH_MAX };

struct verdict {
    const char *name; /* as given */
    int can;
    struct elf_program program; /* valid if can */
    struct elf_problem problem; /* valid if not */
    const char *libc;
    unsigned note_count;
    char notes[NOTES_MAX][NOTE_SIZE];
};

/* ---- The verdict ---- */

__attribute__((format(printf, 2, 3))) static void add_note(struct verdict *verdict,
                                                           const char *format, ...)
{
    va_list arguments;
    if (verdict->note_count == NOTES_MAX)
        return;
    char *note = verdict->notes[verdict->note_count++];
    va_start(arguments, format);
    vsnprintf(note, NOTE_SIZE, format, arguments);
    va_end(arguments);
    output_clean(note);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- What the program is ---- */

static const char *libc_of(const struct elf_program *program)
{
    const char *interpreter = base_name(program->info.interpreter);
    if (!*interpreter)
        return "static";
    if (starts_with(interpreter, "ld-musl"))
        return "musl";
    return starts_with(interpreter, "ld-linux") || starts_with(interpreter, "ld64.so") ? "glibc"
                                                                                       : "unknown";
}

static int stop_at_first(const char *name, void *context)
{
    (void)name, (void)context;
    return 1;
}

/* Go programs make system calls themselves and need no library. */
static int needs_libraries(const struct elf_program *program)
{
    int fd = open(program->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 1;
    int found = elf_each_needed(fd, &program->info, stop_at_first, NULL);
    close(fd);
    return found != 0;
}

/* ---- Notes ---- */

static void note_interposition(struct verdict *verdict)
{
    const struct elf_program *program = &verdict->program;
    int is_static = !program->interpreter_path[0];
    int bare = is_static || !needs_libraries(program);
    char libc[PATH_MAX], missing[128];
    struct patch_sites sites = {0};
    if (bare)
        snprintf(libc, sizeof(libc), "%s", program->path);
    else
        patch_sites_libc_path(program->interpreter_path, libc, sizeof(libc));
    if (patch_sites_count(libc, &sites) < 0)
        return;
    if (bare && !is_static && sites.mmap)
        return; /* has its own allocator, which uses mappings only */
    if (patch_sites_missing(&sites, 1, missing, sizeof(missing)))
        add_note(verdict,
                 "its memory cannot all be given back before the space ends: in %s onespace "
                 "does not recognise the system calls of %s",
                 libc, missing);
}

/* Whether it is a script. */
static int note_script(struct verdict *verdict)
{
    const struct elf_program *program = &verdict->program;
    const char *shell = base_name(elf_program_name(program));
    char real[PATH_MAX];
    if (!program->argv[0] || strcmp(program->argv[0], verdict->name) == 0)
        return 0;
    int is_path = strchr(verdict->name, '/') && realpath(verdict->name, real);
    add_note(verdict, "%s is a script: the task is %s", is_path ? real : verdict->name,
             elf_program_name(program));
    if (strcmp(shell, "env") == 0)
        add_note(verdict,
                 "env executes another program, and that leaves the space and is an ordinary "
                 "process: name the interpreter itself after the #!, or give it to onespace "
                 "run in front of the script");
    else if (strcmp(shell, "sh") == 0 || strcmp(shell, "dash") == 0 || strcmp(shell, "bash") == 0 ||
             strcmp(shell, "zsh") == 0)
        add_note(verdict,
                 "what the script starts or executes are ordinary processes, outside the space: "
                 "call the program itself with onespace run where it is to be a task");
    return 1;
}

/* A program that executes another one and starts no children only sets it up: env, nice, and many
 * wrappers of applications. */
static void note_execution(struct verdict *verdict)
{
    static const char *const executes[] = {"execv",  "execve", "execvp",  "execvpe",  "execl",
                                           "execle", "execlp", "fexecve", "execveat", NULL};
    static const char *const starts[] = {
        "fork",   "vfork",        "_Fork",  "clone",   "posix_spawn",    "system", "popen",
        "daemon", "posix_spawnp", "clone3", "forkpty", "pthread_create", NULL};
    int fd = open(verdict->program.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (elf_imports(fd, executes) == 1 && elf_imports(fd, starts) == 0)
        add_note(verdict,
                 "it executes another program, and that leaves the space and is an ordinary "
                 "process: give that program to onespace run");
    close(fd);
}

static void note_gpu(struct verdict *verdict)
{
    char library[NAME_MAX + 1];
    if (elf_uses_amd_gpu(&verdict->program, library, sizeof(library)))
        add_note(verdict,
                 "it uses GPUs of AMD (%s): where there is one, only one task of a space can, and "
                 "several ranks stay processes",
                 library);
}

static void note_program(struct verdict *verdict)
{
    const char *name = base_name(verdict->program.path);
    if (strcmp(name, "java") == 0)
        add_note(verdict, "the Java VM works as a task, several at once too");
    if (verdict->program.requested_path[0])
        add_note(verdict, "is non-PIE: the task runs the same Python from its library %s",
                 verdict->program.argv[1]);
    if (verdict->program.info.executable_stack)
        add_note(verdict, "asks for an executable stack, and gets it");
    if (strcmp(verdict->libc, "unknown") == 0)
        add_note(verdict,
                 "its interpreter is neither glibc's nor musl's, and may refuse the agent");
}

/* Replaces the general fix if the language needs another one. */
static void fix_for_language(struct verdict *verdict)
{
    static const char mark[] = "\xff Go buildinf:"; /* Go's linker puts it into every program */
    char path[PATH_MAX];
    struct elf_problem *problem = &verdict->problem;
    if (problem->error != ENOEXEC || !strstr(problem->reason, "position independent"))
        return;
    if (path_find(verdict->name, path) == 0 && file_contains(path, mark, sizeof(mark) - 1))
        snprintf(problem->fix, sizeof(problem->fix), "Build it with go build -buildmode=pie.");
}

/* Fills a zeroed verdict on the program of that name. The caller frees verdict->program if it can
 * be a task. */
static void find_verdict(const char *name, struct verdict *verdict)
{
    char *argv[] = {(char *)name, NULL};
    verdict->name = name;
    verdict->can = resolve_program(AT_FDCWD, name, argv, getenv("PATH"), &verdict->program,
                                   &verdict->problem) == 0;
    if (!verdict->can) {
        fix_for_language(verdict);
        return;
    }
    verdict->libc = libc_of(&verdict->program);
    if (!note_script(verdict))
        note_execution(verdict);
    note_program(verdict);
    note_gpu(verdict);
    note_interposition(verdict);
}

/* ---- Printing ---- */

const char check_help[] =
    "usage: onespace check [--json] PROGRAM...\n"
    "\n"
    "Reports for each program whether it can be a task; if not, why and what to do. Runs "
    "nothing. Finds programs as `onespace run` does: along PATH, through links and #! lines.\n"
    "\n"
    "      --json  print an array\n"
    "  -h, --help  print this help\n"
    "\n"
    "Exit status: 0 if all can be tasks, 1 if one cannot, 2 on a usage error.\n";

static void print_verdict(const struct verdict *verdict, unsigned width)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s", verdict->name);
    output_clean(name);
    if (!verdict->can) {
        char text[sizeof(name) + sizeof(struct elf_problem) + 64];
        snprintf(text, sizeof(text), "%s: cannot be a task: %s: %s", name, verdict->problem.reason,
                 verdict->problem.fix);
        output_wrapped(stdout, width, 0, 4, text);
        putchar('\n');
        return;
    }
    const struct elf_program *program = &verdict->program;
    char text[4 * PATH_MAX];
    snprintf(text, sizeof(text), "%s: can be a task (%s, %s%s%s)", name, elf_program_name(program),
             verdict->libc, program->interpreter_path[0] ? ", interpreter " : "",
             program->interpreter_path);
    output_wrapped(stdout, width, 0, 4, output_clean(text));
    putchar('\n');
    for (unsigned i = 0; i < verdict->note_count; i++) {
        printf("    note: ");
        output_wrapped(stdout, width, 10, 10, verdict->notes[i]);
        putchar('\n');
    }
}

static void write_verdict(struct output_json *json, const struct verdict *verdict)
{
    const struct elf_program *program = &verdict->program;
    json_open(json, NULL, '{');
    json_text(json, "program", verdict->name);
    json_boolean(json, "can_be_task", verdict->can);
    json_text(json, "path", verdict->can ? elf_program_name(program) : NULL);
    json_text(json, "libc", verdict->can ? verdict->libc : NULL);
    json_text(json, "interpreter",
              verdict->can && program->interpreter_path[0] ? program->interpreter_path : NULL);
    json_text(json, "reason", verdict->can ? NULL : verdict->problem.reason);
    json_text(json, "fix", verdict->can ? NULL : verdict->problem.fix);
    json_open(json, "notes", '[');
    for (unsigned i = 0; i < verdict->note_count; i++)
        json_text(json, NULL, verdict->notes[i]);
    json_close(json, ']');
    json_close(json, '}');
}

int command_check(int argc, char **argv)
{
    static int is_json;
    static const struct command_option options[] = {{"json", .flag = &is_json}, {.name = NULL}};
    struct output_json json = {.out = stdout};
    int status = 0;
    unsigned width = output_width(stdout);
    if (options_parse(argc, argv, options, check_help) != 0)
        return 2;
    if (optind >= argc)
        return options_refuse(argv[0], "no program given");
    if (is_json)
        json_open(&json, NULL, '[');
    for (int i = optind; i < argc; i++) {
        static struct verdict verdict;
        memset(&verdict, 0, sizeof(verdict));
        find_verdict(argv[i], &verdict);
        if (is_json)
            write_verdict(&json, &verdict);
        else
            print_verdict(&verdict, width);
        status |= !verdict.can;
        if (verdict.can)
            elf_program_free(&verdict.program);
    }
    if (is_json)
        json_close(&json, ']');
    return status;
}
