/* cmd/mpiexec/mpiexec.c: onespace mpiexec: executes a launcher's command line with `onespace run`
 * before each program, so that signals, output and exit status are the launcher's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/doctor/doctor.h"
#include "cmd/lib/files.h"
#include "cmd/lib/options.h"
#include "cmd/mpiexec/mpiexec.h"
#include "cmd/run/run.h"
#include "spawn/spawn.h"

/* ---- The MPI library that a program needs ----
 *
 * The program's own dynamic linker tells which file that is, with all effects of RUNPATH and
 * LD_LIBRARY_PATH, without running the program. */

enum { LIST_TIMEOUT_MS = 20000 };

struct mpi_library {
    char path[PATH_MAX];    /* of its libmpi, empty: it needs none */
    enum mpi_family family; /* whose launchers can start it; MPI_FAMILY_UNKNOWN: all can */
    char command[PATH_MAX]; /* the program, or the interpreter of a script, as the user named it
                               or PATH has it; empty: not found */
};

/* Names of libraries with MPI_Init in them, up to a ".", and whose launchers start their ranks. */
static const struct {
    const char *name;
    enum mpi_family family;
} libraries[] = {
    {"libmpi.so.12", MPI_FAMILY_HYDRA}, /* the common binary interface of MPICH and others */
    {"libmpich.so", MPI_FAMILY_HYDRA},
    {"libmpi_abi.so", MPI_FAMILY_UNKNOWN},
    {"libmpi.so", MPI_FAMILY_OPENMPI},
};

static int is_name(const char *name, size_t length, const char *wanted)
{
    size_t size = strlen(wanted);
    return length >= size && strncmp(name, wanted, size) == 0 &&
           (length == size || name[size] == '.');
}

/* One line of the list: "\tNAME => PATH (0xADDRESS)". 1 when it is an MPI library. */
static int read_line(const char *line, struct mpi_library *library)
{
    const char *name = line + strspn(line, " \t"), *arrow = strstr(name, " => ");
    size_t length = strcspn(name, " ");
    if (!arrow || arrow[4] != '/')
        return 0;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (is_name(name, length, libraries[i].name)) {
            const char *end = strstr(arrow + 4, " (0x");
            snprintf(library->path, sizeof(library->path), "%.*s",
                     end ? (int)(end - arrow - 4) : (int)strlen(arrow + 4), arrow + 4);
            library->family = libraries[i].family;
            return 1;
        }
    return 0;
}

