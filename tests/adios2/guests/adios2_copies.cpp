// tests/adios2/guests/adios2_copies.cpp: a writer and a reader of ADIOS2 that count the copies of
// their arrays: the program's own memcpy and memmove precede those of libc in all its libraries.
//
//   adios2_copies HOW NAME STEPS        put, put-sync, perform-puts, span; put-early: the data is
//                                       overwritten before EndStep, which MinDeferredSize allows
//   adios2_copies HOW NAME              get; get-late and get-hold: pause before and after Get;
//                                       get-twice: before, between and after two; get-stop: stops
//                                       itself in step 0, and says "pid N" before; in-place
//   adios2_copies get-killed NAME       dies in the middle of the copy
//
// Each ends with "N copies"; span and in-place print the address of each step's data. The writer
// overwrites its data as soon as ADIOS2 allows it; the reader checks all of it.
#include <adios2.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

constexpr size_t ELEMENTS = size_t(1) << 20, LARGE = ELEMENTS * sizeof(double) / 2;
std::atomic<unsigned> copies;
std::atomic<bool> shall_die;

void copy(void *to, const void *from, size_t bytes)
{
    if (bytes >= LARGE) {
        copies++;
        if (shall_die) { // after the first half
            bytes /= 2;
            asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
            kill(getpid(), SIGKILL);
        }
    }
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

} // namespace

extern "C" __attribute__((visibility("default"))) void *
memcpy(void *__restrict to, const void *__restrict from, size_t bytes) noexcept
{
    copy(to, from, bytes);
    return to;
}

extern "C" __attribute__((visibility("default"))) void *memmove(void *to, const void *from,
                                                                size_t bytes) noexcept
{
    if ((size_t)((char *)to - (const char *)from) >= bytes) {
        copy(to, from, bytes);
        return to;
    }
    for (volatile char *target = (char *)to; bytes-- > 0;)
        target[bytes] = ((const char *)from)[bytes];
    return to;
}

namespace
{

double value(size_t step, size_t i)
{
    return (double)(step * 10000000 + i);
}

void fill(double *data, size_t step)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        data[i] = value(step, i);
}

void spoil(std::vector<double> &data)
{
    for (double &one : data)
        one = -1;
}

void check(const double *data, size_t step)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        if (data[i] != value(step, i)) {
            printf("step %zu: element %zu is %g\n", step, i, data[i]);
            exit(1);
        }
}

void say(const std::string &line)
{
    printf("%s\n", line.c_str());
    fflush(stdout);
}

void write(adios2::IO io, const std::string &how, const char *name, size_t steps)
{
    auto variable = io.DefineVariable<double>("data", {ELEMENTS}, {0}, {ELEMENTS});
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    std::vector<double> data(ELEMENTS);
    for (size_t step = 0; step < steps; step++) {
        engine.BeginStep();
        if (how == "span") {
            double *span = engine.Put(variable).data();
            fill(span, step);
            printf("at %p\n", (void *)span);
        } else {
            fill(data.data(), step);
            engine.Put(variable, data.data(),
                       how == "put-sync" ? adios2::Mode::Sync : adios2::Mode::Deferred);
        }
        if (how == "perform-puts")
            engine.PerformPuts();
        if (how == "put-sync" || how == "perform-puts" || how == "put-early")
            spoil(data);
        engine.EndStep();
        spoil(data);
        say("wrote " + std::to_string(step));
    }
    engine.Close();
}

void pause_ms(unsigned ms)
{
    usleep(ms * 1000);
}

void read(adios2::IO io, const std::string &how, const char *name)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    std::vector<double> data(ELEMENTS);
    size_t steps = 0;
    while (engine.BeginStep() == adios2::StepStatus::OK) {
        size_t step = engine.CurrentStep();
        if (how == "get-late" || how == "get-twice")
            pause_ms(100);
        if (how == "get-stop" && step == 0) {
            say("pid " + std::to_string(getpid()));
            kill(getpid(), SIGSTOP);
        }
        if (how == "in-place") {
            uint64_t address = 0;
            engine.Get(io.InquireVariable<uint64_t>("onespace/address/data"), &address,
                       adios2::Mode::Sync);
            pause_ms(50);
            printf("at %p\n", (void *)address);
            check(reinterpret_cast<const double *>(address), step);
        } else {
            shall_die = how == "get-killed";
            auto variable = io.InquireVariable<double>("data");
            engine.Get(variable, data.data(), adios2::Mode::Sync);
            check(data.data(), step);
            if (how == "get-twice") {
                pause_ms(100);
                spoil(data);
                engine.Get(variable, data.data());
                engine.PerformGets();
                check(data.data(), step);
            }
        }
        say("step " + std::to_string(step));
        if (how == "get-hold" || how == "get-twice")
            pause_ms(100);
        engine.EndStep();
        steps++;
    }
    engine.Close();
    say(std::to_string(steps) + " steps");
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const std::string how = argv[1];
    try {
        adios2::ADIOS adios("adios2.xml");
        if (argc > 3)
            write(adios.DeclareIO("writer"), how, argv[2], strtoul(argv[3], nullptr, 10));
        else
            read(adios.DeclareIO("reader"), how, argv[2]);
    } catch (const std::exception &failure) {
        printf("failed: %s\n", failure.what());
        return 3;
    }
    say(std::to_string(copies) + " copies");
    return 0;
}
