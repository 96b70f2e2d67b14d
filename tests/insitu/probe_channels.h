/* tests/insitu/probe_channels.h: the contents of the table of channels. */
#ifndef ONESPACE_TESTS_INSITU_PROBE_CHANNELS_H
#define ONESPACE_TESTS_INSITU_PROBE_CHANNELS_H

#ifdef __cplusplus
extern "C" {
#endif

int probe_channels(void);  /* entries in use */
int probe_consumers(void); /* consumer slots in use, or not back in their initial state */
int probe_areas(void);     /* areas for steps that are still mapped */
void *probe_area(void);    /* the first of them, or NULL */

#ifdef __cplusplus
}
#endif
#endif
