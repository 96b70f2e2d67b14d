/* src/cpu/remote_call.c: see remote_call.h. */
#include "cpu/remote_call.h"

#include <assert.h>
#include <stddef.h>

#define AT(field, offset)                                                                          \
    static_assert(offsetof(struct arch_remote_call_frame, field) == (offset),                      \
                  "as remote_call.S has it")
AT(own_stack, ARCH_FRAME_OWN_STACK);
AT(own_pointer, ARCH_FRAME_OWN_POINTER);
AT(pointer, ARCH_FRAME_POINTER);
AT(stack, ARCH_FRAME_STACK);
AT(boundary, ARCH_FRAME_BOUNDARY);
AT(function, ARCH_FRAME_FUNCTION);
AT(arguments, ARCH_FRAME_ARGUMENTS);
AT(gone, ARCH_FRAME_GONE);
AT(result, ARCH_FRAME_RESULT);
AT(leave, ARCH_FRAME_LEAVE);
AT(armed, ARCH_FRAME_ARMED);
AT(by_call, ARCH_FRAME_BY_CALL);
AT(floating, ARCH_FRAME_FLOATING);
AT(control, ARCH_FRAME_CONTROL);

/* Values of the C++ ABI (unwind.h). */
enum { SEARCH_PHASE = 1, FORCE_UNWIND = 8, HANDLER_FOUND = 6, CONTINUE_UNWIND = 8 };

void (*arch_remote_call_unwound)(int forced, uint64_t class, void *exception);

int arch_remote_call_personality(int version, int actions, uint64_t class, void *exception,
                                 void *context) __attribute__((visibility("hidden")));

/* The unwinder first asks whether it catches the exception (never for a thread that ends), and
 * calls it again when all frames below have been unwound. */
int arch_remote_call_personality(int version, int actions, uint64_t class, void *exception,
                                 void *context)
{
    (void)version, (void)context;
    if (actions & SEARCH_PHASE)
        return HANDLER_FOUND;
    arch_remote_call_unwound((actions & FORCE_UNWIND) != 0, class, exception);
    return CONTINUE_UNWIND;
}
