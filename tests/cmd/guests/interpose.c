/* tests/cmd/guests/interpose.c: a preloaded library that shows a command another machine: the files
 * below FAKE_ROOT in place of those of the same path, of directories those in /sys/class,
 * FAKE_RELEASE and FAKE_VERSION as the kernel's, and with FAKE_NO_PTRACE other processes' memory
 * forbidden, as under Yama. With FAKE_STOP a process that becomes another user is stopped. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *place(const char *path, char text[4096])
{
    struct stat status;
    const char *root = getenv("FAKE_ROOT");
    if (!root || path[0] != '/')
        return path;
    snprintf(text, 4096, "%s%s", root, path);
    return stat(text, &status) == 0 ? text : path;
}

static int is_memory(const char *path)
{
    size_t length = strlen(path);
    return getenv("FAKE_NO_PTRACE") && length > 4 && strcmp(path + length - 4, "/mem") == 0;
}

int open(const char *path, int flags, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, flags);
    int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if (is_memory(path)) {
        errno = EACCES;
        return -1;
    }
    return openat(AT_FDCWD, flags & O_DIRECTORY ? path : place(path, text), flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
    char text[4096];
    FILE *(*next)(const char *, const char *) =
        (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    return next(place(path, text), mode);
}

DIR *opendir(const char *path)
{
    char text[4096];
    DIR *(*next)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");
    return next(strncmp(path, "/sys/class/", 11) == 0 ? place(path, text) : path);
}

int uname(struct utsname *names)
{
    int (*next)(struct utsname *) = (int (*)(struct utsname *))dlsym(RTLD_NEXT, "uname");
    int result = next(names);
    const char *release = getenv("FAKE_RELEASE");
    const char *version = getenv("FAKE_VERSION");
    if (result == 0 && release)
        snprintf(names->release, sizeof(names->release), "%s", release);
    if (result == 0 && version)
        snprintf(names->version, sizeof(names->version), "%s", version);
    return result;
}

/* FAKE_STOP: as a user may do to a process that has become the user's. */
int setresuid(uid_t real, uid_t effective, uid_t saved)
{
    int (*next)(uid_t, uid_t, uid_t) = (int (*)(uid_t, uid_t, uid_t))dlsym(RTLD_NEXT, "setresuid");
    int result = next(real, effective, saved);
    if (getenv("FAKE_STOP"))
        raise(SIGSTOP);
    return result;
}

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    ssize_t (*next)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                    unsigned long) =
        (ssize_t(*)(pid_t, const struct iovec *, unsigned long, const struct iovec *, unsigned long,
                    unsigned long))dlsym(RTLD_NEXT, "process_vm_readv");
    if (getenv("FAKE_NO_PTRACE")) {
        errno = EPERM;
        return -1;
    }
    return next(pid, local, local_count, remote, remote_count, flags);
}
