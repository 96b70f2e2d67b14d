/* src/elf/resolve.c: from what the user typed to the ELF file that runs, as execvpe and the
 * kernel would go: along PATH, through #! lines, to the interpreter.
 *
 * Reasons are predicates of the file that the user named ("is ..."). What is found further on is
 * told with its own path ("runs /usr/bin/python3, which is ..."). */
#include "elf/internal.h"
#include "elf/known.h"
#include "elf/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char DEFAULT_PATH[] = "/bin:/usr/bin";
static const char SHELL[] = "/bin/sh";
static const char GIVE_PROGRAM[] = "Give the path of a program.";

/* Positive, so that no -errno equals it: execve would say ENOEXEC and execvp would try /bin/sh. */
enum { NOT_A_PROGRAM = 1 };

struct chain { /* one candidate on its way through #! lines */
    int dirfd;
    const char *path;
    bool opened; /* the candidate itself exists: an ENOENT is about something else */
    unsigned depth;
    char current[PATH_MAX]; /* the file that is looked at now */
    char **argv;            /* owned; as it stands for `current` */
    struct elf_problem *problem;
};

/* A vector of `count` strings and then those of `rest`, in one allocation; NULL without memory. */
static char **compose(const char *const head[], size_t count, char *const rest[])
{
    size_t total = count, bytes = 0;
    while (rest[total - count] != NULL)
        total++;
    for (size_t i = 0; i < total; i++)
        bytes += strlen(i < count ? head[i] : rest[i - count]) + 1;
    char **vector = malloc((total + 1) * sizeof(*vector) + bytes);
    if (vector == NULL)
        return NULL;
    char *text = (char *)(vector + total + 1);
    for (size_t i = 0; i < total; i++) {
        vector[i] = text;
        text = stpcpy(text, i < count ? head[i] : rest[i - count]) + 1;
    }
    vector[total] = NULL;
    return vector;
}

static int refuse_memory(struct elf_problem *problem)
{
    return elf_refuse(problem, ENOMEM, "Free memory and try again.",
                      "cannot be resolved: out of memory");
}

/* Puts a chain's place in front of what was found wrong there. */
static int explain_step(struct chain *chain, int status)
{
    struct elf_problem *problem = chain->problem;
    if (chain->depth == 0 || status == NOT_A_PROGRAM)
        return status;
    return elf_refuse(problem, problem->error, problem->mend, "runs %.200s, which %s",
                      chain->current, problem->reason);
}

/* The program's interpreter, like the kernel: a path as it stands, no PATH, no #!. */
static int read_interpreter(struct chain *chain, struct elf_program *program)
{
    const char *name = program->info.interpreter;
    struct elf_problem inner = {0};
    if (name[0] == '/' && elf_known_interpreter(name, program))
        return 0;
    int fd = elf_open_executable(chain->dirfd, name, &inner);
    int status = fd < 0 ? fd : 0;
    if (status == 0)
        status = elf_read(fd, &program->interpreter_info, &inner);
    if (status == 0)
        status = elf_real_path(fd, chain->dirfd, name, program->interpreter_path, &inner);
    if (status == 0)
        elf_known_add_interpreter(fd, program);
    if (fd >= 0)
        close(fd);
    if (status == 0)
        return 0;
    bool missing = inner.error == ENOENT || inner.error == ENOTDIR;
    return elf_refuse(chain->problem, inner.error,
                      missing ? "Install the libc it was built for, or set another interpreter "
                                "with patchelf --set-interpreter."
                              : inner.mend,
                      "needs the interpreter %.200s, which %s", name, inner.reason);
}

/* Reads and judges the ELF file at fd, which `name` led to. */
static int read_program(struct chain *chain, int fd, const char *name, struct elf_program *program)
{
    struct elf_problem *problem = chain->problem;
    bool is_known = elf_known_find(fd, ELF_KNOWN_PROGRAM, &program->info);
    int status = is_known ? 0 : elf_read(fd, &program->info, problem);
    if (status == 0)
        status = elf_real_path(fd, chain->dirfd, name, program->path, problem);
    if (status == 0)
        status = elf_check_name(program->path, problem);
    if (status == 0 && !is_known)
        status = elf_check_guest(fd, &program->info, problem);
    if (status == 0 && !is_known)
        elf_known_add(fd, ELF_KNOWN_PROGRAM, &program->info);
    return status;
}

/* Puts the start program in the place of the Python that the chain has come to: the library and the
 * name by which Python finds its virtual environment become its first arguments. */
static int start_python(struct chain *chain, const char *library, struct elf_program *program)
{
    char name[PATH_MAX + 2];
    bool has_slash = strchr(chain->current, '/') != NULL;
    snprintf(name, sizeof(name), "%s%s", has_slash ? "" : "./", chain->current);
    const char *head[] = {chain->argv[0], library, name};
    char **longer = compose(head, 3, chain->argv + 1);
    if (longer == NULL)
        return refuse_memory(chain->problem);
    free(chain->argv);
    chain->argv = longer;
    int fd = elf_open_executable(AT_FDCWD, elf_python_start(), chain->problem);
    int status = fd < 0 ? fd : read_program(chain, fd, elf_python_start(), program);
    if (fd >= 0)
        close(fd);
    return status == 0 ? 0
                       : elf_refuse(chain->problem, ENOEXEC, chain->problem->mend,
                                    "needs the start program %.200s, which %s", elf_python_start(),
                                    chain->problem->reason);
}

