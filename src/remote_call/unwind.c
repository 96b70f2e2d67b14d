/* src/remote_call/unwind.c: the end of unwinding in a called function: see arch/call.h.
 *
 * Runs in the callee's context, in its own copy of the library. An exception is caught as a
 * handler would, so that it is destroyed and the callee's C++ library counts right; its type goes
 * to the caller's message. A thread that ends (pthread_exit, cancellation) stays marked as such, so
 * the lender is retired. */
#include "remote_call/context.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CXX_CLASS                                                                                  \
    UINT64_C(0x474e5543432b2b00) /* "GNUCC++\0"; the last byte: dependent exceptions */

/* libgcc's struct _Unwind_Exception, as far as it is needed here. */
struct exception {
    uint64_t class;
    void (*cleanup)(int reason, struct exception *);
};
enum { BY_ANOTHER_LANGUAGE = 1 };

/* std::type_info of the C++ ABI. */
struct type_info {
    const void *functions;
    const char *name;
};

static void name_type(const struct type_info *type, struct call_frame *frame)
{
    char *(*demangle)(const char *, char *, size_t *, int *) =
        (char *(*)(const char *, char *, size_t *, int *))dlsym(RTLD_DEFAULT, "__cxa_demangle");
    int status = -1;
    const char *name = *type->name == '*' ? type->name + 1 : type->name;
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    strncpy(frame->detail, text ? text : name, CALL_DETAIL - 1);
    free(text);
}

static int catch_cxx(void *exception, struct call_frame *frame)
{
    void *(*begin)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "__cxa_begin_catch");
    void (*end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "__cxa_end_catch");
    struct type_info *(*type)(void) =
        (struct type_info * (*)(void)) dlsym(RTLD_DEFAULT, "__cxa_current_exception_type");
    if (!begin || !end)
        return 0;
    begin(exception);
    if (type && type())
        name_type(type(), frame);
    end();
    return 1;
}

static void unwound(int forced, uint64_t class, void *exception)
{
    struct call_frame *frame = call_thread()->current;
    memset(frame->detail, 0, CALL_DETAIL);
    if (forced) {
        frame->ended_thread = 1;
    } else if ((class & ~UINT64_C(0xff)) != CXX_CLASS || !catch_cxx(exception, frame)) {
        struct exception *unknown = exception;
        strcpy(frame->detail, "of a language other than C++");
        if (unknown->cleanup)
            unknown->cleanup(BY_ANOTHER_LANGUAGE, unknown);
        frame->ended_thread = (class & ~UINT64_C(0xff)) == CXX_CLASS; /* its counts are wrong now */
    }
    frame->arch.leave(&frame->arch, -ECANCELED);
}

void call_prepare_unwinding(void)
{
    arch_remote_call_unwound = unwound;
}
