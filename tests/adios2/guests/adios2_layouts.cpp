// tests/adios2/guests/adios2_layouts.cpp: steps whose variables are those of the last step, or
// differ in number, order, shapes, blocks or types. Both ends derive a step's layout from its
// number.
//
//   adios2_layouts write NAME
//   adios2_layouts read NAME [poll|brief] [remove]   poll: repeats BeginStep without a timeout;
//                                                    brief: with a timeout of a millisecond;
//                                                    remove: removes variables in odd steps
//
// With Addresses="on" the reader also verifies the data at the addresses. No selection may hold for
// the next step.
#include "adios2_check.hpp"

#include <cstring>
#include <vector>

namespace
{

using adios2::Dims;
constexpr size_t STEPS = 36;

// The variables of a step. Each layout is used for three steps. Some layouts differ from the one
// before in one property only.
struct Layout {
    size_t rows = 4, columns = 3, blocks = 1, local = 5;
    size_t unwritten = 0; // further rows, which no block has
    bool has_extra = false, is_extra_float = false, is_swapped = false;
    const char *extra = "extra";
};

Layout layout_of(size_t step)
{
    Layout layout;
    size_t phase = step / 3;
    layout.rows = phase == 1 || phase == 2 ? 6 : 4;
    layout.blocks = phase == 2 || phase == 3 ? 2 : 1;
    layout.has_extra = phase >= 4 && phase != 6;
    layout.local = phase == 5 || phase == 6 ? 9 : 5;
    layout.is_swapped = phase == 7 || phase == 8;
    layout.is_extra_float = phase >= 8;
    layout.columns = phase >= 9 ? 2 : 3;
    layout.unwritten = phase >= 10 ? 1 : 0;
    layout.extra = phase >= 11 ? "other" : "extra";
    return layout;
}

double value(size_t step, size_t i)
{
    return (double)(step * 1000 + i);
}

#define REQUIRE_IN_STEP(condition) require(condition, #condition, "step", step)

// ---- The writer ----

void put_grid(adios2::Engine &engine, adios2::Variable<double> grid, const Layout &has, size_t step)
{
    size_t rows = has.rows / has.blocks;
    grid.SetShape({has.rows + has.unwritten, has.columns});
    for (size_t block = 0; block < has.blocks; block++) {
        grid.SetSelection({{block * rows, 0}, {rows, has.columns}});
        std::vector<double> data(rows * has.columns);
        for (size_t i = 0; i < data.size(); i++)
            data[i] = value(step, block * data.size() + i);
        engine.Put(grid, data.data(), adios2::Mode::Sync);
    }
}

template <class T>
void put_extra(adios2::Engine &engine, adios2::IO &io, const char *name, size_t step)
{
    auto extra = io.InquireVariable<T>(name);
    if (!extra) {
        io.RemoveVariable(name);
        extra = io.DefineVariable<T>(name, {2}, {0}, {2});
    }
    const T data[2] = {(T)step, (T)(step + 1)};
    engine.Put(extra, data, adios2::Mode::Sync);
}

void write(adios2::IO io, const char *name)
{
    auto grid = io.DefineVariable<double>("grid", {1, 1}, {0, 0}, {1, 1});
    auto local = io.DefineVariable<int32_t>("local", {}, {}, {1});
    auto time = io.DefineVariable<double>("time");
    auto label = io.DefineVariable<std::string>("label");
    adios2::Engine engine = io.Open(name, adios2::Mode::Write);
    for (size_t step = 0; step < STEPS; step++) {
        Layout has = layout_of(step);
        engine.BeginStep();
        if (!has.is_swapped)
            put_grid(engine, grid, has, step);
        std::vector<int32_t> pieces(has.local, (int32_t)step);
        local.SetSelection({{}, {has.local}});
        engine.Put(local, pieces.data(), adios2::Mode::Sync);
        engine.Put(time, 0.5 * (double)step);
        engine.Put(label, std::string(step + 1, 'x'));
        if (has.has_extra)
            has.is_extra_float ? put_extra<float>(engine, io, has.extra, step)
                               : put_extra<int64_t>(engine, io, has.extra, step);
        if (has.is_swapped)
            put_grid(engine, grid, has, step);
        engine.EndStep();
    }
    engine.Close();
}

// ---- The reader ----

void check_grid(adios2::Engine &engine, adios2::IO &io, const Layout &has, size_t step)
{
    auto grid = io.InquireVariable<double>("grid");
    size_t rows = has.rows + has.unwritten, written = has.rows * has.columns;
    REQUIRE_IN_STEP(grid && grid.Shape() == (Dims{rows, has.columns}));
    REQUIRE_IN_STEP(grid.SelectionSize() == rows * has.columns);
    std::vector<double> data(rows * has.columns, -1.0);
    engine.Get(grid, data.data(), adios2::Mode::Sync);
    for (size_t i = 0; i < data.size(); i++)
        REQUIRE_IN_STEP(data[i] == (i < written ? value(step, i) : -1.0));
    auto blocks = engine.BlocksInfo(grid, step);
    REQUIRE_IN_STEP(blocks.size() == has.blocks);
    REQUIRE_IN_STEP(blocks.front().Min == value(step, 0) &&
                    blocks.back().Max == value(step, written - 1));
    // A selection must not hold for the next step.
    double column[2];
    grid.SetSelection({{1, 1}, {2, 1}});
    engine.Get(grid, column, adios2::Mode::Sync);
    REQUIRE_IN_STEP(column[0] == value(step, has.columns + 1) &&
                    column[1] == value(step, 2 * has.columns + 1));
    if (step % 3 == 0)
        grid.SetBlockSelection(has.blocks - 1);
}

void check_addresses(adios2::Engine &engine, adios2::IO &io, const Layout &has, size_t step)
{
    auto addresses = io.InquireVariable<uint64_t>("onespace/address/grid");
    if (!addresses)
        return;
    std::vector<uint64_t> found;
    engine.Get(addresses, found, adios2::Mode::Sync);
    REQUIRE_IN_STEP(found.size() == has.blocks);
    REQUIRE_IN_STEP(!io.InquireVariable<uint64_t>("onespace/address/onespace/address/grid"));
    for (size_t block = 0; block < has.blocks; block++) {
        double first;
        memcpy(&first, reinterpret_cast<const void *>(found[block]), sizeof(first));
        REQUIRE_IN_STEP(first == value(step, block * has.rows / has.blocks * has.columns));
    }
}

template <class T>
void check_extra(adios2::Engine &engine, adios2::IO &io, const char *name, bool is_there,
                 size_t step)
{
    auto extra = io.InquireVariable<T>(name);
    REQUIRE_IN_STEP((bool)extra == is_there);
    if (!is_there)
        return;
    std::vector<T> data;
    engine.Get(extra, data, adios2::Mode::Deferred);
    engine.PerformGets();
    REQUIRE_IN_STEP(data.size() == 2 && data[0] == (T)step && data[1] == (T)(step + 1));
    extra.SetSelection({{1}, {1}});
}

void check_step(adios2::Engine &engine, adios2::IO &io, size_t step)
{
    Layout has = layout_of(step);
    check_grid(engine, io, has, step);
    check_addresses(engine, io, has, step);
    auto local = io.InquireVariable<int32_t>("local");
    REQUIRE_IN_STEP((bool)local);
    std::vector<int32_t> pieces;
    local.SetBlockSelection(0);
    engine.Get(local, pieces, adios2::Mode::Sync);
    REQUIRE_IN_STEP(pieces == std::vector<int32_t>(has.local, (int32_t)step));
    double time = -1;
    std::string label;
    engine.Get("time", time, adios2::Mode::Sync);
    engine.Get("label", label, adios2::Mode::Sync);
    REQUIRE_IN_STEP(time == 0.5 * (double)step && label == std::string(step + 1, 'x'));
    for (const char *name : {"extra", "other"}) {
        bool is_there = has.has_extra && strcmp(name, has.extra) == 0;
        check_extra<int64_t>(engine, io, name, is_there && !has.is_extra_float, step);
        check_extra<float>(engine, io, name, is_there && has.is_extra_float, step);
    }
}

void read(adios2::IO io, const char *name, float timeout, bool removes)
{
    adios2::Engine engine = io.Open(name, adios2::Mode::Read);
    size_t steps = 0;
    for (;;) {
        auto status = engine.BeginStep(adios2::StepMode::Read, timeout);
        if (status == adios2::StepStatus::NotReady) {
            if (timeout == 0)
                usleep(100);
            continue;
        }
        if (status != adios2::StepStatus::OK)
            break;
        size_t step = engine.CurrentStep();
        REQUIRE_IN_STEP(step == steps);
        check_step(engine, io, step);
        if (removes && step % 2) {
            io.RemoveVariable("grid");
            io.RemoveVariable("time");
        }
        engine.EndStep();
        steps++;
    }
    engine.Close();
    printf("%zu steps\n", steps);
}

} // namespace

int main(int argc, char **argv)
{
    const std::string what = argc > 2 ? argv[1] : "";
    auto is_given = [&](const char *word) {
        for (int i = 3; i < argc; i++)
            if (strcmp(argv[i], word) == 0)
                return true;
        return false;
    };
    return run_program([&] {
        adios2::ADIOS adios("adios2.xml");
        if (what == "write")
            write(adios.DeclareIO("writer"), argv[2]);
        else
            read(adios.DeclareIO("reader"), argv[2],
                 is_given("poll")    ? 0.0f
                 : is_given("brief") ? 0.001f
                                     : -1.0f,
                 is_given("remove"));
    });
}
