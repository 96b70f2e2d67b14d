// tests/remote_call/guests/callee.cpp: functions that are called, and the program that serves them.
#include "callee.hpp"

#include <onespace/call.h>

#include <cerrno>
#include <cfenv>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <pthread.h>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

int scene(int argc, char **argv); // callee_scenes.cpp

extern "C" {
volatile int global = 40;
}
static thread_local intptr_t visits;
static volatile int unwound;
static pthread_mutex_t locked_by_main = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;

struct Unwinds {
    ~Unwinds()
    {
        unwound = unwound + 1;
    }
};

// Looked up in .symtab.
#define CALLED extern "C" __attribute__((used, noinline))

CALLED intptr_t add_global(void *argument)
{
    return global + reinterpret_cast<intptr_t>(argument);
}

CALLED intptr_t weigh(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f)
{
    return a + 10 * b + 100 * c + 1000 * d + 10000 * e + 100000 * f;
}

CALLED intptr_t use_heap(void *rounds)
{
    intptr_t length = 0;
    for (intptr_t i = 0; i < reinterpret_cast<intptr_t>(rounds); i++) {
        char *text = static_cast<char *>(malloc(static_cast<size_t>(100 + i % 5000)));
        length += snprintf(text, 100, "%d %s", static_cast<int>(i), "is a number");
        free(text);
    }
    errno = ERANGE;
    return length;
}

CALLED intptr_t new_block(void *size)
{
    return reinterpret_cast<intptr_t>(malloc(reinterpret_cast<size_t>(size)));
}

CALLED intptr_t get_errno(void *)
{
    return errno;
}

CALLED intptr_t who(void *)
{
    return onespace_self();
}

CALLED intptr_t visit(void *)
{
    return ++visits;
}

CALLED intptr_t process(void *)
{
    return getpid();
}

CALLED intptr_t cpu(void *)
{
    return sched_getcpu();
}

CALLED intptr_t stack(void *)
{
    return reinterpret_cast<intptr_t>(__builtin_frame_address(0));
}

CALLED intptr_t how_often_unwound(void *)
{
    return unwound;
}

CALLED intptr_t uncaught(void *)
{
    return std::uncaught_exceptions();
}

CALLED intptr_t throws(void *text)
{
    Unwinds here;
    fesetround(FE_UPWARD);
    if (text)
        throw std::runtime_error(static_cast<const char *>(text));
    throw 42;
}

CALLED intptr_t ends_its_thread(void *)
{
    Unwinds here;
    pthread_exit(nullptr);
}

CALLED intptr_t cancels_itself(void *)
{
    Unwinds here;
    pthread_cancel(pthread_self());
    pthread_testcancel();
    return 0;
}

CALLED intptr_t catches(void *)
{
    try {
        throw std::string("inside");
    } catch (const std::string &text) {
        return static_cast<intptr_t>(text.size());
    }
}

CALLED intptr_t jumps(void *)
{
    static thread_local jmp_buf place;
    volatile int times = 0;
    if (setjmp(place) < 3) {
        times = times + 1;
        longjmp(place, times);
    }
    return times;
}

CALLED intptr_t set_key(void *value)
{
    intptr_t before = reinterpret_cast<intptr_t>(pthread_getspecific(key));
    pthread_setspecific(key, value);
    return before;
}

CALLED intptr_t waits_for_ever(void *began)
{
    *static_cast<volatile int *>(began) = 1;
    pthread_mutex_lock(&locked_by_main);
    return 0;
}

CALLED intptr_t spins_for_ever(void *began)
{
    *static_cast<volatile int *>(began) = 1;
    for (;;)
        __asm__ volatile("" ::: "memory");
}

CALLED intptr_t reads_to_the_end(void *)
{
    char byte; // from the caller's descriptor
    while (read(0, &byte, 1) > 0)
        ;
    return 0;
}

CALLED intptr_t crashes(void *)
{
    *static_cast<volatile int *>(reinterpret_cast<void *>(16)) = 1;
    return 0;
}

CALLED intptr_t passes_on(void *argument)
{
    auto *onward = static_cast<Onward *>(argument);
    auto *function =
        reinterpret_cast<onespace_call_function *>(reinterpret_cast<uintptr_t>(onward->function));
    onward->result = onespace_call(onward->id, function, reinterpret_cast<void *>(onward->argument),
                                   &onward->value);
    return onward->result;
}

CALLED intptr_t recurses(void *argument)
{
    auto *recursion = static_cast<Recursion *>(argument);
    Unwinds here;
    char *text = strdup("held across the calls");
    if (++recursion->deepest < recursion->depth) {
        int other = recursion->ids[0] == onespace_self();
        auto *function = reinterpret_cast<onespace_call_function *>(
            reinterpret_cast<uintptr_t>(recursion->functions[other]));
        recursion->failed |= onespace_call(recursion->ids[other], function, argument, nullptr);
    }
    recursion->failed |= strcmp(text, "held across the calls") != 0;
    free(text);
    return 0;
}

static int serve()
{
    pthread_key_create(&key, nullptr);
    pthread_mutex_lock(&locked_by_main);
    int result = onespace_call_serve();
    printf("%s\n", result == 0 ? "serves" : onespace_call_message());
    fflush(stdout);
    for (char byte; read(0, &byte, 1) > 0;)
        if (byte == 'x')
            execlp("true", "true", nullptr);
    return 0;
}

int main(int argc, char **argv)
{
    return argc > 1 ? scene(argc, argv) : serve();
}
