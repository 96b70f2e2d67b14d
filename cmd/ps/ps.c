/* cmd/ps/ps.c: onespace ps: lists spaces and their tasks, as a table or as JSON. */
#include <string.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/ps/ps.h"

const char ps_help[] =
    "usage: onespace ps [--all] [--sort memory|time] [--json] [SPACE | PID]\n"
    "\n"
    "Lists the spaces whose processes you may look at, and their tasks; with an argument only the "
    "space of that name, or the one that this process belongs to. The first line of a space is its "
    "root, id 0. Of a space of more than 20 members the tasks are summed up by program and state.\n"
    "\n"
    "      --all  a line for each task, however many there are\n"
    "      --sort memory|time  those with the most private memory, or CPU time, first; the eight "
    "first tasks follow a summary\n"
    "      --json  an array of spaces with all tasks, for programs\n"
    "  -h, --help\n"
    "\n"
    "  NUM  ONESPACE_TASK_ID of the task\n"
    "  STATE  starting, running, executed (runs another program now, outside the space) or ended, "
    "with the exit status or the signal, until its status is collected\n"
    "  MEMORY  resident memory of the task; a page that two tasks share counts for both\n"
    "  PRIVATE  the part of it that nothing else maps: what is free when the task ends\n"
    "  HEAP  the part of it that is the task's program break\n"
    "  COPIED  what process_vm_readv and process_vm_writev copied between tasks in user space\n"
    "  LARGEST  of those summed up, the one with the most private memory, swapped memory included\n"
    "\n"
    "A line follows when nine tenths of the memory that the space may use are in use, by its "
    "control group or on the machine; it names the task that uses most.\n"
    "\n"
    "Lines follow for each channel (onespace/insitu.h): what its producer has published, and of "
    "each consumer how many complete steps it has not taken, and how many it holds.\n"
    "\n"
    "A line follows for each table of the space that was full when it was needed.\n"
    "\n"
    "Exit status: 0; 1 when the space that was asked for is not there; 2 wrong usage.\n";

struct request {
    enum show_order order;
    int all, is_json;
    struct output_json json;
    FILE *out;
};

static int report_space(struct ps_space *space, void *context)
{
    struct request *request = context;
    if (space->source_pid)
        ps_memory(space);
    show_sort(space, request->order);
    if (request->is_json)
        show_json(&request->json, space);
    else
        show_table(request->out, output_width(stdout), space, request->order, request->all);
    return 0;
}

int command_ps(int argc, char **argv)
{
    static struct request request;
    static const char *order;
    static const struct command_option options[] = {{"json", .flag = &request.is_json},
                                                    {"all", .flag = &request.all},
                                                    {"sort", .text = &order},
                                                    {NULL}};
    if (options_parse(argc, argv, options, ps_help) != 0)
        return 2;
    if (order && strcmp(order, "memory") != 0 && strcmp(order, "time") != 0) {
        fprintf(stderr, "onespace ps: --sort %s: give memory or time. Try `onespace ps --help`.\n",
                order);
        return 2;
    }
    if (argc - optind > 1)
        return options_refuse(argv[0], "one space or process at most");
    request.order = !order ? SHOW_BY_ID : *order == 'm' ? SHOW_BY_MEMORY : SHOW_BY_TIME;
    request.out = stdout;
    const struct ps_query query = {.wanted = argv[optind],
                                   .context = &request,
                                   .visit = report_space,
                                   .out = &request.out,
                                   .json = request.is_json ? &request.json : NULL,
                                   .command = argv[0]};
    return ps_report(&query) < 0;
}
