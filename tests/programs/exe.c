/* tests/programs/exe.c: programs that ask what they are, and run themselves. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scene.h"

static void say_link(const char *how, const char *text, ssize_t size)
{
    printf("%s %zd %.*s\n", how, size, size > 0 ? (int)size : 0, text);
}

SCENE(read)
{
    char text[PATH_MAX], by_pid[64], short_text[5] = "";
    say_link("readlink", text, readlink("/proc/self/exe", text, sizeof(text)));
    say_link("thread-self", text, readlink("/proc/thread-self/exe", text, sizeof(text)));
    snprintf(by_pid, sizeof(by_pid), "/proc/%d/exe", getpid());
    say_link("pid", text, readlink(by_pid, text, sizeof(text)));
    say_link("readlinkat", text, readlinkat(AT_FDCWD, "/proc/self/exe", text, sizeof(text)));
    say_link("short", short_text, readlink("/proc/self/exe", short_text, 4));
    printf("zero %zd %s\n", readlink("/proc/self/exe", text, 0), strerror(errno));
    printf("realpath %s\n", realpath("/proc/self/exe", text));
    say_link("another link", text, readlink("/proc/self/cwd", text, sizeof(text)) > 0);
    printf("argv[0] %s\n", program_invocation_name);
    printf("environ %d\n", getenv("HOME") != NULL);
    return 0;
}

SCENE(again)
{
    char *words[] = {"myself", "second", argc > 1 ? argv[1] : "nothing", NULL};
    execv("/proc/self/exe", words);
    return 1;
}

SCENE(second)
{
    printf("%s runs again with %s\n", program_invocation_name, argv[1]);
    return 17;
}

SCENE(child)
{
    char *words[] = {"myself", "second", "a child", NULL};
    int status;
    pid_t child = fork();
    if (child == 0) {
        execv("/proc/self/exe", words);
        _exit(1);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}

/* By a path relative to where it lies. */
SCENE(origin)
{
    const char *name = (const char *)getauxval(AT_EXECFN);
    printf("%d\n", name && access(name, X_OK) == 0);
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
