/* cmd/doctor/command.c: onespace doctor: looks at this machine and says what to fix. */
#include "cmd/doctor/doctor.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/commands.h"
#include "cmd/lib/help.h"
#include "cmd/lib/options.h"
#include "cmd/lib/output.h"

const char doctor_help[] =
    "usage: onespace doctor [--json] [--ranks N]\n"
    "\n"
    "Looks at the kernel, the limits, the container, onespace itself, the MPI libraries and the "
    "current directory's file system, makes a few tasks, and says what is good, what could be "
    "better and what is wrong, with the fix. Changes nothing.\n"
    "\n"
    "      --json  an array of {status, subject, finding, fix}, for programs\n"
    "      --ranks N  only whether N ranks of a job fit on this node, and what to raise if they do "
    "not\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0 when nothing is wrong, 1 when something is, 2 wrong usage.\n";

enum { SUBJECT_AT = 9, FINDING_AT = 28 };

static const char *const status_names[] = {"good", "warning", "wrong"};
static struct output_json json = {NULL, 0, 0};
static unsigned width, counts[3];

static void write_line(enum doctor_status status, const char *subject, const char *finding,
                       const char *fix)
{
    json_open(&json, NULL, '{');
    json_text(&json, "status", status_names[status]);
    json_text(&json, "subject", subject);
    json_text(&json, "finding", finding);
    json_text(&json, "fix", fix);
    json_close(&json, '}');
}

/* "; " and the fix as the rest of a sentence: without its capital, unless it starts with a name,
 * and without its full stop. */
static void append_fix(char *text, size_t size, const char *fix)
{
    size_t length = strlen(text);
    snprintf(text + length, size - length, "; %s", fix);
    char *first = text + length + 2, *last = text + strlen(text) - 1;
    if (length + 3 < size && islower((unsigned char)first[1]) && strncmp(fix, "Linux", 5) != 0)
        *first = (char)tolower((unsigned char)*first);
    if (*last == '.')
        *last = 0;
}

void doctor_say(enum doctor_status status, const char *subject, const char *fix,
                const char *finding, ...)
{
    char text[4096];
    va_list arguments;
    va_start(arguments, finding);
    vsnprintf(text, sizeof(text), finding, arguments);
    va_end(arguments);
    counts[status]++;
    if (json.out) {
        write_line(status, subject, text, fix);
        return;
    }
    if (fix)
        append_fix(text, sizeof(text), fix);
    printf("%-*s%-*s ", SUBJECT_AT, status_names[status], FINDING_AT - SUBJECT_AT - 1, subject);
    output_wrapped(stdout, width, FINDING_AT, FINDING_AT, output_clean(text));
    putchar('\n');
    fflush(stdout); /* some of the next checks take a while */
}

/* A number of ranks, or 0. */
static unsigned ranks_from(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits < 7 && !text[digits] ? (unsigned)atoi(text) : 0;
}

static void look_at_all(void)
{
    static void (*const parts[])(void) = {
        doctor_kernel, doctor_memory, doctor_limits, doctor_calls,   doctor_install,
        doctor_trial,  doctor_xpmem,  doctor_mpi,    doctor_storage, doctor_settings};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        parts[i]();
}

static int report(unsigned ranks)
{
    width = output_width(stdout);
    if (json.out)
        json_open(&json, NULL, '[');
    if (ranks)
        doctor_ranks(ranks);
    else
        look_at_all();
    if (json.out)
        json_close(&json, ']');
    else
        printf("\n%u good, %u to look at, %u wrong\n", counts[DOCTOR_GOOD], counts[DOCTOR_WARNING],
               counts[DOCTOR_WRONG]);
    return counts[DOCTOR_WRONG] ? 1 : 0;
}

int command_doctor(int argc, char **argv)
{
    enum { OPT_JSON = 256, OPT_RANKS };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"ranks", required_argument, NULL, OPT_RANKS},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    unsigned ranks = 0;
    argv[0] = "onespace doctor";
    for (int option; (option = options_next(argc, argv, "h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, doctor_help);
            return 0;
        } else if (option == OPT_JSON) {
            json.out = stdout;
        } else if (option == OPT_RANKS && (ranks = ranks_from(optarg)) == 0) {
            fprintf(stderr, "onespace doctor: --ranks %s: not a number of ranks\n", optarg);
            return 2;
        } else if (option != OPT_RANKS) {
            fprintf(stderr, "Try `onespace doctor --help`.\n");
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "onespace doctor: takes no argument. Try `onespace doctor --help`.\n");
        return 2;
    }
    return report(ranks);
}
