/* tests/lib/probe.h: what the registry of the calling root's space holds. */
#ifndef ONESPACE_TESTS_LIB_PROBE_H
#define ONESPACE_TESTS_LIB_PROBE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int probe_slots(void);                            /* slots of tasks that are not free */
void probe_describe(char *text, size_t size);     /* those, one per line */
int probe_exports(void);                          /* names that are exported or being exported */
void probe_search_steps(int *longest, int *mean); /* entries that a search for a name looks at */
int probe_overflows(const char *kind);            /* "files", "patch sites" or "mappings" */
void probe_fill_files(void);                      /* no further file's patch sites are cached */
int probe_holds(void);                            /* holds of all members on all */
void probe_set_oversubscribed(int is);            /* as the host's threads do */
void probe_take_turn(int thread);                 /* to change the map, and never ends it */
int probe_turn(void);                             /* 0, or a TID, perhaps with FUTEX_WAITERS */
int probe_arrived(void);                          /* tasks that wait in the barrier */
unsigned probe_events(void);                      /* how often the reaper was woken */
int probe_is_shared(unsigned long address);       /* where shared mappings lie */
int probe_registrants(void);                      /* members that hear of unmapped memory */
int probe_shared(void);                           /* of those, entries and users' words in use */

#ifdef __cplusplus
}
#endif
#endif
