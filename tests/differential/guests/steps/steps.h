/* tests/differential/guests/steps/steps.h: what the operations of the interpreter share.
 *
 * A program is a list of steps, an operation with small numbers each. Every number is valid for
 * every operation: it is reduced to a place, a size or an entry of a table. So any part of a
 * program is a program, and the minimiser may leave out what it likes. An operation makes its
 * system call and says what came of it; what it says is the same in each run of the same program:
 * addresses are relative to the object that they lie in, processes have numbers in the order in
 * which they were made, and nothing depends on time. */
#ifndef STEPS_H
#define STEPS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    PAGE = 4096,
    ARENA_PLACES = 64, /* an operation begins in one of these pages */
    ARENA_PAGES = 80,  /* and ends in one of these */
    ARGUMENTS = 6,
    DESCRIPTORS = 16,
};

typedef void operation(const int *a);

struct operation_name {
    const char *name;
    operation *run;
};

/* The linker's names for the first and the end of the section with all of them. */
extern const struct operation_name __start_operations[], __stop_operations[];

/* OPERATION(name) { ... } defines the operation of that name: op_name(a). */
#define OPERATION(id)                                                                              \
    static void op_##id(const int *a);                                                             \
    __attribute__((section("operations"), used)) static const struct operation_name name_##id = {  \
        #id, op_##id};                                                                             \
    static void op_##id(__attribute__((unused)) const int *a)

/* ---- main.c: the program, and the trace ---- */

extern const char *program_path, *own_path;
extern int
    next_step; /* the first that is not yet run; operations that run steps themselves advance it */

void run_steps(int end);
/* Where a nested run of `count` steps from next_step on ends. */
int end_of(int count);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A system call's result, or -errno. */
void say_result(long result);
/* The name of the object and the offset in it. */
void say_address(const void *address);
/* Ends a line of the trace. It must be called before another thread or process runs steps. */
void end_line(void);
/* An address at which nothing lies. */
void *bad_pointer(void);
uint32_t checksum(uint32_t sum, const void *bytes, size_t size);

/* ---- memory.c ---- */

/* Two objects of ARENA_PAGES, whose neighbours are theirs: a task's one lies in its range, the
 * other does not. */
extern char *arenas[2];
void make_arenas(void);
char *place_of(int number);
size_t size_of(int number);
int protection_of(int number);
/* Loads or stores a byte of memory that may not be there; says what came of it. */
void touch(char *address, int is_store, int value);
/* Fills and sums up memory by way of the kernel, which returns EFAULT where the memory is not
 * there. */
void fill(char *start, size_t size, int seed);
void sum(char *start, size_t size);

/* ---- heap.c ---- */

extern char *heap_start;
void prepare_heap(void);

/* ---- signals.c ---- */

void prepare_signals(void);
/* Whether SIGSEGV and SIGBUS lead to the interpreter's handler now. */
int faults_are_ours(void);
/* Says what handlers have noted since the last call. */
void say_noted(void);
int signal_of(int number);

/* ---- descriptors.c ---- */

extern int descriptors[DESCRIPTORS];
void keep_descriptor(int number, int fd);
int descriptor_of(int number);

/* ---- processes.c ---- */

/* Waits for a child and says how it ended. */
void say_end_of(pid_t pid);
/* Forks, and says nothing in the child. */
pid_t fork_quietly(void);
void say_process(pid_t pid);

#endif
