// tests/adios2/guests/adios2_phases.cpp: one end of a stream that may die in one of its phases.
//
//   adios2_phases write|read NAME [PHASE]      dies after PHASE: open, begin, move, end; close: in
//                                              Close, which a writer leaves after its reader
//   adios2_phases write NAME wait              waits for a signal after the first step's EndStep
//
// "move" is Put or Get. Prints each phase before it begins.
#include "adios2_check.hpp"

#include <csignal>
#include <vector>

namespace
{

constexpr size_t ELEMENTS = size_t(1) << 20; // enough to be lent
std::string last_phase;

void die_after(const char *phase)
{
    if (last_phase == phase)
        kill(getpid(), SIGKILL);
}

void write(adios2::IO io, const char *name)
{
    auto variable = io.DefineVariable<double>("data", {ELEMENTS}, {0}, {ELEMENTS});
    std::vector<double> data(ELEMENTS, 1.5);
    print_line("open");
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    die_after("open");
    for (int step = 0; step < 3; step++) {
        print_line("begin");
        engine.BeginStep();
        die_after("begin");
        print_line("move");
        engine.Put(variable, data.data());
        die_after("move");
        print_line("end");
        engine.EndStep();
        die_after("end");
        if (last_phase == "wait")
            pause();
    }
    print_line("close");
    engine.Close();
    print_line("closed");
}

void read(adios2::IO io, const char *name)
{
    std::vector<double> data(ELEMENTS);
    print_line("open");
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    die_after("open");
    adios2::StepStatus status;
    size_t steps = 0;
    for (;; steps++) {
        print_line("begin");
        status = engine.BeginStep();
        if (status != adios2::StepStatus::OK)
            break;
        die_after("begin");
        print_line("move");
        engine.Get(io.InquireVariable<double>("data"), data.data(), adios2::Mode::Sync);
        die_after("move");
        print_line("end");
        engine.EndStep();
        die_after("end");
    }
    print_line("close");
    die_after("close");
    engine.Close();
    print_end(steps, status);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    last_phase = argc > 3 ? argv[3] : "";
    return run_program([&] {
        adios2::ADIOS adios("adios2.xml");
        if (std::string(argv[1]) == "write")
            write(adios.DeclareIO("writer"), argv[2]);
        else
            read(adios.DeclareIO("reader"), argv[2]);
    });
}
