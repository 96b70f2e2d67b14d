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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* Whether the file contains the mark that Go's linker puts into every program. */
static int is_go(const char *path)
{
    static const char mark[] = "\xff Go buildinf:";
    struct stat stat;
    int found = 0, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    void *file = fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0
                     ? mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0)
                     : MAP_FAILED;
    close(fd);
    if (file == MAP_FAILED)
        return 0;
    found = memmem(file, (size_t)stat.st_size, mark, sizeof(mark) - 1) != NULL;
    munmap(file, (size_t)stat.st_size);
    return found;
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

/* The path of the refused file, to inspect it again: "" when it cannot be found. */
static void find_refused(const char *name, char path[PATH_MAX])
{
    const char *directories = getenv("PATH");
    path[0] = 0;
    if (strchr(name, '/')) {
        snprintf(path, PATH_MAX, "%s", name);
        return;
    }
    for (const char *at = directories ? directories : "/bin:/usr/bin", *end;; at = end + 1) {
        end = strchrnul(at, ':');
        snprintf(path, PATH_MAX, "%.*s/%s", (int)(end - at), at, name);
        if (access(path, X_OK) == 0)
            return;
        path[0] = 0;
        if (!*end)
            return;
    }
}

/* Replaces the general fix if the language needs another one. */
static void fix_for_language(struct verdict *verdict)
{
    char path[PATH_MAX];
    struct elf_problem *problem = &verdict->problem;
    if (problem->error != ENOEXEC || !strstr(problem->reason, "position independent"))
        return;
    find_refused(verdict->name, path);
    if (path[0] && is_go(path))
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
    enum { OPT_JSON = 256 };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct output_json json = {.out = stdout};
    int as_json = 0, status = 0;
    unsigned width = output_width(stdout);
    argv[0] = "onespace check";
    for (int option; (option = options_next(argc, argv, "+h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, check_help);
            return 0;
        }
        if (option != OPT_JSON) {
            fprintf(stderr, "Try `onespace check --help`.\n");
            return 2;
        }
        as_json = 1;
    }
    if (optind >= argc) {
        fprintf(stderr, "onespace check: no program given. Try `onespace check --help`.\n");
        return 2;
    }
    if (as_json)
        json_open(&json, NULL, '[');
    for (int i = optind; i < argc; i++) {
        static struct verdict verdict;
        memset(&verdict, 0, sizeof(verdict));
        find_verdict(argv[i], &verdict);
        if (as_json)
            write_verdict(&json, &verdict);
        else
            print_verdict(&verdict, width);
        status |= !verdict.can;
        if (verdict.can)
            elf_program_free(&verdict.program);
    }
    if (as_json)
        json_close(&json, ']');
    return status;
}
