/* cmd/ps/ps.c: onespace ps: lists spaces and their tasks, as a table or as JSON. */
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/ps/ps.h"

const char ps_help[] =
    "usage: onespace ps [--all] [--sort memory|time] [--watch[=SECONDS] | --json] [SPACE | PID]\n"
    "\n"
    "Lists the spaces that you may read and their tasks; with an argument, only the space of "
    "that name or of that process. The first line of a space is its root, id 0. If a space has "
    "more than 20 members, its tasks are summed up by program and state.\n"
    "\n"
    "      --all  print a line for each task, however many there are\n"
    "      --sort memory|time  list the tasks with the most private memory, or CPU time, first; "
    "after a summary the first eight\n"
    "      --watch[=SECONDS]  repeat every 2 (or SECONDS) seconds until interrupted\n"
    "      --json  print an array of spaces with all their tasks\n"
    "  -h, --help  print this help\n"
    "\n"
    "  NUM  ONESPACE_TASK_ID of the task\n"
    "  STATE  starting, running, executed (it runs another program now, outside the space) or "
    "ended, with the exit status or signal, until its status is collected\n"
    "  MEMORY  resident memory of the task; a page that two tasks share counts for both\n"
    "  PRIVATE  the part of MEMORY that nothing else maps, which is freed when the task ends\n"
    "  HEAP  the part of MEMORY that is the program break\n"
    "  COPIED  bytes that process_vm_readv and process_vm_writev copied between tasks in user "
    "space\n"
    "  LARGEST  in a summary, the task with the most private memory, including swap\n"
    "\n"
    "Further lines appear if nine tenths of the memory of the control group or the machine are "
    "in use, for each channel (onespace/insitu.h), and for each table of the space that was "
    "full when it was needed.\n"
    "\n"
    "Exit status: 0; 1 if the space does not exist; 2 on a usage error.\n";

struct request {
    const char *wanted;
    enum show_order order;
    int all, looked;
    double pause;             /* seconds between looks; 0: one look */
    struct output_json *json; /* or NULL */
    FILE *out;
    unsigned width;
};

static int report_space(struct ps_space *space, void *context)
{
    const struct request *request = context;
    if (space->source_pid)
        ps_memory(space);
    show_sort(space, request->order);
    if (request->json) {
        request->json->out = request->out;
        show_json(request->json, space);
    } else
        show_table(request->out, request->width, space, request->order, request->all);
    return 0;
}

/* Perhaps by another process. */
static void space_was_reported(const struct ps_key *key, int value, void *context)
{
    const struct request *request = context;
    (void)key, (void)value;
    if (request->json)
        request->json->filled = 1;
}

/* A space that ends while it is watched is no error. */
static int look(FILE *out, unsigned width, void *context)
{
    struct request *request = context;
    request->out = out;
    request->width = width;
    if (request->json)
        json_open(request->json, NULL, '[');
    const struct ps_query query = {.wanted = request->wanted,
                                   .context = request,
                                   .visit = report_space,
                                   .visited = space_was_reported,
                                   .out = &request->out,
                                   .command = "onespace ps"};
    int count = ps_each(&query);
    if (request->json)
        json_close(request->json, ']');
    if (count < 0 || (count == 0 && request->wanted)) {
        if (count < 0 || !request->looked)
            ps_explain("onespace ps", request->wanted, count);
        else
            fprintf(stderr, "onespace ps: the space has ended\n");
        return count < 0 || !request->looked ? 1 : -1;
    }
    if (count == 0 && !request->json)
        fprintf(out, "no spaces\n");
    request->looked = 1;
    return 0;
}

static int set_order(struct request *request, const char *word)
{
    if (strcmp(word, "memory") == 0)
        request->order = SHOW_BY_MEMORY;
    else if (strcmp(word, "time") == 0)
        request->order = SHOW_BY_TIME;
    else
        return fprintf(stderr,
                       "onespace ps: --sort %s: give memory or time. Try `onespace ps --help`.\n",
                       word),
               -1;
    return 0;
}

static int parse(int argc, char **argv, struct request *request, struct output_json *json)
{
    enum { OPT_JSON = 256, OPT_ALL, OPT_SORT, OPT_WATCH };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"all", no_argument, NULL, OPT_ALL},
                                            {"sort", required_argument, NULL, OPT_SORT},
                                            {"watch", optional_argument, NULL, OPT_WATCH},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int option; (option = options_next(argc, argv, "h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, ps_help);
            exit(0);
        }
        if (option == OPT_JSON)
            request->json = json;
        else if (option == OPT_ALL)
            request->all = 1;
        else if (option == OPT_WATCH)
            request->pause = watch_seconds("onespace ps", optarg);
        else if (option != OPT_SORT)
            return fprintf(stderr, "Try `onespace ps --help`.\n"), -1;
        if ((option == OPT_SORT && set_order(request, optarg) < 0) || request->pause < 0)
            return -1;
    }
    if (request->json && request->pause > 0)
        return fprintf(stderr, "onespace ps: --watch does not go with --json. Try `onespace ps "
                               "--help`.\n"),
               -1;
    if (argc - optind > 1)
        return fprintf(stderr, "onespace ps: one space or process at most. Try `onespace ps "
                               "--help`.\n"),
               -1;
    request->wanted = argv[optind];
    return 0;
}

int command_ps(int argc, char **argv)
{
    struct output_json json = {.out = stdout};
    struct request request = {0};
    argv[0] = "onespace ps";
    if (parse(argc, argv, &request, &json) < 0)
        return 2;
    int result = watch(request.pause, look, &request);
    return result < 0 ? 0 : result;
}
