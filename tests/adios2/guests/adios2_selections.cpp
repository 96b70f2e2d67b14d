// tests/adios2/guests/adios2_selections.cpp: Get with Selections, of which some do not fit.
//
//   adios2_selections NAME      reads what two ranks of `adios2_stream write-shapes` write; prints
//                               the message of each Get that fails
#include "adios2_check.hpp"

#include <algorithm>
#include <vector>

namespace
{

using adios2::Selection;

adios2::Engine engine;
adios2::IO io;

// A Get that fails and writes nothing.
template <class T> void reject(const char *name, const Selection &selection)
{
    std::vector<T> memory(64, T(-1));
    try {
        engine.Get(io.InquireVariable<T>(name), memory.data(), selection, adios2::Mode::Sync);
        print_line(std::string("no failure: ") + name);
    } catch (const std::exception &failure) {
        print_line(failure.what());
    }
    REQUIRE(std::count(memory.begin(), memory.end(), T(-1)) == 64);
}

// The three rows of two columns: of rank 0 {0, 0}, of rank 1 {1, 1}, {1, 1}.
void check_array()
{
    for (const auto &box :
         {Selection::BoundingBox({0}, {3}), Selection::BoundingBox({0, 0, 0}, {1, 1, 1}),
          Selection::BoundingBox({SIZE_MAX, 0}, {2, 2}), Selection::BoundingBox({2, 0}, {2, 2})})
        reject<float>("joined", box);
    const auto all = Selection::BoundingBox({0, 0}, {3, 2});
    reject<float>("joined", all.WithMemory({0}, {6}));
    reject<float>("joined", all.WithMemory({0, 0}, {2, 2}));
    reject<float>("joined", all.WithMemory({1, 0}, {3, 2}));
    reject<float>("joined", all.WithMemory({0, SIZE_MAX}, {3, 2}));
    reject<float>("joined", Selection::Block(1).WithMemory({0, 0}, {1, 2}));
    float frame[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    engine.Get(io.InquireVariable<float>("joined"), frame,
               Selection::BoundingBox({1, 1}, {1, 1}).WithMemory({1, 1}, {2, 2}),
               adios2::Mode::Sync);
    REQUIRE(frame[3] == 1 && std::count(frame, frame + 8, -1.0f) == 7);
}

// Block 3, of rank 1, has four elements, 11 each.
void check_block()
{
    reject<int64_t>("local", Selection::BoundingBox({0, 0}, {1, 1}).WithBlock(3));
    reject<int64_t>("local", Selection::BoundingBox({SIZE_MAX}, {2}).WithBlock(3));
    reject<int64_t>("local", Selection::BoundingBox({3}, {2}).WithBlock(3));
    reject<int64_t>("local", Selection::Block(SIZE_MAX));
    int64_t frame[4] = {-1, -1, -1, -1};
    engine.Get(io.InquireVariable<int64_t>("local"), frame,
               Selection::BoundingBox({2}, {2}).WithBlock(3).WithMemory({1}, {4}),
               adios2::Mode::Sync);
    REQUIRE(frame[0] == -1 && frame[1] == 11 && frame[2] == 11 && frame[3] == -1);
}

void check_values()
{
    reject<int32_t>("number", Selection::BoundingBox({SIZE_MAX}, {2}));
    reject<int32_t>("number", Selection::BoundingBox({}, {}));
    reject<int32_t>("number", Selection::BoundingBox({0}, {2}).WithMemory({0}, {1}));
    reject<int32_t>("number", Selection::Block(2));
    auto writer = io.InquireVariable<std::string>("writer");
    auto get = [&](const Selection &selection) {
        std::string texts[2];
        try {
            engine.Get(writer, texts, selection, adios2::Mode::Sync);
        } catch (const std::exception &failure) {
            return std::string(failure.what());
        }
        return texts[0] + "," + texts[1];
    };
    REQUIRE(get(Selection::All()) == "rank 0,");
    REQUIRE(get(Selection::All().WithMemory({0}, {1})) == "rank 0,");
    REQUIRE(get(Selection::Block(1)) == "rank 1,");
    REQUIRE(get(Selection::BoundingBox({1}, {1})) == "rank 1,");
    REQUIRE(get(Selection::BoundingBox({0}, {2})) == "rank 0,rank 1");
    print_line(get(Selection::Block(2)));
    print_line(get(Selection::BoundingBox({2}, {1})));
    print_line(get(Selection::BoundingBox({SIZE_MAX}, {1})));
}

} // namespace

int main(int, char **argv)
{
    return run_program([&] {
        adios2::ADIOS adios("adios2.xml");
        io = adios.DeclareIO("reader");
        engine = io.Open(argv[1], adios2::Mode::Read);
        while (engine.BeginStep() == adios2::StepStatus::OK) {
            check_array();
            check_block();
            check_values();
            engine.EndStep();
        }
        engine.Close();
        print_line("the end");
    });
}
