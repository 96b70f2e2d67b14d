/* src/elf/known.c: see known.h. */
#include "elf/known.h"

#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

enum { KNOWN_FILES = 8 };

struct known_file {
    enum elf_known_role role; /* 0: unused */
    struct file_identity identity;
    struct elf_info info;
    char name[PATH_MAX],
        path[PATH_MAX]; /* of an interpreter: as programs name it, and its real path */
};

static struct known_file files[KNOWN_FILES];
static unsigned oldest;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether every user may execute the file at this path, and it is that one. */
static bool leads_to(const char *path, const struct file_identity *file)
{
    const mode_t anybody = S_IXUSR | S_IXGRP | S_IXOTH;
    struct stat status;
    if (stat(path, &status) != 0 || (status.st_mode & anybody) != anybody)
        return false;
    struct file_identity identity = file_identity_of(&status);
    return file_is_unchanged(file, &identity);
}

bool elf_known_interpreter(const char *name, struct elf_program *program)
{
    bool is_known = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < KNOWN_FILES && !is_known; i++) {
        const struct known_file *file = &files[i];
        is_known = file->role == ELF_KNOWN_INTERPRETER && strcmp(file->name, name) == 0 &&
                   leads_to(name, &file->identity) && leads_to(file->path, &file->identity);
        if (is_known) {
            program->interpreter_info = file->info;
            strcpy(program->interpreter_path, file->path);
        }
    }
    pthread_mutex_unlock(&lock);
    return is_known;
}

bool elf_known_find(const struct file_identity *file, enum elf_known_role role,
                    struct elf_info *info)
{
    bool is_known = false;
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < KNOWN_FILES && !is_known; i++) {
        is_known = files[i].role == role && file_is_unchanged(&files[i].identity, file);
        if (is_known)
            *info = files[i].info;
    }
    pthread_mutex_unlock(&lock);
    return is_known;
}

static void add(const struct file_identity *identity, enum elf_known_role role,
                const struct elf_info *info, const char *name, const char *path)
{
    if (!identity->is_settled)
        return;
    pthread_mutex_lock(&lock);
    struct known_file *file = &files[oldest];
    file->role = role;
    file->identity = *identity;
    file->info = *info;
    strcpy(file->name, name);
    strcpy(file->path, path);
    oldest = (oldest + 1) % KNOWN_FILES;
    pthread_mutex_unlock(&lock);
}

void elf_known_add(const struct file_identity *file, enum elf_known_role role,
                   const struct elf_info *info)
{
    add(file, role, info, "", "");
}

void elf_known_add_interpreter(const struct file_identity *file, const struct elf_program *program)
{
    add(file, ELF_KNOWN_INTERPRETER, &program->interpreter_info, program->info.interpreter,
        program->interpreter_path);
}
