// tests/adios2/guests/adios2_stream.cpp: writers and readers of ADIOS2 that know nothing of
// onespace. The engine is chosen in adios2.xml, in the working directory.
//
// adios2_stream [RANK/RANKS] COMMAND, as if a launcher had numbered it:
//   write NAME STEPS [PAUSE_MS [FILE]]   boxes of a global array, values, strings, attributes; the
//                                  last step waits for FILE to exist
//   read NAME [PAUSE_MS]           verifies all of it; prints the steps
//   read-sst NAME                  the same without Selections and what SST loses: statistics,
//                                  arrays of strings
//   read-without-statistics NAME   the same; expects no statistics
//   put-span NAME                  Put with a span
//   write-shapes NAME | read-shapes NAME WRITERS   local arrays, local values, joined arrays
//   read-limits NAME WRITERS       what plug-ins cannot see of the variables of write-shapes
//   write-types NAME | read-types NAME   every type
//   write-attributes NAME | read-attributes NAME   attributes that change their type
//   write-again NAME FILE          Open fails; opens it again when FILE exists, and writes 2 steps
//   append NAME                    opens it in a mode that streams do not have
#include "adios2_check.hpp"

#include <complex>
#include <memory>
#include <vector>

namespace
{

std::unique_ptr<adios2::ADIOS> adios;
adios2::IO io;
unsigned rank, ranks; // MPI's; by the launcher, if this ADIOS2 has none

bool has_statistics = true, expects_no_statistics = false, is_served_by_sst = false;

constexpr size_t ROWS = 6, COLUMNS = 8; // of each rank

unsigned setting(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text ? (unsigned)atoi(text) : otherwise;
}

double value(size_t step, size_t row, size_t column)
{
    return (double)(step * 1000000 + row * 1000 + column);
}

// ---- A global array of all ranks' boxes ----

void write(const char *name, size_t steps, unsigned pause, const char *file)
{
    size_t rows = ROWS * ranks;
    auto field =
        io.DefineVariable<double>("field", {rows, COLUMNS}, {ROWS * rank, 0}, {ROWS, COLUMNS});
    auto halves = io.DefineVariable<float>("halves", {2 * ranks}, {2 * rank}, {1});
    auto time = io.DefineVariable<double>("time");
    auto label = io.DefineVariable<std::string>("label");
    io.DefineAttribute<std::string>("units", "K");
    const std::vector<std::string> axes = {"row", "column"};
    io.DefineAttribute<std::string>("axes", axes.data(), axes.size(), "field");
    const int32_t order[3] = {3, 1, 2};
    io.DefineAttribute<int32_t>("order", order, 3);
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    std::vector<double> data(ROWS * COLUMNS);
    for (size_t step = 0; step < steps; step++) {
        while (file && step + 1 == steps && access(file, F_OK) != 0)
            pause_ms(1);
        REQUIRE(engine.BeginStep() == adios2::StepStatus::OK);
        REQUIRE(engine.CurrentStep() == step);
        for (size_t i = 0; i < data.size(); i++)
            data[i] = value(step, ROWS * rank + i / COLUMNS, i % COLUMNS);
        engine.Put(field, data.data());
        // Two blocks of one variable in a step, and Sync, after which the memory may change.
        float half[1];
        for (size_t i = 0; i < 2; i++) {
            halves.SetSelection({{2 * rank + i}, {1}});
            half[0] = (float)(step + rank) + 0.5f * (float)i;
            engine.Put(halves, half, adios2::Mode::Sync);
        }
        engine.Put(time, 0.25 * (double)step);
        engine.Put(label, "step " + std::to_string(step));
        if (step % 2)
            engine.PerformPuts();
        engine.EndStep();
        std::fill(data.begin(), data.end(), -1.0); // it is the program's again
        print_line("wrote " + std::to_string(step));
        pause_ms(pause);
    }
    engine.Close();
}

void check_step(adios2::Engine &engine, size_t step)
{
    auto field = io.InquireVariable<double>("field");
    REQUIRE(field && field.Shape().size() == 2 && field.Shape()[1] == COLUMNS);
    size_t rows = field.Shape()[0];
    // A box across writers' blocks, another for each reader.
    size_t first = rank % 2 ? 1 : 0, column = 2;
    field.SetSelection({{first, column}, {rows - 2, 5}});
    REQUIRE(field.SelectionSize() == (rows - 2) * 5);
    std::vector<double> box;
    engine.Get(field, box);
    double time = -1;
    std::string label;
    engine.Get<double>("time", time, adios2::Mode::Sync);
    engine.Get<std::string>("label", label, adios2::Mode::Sync);
    REQUIRE(time == 0.25 * (double)step && label == "step " + std::to_string(step));
    engine.PerformGets();
    for (size_t i = 0; i < box.size(); i++)
        REQUIRE(box[i] == value(step, first + i / 5, column + i % 5));
    // A block, and a box in the middle of a larger array.
    std::vector<double> block(ROWS * COLUMNS), frame(20, -7.0);
    if (is_served_by_sst) {
        field.SetBlockSelection(rows / ROWS - 1);
        engine.Get(field, block, adios2::Mode::Sync);
        field.SetSelection({{0, 0}, {2, 3}});
        field.SetMemorySelection({{1, 1}, {4, 5}});
        engine.Get(field, frame.data(), adios2::Mode::Sync);
    } else {
        engine.Get(field, block.data(), adios2::Selection::Block(rows / ROWS - 1),
                   adios2::Mode::Sync);
        adios2::Selection selection = adios2::Selection::BoundingBox({0, 0}, {2, 3});
        engine.Get(field, frame.data(), selection.WithMemory({1, 1}, {4, 5}), adios2::Mode::Sync);
        engine.Get(field, box, adios2::Selection::BoundingBox({1, 2}, {2, 2}), adios2::Mode::Sync);
        REQUIRE(box.size() == 4 && box[3] == value(step, 2, 3));
    }
    REQUIRE(block.size() == ROWS * COLUMNS && block[0] == value(step, rows - ROWS, 0));
    REQUIRE(frame[0] == -7 && frame[6] == value(step, 0, 0) && frame[13] == value(step, 1, 2) &&
            frame[14] == -7);
    // Blocks, with what they contain.
    auto blocks = engine.BlocksInfo(field, engine.CurrentStep());
    REQUIRE(blocks.size() == rows / ROWS);
    for (size_t b = 0; b < blocks.size(); b++) {
        REQUIRE(blocks[b].Start == adios2::Dims({b * ROWS, 0}));
        REQUIRE(blocks[b].Count == adios2::Dims({ROWS, COLUMNS}) && blocks[b].WriterID == (int)b);
        if (!has_statistics)
            continue;
        REQUIRE(blocks[b].Min == value(step, b * ROWS, 0));
        REQUIRE(blocks[b].Max == value(step, (b + 1) * ROWS - 1, COLUMNS - 1));
    }
    REQUIRE(!expects_no_statistics || blocks[0].Max == 0);
    auto halves = io.InquireVariable<float>("halves");
    std::vector<float> half;
    engine.Get(halves, half, adios2::Mode::Sync);
    REQUIRE(half.size() == 2 * rows / ROWS && half[1] == (float)step + 0.5f);
}

void check_attributes()
{
    REQUIRE(io.InquireAttribute<std::string>("units").Data().at(0) == "K");
    if (is_served_by_sst)
        return; // SST passes on the first of several strings
    auto axes = io.InquireAttribute<std::string>("field/axes").Data();
    REQUIRE(axes.size() == 2 && axes[1] == "column");
    auto order = io.InquireAttribute<int32_t>("order").Data();
    REQUIRE(order == std::vector<int32_t>({3, 1, 2}));
}

void read(const char *name, unsigned pause)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    print_line("open");
    adios2::StepStatus status;
    size_t steps = 0;
    while ((status = engine.BeginStep()) == adios2::StepStatus::OK) {
        check_step(engine, engine.CurrentStep());
        check_attributes();
        print_line("step " + std::to_string(engine.CurrentStep()));
        pause_ms(pause);
        engine.EndStep();
        steps++;
    }
    print_end(steps, status);
    engine.Close();
}