static void ask_linker(const struct elf_program *program, struct mpi_library *library)
{
    static char list[1 << 18];
    char *argv[] = {(char *)program->interpreter_path, "--list", (char *)program->path, NULL};
    char *save;
    if (doctor_command(argv, list, sizeof(list), LIST_TIMEOUT_MS) != 0)
        return;
    for (char *line = strtok_r(list, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        if (read_line(line, library))
            return;
}

/* Asks the program's own dynamic linker. 0; -ENOEXEC with a message: it cannot be a task. What is
 * not found here may be there where the launcher starts it. */
static int find_mpi_library(const char *program, struct mpi_library *library, char *message,
                            int size)
{
    static struct elf_program found;
    struct elf_problem problem;
    char *argv[] = {(char *)program, NULL};
    *library = (struct mpi_library){.family = MPI_FAMILY_UNKNOWN};
    int status = resolve_program(AT_FDCWD, program, argv, getenv("PATH"), &found, &problem);
    if (status == -ENOEXEC) {
        snprintf(message, (size_t)size, "%s: %s: %s", program, problem.reason, problem.fix);
        return status;
    }
    if (status < 0)
        return 0;
    (void)path_find(found.argv[0], library->command);
    if (!found.requested_path[0] && found.interpreter_path[0])
        ask_linker(&found, library);
    elf_program_free(&found);
    return 0;
}

/* ---- The launcher that starts the ranks of a program ---- */

struct mpi_launcher {
    char path[PATH_MAX];
    enum mpi_family family;
    char kind[MPI_KIND_SIZE];
    int is_guess; /* nothing says that it is the program's MPI's */
};

static const char *const names[] = {"mpiexec.mpich", "mpiexec.hydra", "mpiexec.openmpi",
                                    "mpiexec",       "mpirun",        NULL};
/* For a program without an MPI library: the launcher that the user means by these names. */
static const char *const plain_names[] = {"mpiexec", "mpirun", NULL};

/* Whether the file is a launcher that starts ranks of this family; MPI_FAMILY_UNKNOWN: of any. */
static int try_file(const char *path, enum mpi_family wanted, struct mpi_launcher *launcher)
{
    if (access(path, X_OK) != 0 || mpi_ask_launcher(path, &launcher->family, launcher->kind) != 0)
        return 0;
    if (wanted != MPI_FAMILY_UNKNOWN && launcher->family != wanted)
        return 0;
    snprintf(launcher->path, sizeof(launcher->path), "%s", path);
    return 1;
}

static int try_directory(const char *directory, int length, const char *const candidates[],
                         enum mpi_family wanted, struct mpi_launcher *launcher)
{
    char path[PATH_MAX];
    for (size_t i = 0; candidates[i]; i++)
        if (snprintf(path, sizeof(path), "%.*s/%s", length, directory, candidates[i]) <
                (int)sizeof(path) &&
            try_file(path, wanted, launcher))
            return 1;
    return 0;
}

static int try_path(const char *const candidates[], enum mpi_family wanted,
                    struct mpi_launcher *launcher)
{
    int length;
    for (const char *list = path_list(), *directory; (directory = path_next(&list, &length));)
        if (try_directory(directory, length, candidates, wanted, launcher))
            return 1;
    return 0;
}

/* Whether only root and this user decide what the path names: theirs are the file and all
 * directories above, and no other user may write there. In a directory with the sticky bit, such as
 * /tmp, other users cannot replace what is below, but the prefix and its bin must not be such. */
static int is_trusted(const char *path)
{
    char *real = realpath(path, NULL);
    struct stat status;
    int is_safe = real != NULL;
    for (unsigned above = 0; is_safe && *real; above++) {
        is_safe = stat(real, &status) == 0 && (status.st_uid == 0 || status.st_uid == geteuid()) &&
                  (!(status.st_mode & S_IWOTH) || (above > 2 && (status.st_mode & S_ISVTX)));
        *strrchr(real, '/') = 0;
    }
    free(real);
    return is_safe;
}

/* PREFIX/lib/libmpi.so.12, PREFIX/lib/x86_64-linux-gnu/openmpi/lib/libmpi.so.40, …: PREFIX/bin. The
 * candidates are executed to learn of what kind they are. */
static int try_above(const char *library, enum mpi_family wanted, struct mpi_launcher *launcher)
{
    char *real = realpath(library, NULL), path[PATH_MAX];
    int found = 0;
    for (char *slash; real && !found && (slash = strrchr(real, '/')); *slash = 0) {
        const char *name = slash + 1;
        if (strcmp(name, "lib") != 0 && strcmp(name, "lib64") != 0)
            continue;
        for (size_t i = 0; names[i] && !found; i++)
            found = snprintf(path, sizeof(path), "%.*s/bin/%s", (int)(slash - real), real,
                             names[i]) < (int)sizeof(path) &&
                    is_trusted(path) && try_file(path, wanted, launcher);
    }
    free(real);
    return found;
}

/* The launcher that the user named. 0 or -ENOENT with a message. */
static int find_named_launcher(const char *name, struct mpi_launcher *launcher, char *message,
                               int size)
{
    const char *const only[] = {name, NULL};
    *launcher = (struct mpi_launcher){.is_guess = 0};
    if (strchr(name, '/') ? try_file(name, MPI_FAMILY_UNKNOWN, launcher)
                          : try_path(only, MPI_FAMILY_UNKNOWN, launcher))
        return 0;
    if (launcher->kind[0])
        snprintf(message, (size_t)size, "--launcher %s: %s --version fails: %s", name, name,
                 launcher->kind);
    else
        snprintf(message, (size_t)size,
                 "--launcher %s: there is no such program that answers to --version", name);
    return -ENOENT;
}

/* Whether the directory is bin of a Python environment, whose packages belong together. */
static int is_environment(const char *directory, int length)
{
    static const char *const marks[] = {"../pyvenv.cfg", "../conda-meta"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        if (snprintf(path, sizeof(path), "%.*s/%s", length, directory, marks[i]) <
                (int)sizeof(path) &&
            access(path, F_OK) == 0)
            return 1;
    return 0;
}

static int guess(const struct mpi_library *library, struct mpi_launcher *launcher)
{
    const char *directory = library->command, *slash = strrchr(directory, '/');
    int length = slash ? (int)(slash - directory) : 0;
    launcher->is_guess = 1;
    return (slash && is_environment(directory, length) &&
            try_directory(directory, length, plain_names, MPI_FAMILY_UNKNOWN, launcher)) ||
           try_path(plain_names, MPI_FAMILY_UNKNOWN, launcher);
}

/* The launcher of this MPI library: in a bin directory above it, else in PATH. For a program
 * without an MPI library: beside it, if that is a Python environment, else the mpiexec in PATH. 0
 * or -ENOENT with a message. */
static int choose_launcher(const struct mpi_library *library, struct mpi_launcher *launcher,
                           char *message, int size)
{
    *launcher = (struct mpi_launcher){.is_guess = 0};
    if (!library->path[0]) {
        if (guess(library, launcher))
            return 0;
        snprintf(message, (size_t)size,
                 "there is no mpiexec in PATH: name the launcher of your MPI with --launcher");
        return -ENOENT;
    }
    if (try_above(library->path, library->family, launcher) ||
        try_path(names, library->family, launcher))
        return 0;
    snprintf(message, (size_t)size,
             "no launcher of %.1024s is beside it or in PATH: name it with --launcher",
             library->path);
    return -ENOENT;
}

/* ---- The command ---- */

const char mpiexec_help[] =
    "usage: onespace mpiexec [--launcher PATH] [--onespace OPTIONS] [--print]\n"
    "           [LAUNCHER-OPTION...] [--] PROGRAM [ARGUMENT...]\n"
    "           [: [LAUNCHER-OPTION...] [--] PROGRAM [ARGUMENT...]]...\n"
    "\n"
    "Starts MPI ranks as tasks: calls the launcher of the program's own MPI with `onespace run` "
    "before each program, and passes everything else on. These options come before those of "
    "the launcher:\n"
    "\n"
    "      --launcher PATH  call this launcher, not that of the libmpi that the program needs\n"
    "      --onespace OPTIONS  options of onespace run, in one word: \"--stats\". Long ones "
    "can also stand alone: here, and among the launcher's if it has none of that name\n"
    "      --print  print the command line and run nothing; without a program, print the words "
    "before each program\n"
    "  -h, --help  print this help\n"
    "\n"
    "Options of the launcher that onespace does not know need -- before the program.\n"
    "Exit status: that of the launcher; 2 on a usage error; 126 if the program cannot be a "
    "task; 127 if there is no launcher.\n";

struct request {
    char *launcher;                   /* named by the user, or NULL */
    char *run_options;                /* of onespace run in one word, or NULL */
    char *run[MPIEXEC_RUN_WORDS_MAX]; /* all words of such options */
    int run_count;
    int is_printed;
    int argc; /* of the launcher's options, and the programs */
    char **argv;
};

static int complain(int status, const char *message)
{
    fprintf(stderr, "onespace mpiexec: %s\n", message);
    return status;
}

/* ---- Options ---- */

/* If argv[*at] is this option, with its value in the same or in the next word: steps over it. 1, 0
 * when it is another, or -1 with a message. */
static int read_option(char **argv, int *at, const char *name, char **value)
{
    size_t length = strlen(name);
    char *word = argv[*at];
    if (strncmp(word, name, length) != 0 || (word[length] && (!value || word[length] != '=')))
        return 0;
    if (value && !word[length] && !argv[*at + 1]) {
        fprintf(stderr, "onespace mpiexec: %s needs an argument\n", name);
        return -1;
    }
    if (value)
        *value = word[length] ? word + length + 1 : argv[++*at];
    ++*at;
    return 1;
}

/* Keeps a word of an option of `onespace run`. 0, or -1 with a message. */
static int add_run_word(struct request *request, char *word)
{
    if (request->run_count == MPIEXEC_RUN_WORDS_MAX)
        return complain(-1, "there are too many options of onespace run");
    request->run[request->run_count++] = word;
    return 0;
}

/* As read_option, for an option of `onespace run`. */
static int read_run_option(int argc, char **argv, int *at, struct request *request)
{
    int count = run_option_words(argv[*at]);
    if (*at + count > argc) {
        fprintf(stderr, "onespace mpiexec: %s needs an argument\n", argv[*at]);
        return -1;
    }
    for (int i = 0; i < count; i++)
        if (add_run_word(request, argv[(*at)++]) < 0)
            return -1;
    return count > 0;
}

static int parse(int argc, char **argv, struct request *request)
{
    int at = 1, status = 1;
    while (status == 1 && at < argc) {
        if (strcmp(argv[at], "-h") == 0 || strcmp(argv[at], "--help") == 0) {
            help_print(stdout, mpiexec_help);
            exit(0);
        }
        status = read_option(argv, &at, "--launcher", &request->launcher);
        if (status == 0)
            status = read_option(argv, &at, "--onespace", &request->run_options);
        if (status == 0)
            request->is_printed |= (status = read_option(argv, &at, "--print", NULL));
        if (status == 0)
            status = read_run_option(argc, argv, &at, request);
    }
    request->argc = argc - at;
    request->argv = argv + at;
    return status < 0 ? -1 : 0;
}

/* Splits --onespace. 0, or -1 with a message. */
static int split_run_options(struct request *request)
{
    char *save;
    char *word = request->run_options ? strtok_r(request->run_options, " \t", &save) : NULL;
    for (; word; word = strtok_r(NULL, " \t", &save))
        if (add_run_word(request, word) < 0)
            return -1;
    return 0;
}

/* 0, or -1 with a message: a wrong option is said once here, not by each rank. */
static int check_run_options(const struct request *request)
{
    static char name[] = "run", program[] = "program";
    static struct run_options run;
    int count = request->run_count;
    char *copy[MPIEXEC_RUN_WORDS_MAX + 3];
    memset(&run, 0, sizeof(run));
    copy[0] = name;
    memcpy(copy + 1, request->run, (size_t)count * sizeof(*copy));
    copy[1 + count] = program;
    copy[2 + count] = NULL;
    if (run_parse(2 + count, copy, &run) < 0)
        return -1;
    if (run.segments[0].argv != copy + 1 + count || run.segment_count > 1)
        return complain(-1, "--onespace takes options of onespace run alone, without a program");
    if (run.count_given)
        return complain(-1, "-n in --onespace: give the launcher the count instead");
    return 0;
}

static int has_onespace_run(const struct request *request, const struct mpiexec_part *part)
{
    const char *program = request->argv[part->program], *slash = strrchr(program, '/');
    return strcmp(slash ? slash + 1 : program, "onespace") == 0 && part->program + 1 < part->end &&
           strcmp(request->argv[part->program + 1], "run") == 0;
}

/* The options of `onespace run` among those of the launcher. 0, or -1 with a message. */
static int take_run_options(struct request *request, const struct mpiexec_words *words)
{
    for (int i = 0; i < words->run_count; i++)
        if (add_run_word(request, request->argv[words->run[i]]) < 0)
            return -1;
    for (int p = 0; p < words->count && request->run_count; p++)
        if (has_onespace_run(request, &words->parts[p]))
            return complain(-1,
                            "the program is `onespace run` already: put its options after that");
    return words->run_count ? check_run_options(request) : 0;
}

/* ---- The launcher ---- */

/* Reads the options as Hydra's and as Open MPI's. The reading that leads to a program of that MPI
 * wins, then one that leads to a program of another MPI, then any other. 0, or an exit status. */
static int find_library(const struct request *request, struct mpiexec_words *words,
                        struct mpi_library *library)
{
    static const enum mpi_family families[] = {MPI_FAMILY_HYDRA, MPI_FAMILY_OPENMPI};
    struct mpi_library found;
    char message[2048];
    int best = 0;
    for (int i = 0; i < 2 && best < 3; i++) {
        if (mpiexec_split(families[i], request->argc, request->argv, words) < 0)
            continue;
        const char *program = request->argv[words->parts[0].program];
        int status = find_mpi_library(program, &found, message, sizeof(message));
        if (status < 0)
            return complain(126, message);
        int is_right =
            found.path[0] && (found.family == MPI_FAMILY_UNKNOWN || found.family == families[i]);
        int rank = is_right ? 3 : found.path[0] ? 2 : 1;
        if (rank > best)
            *library = found;
        best = rank > best ? rank : best;
    }
    return 0;
}

static int find_launcher(const struct request *request, struct mpiexec_words *words,
                         struct mpi_launcher *launcher)
{
    static struct mpi_library library;
    char message[PATH_MAX + 256];
    if (request->launcher) {
        if (find_named_launcher(request->launcher, launcher, message, sizeof(message)) < 0)
            return complain(127, message);
        return 0;
    }
    int status = find_library(request, words, &library);
    if (status)
        return status;
    if (choose_launcher(&library, launcher, message, sizeof(message)) < 0)
        return complain(127, message);
    return 0;
}

/* ---- The command line ---- */

static void print_quoted(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_./:=,+@%^-";
    if (*word && strspn(word, plain) == strlen(word)) {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++)
        if (*word == '\'')
            fputs("'\\''", stdout);
        else
            putchar(*word);
    putchar('\'');
}

static void print_all(char *const *words)
{
    for (int i = 0; words[i]; i++) {
        if (i)
            putchar(' ');
        print_quoted(words[i]);
    }
    putchar('\n');
}

static int is_option(const char *word, const char *name)
{
    size_t dashes = strspn(word, "-");
    return dashes && strcmp(word + dashes, name) == 0;
}

/* Whether an option of the launcher says where programs are looked for: -genv PATH DIRECTORY…,
 * -x PATH=DIRECTORY…, --path DIRECTORY…; -x PATH passes on what is in PATH here. */
static int options_set_path(const struct request *request, const struct mpiexec_words *words)
{
    char *const *argv = request->argv;
    for (int p = 0; p < words->count; p++)
        for (int at = words->parts[p].start; at < words->parts[p].program; at++)
            if (strncmp(argv[at], "PATH=", 5) == 0 || is_option(argv[at], "path") ||
                (strcmp(argv[at], "PATH") == 0 && at > 0 &&
                 (is_option(argv[at - 1], "env") || is_option(argv[at - 1], "genv"))))
                return 1;
    return 0;
}

/* The program as `onespace run` gets it. One that PATH has gets its full path: what the launcher
 * makes of PATH is not what the user sees. Open MPI, called by its full path, puts its own
 * directory first, and with it the system's python3 before a virtual environment's. */
static char *program_word(const struct request *request, const struct mpiexec_words *words, int at)
{
    char path[PATH_MAX];
    if (strchr(request->argv[at], '/') || options_set_path(request, words) ||
        path_find(request->argv[at], path) != 0 || path[0] != '/')
        return request->argv[at];
    char *found = strdup(path); /* kept: this process becomes the launcher */
    return found ? found : request->argv[at];
}

static int is_taken(const struct mpiexec_words *words, int at)
{
    for (int i = 0; i < words->run_count; i++)
        if (words->run[i] == at)
            return 1;
    return 0;
}

static char **compose(const struct request *request, const struct mpiexec_words *words,
                      const struct mpi_launcher *launcher, char *self)
{
    const size_t run_count = (size_t)request->run_count;
    size_t capacity = (size_t)request->argc + 2 + (size_t)words->count * (run_count + 3);
    char **line = calloc(capacity, sizeof(*line));
    int count = 0;
    if (!line)
        return NULL;
    line[count++] = (char *)launcher->path;
    for (int p = 0; p < words->count; p++) {
        const struct mpiexec_part *part = &words->parts[p];
        int is_started = has_onespace_run(request, part);
        if (p > 0)
            line[count++] = ":";
        for (int at = part->start; at < part->end; at++) {
            if (at == part->separator || is_taken(words, at))
                continue;
            if (at == part->program && !is_started) {
                line[count++] = self;
                line[count++] = "run";
                memcpy(line + count, request->run, run_count * sizeof(*line));
                count += (int)run_count;
                line[count++] = program_word(request, words, at);
                continue;
            }
            line[count++] = request->argv[at];
        }
    }
    return line;
}

static void print_guess(const struct request *request, const struct mpiexec_words *words,
                        const struct mpi_launcher *launcher)
{
    fprintf(
        stderr,
        "onespace mpiexec: %s does not say which MPI it uses: calling %s (%s); --launcher names "
        "another\n",
        request->argv[words->parts[0].program], launcher->path, launcher->kind);
}

/* For programs that start ranks without this command: a fork agent, Slurm's plug-in. */
static int print_prefix(const struct request *request, char *self)
{
    char *line[MPIEXEC_RUN_WORDS_MAX + 3] = {self, "run"};
    memcpy(line + 2, request->run, (size_t)request->run_count * sizeof(*line));
    print_all(line);
    return 0;
}

static int run_command(struct request *request)
{
    static struct mpiexec_words words;
    static struct mpi_launcher launcher;
    char message[PATH_MAX + 1024];
    if (split_run_options(request) < 0 || check_run_options(request) < 0)
        return 2;
    char *self = (char *)file_self();
    if (!self)
        return complain(EXIT_FAILURE, "/proc cannot be read; mount it (mount -t proc proc /proc)");
    if (request->argc == 0)
        return print_prefix(request, self);
    int status = find_launcher(request, &words, &launcher);
    if (status)
        return status;
    if (mpiexec_split(launcher.family, request->argc, request->argv, &words) < 0) {
        snprintf(message, sizeof(message), "%s (%s): %s", launcher.path, launcher.kind,
                 words.problem);
        return complain(2, message);
    }
    if (take_run_options(request, &words) < 0)
        return 2;
    if (launcher.is_guess)
        print_guess(request, &words, &launcher);
    char **line = compose(request, &words, &launcher, self);
    if (!line)
        return complain(EXIT_FAILURE, strerror(ENOMEM));
    if (request->is_printed) {
        print_all(line);
        free(line);
        return 0;
    }
    execv(launcher.path, line);
    snprintf(message, sizeof(message), "%s: %s", launcher.path, strerror(errno));
    free(line);
    return complain(127, message);
}

int command_mpiexec(int argc, char **argv)
{
    struct request request = {.argc = 0};
    if (parse(argc, argv, &request) < 0)
        return 2;
    if (request.argc == 0 && !request.is_printed) {
        complain(2, "no program given. Try `onespace mpiexec --help`.");
        return 2;
    }
    return run_command(&request);
}
