/* src/remote_call/unwind.c: unwinding that reaches the boundary of a call (arch/remote_call.h).
 *
 * Runs in the callee's context, in its own copy of the library. It catches an exception as a C++
 * handler does, so that the exception is destroyed and the callee's C++ library counts its
 * exceptions correctly; the caller's message names its type. The libc has marked a thread that ends
 * (pthread_exit, cancellation) as such, so its donor is retired. */
#include "remote_call/remote_call.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CXX_CLASS                                                                                  \
    UINT64_C(0x474e5543432b2b00) /* "GNUCC++\0"; the last byte: dependent exceptions */

/* The beginning of libgcc's struct _Unwind_Exception. */
struct exception {
    uint64_t class;
    void (*cleanup)(int reason, struct exception *);
};
enum { FOREIGN_EXCEPTION_CAUGHT = 1 }; /* _URC_FOREIGN_EXCEPTION_CAUGHT */

/* std::type_info of the C++ ABI. */
struct type_info {
    const void *functions;
    const char *name;
};

static void store_type_name(const struct type_info *type, struct call_frame *frame)
{
    char *(*demangle)(const char *, char *, size_t *, int *) =
        (char *(*)(const char *, char *, size_t *, int *))dlsym(RTLD_DEFAULT, "__cxa_demangle");
    int status = -1;
    const char *name = *type->name == '*' ? type->name + 1 : type->name;
    char *text = demangle ? demangle(name, NULL, NULL, &status) : NULL;
    strncpy(frame->detail, text ? text : name, CALL_DETAIL - 1);
    free(text);
}

static int catch_cxx_exception(void *exception, struct call_frame *frame)
{
    void *(*begin)(void *) = (void *(*)(void *))dlsym(RTLD_DEFAULT, "__cxa_begin_catch");
    void (*end)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "__cxa_end_catch");
    struct type_info *(*type)(void) =
        (struct type_info * (*)(void)) dlsym(RTLD_DEFAULT, "__cxa_current_exception_type");
    if (!begin || !end)
        return 0;
    begin(exception);
    if (type && type())
        store_type_name(type(), frame);
    end();
    return 1;
}

static void on_unwound(int forced, uint64_t class, void *exception)
{
    struct call_frame *frame = call_thread()->current;
    memset(frame->detail, 0, CALL_DETAIL);
    if (forced) {
        frame->ended_thread = 1;
    } else if ((class & ~UINT64_C(0xff)) != CXX_CLASS || !catch_cxx_exception(exception, frame)) {
        struct exception *unknown = exception;
        strcpy(frame->detail, "of a language other than C++");
        if (unknown->cleanup)
            unknown->cleanup(FOREIGN_EXCEPTION_CAUGHT, unknown);
        frame->ended_thread =
            (class & ~UINT64_C(0xff)) == CXX_CLASS; /* its counters are wrong now */
    }
    frame->arch.leave(&frame->arch, -ECANCELED);
}

void unwind_install_handler(void)
{
    arch_remote_call_unwound = on_unwound;
}
