/* src/elf/chain.c: the end of the chain that resolve.c follows: the ELF file, its interpreter, and
 * for a non-PIE Python its shared library. */
#include "elf/chain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elf/known.h"

char **elf_compose_vector(const char *const head[], size_t count, char *const rest[])
{
    size_t total = count, bytes = 0;
    while (rest[total - count] != NULL)
        total++;
    for (size_t i = 0; i < total; i++)
        bytes += strlen(i < count ? head[i] : rest[i - count]) + 1;
    char **vector = malloc((total + 1) * sizeof(*vector) + bytes);
    if (vector == NULL)
        return NULL;
    char *text = (char *)(vector + total + 1);
    for (size_t i = 0; i < total; i++) {
        vector[i] = text;
        text = stpcpy(text, i < count ? head[i] : rest[i - count]) + 1;
    }
    vector[total] = NULL;
    return vector;
}

int elf_refuse_memory(struct elf_problem *problem)
{
    return elf_refuse(problem, ENOMEM, "Free memory and try again.",
                      "cannot be resolved: out of memory");
}

/* Looks at an open file before it is read. */
static int identify(int fd, struct file_identity *identity, struct elf_problem *problem)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return elf_refuse_open(problem, errno);
    *identity = file_identity_of(&status);
    return 0;
}

/* The program's interpreter, like the kernel: a path as it stands, no PATH, no #!. */
static int read_interpreter(struct elf_chain *chain, struct elf_program *program)
{
    const char *name = program->info.interpreter;
    struct elf_problem inner = {0};
    struct file_identity identity;
    if (name[0] == '/' && elf_known_interpreter(name, program))
        return 0;
    int fd = elf_open_executable(chain->dirfd, name, &inner);
    int status = fd < 0 ? fd : identify(fd, &identity, &inner);
    if (status == 0)
        status = elf_read(fd, &program->interpreter_info, &inner);
    if (status == 0)
        status = elf_read_linker(fd, &program->interpreter_info, &inner);
    if (status == 0)
        status = elf_real_path(fd, chain->dirfd, name, program->interpreter_path, &inner);
    if (status == 0)
        elf_known_add_interpreter(&identity, program);
    if (fd >= 0)
        close(fd);
    if (status == 0)
        return 0;
    bool missing = inner.error == ENOENT || inner.error == ENOTDIR;
    return elf_refuse(chain->problem, inner.error,
                      missing ? "Install the libc it was built for, or set another interpreter "
                                "with patchelf --set-interpreter."
                              : inner.fix,
                      "needs the interpreter %.200s, which %s", name, inner.reason);
}

/* Reads and checks the ELF file at fd, which `name` led to. */
static int read_program(struct elf_chain *chain, int fd, const char *name,
                        struct elf_program *program)
{
    struct elf_problem *problem = chain->problem;
    struct file_identity identity;
    int status = identify(fd, &identity, problem);
    bool is_known = status == 0 && elf_known_find(&identity, ELF_KNOWN_PROGRAM, &program->info);
    if (status == 0 && !is_known)
        status = elf_read(fd, &program->info, problem);
    if (status == 0)
        status = elf_real_path(fd, chain->dirfd, name, program->path, problem);
    if (status == 0)
        status = elf_check_name(program->path, problem);
    if (status == 0 && !is_known)
        status = elf_check_guest(fd, &program->info, problem);
    if (status == 0 && !is_known)
        elf_known_add(&identity, ELF_KNOWN_PROGRAM, &program->info);
    return status;
}

/* Replaces the Python interpreter at the end of the chain by the start program. Its first arguments
 * are the library and the name by which Python finds its virtual environment. */
static int start_python(struct elf_chain *chain, const char *library, struct elf_program *program)
{
    char name[PATH_MAX + 2];
    bool has_slash = strchr(chain->current, '/') != NULL;
    snprintf(name, sizeof(name), "%s%s", has_slash ? "" : "./", chain->current);
    const char *head[] = {chain->argv[0], library, name};
    char **longer = elf_compose_vector(head, 3, chain->argv + 1);
    if (longer == NULL)
        return elf_refuse_memory(chain->problem);
    free(chain->argv);
    chain->argv = longer;
    int fd = elf_open_executable(AT_FDCWD, elf_python_start(), chain->problem);
    int status = fd < 0 ? fd : read_program(chain, fd, elf_python_start(), program);
    if (fd >= 0)
        close(fd);
    return status == 0 ? 0
                       : elf_refuse(chain->problem, ENOEXEC, chain->problem->fix,
                                    "needs the start program %.200s, which %s", elf_python_start(),
                                    chain->problem->reason);
}

/* What elf_read refused: 0 when it is a Python and runs from its library. */
static int try_python(struct elf_chain *chain, int fd, struct elf_program *program)
{
    static const struct elf_info nothing;
    char library[PATH_MAX];
    struct elf_problem other;
    if (elf_real_path(fd, chain->dirfd, chain->current, program->stands_in_for, &other) != 0)
        program->stands_in_for[0] = '\0';
    int found = elf_python_library(fd, program->stands_in_for, library, chain->problem);
    if (found <= 0) {
        program->stands_in_for[0] = '\0';
        return -ENOEXEC;
    }
    int status = elf_check_guest(fd, &nothing, chain->problem);
    return status == 0 ? start_python(chain, library, program) : status;
}

int elf_finish_chain(struct elf_chain *chain, int fd, struct elf_program *program)
{
    int status = read_program(chain, fd, chain->current, program);
    if (status == -ENOEXEC)
        status = try_python(chain, fd, program);
    if (status == 0 && program->info.interpreter[0] != '\0')
        status = read_interpreter(chain, program);
    if (status != 0)
        return status;
    program->argv = chain->argv;
    chain->argv = NULL;
    return 0;
}
