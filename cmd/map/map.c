/* cmd/map/map.c: onespace map: shows what lies where in a space's memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/lib/options.h"
#include "cmd/lib/output.h"
#include "cmd/map/map.h"

const char map_help[] =
    "usage: onespace map [--all | --tasks] [--sort memory|mappings] [--watch[=SECONDS]] [--json "
    "| --svg FILE] [SPACE | PID]\n"
    "\n"
    "Shows the memory of the spaces that you may read, by owner and kind; with an argument, "
    "only the space of that name or of that process. The tasks keep running. If a space has "
    "more than 8 owners, its tasks are summed up by program.\n"
    "\n"
    "      --all  print every mapping, not a sum for each owner and kind\n"
    "      --tasks  print a sum for each task, however many there are\n"
    "      --sort memory|mappings  list the tasks with the most resident memory, or the most "
    "mappings, first; with --all and memory, sort the mappings\n"
    "      --watch[=SECONDS]  repeat every 2 (or SECONDS) seconds until interrupted\n"
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
    int failed, looked;
    double pause;             /* seconds between looks; 0: one look */
    struct output_json *json; /* or NULL */
    const char *svg;          /* or NULL */
    const char *wanted;       /* or NULL */
    unsigned drawn;
    FILE *out; /* a picture is written to memory until it is complete */
    unsigned width;
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
    else if (request->json) {
        request->json->out = request->out;
        map_write(request->json, map, rows, count, request->view.all);
    } else
        map_print(request->out, request->width, map, rows, count, &request->view);
    free(rows);
    return result < 0 ? -ECANCELED : 0; /* draw has printed why */
}

enum { SHOWN, FAILED, ENDED };

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
    if (result == -ESRCH && request->pause > 0)
        return ENDED; /* the next round reports it */
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
    if (request->json && value == SHOWN)
        request->json->filled = 1;
}

static int set_order(struct request *request, const char *word)
{
    if (strcmp(word, "memory") == 0)
        request->view.order = MAP_BY_MEMORY;
    else if (strcmp(word, "mappings") == 0)
        request->view.order = MAP_BY_COUNT;
    else
        return fprintf(stderr,
                       "onespace map: --sort %s: give memory or mappings. Try `onespace map "
                       "--help`.\n",
                       word),
               -1;
    return 0;
}

/* Rejects options that exclude one another, and too many arguments. */
static int check(const struct request *request, int words)
{
    const char *problem = NULL;
    if (request->svg && (request->json || request->view.all))
        problem = "--svg goes with neither --json nor --all";
    else if (request->pause > 0 && (request->json || request->svg))
        problem = "--watch goes with neither --json nor --svg";
    else if (words > 1)
        problem = "one space or process at most";
    if (problem)
        fprintf(stderr, "onespace map: %s. Try `onespace map --help`.\n", problem);
    return problem ? -1 : 0;
}

static int parse(int argc, char **argv, struct request *request, struct output_json *json)
{
    enum { OPT_JSON = 256, OPT_ALL, OPT_TASKS, OPT_SORT, OPT_WATCH, OPT_SVG };
    static const struct option options[] = {{"json", no_argument, NULL, OPT_JSON},
                                            {"all", no_argument, NULL, OPT_ALL},
                                            {"tasks", no_argument, NULL, OPT_TASKS},
                                            {"sort", required_argument, NULL, OPT_SORT},
                                            {"watch", optional_argument, NULL, OPT_WATCH},
                                            {"svg", required_argument, NULL, OPT_SVG},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    for (int option; (option = options_next(argc, argv, "h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, map_help);
            exit(0);
        }
        if (option == OPT_JSON)
            request->json = json;
        else if (option == OPT_ALL)
            request->view.all = 1;
        else if (option == OPT_TASKS)
            request->view.tasks = 1;
        else if (option == OPT_SVG)
            request->svg = optarg;
        else if (option == OPT_WATCH)
            request->pause = watch_seconds("onespace map", optarg);
        else if (option != OPT_SORT)
            return fprintf(stderr, "Try `onespace map --help`.\n"), -1;
        if ((option == OPT_SORT && set_order(request, optarg) < 0) || request->pause < 0)
            return -1;
    }
    request->wanted = argv[optind];
    return check(request, argc - optind);
}

static int save(const char *path, const char *picture, size_t size)
{
    FILE *out = fopen(path, "we");
    if (!out)
        return complain(path);
    int wrong = fwrite(picture, 1, size, out) != size;
    return fclose(out) != 0 || wrong ? complain(path) : 0;
}

/* A space that ends while it is watched is no error. */
static int look(FILE *out, unsigned width, void *context)
{
    struct request *request = context;
    char *picture = NULL;
    size_t size = 0;
    request->out = request->svg ? open_memstream(&picture, &size) : out;
    request->width = width;
    if (!request->out)
        return complain(request->svg);
    if (request->json)
        json_open(request->json, NULL, '[');
    const struct ps_query query = {.wanted = request->wanted,
                                   .context = request,
                                   .visit = visit,
                                   .visited = visited,
                                   .out = &request->out,
                                   .command = "onespace map"};
    int count = ps_each(&query);
    if (request->svg) {
        if (fclose(request->out) != 0 ||
            (request->drawn && !request->failed && save(request->svg, picture, size) != 0))
            request->failed = 1;
        free(picture);
    }
    if (request->json)
        json_close(request->json, ']');
    if (count == 0 && request->wanted && request->looked)
        return fprintf(stderr, "onespace map: the space has ended\n"), -1;
    if (count < 0 || (count == 0 && request->wanted)) {
        ps_explain("onespace map", request->wanted, count);
        return 1;
    }
    if (count == 0 && request->svg)
        fprintf(stderr, "onespace map: there is no space to draw: start one, or run this as its "
                        "user\n");
    if (count == 0 && !request->json && !request->svg)
        fprintf(out, "no spaces\n");
    request->looked = 1;
    return request->failed || (count == 0 && request->svg);
}

int command_map(int argc, char **argv)
{
    struct output_json json = {.out = stdout};
    struct request request = {0};
    argv[0] = "onespace map";
    if (parse(argc, argv, &request, &json) < 0)
        return 2;
    int result = watch(request.pause, look, &request);
    return result < 0 ? 0 : result;
}
