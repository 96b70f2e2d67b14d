/* src/elf/resolve.c: from the typed name to the ELF file that runs, as execvpe and the kernel find
 * it: along PATH, through #! lines, to the interpreter.
 *
 * A problem's reason is a predicate of the file that the user named ("is ..."). If a later file of
 * the chain is at fault, the reason names that file ("runs /usr/bin/python3, which is ...").
 *
 * Files that were accepted are cached under their identity, which any change of a file, its mode or
 * its capabilities changes: starting a thousand tasks of one program reads and checks it once. */
#include "elf/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file_identity.h"

/* ---- The cache ---- */

enum cache_role { CACHED_PROGRAM = 1, CACHED_INTERPRETER };

enum { CACHE_FILES = 8 };

struct cached_file {
    enum cache_role role; /* 0: unused */
    struct file_identity identity;
    struct elf_info info;
    /* For an interpreter: the name in PT_INTERP, and the real path. */
    char name[PATH_MAX], path[PATH_MAX];
};

static struct cached_file cache[CACHE_FILES];
static unsigned cache_oldest;
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether `path` names this file, unchanged, and every user may execute it. */
static bool is_path_of(const char *path, const struct file_identity *file)
{
    const mode_t anybody = S_IXUSR | S_IXGRP | S_IXOTH;
    struct stat status;
    if (stat(path, &status) != 0 || (status.st_mode & anybody) != anybody)
        return false;
    struct file_identity identity = file_identity_of(&status);
    return file_is_unchanged(file, &identity);
}

/* Only an interpreter that every user may execute is found by its name. Fills what
 * read_interpreter would. */
static bool cache_find_interpreter(const char *name, struct elf_program *program)
{
    bool is_found = false;
    pthread_mutex_lock(&cache_lock);
    for (unsigned i = 0; i < CACHE_FILES && !is_found; i++) {
        const struct cached_file *file = &cache[i];
        is_found = file->role == CACHED_INTERPRETER && strcmp(file->name, name) == 0 &&
                   is_path_of(name, &file->identity) && is_path_of(file->path, &file->identity);
        if (is_found) {
            program->interpreter_info = file->info;
            strcpy(program->interpreter_path, file->path);
        }
    }
    pthread_mutex_unlock(&cache_lock);
    return is_found;
}

static bool cache_find_program(const struct file_identity *file, struct elf_info *info)
{
    bool is_found = false;
    pthread_mutex_lock(&cache_lock);
    for (unsigned i = 0; i < CACHE_FILES && !is_found; i++) {
        is_found = cache[i].role == CACHED_PROGRAM && file_is_unchanged(&cache[i].identity, file);
        if (is_found)
            *info = cache[i].info;
    }
    pthread_mutex_unlock(&cache_lock);
    return is_found;
}

/* The file was identified before it was read. `name` and `path` are those of an interpreter. */
static void cache_add(const struct file_identity *identity, enum cache_role role,
                      const struct elf_info *info, const char *name, const char *path)
{
    if (!identity->is_settled)
        return;
    pthread_mutex_lock(&cache_lock);
    struct cached_file *file = &cache[cache_oldest];
    file->role = role;
    file->identity = *identity;
    file->info = *info;
    strcpy(file->name, name);
    strcpy(file->path, path);
    cache_oldest = (cache_oldest + 1) % CACHE_FILES;
    pthread_mutex_unlock(&cache_lock);
}

/* ---- Opening ---- */

int elf_refuse_open(struct elf_problem *problem, int error)
{
    switch (error) {
    case ENOENT:
        return elf_refuse(problem, ENOENT, "Check the spelling, or install it.", "does not exist");
    case ENOTDIR:
        return elf_refuse(problem, ENOTDIR, "Check the spelling.",
                          "has a part of its path that is not a directory");
    case EACCES:
        return elf_refuse(problem, EACCES,
                          "Allow reading with chmod +r, and searching its directories with "
                          "chmod +x.",
                          "may not be read by this user");
    case EPERM: /* files have no such permission */
        return elf_refuse(problem, EPERM,
                          "See the log of this machine's security software, such as fapolicyd.",
                          "may not be opened here: %s", strerror(error));
    default:
        return elf_refuse(problem, error, "Check the path.", "cannot be opened: %s",
                          strerror(error));
    }
}

