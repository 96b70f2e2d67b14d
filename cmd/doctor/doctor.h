/* cmd/doctor/doctor.h: the parts of `onespace doctor`. Each looks at one side of the machine and
 * says what it found; none changes anything. */
#ifndef ONESPACE_CMD_DOCTOR_DOCTOR_H
#define ONESPACE_CMD_DOCTOR_DOCTOR_H

#include <stddef.h>

enum doctor_status {
    DOCTOR_GOOD,
    DOCTOR_WARNING, /* works, but slower, with less protection, or not for all programs */
    DOCTOR_WRONG,   /* tasks cannot run, or not reliably */
};

/* One line of the report. fix: a sentence, or NULL when there is nothing to do. */
__attribute__((format(printf, 4, 5))) void doctor_say(enum doctor_status status,
                                                      const char *subject, const char *fix,
                                                      const char *finding, ...);

void doctor_kernel(void);          /* kernel.c */
void doctor_memory(void);          /* memory.c */
void doctor_limits(void);          /* limits.c */
void doctor_calls(void);           /* calls.c */
void doctor_install(void);         /* trial.c: agent, address region, interposition, sockets */
void doctor_trial(void);           /* trial.c */
void doctor_xpmem(void);           /* xpmem.c */
void doctor_mpi(void);             /* mpi.c: launchers and libraries */
void doctor_storage(void);         /* storage.c */
void doctor_settings(void);        /* settings.c: environment */
void doctor_ranks(unsigned ranks); /* ranks.c: whether so many fit */

/* ---- child.c: checks that may hang, crash or leave something behind run in a child ---- */

/* Runs function in a child, which may write an answer to its descriptor and whose standard output
 * and error are discarded. Its wait status, or -errno (-ETIMEDOUT: it was killed). answer is always
 * terminated. */
int doctor_child(void (*function)(int out, void *context), void *context, char *answer, size_t size,
                 int timeout_ms);
/* Runs a program and keeps the start of its output. The same result. */
int doctor_command(char *const argv[], char *output, size_t size, int timeout_ms);

/* The text of a small file without the newline: 0 or -errno, and then text is empty. */
int doctor_read(const char *path, char *text, size_t size);

#endif
