// bench/adios2/handover.cpp: a writer and a reader that use ADIOS2 only; adios2.xml in the working
// directory chooses the engine.
//
//   handover MODE BYTES STEPS PAUSE_US CPU
//
// MODE: write; read; read-in-place, by the addresses that the engine onespace shows; inline: both
// ends in one program. The file `write` gets "STEP NS" for the moment before EndStep,
// the file `read` for the moment when the data of the step is in place.
#include <adios2.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

namespace
{

using Moments = std::vector<std::pair<size_t, long>>;

adios2::ADIOS adios("adios2.xml");
size_t elements, steps;
long pause_ns;

long now()
{
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

// The data of a step is checked by its first and last element.
[[noreturn]] void fail(const char *why, size_t step)
{
    fprintf(stderr, "handover: step %zu: %s\n", step, why);
    exit(1);
}

void check(const double *data, size_t step)
{
    if (data[0] != (double)step || data[elements - 1] != (double)step + 0.5)
        fail("the data is not the writer's", step);
}

void fill(double *data, size_t step)
{
    data[elements - 1] = (double)step + 0.5;
    data[0] = (double)step;
}

void write_file(const char *what, const Moments &moments)
{
    FILE *file = fopen(what, "w");
    if (!file)
        fail("its file cannot be written", 0);
    for (const auto &[step, moment] : moments)
        fprintf(file, "%zu %ld\n", step, moment);
    fclose(file);
}

void write()
{
    adios2::IO io = adios.DeclareIO("writer");
    auto variable = io.DefineVariable<double>("data", {elements}, {0}, {elements});
    adios2::Engine engine = io.Open("stream", adios2::Mode::Write);
    std::vector<double> data(elements, 1.0);
    Moments moments;
    for (size_t step = 0; step < steps; step++) {
        engine.BeginStep();
        fill(data.data(), step);
        engine.Put(variable, data.data());
        for (long until = now() + pause_ns; now() < until;)
            ;
        moments.push_back({step, now()});
        engine.EndStep();
    }
    engine.Close();
    write_file("write", moments);
}

void read(bool in_place)
{
    adios2::IO io = adios.DeclareIO("reader");
    adios2::Engine engine = io.Open("stream", adios2::Mode::Read);
    std::vector<double> data(elements, -1.0);
    Moments moments;
    while (engine.BeginStep() == adios2::StepStatus::OK) {
        const double *found = data.data();
        if (in_place) {
            uint64_t address = 0;
            engine.Get(io.InquireVariable<uint64_t>("onespace/address/data"), &address,
                       adios2::Mode::Sync);
            found = reinterpret_cast<const double *>(address);
        } else {
            engine.Get(io.InquireVariable<double>("data"), data.data(), adios2::Mode::Sync);
        }
        moments.push_back({engine.CurrentStep(), now()});
        check(found, engine.CurrentStep());
        engine.EndStep();
    }
    engine.Close();
    write_file("read", moments);
}

void both_inline()
{
    adios2::IO io = adios.DeclareIO("writer");
    io.SetEngine("Inline");
    auto variable = io.DefineVariable<double>("data", {elements}, {0}, {elements});
    adios2::Engine writer = io.Open("stream", adios2::Mode::Write);
    adios2::Engine reader = io.Open("stream-reader", adios2::Mode::Read);
    std::vector<double> data(elements, 1.0);
    Moments written, found;
    for (size_t step = 0; step < steps; step++) {
        writer.BeginStep();
        fill(data.data(), step);
        writer.Put(variable, data.data());
        written.push_back({step, now()});
        writer.EndStep();
        reader.BeginStep();
        double *address = nullptr;
        reader.Get(variable, &address);
        found.push_back({step, now()});
        check(address, step);
        reader.EndStep();
    }
    reader.Close();
    writer.Close();
    write_file("write", written);
    write_file("read", found);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: handover MODE BYTES STEPS PAUSE_US CPU\n");
        return 2;
    }
    const std::string mode = argv[1];
    elements = strtoul(argv[2], nullptr, 10) / sizeof(double);
    steps = strtoul(argv[3], nullptr, 10);
    pause_ns = strtol(argv[4], nullptr, 10) * 1000;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[5]), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        perror("handover: CPU affinity");
    if (mode == "inline")
        both_inline();
    else if (mode == "write")
        write();
    else
        read(mode == "read-in-place");
    return 0;
}
