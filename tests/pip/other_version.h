/* tests/pip/other_version.h: see other_version.c. */
#ifndef ONESPACE_TESTS_PIP_OTHER_VERSION_H
#define ONESPACE_TESTS_PIP_OTHER_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif
void *other_version_make(void); /* freed by the caller */
void *other_version_record(void *state);
const char *other_version_name(void);
#ifdef __cplusplus
}
#endif
#endif