static int check_regular(const struct stat *stat, struct elf_problem *problem)
{
    if (S_ISREG(stat->st_mode))
        return 0;
    return elf_refuse(problem, EACCES, "Give the path of a program.",
                      S_ISDIR(stat->st_mode) ? "is a directory" : "is not a regular file");
}

static int check_executable(int fd, int dirfd, const char *path, struct elf_problem *problem)
{
    int status = faccessat(fd, "", X_OK, AT_EACCESS | AT_EMPTY_PATH);
    /* Linux before 5.8, or a seccomp filter that does not know the newer call. */
    if (status != 0 && (errno == EINVAL || errno == ENOSYS || errno == EPERM))
        status = faccessat(dirfd, path, X_OK, AT_EACCESS);
    if (status == 0)
        return 0;
    struct statvfs system;
    if (fstatvfs(fd, &system) == 0 && (system.f_flag & ST_NOEXEC) != 0)
        return elf_refuse(problem, EACCES, "Copy it elsewhere, or mount without noexec.",
                          "is on a file system mounted noexec");
    return elf_refuse(problem, EACCES, "Allow it with chmod +x.", "is not executable by this user");
}

/* A descriptor of a regular file that the user may execute, or -errno. Calls stat before it opens:
 * opening a device can have effects (a tape rewinds, a watchdog starts). The name may refer to
 * another file by then, so the opened file is checked again, and opening never blocks. */
