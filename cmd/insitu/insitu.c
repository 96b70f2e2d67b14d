/* cmd/insitu/insitu.c: onespace insitu: its options, the space of a channel, and `dump`. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/insitu/insitu.h"
#include "cmd/lib/options.h"
#include "cmd/ps/ps.h"
#include "launch/launch.h"
#include "onespace.h"
#include "onespace/insitu.h"

enum { WORDS_MAX = 64 };

/* ---- Joining the space of a channel ---- */

int insitu_is_task(void)
{
    return onespace_self() > 0;
}

struct search {
    const char *channel;
    char name[64]; /* of the first space that has it, if it is this user's */
    int root_pid;
    unsigned spaces;
    struct ps_key key; /* of the first */
};

static int visit(struct ps_space *space, void *context)
{
    struct search *search = context;
    for (unsigned i = 0; i < space->channel_count; i++) {
        if (strcmp(space->channels[i].name, search->channel) != 0)
            continue;
        if (search->spaces == 0) {
            snprintf(search->name, sizeof(search->name), "%s", space->name);
            search->root_pid = space->root_pid;
        }
        return 1;
    }
    return 0;
}

static void visited(const struct ps_key *key, int has_channel, void *context)
{
    struct search *search = context;
    if (has_channel && search->spaces++ == 0)
        search->key = *key;
}

/* Only the host of a space accepts tasks from outside. */
static int has_host(const char *name)
{
    int socket = *name ? host_find(name) : -1;
    if (socket >= 0)
        close(socket);
    return socket >= 0;
}

/* The name of the one space that has the channel, or NULL with a message. */
static const char *find_space(const struct insitu_request *request, struct search *search)
{
    const char *verb = request->verb, *channel = request->channel;
    search->channel = channel;
    const struct ps_query query = {
        .context = search, .visit = visit, .visited = visited, .command = "onespace insitu"};
    int count = ps_each(&query);
    if (count < 0) {
        ps_explain("onespace insitu", NULL, count);
        return NULL;
    }
    if (search->spaces == 0)
        fprintf(stderr,
                "onespace insitu %s: no space that you may look at has a channel '%s': `onespace "
                "ps` lists channels; with --space NAME it is waited for\n",
                verb, channel);
    else if (search->spaces > 1)
        fprintf(stderr,
                "onespace insitu %s: %u spaces have a channel '%s': say which one with --space "
                "NAME; `onespace ps` lists them\n",
                verb, search->spaces, channel);
    else if (search->key.user != geteuid())
        fprintf(stderr,
                "onespace insitu %s: the space of channel '%s' is that of user %u: run this as "
                "that user\n",
                verb, channel, (unsigned)search->key.user);
    else if (!has_host(search->name))
        fprintf(stderr,
                "onespace insitu %s: the space of channel '%s' (root %d) takes no tasks from "
                "outside: start its programs with `onespace run --space NAME` or under a "
                "launcher, or this one with them: `onespace run ./simulation : onespace insitu %s "
                "%s`\n",
                verb, channel, search->root_pid, verb, channel);
    else
        return search->name;
    return NULL;
}

int insitu_become_task(const struct insitu_request *request, const char *const *first,
                       char *const *rest)
{
    struct search search = {0};
    const char *space = request->space ? request->space : find_space(request, &search);
    const char *words[WORDS_MAX] = {"onespace", "run", "--space", space, "--"};
    size_t count = 5;
    if (!space)
        return 1;
    for (int part = 0; part < 2; part++)
        for (const char *const *word = part ? (const char *const *)rest : first; *word; word++)
            if (count < WORDS_MAX - 1)
                words[count++] = *word;
    execv("/proc/self/exe", (char *const *)words);
    fprintf(stderr, "onespace insitu: cannot execute itself: %s\n", strerror(errno));
    return 1;
}

/* ---- dump: starts onespace.dump of the Python package, which writes the steps to files ---- */

extern char **environ;

