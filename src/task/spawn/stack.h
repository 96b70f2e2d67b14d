/* src/task/spawn/stack.h: a task's main stack, as execve would leave it. */
#ifndef ONESPACE_TASK_STACK_H
#define ONESPACE_TASK_STACK_H

#include "elf/elf.h"
#include "registry/child.h"
#include "task/spawn/images.h"

/* What the kernel grants arguments and environment whatever the limit is. */
enum { STACK_STRINGS_LEAST = 128 * 1024 };

struct stack_request {
    struct space *space;
    struct space_slot *slot;
    size_t size;  /* bytes of the stack */
    size_t limit; /* RLIMIT_STACK of the task: the kernel lets no stack grow beyond it */
    const struct images *images;
    const char *program; /* AT_EXECFN */
    char *const *argv, *const *envp;
    unsigned name_at, arguments_at; /* indexes in argv: of the program's argv[0] and argv[1] */
    /* What stack_make gives. */
    struct child_strings strings;
    uintptr_t auxv;
};

/* Maps the stack at the top of the slot's range and fills it. 0, -E2BIG when arguments and
 * environment take more than execve would grant, or -errno; *stack_pointer is where to start. */
int stack_make(struct stack_request *request, uintptr_t *stack_pointer);

#endif
