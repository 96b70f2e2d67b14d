/* src/elf/eligibility.c: which valid programs cannot be tasks. */
#include "elf/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/text.h"

/* Debian's valgrind is a script that runs valgrind.bin: check the name at every step. */
int elf_check_name(const char *path, struct elf_problem *problem)
{
    const char *name = text_basename(path);
    if (strcmp(name, "valgrind") != 0 && strcmp(name, "valgrind.bin") != 0)
        return 0;
    return elf_refuse(problem, ENOEXEC, "Run valgrind outside, without onespace run.",
                      "is non-PIE and loads the program itself");
}

static int check_privileges(int fd, struct elf_problem *problem)
{
    static const char fix[] = "Run it as a process of its own, without onespace run.";
    struct stat stat;
    if (fstat(fd, &stat) != 0)
        return elf_refuse_open(problem, errno);
    /* Without group execution the bit once meant mandatory locking; the kernel ignores it. */
    bool setgid = (stat.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP);
    if ((stat.st_mode & S_ISUID) != 0 || setgid)
        return elf_refuse(problem, EPERM, fix, "is %s, and a task cannot change its user",
                          setgid ? "setgid" : "setuid");
    if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
        return elf_refuse(problem, EPERM, fix, "has file capabilities, and a task cannot gain any");
    return 0;
}

/* ---- SELinux ---- */

enum { LABEL_BYTES = 1024 };

/* The text of a file, without what follows a zero byte or a newline. */
static bool read_small(int dirfd, const char *path, char *text, size_t size)
{
    int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return text[0] != '\0';
}

/* The label that a process with the label `own` gets by executing the file at fd. False: the kernel
 * does not tell this user, or the labels are not SELinux's. */
static bool label_after_execution(int selinux, int fd, const char *own, char after[LABEL_BYTES])
{
    char file[LABEL_BYTES], class[16], question[2 * LABEL_BYTES + sizeof(class) + 2];
    ssize_t length = fgetxattr(fd, "security.selinux", file, sizeof(file) - 1);
    if (length <= 0 || !read_small(selinux, "class/process/index", class, sizeof(class)))
        return false;
    file[length] = '\0';
    int size = snprintf(question, sizeof(question), "%s %s %s", own, file, class);
    int create = openat(selinux, "create", O_RDWR | O_CLOEXEC);
    length = create >= 0 && write(create, question, (size_t)size) == size
                 ? read(create, after, LABEL_BYTES - 1)
                 : -1;
    if (create >= 0)
        close(create);
    after[length > 0 ? length : 0] = '\0';
    return length > 0;
}

int elf_check_label(int fd, struct elf_problem *problem)
{
    char own[LABEL_BYTES], after[LABEL_BYTES];
    int selinux = open("/sys/fs/selinux", O_PATH | O_DIRECTORY | O_CLOEXEC), status = 0;
    if (selinux < 0)
        return 0;
    if (read_small(AT_FDCWD, "/proc/thread-self/attr/current", own, sizeof(own)) &&
        label_after_execution(selinux, fd, own, after) && strcmp(own, after) != 0)
        status =
            elf_refuse(problem, EPERM,
                       "Run it as a process of its own, or onespace run itself with that "
                       "label (runcon).",
                       "runs as %.150s by SELinux's policy, and a task keeps %.150s", after, own);
    close(selinux);
    return status;
}

/* ---- Sanitizers and libraries ---- */

struct sanitizer {
    const char *name;
    const char *flag;
    const char *libraries[3]; /* how the names of its libraries start */
};

/* Their shadow memory has one fixed address, so the first such program would have to be the root
 * and a second one would fail. Order as in sanitizer_symbols. */
static const struct sanitizer sanitizers[] = {
    {"AddressSanitizer", "address", {"libasan.so", "libclang_rt.asan"}},
    {"ThreadSanitizer", "thread", {"libtsan.so", "libclang_rt.tsan"}},
    {"MemorySanitizer", "memory", {"libclang_rt.msan"}},
    {"HWAddressSanitizer", "hwaddress", {"libhwasan.so", "libclang_rt.hwasan"}},
};
static const char *const sanitizer_symbols[] = {
    "__asan_init", "__tsan_init", "__msan_init", "__hwasan_init", NULL,
};