/* What elf_read refused: 0 when it is a Python and runs from its library. */
static int try_python(struct chain *chain, int fd, struct elf_program *program)
{
    static const struct elf_info nothing;
    char library[PATH_MAX];
    struct elf_problem other;
    if (elf_real_path(fd, chain->dirfd, chain->current, program->stands_in_for, &other) != 0)
        program->stands_in_for[0] = '\0';
    int found = elf_python_library(fd, program->stands_in_for, library, chain->problem);
    if (found <= 0) {
        program->stands_in_for[0] = '\0';
        return -ENOEXEC;
    }
    int status = elf_check_guest(fd, &nothing, chain->problem);
    return status == 0 ? start_python(chain, library, program) : status;
}

/* The end of the chain: an ELF file at fd. On success the chain's argv belongs to the program. */
static int finish(struct chain *chain, int fd, struct elf_program *program)
{
    int status = read_program(chain, fd, chain->current, program);
    if (status == -ENOEXEC)
        status = try_python(chain, fd, program);
    if (status == 0 && program->info.interpreter[0] != '\0')
        status = read_interpreter(chain, program);
    if (status != 0)
        return status;
    program->argv = chain->argv;
    chain->argv = NULL;
    return 0;
}

/* The file of that name in the folder of PATH that begins at `at`; *end: where that folder ends.
 * False: too long. */
static bool name_candidate(const char *at, const char *file, char candidate[PATH_MAX],
                           const char **end)
{
    *end = strchrnul(at, ':');
    int length = (int)(*end - at < PATH_MAX ? *end - at : PATH_MAX);
    return snprintf(candidate, PATH_MAX, "%.*s%s%s", length, at, length > 0 ? "/" : "", file) <
           PATH_MAX;
}

/* The program that a line of `env NAME` executes: searched for here as env would, since what a task
 * executes is no task. Anything else that env can do, and to say that there is no such program, is
 * left to it. */
static bool find_for_env(const struct chain *chain, const struct script_line *line,
                         char found[PATH_MAX])
{
    struct stat status;
    bool is_env = strcmp(line->interpreter, "/usr/bin/env") == 0 ||
                  strcmp(line->interpreter, "/bin/env") == 0;
    if (!is_env || !line->has_argument || line->argument[0] == '-' || line->argument[0] == '\0' ||
        strpbrk(line->argument, "/= \t") != NULL)
        return false;
    for (const char *at = chain->path, *end;; at = end + 1) {
        if (name_candidate(at, line->argument, found, &end) &&
            faccessat(chain->dirfd, found, X_OK, AT_EACCESS) == 0 &&
            fstatat(chain->dirfd, found, &status, 0) == 0 && S_ISREG(status.st_mode))
            return true;
        if (*end == '\0')
            return false;
    }
}

/* Goes one #! line further: [interpreter, argument, script, argv[1]...]. */
static int follow_line(struct chain *chain, const struct script_line *line)
{
    char found[PATH_MAX];
    const char *interpreter = line->interpreter;
    if (chain->depth == ELF_SCRIPT_DEPTH)
        return elf_refuse(chain->problem, ELOOP, "Let the script name a program.",
                          "is a script at the end of %d #! lines, and the kernel follows no more",
                          ELF_SCRIPT_DEPTH);
    /* The kernel opens the empty path, which is the working directory, and says the same. */
    if (line->interpreter[0] == '\0')
        return elf_refuse(chain->problem, EACCES, "Write the path of one behind the #!.",
                          "is a script whose #! line names no interpreter");
    const char *head[3] = {interpreter};
    size_t count = 1;
    if (find_for_env(chain, line, found))
        head[0] = line->argument, interpreter = found;
    else if (line->has_argument)
        head[count++] = line->argument;
    head[count++] = chain->current;
    char **longer = compose(head, count, chain->argv + 1);
    if (longer == NULL)
        return refuse_memory(chain->problem);
    free(chain->argv);
    chain->argv = longer;
    strcpy(chain->current, interpreter);
    chain->depth++;
    return 0;
}

/* Looks at the current file. 0 with *done when it was the program, 0 without after one #! line,
 * NOT_A_PROGRAM, or -errno. */
