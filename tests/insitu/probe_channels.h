/* tests/insitu/probe_channels.h: what the table of channels holds. */
#ifndef ONESPACE_TESTS_INSITU_PROBE_CHANNELS_H
#define ONESPACE_TESTS_INSITU_PROBE_CHANNELS_H

#ifdef __cplusplus
extern "C" {
#endif

int probe_channels(void);  /* that are not free */
int probe_consumers(void); /* places of consumers that are taken, or not as new */
int probe_areas(void);     /* places for steps that are still mapped */

#ifdef __cplusplus
}
#endif
#endif
