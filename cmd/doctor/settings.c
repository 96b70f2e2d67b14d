/* cmd/doctor/settings.c: environment variables: those that `onespace run` sets for MPI libraries,
 * and the user's own that switch single copies off. */
#include "cmd/doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/defaults.h"

extern char **environ;

/* Lists what defaults_set adds to the environment. In a child, so that programs which this command
 * starts later do not inherit it. */
static void list_defaults(int out, void *context)
{
    (void)context;
    char **before = environ;
    size_t count = 0, shown = 0;
    while (before[count])
        count++;
    char **copy = calloc(count + 1, sizeof(*copy));
    if (!copy)
        return;
    memcpy(copy, before, count * sizeof(*copy));
    defaults_set(1);
    for (char **at = environ; *at; at++) {
        size_t old = 0;
        while (old < count && copy[old] != *at)
            old++;
        if (old == count)
            dprintf(out, "%s%s", shown++ ? ", " : "", *at);
    }
    free(copy);
}

static void say_defaults(void)
{
    char answer[1024];
    if (doctor_child(list_defaults, NULL, answer, sizeof(answer), 5000) != 0)
        return;
    if (answer[0])
        doctor_say(
            DOCTOR_GOOD, "MPI settings", NULL,
            "under a launcher, `onespace run` sets %s (docs/launchers-reference.md says why)",
            answer);
    else
        doctor_say(DOCTOR_GOOD, "MPI settings", NULL,
                   "under a launcher, `onespace run` sets nothing: your environment has it all");
}

/* Whether a comma-separated list that names transports allows UCX's CMA. */
static int ucx_allows_cma(const char *list)
{
    static const char *const with_cma[] = {"cma", "sm", "shm", "all"};
    char text[256], *save;
    int excludes = list[0] == '^', named = 0;
    snprintf(text, sizeof(text), "%s", list + excludes);
    for (char *name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save))
        for (size_t i = 0; i < sizeof(with_cma) / sizeof(with_cma[0]); i++)
            named |= strcmp(name, with_cma[i]) == 0;
    return excludes ? !named : named;
}

static int ompi_allows_cma(const char *value)
{
    return value[0] == '^' ? !strstr(value, "cma") : strstr(value, "cma") != NULL;
}

static int smsc_allows_a_copy(const char *value)
{
    return ompi_allows_cma(value) || (value[0] != '^' && strstr(value, "onespace"));
}

static int is_not_zero(const char *value)
{
    return strcmp(value, "0") != 0 && strcmp(value, "no") != 0 && strcmp(value, "false") != 0;
}

static void say_own_settings(void)
{
    static const struct {
        const char *name;
        int (*allows)(const char *);
    } settings[] = {
        {"UCX_TLS", ucx_allows_cma},
        {"OMPI_MCA_btl_vader_single_copy_mechanism", ompi_allows_cma},
        {"OMPI_MCA_smsc", smsc_allows_a_copy},
        {"MPIR_CVAR_CH4_CMA_ENABLE", is_not_zero},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const char *value = getenv(settings[i].name);
        if (value && !settings[i].allows(value))
            doctor_say(
                DOCTOR_WARNING, "MPI settings", "Unset it, or add CMA to it.",
                "%s=%s switches CMA off: large messages are then copied twice, between tasks too",
                settings[i].name, value);
    }
}

void doctor_settings(void)
{
    say_defaults();
    say_own_settings();
}
