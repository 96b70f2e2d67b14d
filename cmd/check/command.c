/* cmd/check/command.c: onespace check: can a program be a task, and if not why and what to do. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/check/verdict.h"
#include "cmd/lib/commands.h"
#include "cmd/lib/help.h"
#include "cmd/lib/options.h"
#include "cmd/lib/output.h"

const char check_help[] =
    "usage: onespace check [--json] PROGRAM...\n"
    "\n"
    "Says for each program whether it can be a task; if not, why and what to do. Nothing is run. "
    "Programs are found as `onespace run` finds them: along PATH, through links and #! lines.\n"
    "\n"
    "      --json  an array, for programs\n"
    "  -h, --help\n"
    "\n"
    "Exit status: 0 when all can be tasks, 1 when one cannot, 2 wrong usage.\n";

static void print_verdict(const struct verdict *verdict, unsigned width)
{
    char name[PATH_MAX];
    snprintf(name, sizeof(name), "%s", verdict->name);
    output_clean(name);
    if (!verdict->can) {
        char text[sizeof(name) + sizeof(struct elf_problem) + 64];
        snprintf(text, sizeof(text), "%s: cannot be a task: %s: %s", name, verdict->problem.reason,
                 verdict->problem.fix);
        output_wrapped(stdout, width, 0, 4, text);
        putchar('\n');
        return;
    }
    const struct elf_program *program = &verdict->program;
    char text[4 * PATH_MAX];
    snprintf(text, sizeof(text), "%s: can be a task (%s, %s%s%s)", name, elf_program_name(program),
             verdict->libc, program->interpreter_path[0] ? ", interpreter " : "",
             program->interpreter_path);
    output_wrapped(stdout, width, 0, 4, output_clean(text));
    putchar('\n');
    for (unsigned i = 0; i < verdict->note_count; i++) {
        printf("    note: ");
        output_wrapped(stdout, width, 10, 10, verdict->notes[i]);
        putchar('\n');
    }
}

static void write_verdict(struct output_json *json, const struct verdict *verdict)
{
    const struct elf_program *program = &verdict->program;
    json_open(json, NULL, '{');
    json_text(json, "program", verdict->name);
    json_boolean(json, "can_be_task", verdict->can);
    json_text(json, "path", verdict->can ? elf_program_name(program) : NULL);
    json_text(json, "libc", verdict->can ? verdict->libc : NULL);
    json_text(json, "interpreter",
              verdict->can && program->interpreter_path[0] ? program->interpreter_path : NULL);
    json_text(json, "reason", verdict->can ? NULL : verdict->problem.reason);
    json_text(json, "fix", verdict->can ? NULL : verdict->problem.fix);
    json_open(json, "notes", '[');
    for (unsigned i = 0; i < verdict->note_count; i++)
        json_text(json, NULL, verdict->notes[i]);
    json_close(json, ']');
    json_close(json, '}');
}

int command_check(int argc, char **argv)
{
    enum { OPT_JSON = 256 };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct output_json json = {.out = stdout};
    int as_json = 0, status = 0;
    unsigned width = output_width(stdout);
    argv[0] = "onespace check";
    for (int option; (option = options_next(argc, argv, "+h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, check_help);
            return 0;
        }
        if (option != OPT_JSON) {
            fprintf(stderr, "Try `onespace check --help`.\n");
            return 2;
        }
        as_json = 1;
    }
    if (optind >= argc) {
        fprintf(stderr, "onespace check: no program given. Try `onespace check --help`.\n");
        return 2;
    }
    if (as_json)
        json_open(&json, NULL, '[');
    for (int i = optind; i < argc; i++) {
        static struct verdict verdict;
        memset(&verdict, 0, sizeof(verdict));
        verdict_find(argv[i], &verdict);
        if (as_json)
            write_verdict(&json, &verdict);
        else
            print_verdict(&verdict, width);
        status |= !verdict.can;
        if (verdict.can)
            elf_program_free(&verdict.program);
    }
    if (as_json)
        json_close(&json, ']');
    return status;
}
