/* tests/launch/guests/shm_names.c PREFIX: what a directory of shared memory does with names below
 * it. Prints the result of each call, which must not depend on who keeps the files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static char paths[3][4096];
static const char *path, *other, *missing;

static void say(const char *what, long result)
{
    if (result < 0)
        printf("%s: %s\n", what, strerrorname_np(errno));
    else
        printf("%s: %ld\n", what, result);
}

static int opened(const char *what, const char *name, int flags, mode_t mode)
{
    int fd = open(name, flags, mode);
    say(what, fd < 0 ? -1 : 0);
    return fd;
}

static void test_open(void)
{
    int fd = opened("create", path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    opened("create it again", path, O_RDWR | O_CREAT | O_EXCL, 0600);
    opened("open what is missing", missing, O_RDWR, 0);
    opened("open it as a directory", path, O_RDONLY | O_DIRECTORY, 0);
    say("flags", fcntl(fd, F_GETFD));
    say("truncate", ftruncate(fd, 10000));
    say("write", write(fd, "abcdef", 6));
    int again = opened("open", path, O_RDONLY | O_NOFOLLOW, 0);
    char bytes[4] = "";
    say("its flags", fcntl(again, F_GETFD));
    say("its offset", lseek(again, 0, SEEK_CUR));
    say("read", read(again, bytes, 3));
    printf("%s\n", bytes);
    say("write to what is open for reading", write(again, "x", 1));
    close(again);
    again = opened("open for appending", path, O_WRONLY | O_APPEND, 0);
    say("append", write(again, "end", 3));
    close(again);
    struct stat state;
    fstat(fd, &state);
    say("size", (long)state.st_size);
    say("mode", (long)state.st_mode);
    again = opened("truncate by opening", path, O_RDWR | O_TRUNC | O_CREAT, 0);
    fstat(fd, &state);
    say("size then", (long)state.st_size);
    close(again);
    char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    say("grow", ftruncate(fd, 4096));
    map[5] = 'm';
    say("read what was mapped", pread(fd, bytes, 1, 5));
    munmap(map, 4096);
    close(fd);
}

static void test_stat(void)
{
    struct stat state, same;
    struct statx extended;
    struct statfs system;
    int fd = open(path, O_RDWR);
    fstat(fd, &same);
    say("stat", stat(path, &state));
    say("same inode", state.st_ino == same.st_ino && state.st_dev == same.st_dev);
    say("lstat", lstat(path, &state));
    say("links", (long)state.st_nlink >= 0);
    say("statx", statx(AT_FDCWD, path, 0, STATX_SIZE, &extended));
    say("its size", (long)extended.stx_size);
    say("stat of what is missing", stat(missing, &state));
    say("access", access(path, R_OK | W_OK));
    say("access of what is missing", access(missing, F_OK));
    say("access to the directory", access("/dev/shm", W_OK));
    say("faccessat", faccessat(AT_FDCWD, path, R_OK, 0));
    say("statfs", statfs(path, &system));
    say("is tmpfs", system.f_type == TMPFS_MAGIC);
    say("statfs of the directory", statfs("/dev/shm/", &system));
    say("has memory", system.f_bavail * (unsigned long)system.f_bsize > 1 << 20);
    say("statfs of what is missing", statfs(missing, &system));
    say("statfs with a bad pointer", statfs("/dev/shm", (struct statfs *)8));
    close(fd);
}

static void test_names(void)
{
    struct stat state;
    say("link", link(path, other));
    say("link to a name that is used", link(path, other));
    say("link of what is missing", link(missing, other));
    say("link to another file system", link(path, "/tmp/onespace-none"));
    say("unlink", unlink(path));
    say("unlink again", unlink(path));
    say("the other name", stat(other, &state));
    say("rename", rename(other, path));
    say("the old name", stat(other, &state));
    int fd = open(other, O_RDWR | O_CREAT, 0600);
    say("a second file", ftruncate(fd, 77));
    say("rename without replacing",
        syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, 1 /* RENAME_NOREPLACE */));
    say("rename that replaces", rename(other, path));
    say("stat", stat(path, &state));
    say("size of the second", (long)state.st_size);
    say("rename of what is missing", rename(missing, path));
    say("remove it as a directory", unlinkat(AT_FDCWD, path, AT_REMOVEDIR));
    say("unlinkat", unlinkat(AT_FDCWD, path, 0));
    say("write to a file without a name", write(fd, "x", 1));
    close(fd);
    char name[300] = "/dev/shm/";
    memset(name + 9, 'x', 256);
    opened("a name that is too long", name, O_RDWR | O_CREAT, 0600);
    opened("a name in a directory that is missing", "/dev/shm/onespace-none/x", O_RDWR | O_CREAT,
           0600);
    opened("the directory itself for writing", "/dev/shm", O_RDWR | O_CREAT, 0600);
}

static void test_posix(const char *prefix)
{
    char name[256];
    snprintf(name, sizeof(name), "/%s-posix", prefix);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    say("shm_open", fd < 0 ? -1 : 0);
    say("shm_unlink", shm_unlink(name));
    say("shm_unlink again", shm_unlink(name));
    sem_t *made = sem_open(name, O_CREAT | O_EXCL, 0600, 3), *found = sem_open(name, 0);
    int value = -1;
    say("sem_open", made == SEM_FAILED ? -1 : 0);
    say("sem_open of what is there", found == SEM_FAILED ? -1 : 0);
    say("the same semaphore", found == made);
    say("sem_getvalue", found == SEM_FAILED ? -1 : sem_getvalue(found, &value));
    say("its value", value);
    say("sem_open that must make it",
        sem_open(name, O_CREAT | O_EXCL, 0600, 3) == SEM_FAILED ? -1 : 0);
    say("sem_unlink", sem_unlink(name));
}

int main(int argc, char **argv)
{
    static const char *const suffixes[] = {"", "-other", "-missing"};
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof(paths[i]), "/dev/shm/%s%s", argc > 1 ? argv[1] : "x",
                 suffixes[i]);
    path = paths[0];
    other = paths[1];
    missing = paths[2];
    test_open();
    test_stat();
    test_names();
    test_posix(argc > 1 ? argv[1] : "x");
    return 0;
}
