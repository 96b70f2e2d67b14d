/* cmd/insitu/dump.c: onespace insitu dump: starts onespace.dump, of the Python package, which takes
 * the steps of a channel and writes them to files. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cmd/insitu/insitu.h"
#include "onespace.h"

extern char **environ;

enum { WORDS_MOST = 16 };

static const char *python(void)
{
    const char *given = getenv("ONESPACE_PYTHON");
    return given && *given ? given : "python3";
}

/* Before anything joins the space: 0, or -1 with a message. */
static int check_python(void)
{
    char *words[] = {(char *)python(), "-c", "__import__('onespace.dump')", NULL};
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

/* A task that executed Python would leave the space, so Python becomes one more. Signals that would
 * end this program go to it. */
static int run_beside(char *const *words)
{
    enum { LOOK_MS = 100 };
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
    while (onespace_wait(task, &status, LOOK_MS) == -ETIMEDOUT) {
        static const struct timespec none;
        int number = sigtimedwait(&set, NULL, &none);
        if (number > 0)
            (void)!onespace_kill(task, number);
    }
    return WIFEXITED(status.status) ? WEXITSTATUS(status.status) : 128 + WTERMSIG(status.status);
}

int insitu_dump(const struct insitu_request *request)
{
    const char *words[WORDS_MOST];
    fill_words(request, words);
    if (check_python() < 0)
        return 1;
    if (!request->space && insitu_is_task())
        return run_beside((char *const *)words);
    return insitu_become_task(request, (char *const *)words);
}
