/* src/agent/calls.c: a task that its spawner wants to serve calls (ONESPACE_SPAWN_CALLS).
 *
 * Threads are made by the task's own libonespace, which is loaded for that if the program has none.
 * Only when the program's libraries are ready, right before its main. */
#include <linux/limits.h>
#include <stddef.h>
#include <sys/uio.h>

#include "agent/agent.h"
#include "base/text.h"

extern void *dlopen(const char *, int) WEAK; /* libc's */
extern char *dlerror(void) WEAK;

static main_function *real_main;

/* Callers that wait for the task to serve give up. */
static void refuse(const char *what, const char *why)
{
    agent_self->flags &= ~ONESPACE_SPAWN_CALLS;
    const char *parts[] = {"onespace: the task serves no calls: ", what, why, "\n"};
    struct iovec pieces[4];
    for (int i = 0; i < 4; i++)
        pieces[i] = (struct iovec){(void *)parts[i], text_length(parts[i])};
    raw(__NR_writev, 2, pieces, 4);
}

static void serve(void)
{
    char path[PATH_MAX];
    if (!dlopen || !dlsym || sibling_path("libonespace.so.0", path, sizeof(path)) < 0) {
        refuse("its libc cannot load libonespace.so.0", "");
        return;
    }
    void *library = dlopen("libonespace.so.0", RTLD_NOW | RTLD_NOLOAD);
    if (!library)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int (*begin)(void) = library ? (int (*)(void))dlsym(library, "onespace_call_serve") : NULL;
    const char *(*message)(void) =
        library ? (const char *(*)(void))dlsym(library, "onespace_call_message") : NULL;
    if (!begin || !message)
        refuse("libonespace.so.0 cannot be loaded: ", dlerror ? dlerror() : "");
    else if (begin() < 0)
        refuse("", message());
}

static int serve_and_run(int argc, char **argv, char **envp)
{
    serve();
    return real_main(argc, argv, envp);
}

main_function *main_with_call_donors(main_function *main)
{
    real_main = main;
    return serve_and_run;
}
