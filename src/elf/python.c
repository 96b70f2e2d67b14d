/* src/elf/python.c: non-PIE Python interpreters, as most distributions build them, and the shared
 * libraries that contain the same interpreter.
 *
 * pythonX.Y is all of libpythonX.Y.so.1.0 and a main function, linked as a non-PIE executable
 * because that is a little faster. The library is position independent. */
#include "elf/internal.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

static char start_program[PATH_MAX];

void elf_set_python_start(const char *path)
{
    snprintf(start_program, sizeof(start_program), "%s", path);
}

const char *elf_python_start(void)
{
    return start_program;
}

static bool is_fixed(int fd)
{
    unsigned char head[EI_NIDENT + 2];
    return elf_read_exact(fd, head, sizeof(head), 0) == 0 && memcmp(head, ELFMAG, SELFMAG) == 0 &&
           head[EI_NIDENT] == ET_EXEC;
}

/* "3.11" of "/usr/bin/python3.11", with what follows it in builds of other kinds ("3.13t"); NULL
 * when it is not a name of a Python interpreter. */
static const char *version_of(const char *path)
{
    static const char name[] = "python";
    const char *base = text_basename(path);
    if (strncmp(base, name, sizeof(name) - 1) != 0 || !isdigit((unsigned char)base[6]))
        return NULL;
    return base + sizeof(name) - 1;
}

/* The library of the interpreter at `path`: in a library directory of the same installation. */
static bool find_library(const char *path, const char *version, char library[PATH_MAX])
{
    static const char *const directories[] = {("lib/" ARCH_MULTIARCH), "lib", "lib64"};
    const char *end = strrchr(path, '/'); /* of .../bin */
    while (end > path && end[-1] != '/')
        end--;
    for (size_t i = 0; end > path && i < sizeof(directories) / sizeof(directories[0]); i++) {
        int size = snprintf(library, PATH_MAX, "%.*s%s/libpython%s.so.1.0", (int)(end - path), path,
                            directories[i], version);
        if (size < PATH_MAX && access(library, R_OK) == 0)
            return true;
    }
    return false;
}

/* The VALUE of "KEY = VALUE" in the pyvenv.cfg of the program's virtual environment. */
static bool read_environment(const char *path, const char *key, char *value, size_t size)
{
    char file[PATH_MAX], line[PATH_MAX + 16];
    const char *end = strrchr(path, '/');
    int length = snprintf(file, sizeof(file), "%.*s/../pyvenv.cfg", (int)(end - path), path);
    FILE *settings = length < PATH_MAX ? fopen(file, "re") : NULL;
    bool found = false;
    while (settings != NULL && !found && fgets(line, sizeof(line), settings) != NULL) {
        char *equals = strstr(line, " = ");
        if (equals == NULL)
            continue;
        *equals = '\0';
        char *text = equals + 3;
        text[strcspn(text, "\n")] = '\0';
        found = strcmp(line, key) == 0 && strlen(text) < size;
        if (found)
            strcpy(value, text);
    }
    if (settings != NULL)
        fclose(settings);
    return found;
}

/* A virtual environment made with --copies has a copy of the interpreter, by any name: this gives
 * the original, home/pythonX.Y. */
static bool find_copied(const char *path, char original[PATH_MAX])
{
    char home[PATH_MAX], version[32];
    if (!read_environment(path, "home", home, sizeof(home)) ||
        !read_environment(path, "version", version, sizeof(version)))
        return false;
    char *patch = strchr(version, '.');
    patch = patch != NULL ? strchr(patch + 1, '.') : NULL;
    if (patch != NULL)
        *patch = '\0';
    return snprintf(original, PATH_MAX, "%s/python%s", home, version) < PATH_MAX;
}

int elf_python_library(int fd, const char *path, char library[PATH_MAX],
                       struct elf_problem *problem)
{
    char original[PATH_MAX];
    if (path[0] != '/' || !is_fixed(fd))
        return 0;
    if (find_copied(path, original))
        path = original;
    const char *version = version_of(path);
    if (version == NULL)
        return 0;
    if (start_program[0] == '\0')
        return elf_refuse(problem, ENOEXEC,
                          "Install onespace completely, or use a Python that is built position "
                          "independent.",
                          "is not position independent, and the start program that runs it from "
                          "its library (onespace/python beside libonespace-agent.so) is missing");
    if (find_library(path, version, library))
        return 1;
    return elf_refuse(problem, ENOEXEC,
                      "Install that library (on Debian and Ubuntu the package of that name, "
                      "without .so.1.0), or use a Python that is built position independent.",
                      "is not position independent (non-PIE), and its installation has no "
                      "libpython%.20s.so.1.0 to run it from",
                      version);
}