static const char *python(void)
{
    const char *given = getenv("ONESPACE_PYTHON");
    return given && *given ? given : "python3";
}

/* Called before this process joins the space. 0, or -1 with a message. */
static int check_python(void)
{
    char *words[] = {(char *)python(), "-c",
                     "import sys\n"
                     "try:\n    import onespace.dump\n"
                     "except ImportError as error:\n    sys.exit(f'onespace insitu dump: {error}')",
                     NULL};
    int pid, status, error = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);
    if (error) {
        fprintf(stderr,
                "onespace insitu dump: cannot run %s: %s: install Python (Debian package python3), "
                "or name it in ONESPACE_PYTHON\n",
                words[0], strerror(error));
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status == 0)
        return 0;
    fprintf(stderr,
            "onespace insitu dump: %s cannot use the package onespace: install it for that "
            "interpreter (Debian package python3-onespace, or the wheel), or name another one in "
            "ONESPACE_PYTHON\n",
            words[0]);
    return -1;
}

static void fill_words(const struct insitu_request *request, const char **words)
{
    const char *const first[] = {python(), "-m", "onespace.dump", "--wait", request->wait};
    unsigned count = sizeof(first) / sizeof(first[0]);
    memcpy(words, first, sizeof(first));
    if (request->output) {
        words[count++] = "--output";
        words[count++] = request->output;
    }
    if (request->count) {
        words[count++] = "--count";
        words[count++] = request->count;
    }
    if (request->every)
        words[count++] = "--every";
    words[count++] = "--";
    words[count++] = request->channel;
    words[count] = NULL;
}

/* A task that executed Python would leave the space, so Python is started as another task. Signals
 * that would end this process are forwarded to it. */
