/* src/elf/resolve.c: from the typed name to the ELF file that runs, as execvpe and the kernel find
 * it: along PATH, through #! lines, to the interpreter.
 *
 * Reasons are predicates of the file that the user named ("is ..."). A fault of a later file in the
 * chain names that file ("runs /usr/bin/python3, which is ..."). */
#include "elf/chain.h"
#include "elf/script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char DEFAULT_PATH[] = "/bin:/usr/bin";
static const char SHELL[] = "/bin/sh";
static const char GIVE_PROGRAM[] = "Give the path of a program.";

/* Positive, so that no -errno equals it: execve would say ENOEXEC and execvp would try /bin/sh. */
enum { NOT_A_PROGRAM = 1 };

/* Prefixes the reason with the file of the chain that it is about. */
static int explain_step(struct elf_chain *chain, int status)
{
    struct elf_problem *problem = chain->problem;
    if (chain->depth == 0 || status == NOT_A_PROGRAM)
        return status;
    return elf_refuse(problem, problem->error, problem->fix, "runs %.200s, which %s",
                      chain->current, problem->reason);
}

/* The file of that name in the directory of PATH that begins at `at`; *end: where that directory
 * ends. False: too long. */
static bool name_candidate(const char *at, const char *file, char candidate[PATH_MAX],
                           const char **end)
{
    *end = strchrnul(at, ':');
    int length = (int)(*end - at < PATH_MAX ? *end - at : PATH_MAX);
    return snprintf(candidate, PATH_MAX, "%.*s%s%s", length, at, length > 0 ? "/" : "", file) <
           PATH_MAX;
}

/* The program that a line of `env NAME` executes. Searched for here, as env does, because a program
 * that a task executes is no task. All other uses of env, and the error if there is no such
 * program, are left to env itself. */
static bool find_for_env(const struct elf_chain *chain, const struct script_line *line,
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
static int follow_line(struct elf_chain *chain, const struct script_line *line)
{
    char found[PATH_MAX];
    const char *interpreter = line->interpreter;
    if (chain->depth == ELF_SCRIPT_DEPTH)
        return elf_refuse(chain->problem, ELOOP, "Let the script name a program.",
                          "is a script at the end of %d #! lines, and the kernel follows no more",
                          ELF_SCRIPT_DEPTH);
    /* The kernel opens the empty path, which is the working directory: the same error. */
    if (line->interpreter[0] == '\0')
        return elf_refuse(chain->problem, EACCES, "Write the path of one after the #!.",
                          "is a script whose #! line names no interpreter");
    const char *head[3] = {interpreter};
    size_t count = 1;
    if (find_for_env(chain, line, found))
        head[0] = line->argument, interpreter = found;
    else if (line->has_argument)
        head[count++] = line->argument;
    head[count++] = chain->current;
    char **longer = elf_compose_vector(head, count, chain->argv + 1);
    if (longer == NULL)
        return elf_refuse_memory(chain->problem);
    free(chain->argv);
    chain->argv = longer;
    strcpy(chain->current, interpreter);
    chain->depth++;
    return 0;
}

/* Looks at the current file. 0 with *done when it was the program, 0 without after one #! line,
 * NOT_A_PROGRAM, or -errno. */
static int step(struct elf_chain *chain, struct elf_program *program, bool *done)
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
        status =
            elf_finish_chain(chain, fd, program); /* which says what is wrong with an empty file */
    else if (parse_script_line(start, (size_t)length, &line))
        status = follow_line(chain, &line);
    else
        status = NOT_A_PROGRAM;
    close(fd);
    return status;
}

/* Follows a file to its program with the given argv: 0, NOT_A_PROGRAM or -errno. */
static int follow(struct elf_chain *chain, const char *file, char *const argv[],
                  struct elf_program *program)
{
    /* The kernel, too, gives an empty vector one empty string. */
    static const char *const empty[] = {""};
    bool none = argv == NULL || argv[0] == NULL;
    static char *const nothing[] = {NULL};
    bool done = false;
    int status = 0;
    chain->depth = 0;
    chain->argv = none ? elf_compose_vector(empty, 1, nothing) : elf_compose_vector(NULL, 0, argv);
    if (chain->argv == NULL)
        return elf_refuse_memory(chain->problem);
    strcpy(chain->current, file);
    while (status == 0 && !done) {
        status = step(chain, program, &done);
        if (status != 0)
            status = explain_step(chain, status);
    }
    free(chain->argv);
    return status;
}

/* One candidate; as in execvp, /bin/sh runs what the kernel does not recognise. */
static int try_file(struct elf_chain *chain, const char *file, char *const argv[],
                    struct elf_program *program)
{
    chain->opened = false;
    int status = follow(chain, file, argv, program);
    if (status != NOT_A_PROGRAM)
        return status;
    const char *head[] = {SHELL, file};
    static char *const nothing[] = {NULL};
    bool more = argv != NULL && argv[0] != NULL;
    char **shell_argv = elf_compose_vector(head, 2, more ? argv + 1 : nothing);
    if (shell_argv == NULL)
        return elf_refuse_memory(chain->problem);
    status = follow(chain, SHELL, shell_argv, program);
    free(shell_argv);
    if (status == 0)
        return 0;
    if (status == NOT_A_PROGRAM)
        elf_refuse(chain->problem, ENOEXEC, "Install a shell there.", "is no program either");
    return elf_refuse(chain->problem, chain->problem->error, chain->problem->fix,
                      "is neither a program nor a script with #! and needs %s, which %s", SHELL,
                      chain->problem->reason);
}

/* The errors after which execvpe tries the next directory of PATH. */
static bool search_goes_on(int status)
{
    return status == -EACCES || status == -ENOENT || status == -ESTALE || status == -ENOTDIR ||
           status == -ENODEV || status == -ETIMEDOUT;
}

/* Not when its directory may not be searched: then nobody knows, and shells say "not found". */
static bool is_there(const struct elf_chain *chain, const char *candidate)
{
    struct stat status;
    return fstatat(chain->dirfd, candidate, &status, 0) == 0;
}

/* Of several failures along PATH the most specific one is reported: a file without permission, else
 * one that exists but lacks something (its interpreter), else that nothing was found. */
static int search(struct elf_chain *chain, const char *file, char *const argv[], const char *path,
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
            if (status == -EACCES && denied.error == 0 && is_there(chain, candidate))
                elf_refuse(&denied, EACCES, problem->fix, "was found as %.200s, which %s",
                           candidate, problem->reason);
            else if (chain->opened && lacking.error == 0)
                lacking = *problem;
        }
        if (*end == '\0')
            break;
    }
    if (denied.error == 0 && lacking.error == 0)
        return elf_refuse(problem, ENOENT,
                          "Give its path with a slash, or add its directory to PATH.",
                          "was not found in PATH");
    *problem = denied.error != 0 ? denied : lacking;
    return -problem->error;
}

int elf_resolve(int dirfd, const char *file, char *const argv[], const char *path,
                struct elf_program *program, struct elf_problem *problem)
{
    struct elf_problem met = {0};
    path = path != NULL ? path : DEFAULT_PATH;
    struct elf_chain chain = {.dirfd = dirfd, .path = path, .problem = &met};
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