static int open_executable(int dirfd, const char *path, struct elf_problem *problem)
{
    struct stat stat;
    if (fstatat(dirfd, path, &stat, 0) != 0)
        return elf_refuse_open(problem, errno);
    int status = check_regular(&stat, problem);
    if (status != 0)
        return status;
    int fd = openat(dirfd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return elf_refuse_open(problem, errno);
    status =
        fstat(fd, &stat) != 0 ? elf_refuse_open(problem, errno) : check_regular(&stat, problem);
    if (status == 0)
        status = check_executable(fd, dirfd, path, problem);
    if (status == 0)
        return fd;
    close(fd);
    return status;
}

static bool is_same_file(int fd, const char *path)
{
    struct stat open_file, named_file;
    return fstat(fd, &open_file) == 0 && stat(path, &named_file) == 0 &&
           open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

/* The path of the open file without links. /proc has it for any dirfd, but what it has for deleted
 * and unreachable files is not a path, so the result is checked. */
static int real_path(int fd, int dirfd, const char *name, char out[PATH_MAX],
                     struct elf_problem *problem)
{
    char link[PATH_MAX + 64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, out, PATH_MAX);
    if (length > 0 && length < PATH_MAX) {
        out[length] = '\0';
        if (out[0] == '/' && is_same_file(fd, out))
            return 0;
    }
    if (name[0] == '/' || dirfd == AT_FDCWD)
        snprintf(link, sizeof(link), "%s", name);
    else
        snprintf(link, sizeof(link), "/proc/self/fd/%d/%s", dirfd, name);
    char *real = realpath(link, NULL);
    bool fits = real != NULL && strlen(real) < PATH_MAX && is_same_file(fd, real);
    if (fits)
        strcpy(out, real);
    free(real);
    return fits ? 0
                : elf_refuse(problem, ENOENT, "Give a file with a path, and mount /proc.",
                             "has no path by which it could be opened again");
}

/* ---- #! lines, read as the kernel's fs/binfmt_script.c reads them ---- */

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

/* First index in [from, last] whose byte is not blank; last + 1 when there is none. */
static size_t skip_blanks(const char *line, size_t from, size_t last)
{
    while (from <= last && is_blank(line[from]))
        from++;
    return from;
}

/* First index in [from, last] whose byte ends a word; last + 1 when there is none. */
static size_t word_end(const char *line, size_t from, size_t last)
{
    while (from <= last && !is_blank(line[from]) && line[from] != '\0')
        from++;
    return from;
}

/* The kernel's view is kept to the byte, because scripts rely on it: the buffer counts as padded
 * with zeroes; a zero byte before the newline hides the newline; without a newline trailing blanks
 * belong to the argument and an over-long argument is cut. */
bool elf_parse_script_line(const char *start, size_t length, struct elf_script_line *parsed)
{
    char line[ELF_SCRIPT_LINE + 1] = {0};
    const size_t last = ELF_SCRIPT_LINE - 1;
    memcpy(line, start, length <= last ? length : last + 1);
    if (line[0] != '#' || line[1] != '!')
        return false;
    size_t end = strcspn(line, "\n");
    if (line[end] != '\n') {
        size_t name = skip_blanks(line, 2, last);
        if (name > last || word_end(line, name, last) > last)
            return false;
        end = last;
    }
    while (is_blank(line[end - 1]))
        end--;
    size_t name = skip_blanks(line, 2, end);
    if (name >= end)
        return false;
    size_t name_end = word_end(line, name, end);
    size_t argument = end + 1;
    if (name_end <= end && line[name_end] != '\0')
        argument = skip_blanks(line, name_end, end);
    line[end] = '\0';
    parsed->has_argument = argument <= end;
    if (parsed->has_argument)
        line[name_end] = '\0';
    memcpy(parsed->argument, parsed->has_argument ? line + argument : "",
           parsed->has_argument ? strlen(line + argument) + 1 : 1);
    memcpy(parsed->interpreter, line + name, strlen(line + name) + 1);
    return true;
}

/* ---- The chain of #! lines ---- */

/* One candidate on its way through #! lines. */
struct chain {
    int dirfd;
    const char *path;
    bool opened; /* the candidate exists: an ENOENT concerns another file */
    unsigned depth;
    char current[PATH_MAX]; /* path of the current file */
    char **argv;            /* owned; the vector for `current` */
    struct elf_problem *problem;
};

/* A vector of the `count` strings in head and then those of `rest`, in one allocation; NULL without
 * memory. */
static char **compose_vector(const char *const head[], size_t count, char *const rest[])
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

/* Must precede reading: a file that changes meanwhile then has another identity. */
static int identify(int fd, struct file_identity *identity, struct elf_problem *problem)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return elf_refuse_open(problem, errno);
    *identity = file_identity_of(&status);
    return 0;
}

/* Reads the program's interpreter. As in the kernel it is a path: no PATH, no #!. */
static int read_interpreter(struct chain *chain, struct elf_program *program)
{
    const char *name = program->info.interpreter;
    struct elf_problem inner = {0};
    struct file_identity identity = {0};
    if (name[0] == '/' && cache_find_interpreter(name, program))
        return 0;
    int fd = open_executable(chain->dirfd, name, &inner);
    int status = fd < 0 ? fd : identify(fd, &identity, &inner);
    if (status == 0)
        status = elf_read(fd, &program->interpreter_info, &inner);
    if (status == 0)
        status = elf_read_linker(fd, &program->interpreter_info, &inner);
    if (status == 0)
        status = real_path(fd, chain->dirfd, name, program->interpreter_path, &inner);
    if (status == 0)
        cache_add(&identity, CACHED_INTERPRETER, &program->interpreter_info, name,
                  program->interpreter_path);
    if (fd >= 0)
        close(fd);
    if (status == 0)
        return 0;
    bool missing = inner.error == ENOENT || inner.error == ENOTDIR;
    return elf_refuse(chain->problem, inner.error,
                      missing ? "Install the libc it was built for, or set another interpreter "
                                "with patchelf --set-interpreter."
                              : inner.fix,
                      "needs the interpreter %.200s, which %s", name, inner.reason);
}

/* Reads and checks the ELF file at fd, which `name` led to. */
static int read_program(struct chain *chain, int fd, const char *name, struct elf_program *program)
{
    struct elf_problem *problem = chain->problem;
    struct file_identity identity = {0};
    int status = identify(fd, &identity, problem);
    bool is_cached = status == 0 && cache_find_program(&identity, &program->info);
    if (status == 0 && !is_cached)
        status = elf_read(fd, &program->info, problem);
    if (status == 0)
        status = real_path(fd, chain->dirfd, name, program->path, problem);
    if (status == 0)
        status = elf_check_name(program->path, problem);
    if (status == 0 && !is_cached)
        status = elf_check_eligible(fd, &program->info, problem);
    if (status == 0 && !is_cached)
        cache_add(&identity, CACHED_PROGRAM, &program->info, "", "");
    return status;
}

/* Replaces the Python interpreter at the end of the chain by the start program. Its first arguments
 * are the library and the name by which Python finds its virtual environment. */
static int start_python(struct chain *chain, const char *library, struct elf_program *program)
{
    char name[PATH_MAX + 2];
    bool has_slash = strchr(chain->current, '/') != NULL;
    snprintf(name, sizeof(name), "%s%s", has_slash ? "" : "./", chain->current);
    const char *head[] = {chain->argv[0], library, name};
    char **extended = compose_vector(head, 3, chain->argv + 1);
    if (extended == NULL)
        return refuse_memory(chain->problem);
    free(chain->argv);
    chain->argv = extended;
    int fd = open_executable(AT_FDCWD, elf_python_start(), chain->problem);
    int status = fd < 0 ? fd : read_program(chain, fd, elf_python_start(), program);
    if (fd >= 0)
        close(fd);
    return status == 0 ? 0
                       : elf_refuse(chain->problem, ENOEXEC, chain->problem->fix,
                                    "needs the start program %.200s, which %s", elf_python_start(),
                                    chain->problem->reason);
}

/* Tries a file that elf_read refused: 0 if it is a Python that runs from its library. */
static int try_python(struct chain *chain, int fd, struct elf_program *program)
{
    static const struct elf_info nothing;
    char library[PATH_MAX];
    struct elf_problem other;
    if (real_path(fd, chain->dirfd, chain->current, program->requested_path, &other) != 0)
        program->requested_path[0] = '\0';
    int found = elf_python_library(fd, program->requested_path, library, chain->problem);
    if (found <= 0) {
        program->requested_path[0] = '\0';
        return -ENOEXEC;
    }
    int status = elf_check_eligible(fd, &nothing, chain->problem);
    return status == 0 ? start_python(chain, library, program) : status;
}

/* The end of the chain: an ELF file at fd. Reads it and its interpreter, and refuses what cannot be
 * a task. 0, and then chain->argv belongs to the program, or -errno. */
static int finish_chain(struct chain *chain, int fd, struct elf_program *program)
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

static const char DEFAULT_PATH[] = "/bin:/usr/bin";
static const char SHELL[] = "/bin/sh";
static const char GIVE_PROGRAM[] = "Give the path of a program.";

/* Positive, so that no -errno equals it. execve would fail with ENOEXEC, execvp would try /bin/sh.
 */
enum { NOT_A_PROGRAM = 1 };

/* Prefixes the reason with the file of the chain that it concerns. */
static int explain_step(struct chain *chain, int status)
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

/* The program that a line of `env NAME` executes. The search is env's own, made here because a
 * program that a task executes is not a task. All other uses of env, and the error if there is no
 * such program, are left to env. */
static bool find_for_env(const struct chain *chain, const struct elf_script_line *line,
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

/* Follows one #! line: argv becomes [interpreter, argument, script, argv[1]...]. */
static int follow_line(struct chain *chain, const struct elf_script_line *line)
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
    char **extended = compose_vector(head, count, chain->argv + 1);
    if (extended == NULL)
        return refuse_memory(chain->problem);
    free(chain->argv);
    chain->argv = extended;
    strcpy(chain->current, interpreter);
    chain->depth++;
    return 0;
}

/* Reads the current file: 0 with *done if it is the program, 0 without after a #! line,
 * NOT_A_PROGRAM, or -errno. */
static int step(struct chain *chain, struct elf_program *program, bool *done)
{
    char start[ELF_SCRIPT_LINE];
    struct elf_script_line line;
    int fd = open_executable(chain->dirfd, chain->current, chain->problem);
    if (fd < 0)
        return fd;
    chain->opened = true;
    ssize_t length = elf_read_some(fd, start, sizeof(start), 0);
    *done = length >= 0 && length >= SELFMAG && memcmp(start, ELFMAG, SELFMAG) == 0;
    int status = elf_check_name(chain->current, chain->problem);
    if (status == 0 && chain->depth == 0)
        status = elf_check_label(fd, chain->problem);
    if (status == 0 && length < 0)
        status = elf_refuse_open(chain->problem, (int)-length);
    if (status != 0) {
        close(fd);
        return status;
    }
    if (*done || length == 0)
        status = finish_chain(chain, fd, program); /* reports the fault of an empty file */
    else if (elf_parse_script_line(start, (size_t)length, &line))
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
    bool is_empty = argv == NULL || argv[0] == NULL;
    static char *const nothing[] = {NULL};
    bool done = false;
    int status = 0;
    chain->depth = 0;
    chain->argv = is_empty ? compose_vector(empty, 1, nothing) : compose_vector(NULL, 0, argv);
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

/* Tries one candidate. As in execvp, /bin/sh runs what the kernel does not recognise. */
static int try_file(struct chain *chain, const char *file, char *const argv[],
                    struct elf_program *program)
{
    chain->opened = false;
    int status = follow(chain, file, argv, program);
    if (status != NOT_A_PROGRAM)
        return status;
    const char *head[] = {SHELL, file};
    static char *const nothing[] = {NULL};
    bool has_arguments = argv != NULL && argv[0] != NULL;
    char **shell_argv = compose_vector(head, 2, has_arguments ? argv + 1 : nothing);
    if (shell_argv == NULL)
        return refuse_memory(chain->problem);
    status = follow(chain, SHELL, shell_argv, program);
    free(shell_argv);
    if (status == 0)
        return 0;
    if (status == NOT_A_PROGRAM)
        elf_refuse(chain->problem, ENOEXEC, "Install a shell there.", "is not a program either");
    return elf_refuse(chain->problem, chain->problem->error, chain->problem->fix,
                      "is neither a program nor a script with #! and needs %s, which %s", SHELL,
                      chain->problem->reason);
}

/* The errors after which execvpe tries the next directory of PATH. */
static bool search_continues(int status)
{
    return status == -EACCES || status == -ENOENT || status == -ESTALE || status == -ENOTDIR ||
           status == -ENODEV || status == -ETIMEDOUT;
}

/* Reports the most specific of several failures along PATH: a file without permission, else one
 * that exists but lacks something (its interpreter), else that nothing was found. */
static int search(struct chain *chain, const char *file, char *const argv[], const char *path,
                  struct elf_program *program)
{
    struct elf_problem denied = {0}, lacking = {0}, *problem = chain->problem;
    struct stat status_of_file;
    char candidate[PATH_MAX];
    for (const char *at = path, *end;; at = end + 1) {
        int status = -ENOENT;
        if (name_candidate(at, file, candidate, &end)) {
            status = try_file(chain, candidate, argv, program);
            if (!search_continues(status))
                return status;
            /* A file in a directory that may not be searched counts as not found, as in shells. */
            if (status == -EACCES && denied.error == 0 &&
                fstatat(chain->dirfd, candidate, &status_of_file, 0) == 0)
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
    struct elf_problem found_problem = {0};
    path = path != NULL ? path : DEFAULT_PATH;
    struct chain chain = {.dirfd = dirfd, .path = path, .problem = &found_problem};
    struct elf_program found;
    memset(&found, 0, sizeof(found));
    bool has_slash = strchr(file, '/') != NULL;
    int status;
    if (file[0] == '\0')
        status = elf_refuse(&found_problem, ENOENT, GIVE_PROGRAM, "is an empty name");
    else if (strlen(file) >= (has_slash ? PATH_MAX : NAME_MAX + 1))
        status =
            elf_refuse(&found_problem, ENAMETOOLONG, "Give a shorter path.", "has too long a name");
    else if (has_slash)
        status = try_file(&chain, file, argv, &found);
    else
        status = search(&chain, file, argv, path, &found);
    if (status == 0)
        *program = found;
    else if (problem != NULL)
        *problem = found_problem;
    return status;
}

void elf_program_free(struct elf_program *program)
{
    free(program->argv);
    program->argv = NULL;
}