struct libraries {
    unsigned count;
    const struct sanitizer *sanitizer;
};

static int note_library(const char *name, void *context)
{
    struct libraries *libraries = context;
    libraries->count++;
    for (size_t i = 0; i < sizeof(sanitizers) / sizeof(sanitizers[0]); i++) {
        for (const char *const *at = sanitizers[i].libraries; *at != NULL; at++) {
            if (strncmp(name, *at, strlen(*at)) == 0) {
                libraries->sanitizer = &sanitizers[i];
                return 1;
            }
        }
    }
    return 0;
}

/* Corrupt tables are not refused here: the program's own dynamic linker reports them. */
static int check_libraries(int fd, const struct elf_info *info, struct elf_problem *problem)
{
    struct libraries libraries = {0};
    (void)elf_each_needed(fd, info, note_library, &libraries);
    const struct sanitizer *sanitizer = libraries.sanitizer;
    int index = sanitizer == NULL ? elf_defines(fd, sanitizer_symbols) : -ENOENT;
    if (index >= 0)
        sanitizer = &sanitizers[index];
    if (sanitizer != NULL)
        return elf_refuse(problem, ENOEXEC,
                          "Rebuild it without that flag (-fsanitize=undefined works), or run it "
                          "without onespace run.",
                          "is built with %s (-fsanitize=%s), whose memory needs an address "
                          "space of its own",
                          sanitizer->name, sanitizer->flag);
    /* Some linkers give libraries an entry point; but only an interpreter could load others. */
    if (libraries.count > 0 && info->interpreter[0] == '\0')
        return elf_refuse(problem, ENOEXEC, "Give a program that uses it.",
                          "is a shared library, not a program");
    return 0;
}

int elf_check_eligible(int fd, const struct elf_info *info, struct elf_problem *problem)
{
    int status = check_privileges(fd, problem);
    return status == 0 ? check_libraries(fd, info, problem) : status;
}

static int is_java(const char *name, void *context)
{
    (void)context;
    return strncmp(name, "libjli.so", 9) == 0 || strncmp(name, "libjvm.so", 9) == 0;
}

/* The note that Go's linker leaves at the beginning of each program: namesz 4, descsz, type 4,
 * "Go". */
static bool is_go(int fd)
{
    static const char size[] = {4, 0, 0, 0}, rest[] = {4, 0, 0, 0, 'G', 'o', 0, 0};
    char head[4096];
    ssize_t length = elf_read_some(fd, head, sizeof(head), 0);
    for (ssize_t at = 0; at + 16 <= length; at += 4)
        if (memcmp(head + at, size, sizeof(size)) == 0 &&
            memcmp(head + at + 8, rest, sizeof(rest)) == 0)
            return true;
    return false;
}

int elf_check_thread_mode(const struct elf_program *program, struct elf_problem *problem)
{
    static const char fix[] = "Run it in process mode.";
    if (strstr(program->info.interpreter, "/ld-linux") == NULL)
        return elf_refuse(problem, ENOTSUP, fix, "does not use glibc, which thread mode needs");
    int fd = open(program->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return elf_refuse_open(problem, errno);
    const char *kind = is_go(fd)                                                ? "Go program"
                       : elf_each_needed(fd, &program->info, is_java, NULL) > 0 ? "Java machine"
                                                                                : NULL;
    close(fd);
    return kind ? elf_refuse(problem, ENOTSUP, fix,
                             "is a %s, which takes the signal handlers of its process for its own",
                             kind)
                : 0;
}

struct library_name {
    char *name;
    size_t size;
};

static int find_amd_library(const char *name, void *context)
{
    struct library_name *found = context;
    if (strncmp(name, "libamdhip64.so", 14) != 0 && strncmp(name, "libhsa-runtime64.so", 19) != 0)
        return 0;
    snprintf(found->name, found->size, "%s", name);
    return 1;
}

int elf_uses_amd_gpu(const struct elf_program *program, char *library, size_t size)
{
    struct library_name found = {library, size};
    int fd = open(program->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    int is_found = elf_each_needed(fd, &program->info, find_amd_library, &found) > 0;
    close(fd);
    return is_found;
}