static int step(struct chain *chain, struct elf_program *program, bool *done)
{
    char start[ELF_SCRIPT_LINE];
    struct script_line line;
    int fd = elf_open_executable(chain->dirfd, chain->current, chain->problem);
    if (fd < 0)
        return fd;
    chain->opened = true;
    ssize_t length = elf_read_some(fd, start, sizeof(start), 0);
    *done = length >= 0 && length >= SELFMAG && memcmp(start, ELFMAG, SELFMAG) == 0;
    int status = elf_check_name(chain->current, chain->problem);
    if (status == 0 && length < 0)
        status = elf_refuse_open(chain->problem, (int)-length);
    if (status != 0) {
        close(fd);
        return status;
    }
    if (*done || length == 0)
        status = finish(chain, fd, program); /* which says what is wrong with an empty file */
    else if (parse_script_line(start, (size_t)length, &line))
        status = follow_line(chain, &line);
    else
        status = NOT_A_PROGRAM;
    close(fd);
    return status;
}

/* Follows a file to its program with the given argv: 0, NOT_A_PROGRAM or -errno. */
static int follow(struct chain *chain, const char *file, char *const argv[],
                  struct elf_program *program)
{
    /* The kernel, too, gives an empty vector one empty string. */
    static const char *const empty[] = {""};
    bool none = argv == NULL || argv[0] == NULL;
    static char *const nothing[] = {NULL};
    bool done = false;
    int status = 0;
    chain->depth = 0;
    chain->argv = none ? compose(empty, 1, nothing) : compose(NULL, 0, argv);
    if (chain->argv == NULL)
        return refuse_memory(chain->problem);
    strcpy(chain->current, file);
    while (status == 0 && !done) {
        status = step(chain, program, &done);
        if (status != 0)
            status = explain_step(chain, status);
    }
    free(chain->argv);
    return status;
}

/* One candidate, and as execvp does, the shell for what the kernel would not know. */
static int try_file(struct chain *chain, const char *file, char *const argv[],
                    struct elf_program *program)
{
    chain->opened = false;
    int status = follow(chain, file, argv, program);
    if (status != NOT_A_PROGRAM)
        return status;
    const char *head[] = {SHELL, file};
    static char *const nothing[] = {NULL};
    bool more = argv != NULL && argv[0] != NULL;
    char **shell_argv = compose(head, 2, more ? argv + 1 : nothing);
    if (shell_argv == NULL)
        return refuse_memory(chain->problem);
    status = follow(chain, SHELL, shell_argv, program);
    free(shell_argv);
    if (status == 0)
        return 0;
    if (status == NOT_A_PROGRAM)
        elf_refuse(chain->problem, ENOEXEC, "Install a shell there.", "is no program either");
    return elf_refuse(chain->problem, chain->problem->error, chain->problem->mend,
                      "is neither a program nor a script with #! and needs %s, which %s", SHELL,
                      chain->problem->reason);
}

/* The errors after which execvpe tries the next folder. */
static bool search_goes_on(int status)
{
    return status == -EACCES || status == -ENOENT || status == -ESTALE || status == -ENOTDIR ||
           status == -ENODEV || status == -ETIMEDOUT;
}

/* Of several failures along PATH the most telling one is kept: a file without permission, else one
 * that was there but lacks something (its interpreter), else that nothing was found. */
static int search(struct chain *chain, const char *file, char *const argv[], const char *path,
                  struct elf_program *program)
{
    struct elf_problem denied = {0}, lacking = {0}, *problem = chain->problem;
    char candidate[PATH_MAX];
    for (const char *at = path, *end;; at = end + 1) {
        int status = -ENOENT;
        if (name_candidate(at, file, candidate, &end)) {
            status = try_file(chain, candidate, argv, program);
            if (!search_goes_on(status))
                return status;
            if (status == -EACCES && denied.error == 0)
                elf_refuse(&denied, EACCES, problem->mend, "was found as %.200s, which %s",
                           candidate, problem->reason);
            else if (chain->opened && lacking.error == 0)
                lacking = *problem;
        }
        if (*end == '\0')
            break;
    }
    if (denied.error == 0 && lacking.error == 0)
        return elf_refuse(problem, ENOENT, "Give its path with a slash, or add its folder to PATH.",
                          "was not found in PATH");
    *problem = denied.error != 0 ? denied : lacking;
    return -problem->error;
}

int elf_resolve(int dirfd, const char *file, char *const argv[], const char *path,
                struct elf_program *program, struct elf_problem *problem)
{
    struct elf_problem met = {0};
    path = path != NULL ? path : DEFAULT_PATH;
    struct chain chain = {.dirfd = dirfd, .path = path, .problem = &met};
    struct elf_program found;
    memset(&found, 0, sizeof(found));
    bool has_slash = strchr(file, '/') != NULL;
    int status;
    if (file[0] == '\0')
        status = elf_refuse(&met, ENOENT, GIVE_PROGRAM, "is an empty name");
    else if (strlen(file) >= (has_slash ? PATH_MAX : NAME_MAX + 1))
        status = elf_refuse(&met, ENAMETOOLONG, "Give a shorter path.", "has too long a name");
    else if (has_slash)
        status = try_file(&chain, file, argv, &found);
    else
        status = search(&chain, file, argv, path, &found);
    if (status == 0)
        *program = found;
    else if (problem != NULL)
        *problem = met;
    return status;
}

void elf_program_free(struct elf_program *program)
{
    free(program->argv);
    program->argv = NULL;
}