static int run_as_task(char *const *words)
{
    enum { POLL_MS = 100 };
    struct onespace_status status;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    int task = onespace_spawn(words[0], words, NULL, NULL);
    if (task < 0) {
        fprintf(stderr, "onespace insitu dump: cannot start %s as a task: %s\n", words[0],
                strerror(-task));
        return 1;
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    while (onespace_wait(task, &status, POLL_MS) == -ETIMEDOUT) {
        static const struct timespec none;
        int number = sigtimedwait(&set, NULL, &none);
        if (number > 0)
            (void)!onespace_kill(task, number);
    }
    return WIFEXITED(status.status) ? WEXITSTATUS(status.status) : 128 + WTERMSIG(status.status);
}

int insitu_dump(const struct insitu_request *request)
{
    const char *words[WORDS_MAX];
    char *const none[] = {NULL};
    fill_words(request, words);
    if (check_python() < 0)
        return 1;
    if (!request->space && insitu_is_task())
        return run_as_task((char *const *)words);
    return insitu_become_task(request, words, none);
}

/* ---- The command ---- */

const char insitu_help[] =
    "usage: onespace insitu watch [--interval SECONDS] [-n N] [--space NAME] [--wait SECONDS] "
    "CHANNEL\n"
    "usage: onespace insitu dump [-o FILE] [--every] [-n N] [--space NAME] [--wait SECONDS] "
    "CHANNEL\n"
    "\n"
    "Takes steps of a channel (onespace/insitu.h) as one more consumer. watch shows the steps "
    "per second and, for each array of the newest step, the smallest and the largest element. "
    "dump writes steps to files: HDF5 with a group for each step (.h5, .hdf5), or NumPy with a "
    "file for each step (.npz).\n"
    "\n"
    "      --interval SECONDS  time between two outputs (watch; default 2)\n"
    "  -n, --count N  end after N outputs or steps (default: when the channel closes)\n"
    "  -o, --output FILE  NAME.h5, NAME.hdf5 or NAME.npz (dump; default: CHANNEL.h5, without "
    "h5py CHANNEL.npz)\n"
    "      --every  write each step, so that the producer waits (dump; default: the newest)\n"
    "      --space NAME  the space of the channel (default: the only one that has it)\n"
    "      --wait SECONDS  how long to wait for the channel (default 60)\n"
    "  -h, --help  print this help\n"
    "\n"
    "  MIN, MAX  smallest and largest number among the elements of all ranks\n"
    "  NAN  elements that are not a number\n"
    "  SHAPE  shape of the global array; if there is none, the number of ranks with a part, and "
    "the first part's shape\n"
    "\n"
    "The command joins the space if its programs run under a launcher or with --space. "
    "Otherwise start it with them: `onespace run ./simulation : onespace insitu watch CHANNEL`. "
    "dump needs a Python with the package onespace: python3, or the one that ONESPACE_PYTHON "
    "names.\n"
    "\n"
    "Exit status: 0; 1 if there is no such channel, its producer died or a file cannot be "
    "written; 2 on a usage error.\n";

static int refuse(const char *what, const char *value, const char *why)
{
    fprintf(stderr, "onespace insitu: %s%s%s: %s. Try `onespace insitu --help`.\n", what,
            *value ? " " : "", value, why);
    return 2;
}

static int is_seconds(const char *text, double least, double *seconds)
{
    enum { MOST = 86400 };
    char *end;
    *seconds = strtod(text, &end);
    return end != text && !*end && *seconds >= least && *seconds <= MOST;
}

static int is_count(const char *text)
{
    return *text && strlen(text) <= 9 && strspn(text, "0123456789") == strlen(text) &&
           strspn(text, "0") < strlen(text);
}

/* 0, or 2 with a message. */
static int check_numbers(const char *interval, struct insitu_request *request)
{
    double seconds;
    if (!is_seconds(interval, 0.01, &request->interval))
        return refuse("--interval", interval, "give seconds from 0.01 to 86400");
    if (!is_seconds(request->wait, 0, &seconds))
        return refuse("--wait", request->wait, "give seconds from 0 to 86400");
    if (request->count && !is_count(request->count))
        return refuse("--count", request->count, "give a number from 1 on");
    return 0;
}

/* Checks the words that are not options: 0, or 2 with a message. */
static int check_words(int count, char **words, struct insitu_request *request)
{
    if (!request->verb)
        return refuse("say what to do first", "", "watch or dump");
    int is_watch = strcmp(request->verb, "watch") == 0;
    if (!is_watch && strcmp(request->verb, "dump") != 0)
        return refuse("it cannot do", request->verb, "give watch or dump");
    if (count != 1)
        return refuse(request->verb, "", count < 1 ? "name a channel" : "one channel at a time");
    request->channel = words[0];
    if (!*words[0] || strlen(words[0]) > ONESPACE_INSITU_NAME_MAX)
        return refuse("channel", words[0], "names have 1 to 63 bytes");
    if (is_watch && (request->output || request->every))
        return refuse(request->output ? "--output" : "--every", "", "is an option of dump");
    return 0;
}

int command_insitu(int argc, char **argv)
{
    static struct insitu_request request = {.wait = "60"};
    static const char *interval = "2";
    static const struct command_option options[] = {
        {"interval", .text = &interval},
        {"count", .text = &request.count, .letter = 'n'},
        {"output", .text = &request.output, .letter = 'o'},
        {"every", .flag = &request.every},
        {"space", .text = &request.space},
        {"wait", .text = &request.wait},
        {"joined", .flag = &request.is_joined}, /* not for users */
        {.name = NULL}};
    if (argc > 1 && argv[1][0] != '-') {
        request.verb = *++argv;
        argv[0] = argv[-1];
        argc--;
    }
    request.words = argv + 1;
    if (options_parse(argc, argv, options, insitu_help) != 0 ||
        check_numbers(interval, &request) != 0 ||
        check_words(argc - optind, argv + optind, &request) != 0)
        return 2;
    return strcmp(request.verb, "watch") == 0 ? insitu_watch(&request) : insitu_dump(&request);
}
