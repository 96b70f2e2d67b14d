/* cmd/ps/channels.h: what `onespace ps` shows of the channels of a space (onespace/insitu.h). */
#ifndef ONESPACE_CMD_PS_CHANNELS_H
#define ONESPACE_CMD_PS_CHANNELS_H

#include <stdio.h>

#include "cmd/lib/output.h"
#include "insitu/channel.h"

/* Copies the channels out of the memory of a process: their count, or -errno. *channels is the
 * caller's to free. Called for a space that has a table of channels. */
int channels_read(int pid, struct insitu_channel **channels);
/* A line for each channel, and one for each of its consumers. */
void channels_print(FILE *out, const struct insitu_channel *channels, unsigned count);
/* The same as an array named "channels". */
void channels_json(struct output_json *json, const struct insitu_channel *channels, unsigned count);

#endif
