// tests/adios2/guests/adios2_ranks.cpp: both ends of the engine with a communicator. PyPI's ADIOS2
// has no MPI, so this guest contains the sources of the ends, compiled for one that has it.
//
//   adios2_ranks communicator           Ranks owns its communicator
//   adios2_ranks not-ready|late [precious]   rank 2 writes, ranks 0 and 1 read
//   adios2_ranks killed                 reads a stream whose writer is killed, then FILE "killed"
//   adios2_ranks open-once              the first release of a step fails in a reader's Open
//   adios2_ranks open-apart             rank 2 writes; rank 1 cannot open the stream, rank 0 can
//
// The ranks of a reader verify that all get the same status and step.
#include "adios2_check.hpp"
#include "reader.hpp"
#include "writer.hpp"

#include <cerrno>
#include <cstring>

namespace
{

using adios2::StepStatus;
using onespace_adios::Ranks;
using onespace_adios::Reader;
using onespace_adios::Writer;

constexpr int WRITER = 2;
int rank;
adios2::IO io;
unsigned failing_releases, opened_channels;

onespace_adios::Parameters parameters_with(const adios2::Params &more)
{
    adios2::Params all = {{"Channel", "data"}};
    all.insert(more.begin(), more.end());
    return onespace_adios::read_parameters(all);
}

std::string no_reason()
{
    return "";
}

// ---- Steps of two readers ----

// BeginStep of a rank; REQUIREs that the result is the same on all ranks.
StepStatus begin_step(Reader &reader, MPI_Comm readers, float timeout_s)
{
    StepStatus status = reader.begin_step(adios2::StepMode::Read, timeout_s);
    long found[2] = {(long)status, status == StepStatus::OK ? (long)reader.current_step() : -1};
    long min[2], max[2];
    MPI_Allreduce(found, min, 2, MPI_LONG, MPI_MIN, readers);
    MPI_Allreduce(found, max, 2, MPI_LONG, MPI_MAX, readers);
    REQUIRE(min[0] == max[0]);
    REQUIRE(min[1] == max[1]);
    return status;
}

// Prints the steps until the end.
void read_rest(Reader &reader, MPI_Comm readers)
{
    StepStatus status;
    size_t steps = 0;
    for (; (status = begin_step(reader, readers, -1)) == StepStatus::OK; steps++) {
        print_line("step " + std::to_string(reader.current_step()));
        reader.end_step();
    }
    print_end(steps, status);
    reader.close();
}

void send(int to)
{
    MPI_Send(nullptr, 0, MPI_INT, to, 0, MPI_COMM_WORLD);
}

void receive(int from)
{
    MPI_Recv(nullptr, 0, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void write_step(Writer &writer)
{
    REQUIRE(writer.begin_step(-1) == StepStatus::OK);
    writer.end_step();
}

// One rank's timeout passes before the step is published, that of the other does not.
constexpr size_t STEPS = 6;

void write_while_ranks_wait(const Ranks &ranks, const onespace_adios::Parameters &parameters)
{
    Writer writer(io, "data", parameters, ranks);
    for (size_t step = 0; step < STEPS; step++) {
        receive(0);
        receive(1);
        pause_ms(200);
        write_step(writer);
    }
    writer.close();
}

void read_with_timeouts(const Ranks &ranks, MPI_Comm readers,
                        const onespace_adios::Parameters &parameters)
{
    Reader reader(io, "data", parameters, ranks, no_reason);
    for (size_t step = 0; step < STEPS; step++) {
        send(WRITER);
        StepStatus status = begin_step(reader, readers, rank == (int)step % 2 ? 0.0f : 60.0f);
        while (status == StepStatus::NotReady)
            status = begin_step(reader, readers, 0.01f);
        REQUIRE(status == StepStatus::OK && reader.current_step() == step);
        reader.end_step();
    }
    read_rest(reader, readers);
}

// Rank 0 opens the stream before the first step, rank 1 after the third.
void write_for_late_rank(const Ranks &ranks, const onespace_adios::Parameters &parameters)
{
    Writer writer(io, "data", parameters, ranks);
    receive(0);
    for (size_t step = 0; step < STEPS; step++) {
        if (step == 3) {
            send(1);
            receive(1);
        }
        write_step(writer);
    }
    writer.close();
}

void read_late(const Ranks &ranks, MPI_Comm readers, const onespace_adios::Parameters &parameters)
{
    if (rank == 1)
        receive(WRITER);
    Reader reader(io, "data", parameters, ranks, no_reason);
    send(WRITER);
    read_rest(reader, readers);
}

void exchange(bool is_late, bool is_precious)
{
    MPI_Comm end;
    MPI_Comm_split(MPI_COMM_WORLD, rank == WRITER, rank, &end);
    Ranks ranks = onespace_adios::ranks_of(end);
    auto parameters = parameters_with({{"RendezvousReaderCount", is_late ? "0" : "1"},
                                       {"FirstTimestepPrecious", is_precious ? "true" : "false"}});
    if (rank == WRITER)
        is_late ? write_for_late_rank(ranks, parameters)
                : write_while_ranks_wait(ranks, parameters);
    else
        is_late ? read_late(ranks, end, parameters) : read_with_timeouts(ranks, end, parameters);
}

// Rank 0 gets the second step, rank 1 tries to after the writer's death.
void read_from_killed_writer()
{
    Ranks ranks = onespace_adios::ranks_of(MPI_COMM_WORLD);
    Reader reader(io, "data", parameters_with({}), ranks, no_reason);
    REQUIRE(begin_step(reader, MPI_COMM_WORLD, -1) == StepStatus::OK);
    reader.end_step();
    if (rank == 1) {
        print_line("waits");
        while (access("killed", F_OK) != 0)
            pause_ms(1);
        pause_ms(500); // until the space knows of the death
    }
    read_rest(reader, MPI_COMM_WORLD);
}

// ---- Failures of Open ----

void open_once()
{
    Ranks ranks = onespace_adios::ranks_of(MPI_COMM_WORLD);
    failing_releases = 1;
    Reader reader(io, "data", parameters_with({}), ranks, no_reason);
    failing_releases = 0;
    REQUIRE(opened_channels == 1);
    read_rest(reader, MPI_COMM_WORLD);
}

// Rank 1 does not wait for the writer.
void open_apart()
{
    MPI_Comm end;
    MPI_Comm_split(MPI_COMM_WORLD, rank == WRITER, rank, &end);
    Ranks ranks = onespace_adios::ranks_of(end);
    auto parameters = parameters_with(
        {{"RendezvousReaderCount", "0"}, {"OpenTimeoutSecs", rank == 1 ? "0" : "60"}});
    if (rank == WRITER) {
        pause_ms(1000);
        Writer writer(io, "data", parameters, ranks);
        MPI_Barrier(MPI_COMM_WORLD);
        writer.close();
        return;
    }
    std::unique_ptr<Reader> reader;
    try {
        open_on_all(
            ranks, "data",
            [&] { reader = std::make_unique<Reader>(io, "data", parameters, ranks, no_reason); },
            [&] {
                REQUIRE(!reader == (rank == 1));
                reader.reset();
            });
        print_line("opened");
    } catch (const std::runtime_error &failure) {
        print_line(failure.what());
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// ---- The communicator ----

int duplicates; // of MPI_COMM_WORLD, counted by callbacks of an attribute

int count_duplicate(MPI_Comm, int, void *, void *from, void *to, int *is_copied)
{
    duplicates++;
    *static_cast<void **>(to) = from;
    *is_copied = 1;
    return MPI_SUCCESS;
}

int count_free(MPI_Comm, int, void *, void *)
{
    duplicates--;
    return MPI_SUCCESS;
}

// Finalizes MPI.
void check_communicator()
{
    int key;
    MPI_Comm_create_keyval(count_duplicate, count_free, &key, nullptr);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, nullptr);
    {
        Ranks ranks = onespace_adios::ranks_of(MPI_COMM_WORLD);
        REQUIRE(ranks.can_communicate() && duplicates == 1);
    }
    REQUIRE(duplicates == 0);
    Ranks remaining = onespace_adios::ranks_of(MPI_COMM_WORLD);
    remaining = onespace_adios::ranks_of_launcher();
    REQUIRE(duplicates == 0);
    remaining = onespace_adios::ranks_of(MPI_COMM_WORLD);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
    MPI_Finalize();
    print_line("all freed");
}

} // namespace

// The linker lets the ends call these (--wrap).
extern "C" {
int __real_onespace_insitu_release(onespace_insitu *channel, const onespace_insitu_step *step);
int __real_onespace_insitu_open(const char *name, int mode, int timeout_ms,
                                onespace_insitu **channel);

int __wrap_onespace_insitu_release(onespace_insitu *channel, const onespace_insitu_step *step);
int __wrap_onespace_insitu_release(onespace_insitu *channel, const onespace_insitu_step *step)
{
    if (failing_releases > 0) {
        failing_releases--;
        return -ENODATA;
    }
    return __real_onespace_insitu_release(channel, step);
}

int __wrap_onespace_insitu_open(const char *name, int mode, int timeout_ms,
                                onespace_insitu **channel);
int __wrap_onespace_insitu_open(const char *name, int mode, int timeout_ms,
                                onespace_insitu **channel)
{
    int result = __real_onespace_insitu_open(name, mode, timeout_ms, channel);
    if (result == 0 && strcmp(name, "adios2:data") == 0)
        opened_channels++;
    return result;
}
}

int main(int argc, char **argv)
{
    const std::string command = argc > 1 ? argv[1] : "";
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    adios2::ADIOS adios;
    io = adios.DeclareIO("ranks");
    int status = run_program([&] {
        if (command == "communicator")
            check_communicator();
        else if (command == "killed")
            read_from_killed_writer();
        else if (command == "open-once")
            open_once();
        else if (command == "open-apart")
            open_apart();
        else
            exchange(command == "late", argc > 2);
    });
    int is_finalized;
    MPI_Finalized(&is_finalized);
    if (!is_finalized)
        MPI_Finalize();
    return status;
}
