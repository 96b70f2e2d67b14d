/* cmd/map/map.c: onespace map: shows what lies where in a space's memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/map/map.h"

const char map_help[] =
    "usage: onespace map [--all | --tasks] [--json | --svg FILE] [SPACE | PID]\n"
    "\n"
    "Shows the memory of the spaces that you may read, by owner and kind; with an argument, "
    "only the space of that name or of that process. The tasks keep running. If a space has "
    "more than 8 owners, its tasks are summed up by program.\n"
    "\n"
    "      --all  print every mapping, not a sum for each owner and kind\n"
    "      --tasks  print a sum for each task, however many there are\n"
    "      --json  print an array of spaces\n"
    "      --svg FILE  draw one space: a bar for each owner, as long as its resident memory\n"
    "  -h, --help  print this help\n"
    "\n"
    "  OWNER  root, registry, reaper, task ID; unknown: root or a task without interposition\n"
    "  KIND  program, library, heap, anonymous (other memory without a file), stack, thread "
    "stack, shared (memory segments), file, onespace (its own), unknown\n"
    "  SIZE  bytes of addresses\n"
    "  RESIDENT  the part of SIZE that is in memory; a page that two tasks share counts for "
    "both\n"
    "  HUGE  the part of RESIDENT in huge pages\n"
    "\n"
    "Exit status: 0; 1 if the space does not exist, cannot be read or cannot be drawn; 2 on a "
    "usage error.\n";

struct request {
    struct map_view view;
    int failed, is_json;
    struct output_json json;
    const char *svg; /* or NULL */
    unsigned drawn;
    FILE *out; /* a picture is written to memory until it is complete */
};

static int complain(const char *path)
{
    fprintf(stderr, "onespace map: %s: %s: give a file that can be written\n", path,
            strerror(errno));
    return -1;
}

static int draw(const struct request *request, const struct map *map, const struct map_row *rows,
                size_t count)
{
    if (request->drawn > 0) {
        fprintf(stderr, "onespace map: there are several spaces and a picture shows one: give its "
                        "name or a pid (see `onespace ps`)\n");
        return -1;
    }
    map_draw(request->out, map, rows, count);
    return 0;
}

static int show(struct request *request, struct map *map)
{
    size_t count;
    struct map_row *rows = map_rows(map, &count);
    int result = 0;
    if (!rows)
        return -ENOMEM;
    if (request->svg)
        result = draw(request, map, rows, count);
    else if (request->is_json)
        map_write(&request->json, map, rows, count, request->view.all);
    else
        map_print(request->out, output_width(stdout), map, rows, count, &request->view);
    free(rows);
    return result < 0 ? -ECANCELED : 0; /* draw has printed why */
}

enum { SHOWN, FAILED };

static int visit(struct ps_space *space, void *context)
{
    struct request *request = context;
    struct map map;
    int result = map_read(space, &map);
    if (result == 0) {
        map_classify(&map);
        result = show(request, &map);
        map_free(&map);
    }
    if (result != 0 && result != -ECANCELED)
        fprintf(stderr, "onespace map: the memory of the space of pid %d cannot be read: %s\n",
                space->root_pid, result == -ESRCH ? "it has ended meanwhile" : strerror(-result));
    return result == 0 ? SHOWN : FAILED;
}

static void visited(const struct ps_key *key, int value, void *context)
{
    struct request *request = context;
    (void)key;
    request->failed |= value == FAILED;
    request->drawn += value == SHOWN;
}

static const char *find_problem(const struct request *request, int words)
{
    if (request->svg && (request->is_json || request->view.all))
        return "--svg goes with neither --json nor --all";
    return words > 1 ? "one space or process at most" : NULL;
}

static int save(const char *path, const char *picture, size_t size)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return complain(path);
    int wrong = fwrite(picture, 1, size, out) != size;
    return fclose(out) != 0 || wrong ? complain(path) : 0;
}

int command_map(int argc, char **argv)
{
    static struct request request;
    static const struct command_option options[] = {{"json", .flag = &request.is_json},
                                                    {"all", .flag = &request.view.all},
                                                    {"tasks", .flag = &request.view.tasks},
                                                    {"svg", .text = &request.svg},
                                                    {.name = NULL}};
    char *picture = NULL;
    size_t size = 0;
    if (options_parse(argc, argv, options, map_help) != 0)
        return 2;
    const char *problem = find_problem(&request, argc - optind);
    if (problem)
        return options_refuse(argv[0], problem);
    request.out = request.svg ? open_memstream(&picture, &size) : stdout;
    if (!request.out)
        return complain(request.svg), 1;
    const struct ps_query query = {.wanted = argv[optind],
                                   .context = &request,
                                   .visit = visit,
                                   .visited = visited,
                                   .out = &request.out,
                                   .json = request.is_json ? &request.json : NULL,
                                   .command = argv[0]};
    int count = ps_report(&query);
    if (request.svg) {
        if (fclose(request.out) != 0 ||
            (request.drawn && !request.failed && save(request.svg, picture, size) != 0))
            request.failed = 1;
        free(picture);
        if (count == 0)
            fprintf(stderr, "onespace map: there is no space to draw: start one, or run this as "
                            "its user\n");
        request.failed |= count == 0;
    }
    return count < 0 || request.failed;
}
