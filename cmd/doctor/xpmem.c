/* cmd/doctor/xpmem.c: which libxpmem.so.0 programs find, in tasks and elsewhere. */
#include "cmd/doctor/doctor.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd/lib/patch_sites.h"
#include "elf/elf.h"
#include "spawn/spawn.h"

static const char name[] = "libxpmem.so.0";

/* From ldconfig's cache; "none" if it is not there. */
static void find_installed(char *path, size_t size)
{
    static char cache[1 << 20];
    char *argv[] = {"/sbin/ldconfig", "-p", NULL}, *save;
    snprintf(path, size, "none");
    doctor_command(argv, cache, sizeof(cache), 5000);
    for (char *line = strtok_r(cache, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *found = strstr(line, "=> ");
        if (found && strncmp(line + strspn(line, " \t"), name, sizeof(name) - 1) == 0) {
            snprintf(path, size, "%s", found + 3);
            return;
        }
    }
}

/* Whether ld.so's openat can be interposed: 1, or 0. *interpreter says which ld.so. */
static int can_redirect(char *interpreter, size_t size)
{
    struct elf_program program;
    struct elf_problem problem;
    struct patch_sites sites = {0};
    char *argv[] = {"sh", NULL};
    snprintf(interpreter, size, "/bin/sh");
    if (elf_resolve(AT_FDCWD, "/bin/sh", argv, NULL, &program, &problem) != 0)
        return 0;
    snprintf(interpreter, size, "%s", program.interpreter_path);
    int found = patch_sites_count(program.interpreter_path, &sites) == 0 && sites.openat > 0;
    elf_program_free(&program);
    return found;
}

void doctor_xpmem(void)
{
    char ours[PATH_MAX], installed[PATH_MAX], interpreter[PATH_MAX];
    const char *module = access("/dev/xpmem", F_OK) == 0 ? "loaded" : "not loaded";
    find_installed(installed, sizeof(installed));
    agent_sibling_path(name, ours, sizeof(ours));
    if (!ours[0])
        doctor_say(DOCTOR_WARNING, "XPMEM", "Install libxpmem.so.0 with the command.",
                   "%s was not found beside the agent: MPI libraries that use XPMEM find in tasks "
                   "what other programs find (%s; kernel module %s)",
                   name, installed, module);
    else if (!can_redirect(interpreter, sizeof(interpreter)))
        doctor_say(DOCTOR_WARNING, "XPMEM",
                   "Report this libc's version and distribution to the onespace project, and put "
                   "the library's directory into LD_LIBRARY_PATH.",
                   "where %s opens libraries was not recognised: in tasks %s is found as elsewhere "
                   "(%s; kernel module %s)",
                   interpreter, name, installed, module);
    else
        doctor_say(DOCTOR_GOOD, "XPMEM", NULL,
                   "%s is in tasks %s, in other programs %s; kernel module %s", name, ours,
                   installed, module);
}
