/* src/api/kernel.c: this machine's kernel and its known faults, before the first task. */
#include "api/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* Ubuntu's: the upstream version that its kernel is made from. */
static void read_signature(char *text, size_t size)
{
    FILE *file = fopen("/proc/version_signature", "r");
    text[0] = 0;
    if (!file)
        return;
    if (!fgets(text, (int)size, file))
        text[0] = 0;
    fclose(file);
}

int kernel_here(struct kernel_release *kernel, char *release, size_t size)
{
    struct utsname names;
    char signature[256];
    if (uname(&names) != 0)
        names.release[0] = names.version[0] = 0;
    read_signature(signature, sizeof(signature));
    snprintf(release, size, "%s", names.release);
    return kernel_release_read(kernel, names.release, names.version, signature);
}

int kernel_faults_are_accepted(void)
{
    const char *accepted = getenv("ONESPACE_FAULTY_KERNEL");
    return accepted && strcmp(accepted, "1") == 0;
}

/* Appends the names of this kernel's faults of that kind, separated by commas. Returns how many. */
static int list_faults(struct kernel_release kernel, enum kernel_fault_effect effect, char *text,
                       size_t size)
{
    int count = 0;
    for (size_t i = 0; i < kernel_fault_count; i++) {
        if (kernel_faults[i].effect != effect || !kernel_has_fault(kernel, &kernel_faults[i]))
            continue;
        size_t length = strlen(text);
        snprintf(text + length, size - length, "%s%s", count++ ? ", " : "", kernel_faults[i].name);
    }
    return count;
}

int kernel_may_stall(const char *program)
{
    struct kernel_release kernel;
    char release[sizeof(((struct utsname *)NULL)->release)], names[512] = "";
    if (kernel_here(&kernel, release, sizeof(release)) < 0 || kernel_faults_are_accepted() ||
        !list_faults(kernel, KERNEL_FAULT_STALL, names, sizeof(names)))
        return 0;
    if (program)
        fprintf(stderr,
                "%s: Linux %s can stall the whole machine while tasks run (%s): nothing was "
                "started. Update the kernel (onespace doctor says to what), or set "
                "ONESPACE_FAULTY_KERNEL=1 if your distribution has fixed it\n",
                program, release, names);
    return 1;
}

int kernel_check(const char *program)
{
    struct kernel_release kernel;
    char release[sizeof(((struct utsname *)NULL)->release)], names[512] = "";
    if (kernel_may_stall(program))
        return -1;
    if (program && kernel_here(&kernel, release, sizeof(release)) == 0 &&
        !kernel_faults_are_accepted() &&
        list_faults(kernel, KERNEL_FAULT_CORRUPT, names, sizeof(names)))
        fprintf(stderr,
                "%s: Linux %s can crash the machine while tasks run (%s): update the kernel "
                "(onespace doctor says to what), or set ONESPACE_FAULTY_KERNEL=1 to leave this "
                "message out\n",
                program, release, names);
    return 0;
}
