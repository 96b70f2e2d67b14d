/* src/insitu/table.h: the table of channels. */
#ifndef ONESPACE_INSITU_TABLE_H
#define ONESPACE_INSITU_TABLE_H

#include "insitu/channel.h"

/* Whether further steps are possible. As long as they are, the name is this channel's. */
int insitu_is_open(const struct insitu_channel *channel);
/* The channel of that name that can be opened or joined, or NULL. */
struct insitu_channel *insitu_find(const char *name);
/* Makes a channel, or joins it as one more of its ranks. 0, or -errno with a message. */
int insitu_make_or_join(const char *name, const struct onespace_insitu_options *options,
                        struct insitu_channel **channel);

#endif