// ---- Spans ----

void put_span(const char *name)
{
    auto grid = io.DefineVariable<int32_t>("grid", {4}, {0}, {4});
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    engine.BeginStep();
    engine.Put(grid);
}

// ---- Other shapes ----

void write_shapes(const char *name)
{
    auto local = io.DefineVariable<int64_t>("local", {}, {}, {2});
    auto number = io.DefineVariable<int32_t>("number", {adios2::LocalValueDim});
    auto writer = io.DefineVariable<std::string>("writer", {adios2::LocalValueDim});
    auto joined = io.DefineVariable<float>("joined", {adios2::JoinedDim, 2}, {}, {rank + 1, 2});
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    for (size_t step = 0; step < 3; step++) {
        engine.BeginStep();
        for (size_t block = 0; block < 2; block++) { // of another size each
            std::vector<int64_t> values(2 + rank + block, (int64_t)(10 * rank + block));
            local.SetSelection({{}, {values.size()}});
            engine.Put(local, values.data(), adios2::Mode::Sync);
        }
        engine.Put(number, (int32_t)(100 * step + rank));
        engine.Put(writer, "rank " + std::to_string(rank));
        std::vector<float> rows(2 * (rank + 1), (float)rank);
        engine.Put(joined, rows.data(), adios2::Mode::Sync);
        engine.EndStep();
    }
    engine.Close();
}

