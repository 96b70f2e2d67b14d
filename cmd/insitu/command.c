/* cmd/insitu/command.c: onespace insitu: its options, and the choice of what it does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/insitu/insitu.h"
#include "cmd/lib/commands.h"
#include "cmd/lib/help.h"
#include "cmd/lib/options.h"
#include "onespace/insitu.h"

const char insitu_help[] =
    "usage: onespace insitu watch [--interval SECONDS] [-n N] [--space NAME] [--wait SECONDS] "
    "CHANNEL\n"
    "usage: onespace insitu dump [-o FILE] [--every] [-n N] [--space NAME] [--wait SECONDS] "
    "CHANNEL\n"
    "\n"
    "Takes steps of a channel (onespace/insitu.h), as one more consumer. watch shows how many "
    "there "
    "are in a second and, of the newest, the smallest and the largest element of each array. dump "
    "writes steps to a file: HDF5 if its name ends in .h5 or .hdf5, with a group for each step; "
    "NumPy's .npz, a file for each step.\n"
    "\n"
    "      --interval SECONDS  between two looks (watch; default 2)\n"
    "  -n, --count N  end after so many looks or steps (default: with the channel)\n"
    "  -o, --output FILE  NAME.h5, NAME.hdf5 or NAME.npz (dump; default: CHANNEL.h5, without h5py "
    "CHANNEL.npz)\n"
    "      --every  each step: the producer waits for the file (dump; default: the newest)\n"
    "      --space NAME  the space of that name (default: the one that has the channel)\n"
    "      --wait SECONDS  how long to wait for the channel (default 60)\n"
    "  -h, --help\n"
    "\n"
    "  MIN, MAX  of the elements of all ranks that are numbers\n"
    "  NAN  how many are none\n"
    "  SHAPE  of the global array; without one, how many ranks have a part, and the first one's\n"
    "\n"
    "A space takes it in from outside if its programs run under a launcher or with --space; else "
    "start it with them: `onespace run ./simulation : onespace insitu watch CHANNEL`. dump needs "
    "Python with the package onespace: python3, or what ONESPACE_PYTHON names.\n"
    "\n"
    "Exit status: 0; 1 when there is no such channel, its producer died or a file cannot be "
    "written; 2 wrong usage.\n";

static int refuse(const char *what, const char *value, const char *why)
{
    fprintf(stderr, "onespace insitu: %s%s%s: %s. Try `onespace insitu --help`.\n", what,
            *value ? " " : "", value, why);
    return -1;
}

static int is_seconds(const char *text, double least, double *seconds)
{
    enum { MOST = 86400 };
    char *end;
    *seconds = strtod(text, &end);
    return end != text && !*end && *seconds >= least && *seconds <= MOST;
}

static int is_count(const char *text)
{
    return *text && strlen(text) <= 9 && strspn(text, "0123456789") == strlen(text) &&
           strspn(text, "0") < strlen(text);
}

enum { OPT_INTERVAL = 256, OPT_EVERY, OPT_SPACE, OPT_WAIT, OPT_JOINED };

/* 0 or -1 with a message. */
static int set_option(int option, struct insitu_request *request)
{
    double seconds;
    switch (option) {
    case OPT_INTERVAL:
        return is_seconds(optarg, 0.01, &request->interval)
                   ? 0
                   : refuse("--interval", optarg, "give seconds from 0.01 to 86400");
    case OPT_WAIT:
        request->wait = optarg;
        return is_seconds(optarg, 0, &seconds)
                   ? 0
                   : refuse("--wait", optarg, "give seconds from 0 to 86400");
    case 'n':
        request->count = optarg;
        return is_count(optarg) ? 0 : refuse("--count", optarg, "give a number from 1 on");
    case 'o':
        request->output = optarg;
        return 0;
    case OPT_EVERY:
        request->every = 1;
        return 0;
    case OPT_SPACE:
        request->space = optarg;
        return 0;
    case OPT_JOINED: /* not for users */
        request->is_joined = 1;
        return 0;
    default:
        fprintf(stderr, "Try `onespace insitu --help`.\n");
        return -1;
    }
}

/* What remains beside the options: 0 or -1 with a message. */
static int set_words(int count, char **words, struct insitu_request *request)
{
    if (!request->verb)
        return refuse("say what to do first", "", "watch or dump");
    int is_watch = strcmp(request->verb, "watch") == 0;
    if (!is_watch && strcmp(request->verb, "dump") != 0)
        return refuse("it cannot do", request->verb, "give watch or dump");
    if (count != 1)
        return refuse(request->verb, "", count < 1 ? "name a channel" : "one channel at a time");
    request->channel = words[0];
    if (!*words[0] || strlen(words[0]) > ONESPACE_INSITU_NAME_MAX)
        return refuse("channel", words[0], "names have 1 to 63 bytes");
    if (is_watch && (request->output || request->every))
        return refuse(request->output ? "--output" : "--every", "", "is an option of dump");
    return 0;
}

int command_insitu(int argc, char **argv)
{
    static const struct option options[] = {{"interval", required_argument, NULL, OPT_INTERVAL},
                                            {"count", required_argument, NULL, 'n'},
                                            {"output", required_argument, NULL, 'o'},
                                            {"every", no_argument, NULL, OPT_EVERY},
                                            {"space", required_argument, NULL, OPT_SPACE},
                                            {"wait", required_argument, NULL, OPT_WAIT},
                                            {"joined", no_argument, NULL, OPT_JOINED},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct insitu_request request = {.interval = 2, .wait = "60"};
    if (argc > 1 && argv[1][0] != '-') {
        request.verb = *++argv;
        argc--;
    }
    request.words = argv + 1;
    request.word_count = (unsigned)argc - 1;
    argv[0] = "onespace insitu";
    for (int option; (option = options_next(argc, argv, "n:o:h", options)) != -1;) {
        if (option == 'h') {
            help_print(stdout, insitu_help);
            return 0;
        }
        if (set_option(option, &request) < 0)
            return 2;
    }
    if (set_words(argc - optind, argv + optind, &request) < 0)
        return 2;
    return strcmp(request.verb, "watch") == 0 ? insitu_watch(&request) : insitu_dump(&request);
}
