// tests/spawn/as_guarded.h: makes the root look like a guarded task to what it spawns, on CPUs
// without protection keys, too.
#ifndef ONESPACE_TESTS_TASK_AS_GUARDED_H
#define ONESPACE_TESTS_TASK_AS_GUARDED_H

#ifdef __cplusplus
extern "C" {
#endif

void begin_as_guarded(void);
void end_as_guarded(void);

#ifdef __cplusplus
}
#endif

#endif
