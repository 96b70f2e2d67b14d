// tests/adios2/guests/adios2_copies.cpp: a writer and a reader of ADIOS2 that count the copies of
// their arrays: the program's own memcpy and memmove precede those of libc in all its libraries.
//
//   adios2_copies MODE NAME STEPS       put, put-sync, perform-puts; put-early: the data is
//                                       overwritten before EndStep, which MinDeferredSize allows
//   adios2_copies MODE NAME             get; get-late and get-hold: pause before and after Get;
//                                       get-twice: before, between and after two; get-stop: prints
//                                       "pid N" and stops itself in step 0; in-place; get-killed:
//                                       dies in the middle of the copy
//
// Each prints "N copies" at its end; put and in-place print the address of each step's data. The
// writer overwrites its data as soon as ADIOS2 allows it; the reader checks all of it.
#include "adios2_check.hpp"

#include <atomic>
#include <csignal>
#include <vector>

namespace
{

constexpr size_t ELEMENTS = size_t(1) << 20, LARGE = ELEMENTS * sizeof(double) / 2;
std::atomic<unsigned> copies;
std::atomic<bool> dies_in_copy;

void copy(void *to, const void *from, size_t bytes)
{
    if (bytes >= LARGE) {
        copies++;
        if (dies_in_copy) { // after the first half
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

void overwrite(std::vector<double> &data)
{
    for (double &element : data)
        element = -1;
}

void check(const double *data, size_t step)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        if (data[i] != value(step, i)) {
            printf("step %zu: element %zu is %g\n", step, i, data[i]);
            exit(1);
        }
}

void write(adios2::IO io, const std::string &mode, const char *name, size_t steps)
{
    auto variable = io.DefineVariable<double>("data", {ELEMENTS}, {0}, {ELEMENTS});
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    std::vector<double> data(ELEMENTS);
    for (size_t step = 0; step < steps; step++) {
        engine.BeginStep();
        fill(data.data(), step);
        if (mode == "put")
            printf("at %p\n", (void *)data.data());
        engine.Put(variable, data.data(),
                   mode == "put-sync" ? adios2::Mode::Sync : adios2::Mode::Deferred);
        if (mode == "perform-puts")
            engine.PerformPuts();
        if (mode == "put-sync" || mode == "perform-puts" || mode == "put-early")
            overwrite(data);
        engine.EndStep();
        overwrite(data);
        print_line("wrote " + std::to_string(step));
    }
    engine.Close();
}

void read(adios2::IO io, const std::string &mode, const char *name)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    std::vector<double> data(ELEMENTS);
    size_t steps = 0;
    while (engine.BeginStep() == adios2::StepStatus::OK) {
        size_t step = engine.CurrentStep();
        if (mode == "get-late" || mode == "get-twice")
            pause_ms(100);
        if (mode == "get-stop" && step == 0) {
            print_line("pid " + std::to_string(getpid()));
            kill(getpid(), SIGSTOP);
        }
        if (mode == "in-place") {
            uint64_t address = 0;
            engine.Get(io.InquireVariable<uint64_t>("onespace/address/data"), &address,
                       adios2::Mode::Sync);
            pause_ms(50);
            printf("at %p\n", (void *)address);
            check(reinterpret_cast<const double *>(address), step);
        } else {
            dies_in_copy = mode == "get-killed";
            auto variable = io.InquireVariable<double>("data");
            engine.Get(variable, data.data(), adios2::Mode::Sync);
            check(data.data(), step);
            if (mode == "get-twice") {
                pause_ms(100);
                overwrite(data);
                engine.Get(variable, data.data());
                engine.PerformGets();
                check(data.data(), step);
            }
        }
        print_line("step " + std::to_string(step));
        if (mode == "get-hold" || mode == "get-twice")
            pause_ms(100);
        engine.EndStep();
        steps++;
    }
    engine.Close();
    print_line(std::to_string(steps) + " steps");
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const std::string mode = argv[1];
    int status = run_program([&] {
        adios2::ADIOS adios("adios2.xml");
        if (argc > 3)
            write(adios.DeclareIO("writer"), mode, argv[2], strtoul(argv[3], nullptr, 10));
        else
            read(adios.DeclareIO("reader"), mode, argv[2]);
    });
    if (status == 0)
        print_line(std::to_string(copies) + " copies");
    return status;
}
