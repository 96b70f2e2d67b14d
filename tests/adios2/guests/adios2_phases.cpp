// tests/adios2/guests/adios2_phases.cpp: one end of a stream that dies in a phase of its own, and
// the other end, which must learn of it.
//
//   adios2_phases write|read NAME [PHASE]      dies after PHASE: open, begin, move, end; close: in
//                                              Close, which a writer does not leave before its
//                                              reader
//
// "move" is Put or Get. Prints what it does before it does it.
#include <adios2.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

constexpr size_t ELEMENTS = size_t(1) << 20; // lent
std::string last_phase;

void say(const char *line)
{
    printf("%s\n", line);
    fflush(stdout);
}

void begin(const char *phase)
{
    say(phase);
}

void done(const char *phase)
{
    if (last_phase == phase)
        kill(getpid(), SIGKILL);
}

void write(adios2::IO io, const char *name)
{
    auto variable = io.DefineVariable<double>("data", {ELEMENTS}, {0}, {ELEMENTS});
    std::vector<double> data(ELEMENTS, 1.5);
    begin("open");
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    done("open");
    for (int step = 0; step < 3; step++) {
        begin("begin");
        engine.BeginStep();
        done("begin");
        begin("move");
        engine.Put(variable, data.data());
        done("move");
        begin("end");
        engine.EndStep();
        done("end");
    }
    begin("close");
    engine.Close();
    say("closed");
}

void read(adios2::IO io, const char *name)
{
    std::vector<double> data(ELEMENTS);
    begin("open");
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    done("open");
    adios2::StepStatus status;
    int steps = 0;
    for (;; steps++) {
        begin("begin");
        status = engine.BeginStep();
        if (status != adios2::StepStatus::OK)
            break;
        done("begin");
        begin("move");
        engine.Get(io.InquireVariable<double>("data"), data.data(), adios2::Mode::Sync);
        done("move");
        begin("end");
        engine.EndStep();
        done("end");
    }
    begin("close");
    if (last_phase == "close")
        kill(getpid(), SIGKILL);
    engine.Close();
    printf("%d steps, then %s\n", steps,
           status == adios2::StepStatus::EndOfStream ? "the end" : "an error");
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    last_phase = argc > 3 ? argv[3] : "";
    try {
        adios2::ADIOS adios("adios2.xml");
        if (std::string(argv[1]) == "write")
            write(adios.DeclareIO("writer"), argv[2]);
        else
            read(adios.DeclareIO("reader"), argv[2]);
    } catch (const std::exception &failure) {
        printf("failed: %s\n", failure.what());
        return 3;
    }
    return 0;
}