void read_shapes(const char *name, unsigned writers)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    for (size_t step = 0; engine.BeginStep() == adios2::StepStatus::OK; step++) {
        auto local = io.InquireVariable<int64_t>("local");
        REQUIRE(engine.BlocksInfo(local, step).size() == 2 * writers);
        for (unsigned block = 0; block < 2 * writers; block++) {
            local.SetBlockSelection(block);
            local.SetSelection({{}, {2 + block / 2 + block % 2}});
            std::vector<int64_t> values;
            engine.Get(local, values, adios2::Mode::Sync);
            REQUIRE(values.size() == 2 + block / 2 + block % 2);
            REQUIRE(values.back() == 10 * (block / 2) + block % 2);
        }
        auto number = io.InquireVariable<int32_t>("number"); // an array of all writers' values
        REQUIRE(number.Shape() == adios2::Dims({writers}));
        std::vector<int32_t> numbers;
        engine.Get(number, numbers, adios2::Mode::Sync);
        REQUIRE(numbers[writers - 1] == (int32_t)(100 * step + writers - 1));
        auto writer = io.InquireVariable<std::string>("writer");
        writer.SetBlockSelection(writers - 1);
        std::string text;
        engine.Get(writer, text, adios2::Mode::Sync);
        REQUIRE(text == "rank " + std::to_string(writers - 1));
        auto joined = io.InquireVariable<float>("joined");
        REQUIRE(joined.Shape() == adios2::Dims({writers * (writers + 1) / 2, 2}));
        std::vector<float> rows;
        engine.Get(joined, rows, adios2::Mode::Sync);
        REQUIRE(rows[0] == 0 && rows.back() == (float)(writers - 1));
        engine.EndStep();
    }
    printf("shapes are right\n");
    engine.Close();
}

// Prints the message of the exception that `function` throws.
template <class F> void print_failure(F &&function)
{
    try {
        function();
        printf("no failure\n");
    } catch (const std::exception &failure) {
        printf("%s\n", failure.what());
    }
}

// The interface for plug-ins does not pass SetBlockSelection of global arrays, the size of a block,
// SetMemorySelection, and the extremes of a variable.
void read_limits(const char *name, unsigned writers)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    while (engine.BeginStep() == adios2::StepStatus::OK) {
        std::vector<int64_t> values;
        auto local = io.InquireVariable<int64_t>("local");
        local.SetBlockSelection(2 * writers - 1);
        print_failure([&] { engine.Get(local, values, adios2::Mode::Sync); });
        std::vector<float> rows;
        auto joined = io.InquireVariable<float>("joined");
        REQUIRE(joined.Min() == 0 && joined.Max() == 0 && joined.Steps() == 0);
        float frame[6] = {-1, -1, -1, -1, -1, -1};
        joined.SetSelection({{1, 0}, {1, 2}});
        joined.SetMemorySelection({{1, 0}, {3, 2}});
        engine.Get(joined, frame, adios2::Mode::Sync);
        REQUIRE(frame[0] == 1 && frame[1] == 1 && frame[2] == -1);
        joined.SetBlockSelection(0);
        print_failure([&] { engine.Get(joined, rows, adios2::Mode::Sync); });
        engine.EndStep();
    }
    engine.Close();
}

// ---- Types ----

template <class T> T sample()
{
    return T(41) + T(1);
}
template <> std::string sample<std::string>()
{
    return "forty-two";
}

void write_types(const char *name)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    engine.BeginStep();
#define WRITE(T) engine.Put(io.DefineVariable<T>("v " #T), sample<T>());
    ADIOS2_FOREACH_STDTYPE_1ARG(WRITE)
    engine.EndStep();
    engine.Close();
}

void read_types(const char *name)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    engine.BeginStep();
    size_t count = 0;
