/* src/elf/known.c: see known.h. */
#include "elf/known.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { KNOWN_FILES = 8 };

struct known_file {
    enum elf_known_role role; /* 0: unused */
    struct stat identity;
    struct elf_info info;
    char name[PATH_MAX],
        path[PATH_MAX]; /* of an interpreter: as programs name it, and its real path */
};

static struct known_file files[KNOWN_FILES];
static unsigned oldest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int elf_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           same_time(&a->st_mtim, &b->st_mtim) && same_time(&a->st_ctim, &b->st_ctim);
}

static bool leads_to(const char *path, const struct stat *file)
{
    struct stat identity;
    return stat(path, &identity) == 0 && elf_same_file(&identity, file);
}

bool elf_known_interpreter(const char *name, struct elf_program *program)
{
    const mode_t anybody = S_IXUSR | S_IXGRP | S_IXOTH;
    bool is_known = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < KNOWN_FILES && !is_known; i++) {
        const struct known_file *file = &files[i];
        is_known = file->role == ELF_KNOWN_INTERPRETER && strcmp(file->name, name) == 0 &&
                   (file->identity.st_mode & anybody) == anybody &&
                   leads_to(name, &file->identity) && leads_to(file->path, &file->identity);
        if (is_known) {
            program->interpreter_info = file->info;
            strcpy(program->interpreter_path, file->path);
        }
    }
    pthread_mutex_unlock(&lock);
    return is_known;
}

bool elf_known_find(int fd, enum elf_known_role role, struct elf_info *info)
{
    struct stat identity;
    bool is_known = false;
    if (fstat(fd, &identity) != 0)
        return false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < KNOWN_FILES && !is_known; i++) {
        is_known = files[i].role == role && elf_same_file(&files[i].identity, &identity);
        if (is_known)
            *info = files[i].info;
    }
    pthread_mutex_unlock(&lock);
    return is_known;
}

static void add(int fd, enum elf_known_role role, const struct elf_info *info, const char *name,
                const char *path)
{
    struct stat identity;
    if (fstat(fd, &identity) != 0)
        return;
    pthread_mutex_lock(&lock);
    struct known_file *file = &files[oldest];
    file->role = role;
    file->identity = identity;
    file->info = *info;
    strcpy(file->name, name);
    strcpy(file->path, path);
    oldest = (oldest + 1) % KNOWN_FILES;
    pthread_mutex_unlock(&lock);
}

void elf_known_add(int fd, enum elf_known_role role, const struct elf_info *info)
{
    add(fd, role, info, "", "");
}

void elf_known_add_interpreter(int fd, const struct elf_program *program)
{
    add(fd, ELF_KNOWN_INTERPRETER, &program->interpreter_info, program->info.interpreter,
        program->interpreter_path);
}
