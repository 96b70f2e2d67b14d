/* cmd/ps/ps.c: onespace ps: lists spaces and their tasks, as a table or as JSON. */
#include <string.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/ps/ps.h"

const char ps_help[] =
    "usage: onespace ps [--all] [--sort memory|time] [--json] [SPACE | PID]\n"
    "\n"
    "Lists the spaces that you may read and their tasks; with an argument, only the space of "
    "that name or of that process. The first line of a space is its root, id 0. If a space has "
    "more than 20 members, its tasks are summed up by program and state.\n"
    "\n"
    "      --all  print a line for each task, however many there are\n"
    "      --sort memory|time  list the tasks with the most private memory, or CPU time, first; "
    "after a summary the first eight\n"
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
                                                    {.name = NULL}};
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