#define READ(T)                                                                                    \
    {                                                                                              \
        T found{};                                                                                 \
        engine.Get(io.InquireVariable<T>("v " #T), found, adios2::Mode::Sync);                     \
        REQUIRE(found == sample<T>());                                                             \
        count++;                                                                                   \
    }
    ADIOS2_FOREACH_STDTYPE_1ARG(READ)
    engine.EndStep();
    REQUIRE(engine.BeginStep() == adios2::StepStatus::EndOfStream);
    printf("%zu types\n", count);
    engine.Close();
}

// ---- Attributes ----

void write_attributes(const char *name)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    for (size_t step = 0; step < 4; step++) {
        engine.BeginStep();
        io.RemoveAllAttributes();
        const std::string units = "K";
        const int32_t positive = 5;
        const uint32_t unsigned_positive = 5;
        if (step % 2)
            io.DefineAttribute<std::string>("units", &units, 1);
        else
            io.DefineAttribute<std::string>("units", units);
        if (step / 2)
            io.DefineAttribute<uint32_t>("number", unsigned_positive);
        else
            io.DefineAttribute<int32_t>("number", positive);
        engine.EndStep();
    }
    engine.Close();
}

void read_attributes(const char *name)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    size_t step = 0;
    for (; engine.BeginStep() == adios2::StepStatus::OK; step++) {
        auto units = io.InquireAttribute<std::string>("units");
        REQUIRE(units && units.Data() == std::vector<std::string>{"K"});
        REQUIRE(units.IsValue() == (step % 2 == 0));
        REQUIRE(io.AttributeType("number") == (step / 2 ? "uint32_t" : "int32_t"));
        engine.EndStep();
    }
    print_line(std::to_string(step) + " steps");
    engine.Close();
}

// ---- A second Open ----

void write_again(const char *name, const char *file)
{
    print_failure([&] { io.Open(name, adios2::Mode::Write); });
    fflush(stdout);
    while (access(file, F_OK) != 0)
        pause_ms(1);
    write(name, 2, 0, nullptr);
}

// With MPI a program's ranks are those of its launcher; the static object is gone before MPI.
void start_adios()
{
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    int number, size;
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &number);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    rank = (unsigned)number;
    ranks = (unsigned)size;
    adios = std::make_unique<adios2::ADIOS>("adios2.xml", MPI_COMM_WORLD);
#else
    rank = setting("PMI_RANK", 0);
    ranks = setting("PMI_SIZE", 1);
    adios = std::make_unique<adios2::ADIOS>("adios2.xml");
#endif
}

void end_adios()
{
    adios.reset();
#if defined(ADIOS2_USE_MPI) && ADIOS2_USE_MPI
    MPI_Finalize();
#endif
}

} // namespace

int main(int argc, char **argv)
{
    if (argc > 1 && sscanf(argv[1], "%u/%u", &rank, &ranks) == 2) {
        setenv("PMI_RANK", std::to_string(rank).c_str(), 1);
        setenv("PMI_SIZE", std::to_string(ranks).c_str(), 1);
        argc--, argv++;
    }
    const std::string command = argc > 2 ? argv[1] : "";
    const char *name = argc > 2 ? argv[2] : "";
    auto argument = [&](int i, unsigned otherwise) {
        return argc > i ? (unsigned)atoi(argv[i]) : otherwise;
    };
    start_adios();
    int status = run_program([&] {
        io = adios->DeclareIO(command.find("read") == 0 ? "reader" : "writer");
        if (command == "write")
            write(name, argument(3, 5), argument(4, 0), argc > 5 ? argv[5] : nullptr);
        else if (command == "read")
            read(name, argument(3, 0));
        else if (command == "read-sst")
            is_served_by_sst = true, has_statistics = false, read(name, 0);
        else if (command == "read-without-statistics")
            expects_no_statistics = true, has_statistics = false, read(name, 0);
        else if (command == "write-attributes")
            write_attributes(name);
        else if (command == "read-attributes")
            read_attributes(name);
        else if (command == "write-again")
            write_again(name, argv[3]);
        else if (command == "append")
            io.Open(name, adios2::Mode::Append);
        else if (command == "put-span")
            put_span(name);
        else if (command == "write-shapes")
            write_shapes(name);
        else if (command == "read-shapes")
            read_shapes(name, argument(3, 1));
        else if (command == "read-limits")
            read_limits(name, argument(3, 1));
        else if (command == "write-types")
            write_types(name);
        else if (command == "read-types")
            read_types(name);
        else
            REQUIRE(!"a known command");
    });
    if (status == 0)
        end_adios();
    return status;
}
