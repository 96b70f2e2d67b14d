/* cmd/insitu/join.c: find the space of a channel, and become a task of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/insitu/insitu.h"
#include "cmd/ps/channels.h"
#include "cmd/ps/ps.h"
#include "host/host.h"

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

/* Only a host takes tasks from outside. */
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

int insitu_become_task(const struct insitu_request *request, char *const *program)
{
    struct search search = {0};
    const char *space = request->space ? request->space : find_space(request, &search);
    unsigned count = 0;
    if (!space)
        return 1;
    while (program[count])
        count++;
    const char **words = calloc(count + 6, sizeof(*words));
    if (!words)
        return fprintf(stderr, "onespace insitu: out of memory\n"), 1;
    const char *const first[] = {"onespace", "run", "--space", space, "--"};
    memcpy(words, first, sizeof(first));
    memcpy(words + 5, program, count * sizeof(*words));
    execv("/proc/self/exe", (char *const *)words);
    fprintf(stderr, "onespace insitu: cannot execute itself: %s\n", strerror(errno));
    free(words);
    return 1;
}
