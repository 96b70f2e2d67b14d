// tests/interpose/guests/unwinds.cpp: signals that arrive at every instruction of a system call
// through libc, and what unwinders make of the stack then.
//   backtraces    every backtrace reaches main
//   exceptions    what the handler throws is caught by the caller, at every instruction
//   cancellation  a thread that is cancelled asynchronously runs its destructors
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace
{

constexpr long TrapFlag = 0x100;
constexpr size_t Size = 1 << 16;

int steps, truncated;
bool is_stepping;
void *main_frame; // return address of main_part

// Called by pointers: libc declares the functions as ones that never throw.
void *(*volatile map)(void *, size_t, int, int, int, off_t) = mmap;
int (*volatile unmap)(void *, size_t) = munmap;

__attribute__((noinline)) void map_and_unmap()
{
    void *place = map(nullptr, Size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED || unmap(place, Size) != 0)
        abort();
}

void set_trap_flag()
{
    asm volatile(
        "lea -128(%%rsp), %%rsp; pushf; orq $0x100, (%%rsp); popf; lea 128(%%rsp), %%rsp" ::
            : "memory", "cc");
}

extern "C" const char __executable_start, etext;

// The compiler knows which of the program's own instructions may throw: the test follows
// calls out of it.
bool is_own(uintptr_t at)
{
    return at >= reinterpret_cast<uintptr_t>(&__executable_start) &&
           at < reinterpret_cast<uintptr_t>(&etext);
}

void on_step(void (*each)(), ucontext_t *context)
{
    if (!is_stepping) {
        context->uc_mcontext.gregs[REG_EFL] &= ~TrapFlag;
    } else if (!is_own(static_cast<uintptr_t>(context->uc_mcontext.gregs[REG_RIP]))) {
        steps++;
        each();
    }
}

void look_back()
{
    void *frames[64];
    int count = backtrace(frames, 64), found = 0;
    for (int i = 0; i < count; i++)
        found |= frames[i] == main_frame;
    truncated += !found;
}

void backtrace_handler(int, siginfo_t *, void *context)
{
    on_step(look_back, static_cast<ucontext_t *>(context));
}

int throw_at;

void throw_when_it_is_time()
{
    if (steps == throw_at) {
        is_stepping = false;
        throw steps;
    }
}

void exception_handler(int, siginfo_t *, void *context)
{
    on_step(throw_when_it_is_time, static_cast<ucontext_t *>(context));
}

void handle(void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGTRAP, &action, nullptr);
}

__attribute__((noinline)) int main_part()
{
    main_frame = __builtin_return_address(0);
    void *warm[4];
    backtrace(warm, 4); // loads libgcc
    handle(backtrace_handler);
    is_stepping = true;
    set_trap_flag();
    map_and_unmap();
    is_stepping = false;
    asm volatile("nop");
    std::printf("%s: %d of the backtraces end early\n", steps > 10 ? "stepped" : "did not step",
                truncated);
    return truncated != 0 || steps <= 10;
}

int exceptions()
{
    int caught = 0;
    handle(exception_handler);
    for (throw_at = 1;; throw_at++) {
        int at = 0;
        steps = 0;
        try {
            is_stepping = true;
            set_trap_flag();
            map_and_unmap();
            is_stepping = false;
            asm volatile("nop");
        } catch (int step) {
            at = step;
        }
        // The unwinder jumps here without the flag of the interrupted code.
        if (at == 0)
            break;
        caught += at == throw_at;
    }
    std::printf("%s: %s\n", throw_at > 10 ? "stepped" : "did not step",
                caught == throw_at - 1 ? "all exceptions were caught"
                                       : "some exceptions were lost");
    return caught != throw_at - 1;
}

int destroyed;

struct Counted {
    ~Counted()
    {
        __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    }
};

volatile bool is_running;

__attribute__((noinline)) void map_for_ever()
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
    is_running = true;
    for (;;)
        map_and_unmap();
}

// The table of a function with destructors need not cover instructions that cannot throw: unwinding
// from one of them ends the process. So here only the call can be what a cancellation finds.
void *run_for_ever(void *)
{
    Counted counted;
    map_for_ever();
    return nullptr;
}

int cancellation()
{
    constexpr int Threads = 200;
    for (int i = 0; i < Threads; i++) {
        pthread_t thread;
        is_running = false;
        pthread_create(&thread, nullptr, run_for_ever, nullptr);
        while (!is_running)
            ;
        usleep(static_cast<useconds_t>(i % 20) * 10);
        pthread_cancel(thread);
        pthread_join(thread, nullptr);
    }
    std::printf("%d of %d destructors ran\n", destroyed, Threads);
    return destroyed != Threads;
}

} // namespace

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    if (std::strcmp(role, "backtraces") == 0)
        return main_part();
    if (std::strcmp(role, "exceptions") == 0)
        return exceptions();
    return std::strcmp(role, "cancellation") == 0 ? cancellation() : 2;
}
