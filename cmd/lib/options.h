/* cmd/lib/options.h: options of subcommands. */
#ifndef ONESPACE_CMD_LIB_OPTIONS_H
#define ONESPACE_CMD_LIB_OPTIONS_H

#include <getopt.h>

/* As getopt_long, but a long option must be written in full: an abbreviation would get another
 * meaning with the next version's options. It is refused as an unknown option is, by '?' and a
 * message. One that is much like an option is said, and -np is --np. */
int options_next(int argc, char **argv, const char *letters, const struct option *options);

#endif
