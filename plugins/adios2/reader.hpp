// plugins/adios2/reader.hpp: the reading end of a stream in a space.
#pragma once

#include "backend.hpp"
#include "exchange.hpp"
#include "parameters.hpp"
#include "polling.hpp"
#include "ranks.hpp"

#include <onespace/insitu.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace onespace_adios
{

constexpr size_t OF_COMPANION = SIZE_MAX;

// One Put of a writer, as readers see it.
struct Found {
    const Block *block;
    Loan *loan; // of the writer's part; NULL: it lends nothing
    unsigned writer;
    size_t number;     // of the block in the writer's part, or OF_COMPANION
    Dims start, count; // in the array; of a joined one, where it came to lie
    bool has_statistics = false;
    alignas(16) unsigned char min[16], max[16];
};

// The addresses of an array's blocks, as a variable beside it.
struct Companion {
    std::string name;
    std::vector<uint64_t> addresses;
    uint64_t count;
    Block block;
};

// A variable of the step, and ADIOS2's own.
struct Known {
    Element element = Element::none;
    size_t element_bytes = 0;
    Shape shape_kind = Shape::global_value; // as written
    Dims shape;                             // of a global array, however it was written
    std::vector<Found> blocks;
    void *variable = nullptr; // ADIOS2's; NULL: it is not defined
    Dims defined;             // the shape that ADIOS2 knows
    adios2::ShapeID defined_kind = adios2::ShapeID::Unknown;
    std::unique_ptr<Companion> companion; // made when it is needed first
};

// Thrown by Reader's constructor: the stream is not in this space, and why.
struct Elsewhere : std::runtime_error {
    using std::runtime_error::runtime_error;
};

class Reader : public Reading
{
  public:
    // Opens the channel, within the time of the parameters; `is_elsewhere` is asked meanwhile, and
    // ends the wait with a reason. Throws Elsewhere with it, std::runtime_error otherwise.
    Reader(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
           const Ranks &readers, const std::function<std::string()> &is_elsewhere);
    ~Reader() override;

    adios2::StepStatus begin_step(adios2::StepMode mode, float timeout_seconds) override;
    void end_step() override;
    size_t current_step() const override;
    void perform_gets() override;
    void close() override;
    adios2::MinVarInfo *blocks(const std::string &variable) override;
    void get(const Request &request, void *values, bool is_deferred) override;
    bool describe(const void *variable, Request &request) const override;
    // Of all blocks of ADIOS2's variable: whether it is one of this stream's.
    bool min_max(const void *variable, void *min, void *max);
    // Lets new variables know the engine.
    void set_adopt(std::function<void(void *)> function)
    {
        adopt = std::move(function);
    }

  private:
    struct Deferred {
        Request request;
        void *values;
    };

    void arrive(const Parameters &parameters, const std::function<std::string()> &is_elsewhere);
    void check(const Control &shown) const;
    adios2::StepStatus take(int timeout_ms);
    adios2::StepStatus take_first(int timeout_ms);
    bool show_first();
    void forget_first();
    void select_all();
    void collect(bool are_whole);
    bool has_last_layout() const;
    void refresh();
    void find_parts();
    void add(const Block &block, size_t number, unsigned writer, Loan *loan);
    void settle(Known &known);
    void define_all();
    void settle_all();
    void define_one(const std::string &variable, Known &known);
    template <class T> void define(const std::string &variable, Known &known);
    void define_addresses();
    static const Block &block_of_addresses(const std::string &variable, Known &known);
    void forget(const std::string &variable, Known &known);
    void copy(const Request &request, void *values);
    void copy_value(const Known &known, const Request &request, void *values);
    void copy_block(const Known &known, const Request &request, void *values);
    void copy_box(const Known &known, const Request &request, void *values);
    void find_statistics(const Known &known, Found &found) const;
    [[noreturn]] void fail(const char *what, const std::string &why) const;

    adios2::IO io;
    const std::string name;
    const Ranks ranks;
    const bool has_statistics, shows_addresses, takes_latest;
    Polling polling;
    onespace_insitu *channel = nullptr, *control_channel = nullptr;
    onespace_insitu_step step = {};
    // With FirstTimestepPrecious (first.cpp): the writer's control, and the step that holds it.
    const Control *control = nullptr;
    onespace_insitu_step control_step = {};
    bool is_first_shown = false, was_first_shown = false;
    bool has_next = false; // `step` was taken, for the next BeginStep
    std::map<std::string, Known, std::less<>> variables;
    std::map<const void *, Known *> by_variable;
    std::vector<Deferred> deferred;
    std::vector<uint64_t> attributes_seen, layouts_seen; // of each writer, its version
    std::vector<const Part *> parts;                     // of this step, by writer
    std::function<void(void *)> adopt;
    bool in_step = false, is_first = true, is_over = false;
    bool is_unchanged = false; // the last step's layout was that of the one before
};

} // namespace onespace_adios
