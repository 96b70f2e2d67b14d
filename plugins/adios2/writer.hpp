// plugins/adios2/writer.hpp: the writing end of a stream in a space.
#pragma once

#include "backend.hpp"
#include "backoff.hpp"
#include "exchange.hpp"
#include "loan.hpp"
#include "memory.hpp"
#include "parameters.hpp"
#include "ranks.hpp"

#include <onespace/insitu.h>

#include <map>
#include <memory>
#include <vector>

namespace onespace_adios
{

class Writer : public Writing
{
  public:
    // Makes the channel. Throws std::runtime_error.
    Writer(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
           const Ranks &writers);
    ~Writer() override;

    adios2::StepStatus begin_step(adios2::StepMode mode, float timeout_seconds) override;
    void end_step() override;
    size_t current_step() const override;
    void perform_puts() override;
    void close() override;
    adios2::MinVarInfo *blocks(const std::string &variable) override;
    void put(const Request &request, const void *values, bool is_deferred) override;
    void *put_span(const Request &request) override;
    // attribute_changed will be called for every one that changes; otherwise each step looks.
    void will_be_told()
    {
        is_told = true;
    }
    void attribute_changed()
    {
        is_changed = true;
    }
    // Spans of that variable in this step so far.
    size_t span_count(const void *variable) const;

  private:
    // The attributes of the IO as they were when one had changed.
    struct Attributes {
        Memory memory;
        std::vector<Attribute> all;
        uint64_t version = 0;
    };
    // What one step of the channel needs; `part` is what readers see.
    struct Stage {
        Memory memory;
        std::vector<Block> blocks;
        std::shared_ptr<Attributes> attributes;
        Part part = {};
        Loan loan = {};
    };
    // What a Put has described, all but the values.
    struct Described {
        std::string name;
        Element element;
        adios2::ShapeID shape_kind;
        Dims shape, start, count;
    };
    struct Deferred {
        size_t block;
        Request request;
        const void *values;
    };

    void create(const Parameters &parameters);
    void show_control();
    Control *find_control(int timeout_ms);
    bool await_readers(float timeout_seconds);
    void leave_control();
    void keep_first();
    Stage &stage();
    void begin_if_needed();
    Block &add_block(const Request &request);
    void note_layout(size_t number, const Request &request);
    void store(Block &block, const Request &request, const void *values);
    void lend();
    void settle(Stage &now);
    void copy_lent(Stage &now);
    void await_release();
    void collect_attributes();
    void announce(Stage &now);
    void prepare_loan(Loan &loan) const;
    void publish();
    [[noreturn]] void fail(const char *what, int result) const;

    adios2::IO io;
    const std::string name;
    const Ranks ranks;
    const Parameters::Puts puts;
    const bool is_first_kept;
    const size_t copied_at_once; // bytes: smaller ones, even deferred
    unsigned readers_awaited;
    unsigned depth = 1;
    onespace_insitu *channel = nullptr, *control_channel = nullptr;
    std::unique_ptr<Control> control;
    std::unique_ptr<std::atomic<const Part *>[]> firsts; // of all ranks, the control's
    std::unique_ptr<Stage> first;                        // this rank's
    // One for each step of the channel, and one for those that are discarded.
    std::vector<std::unique_ptr<Stage>> stages;
    std::vector<Deferred> deferred;
    std::vector<size_t> lent; // blocks of this step
    Backoff lending;
    std::map<const void *, size_t> spans;
    std::vector<Described> layout; // of the blocks of the last step, and of this one so far
    uint64_t layout_version = 0;
    std::shared_ptr<Attributes> attributes;
    bool is_told = false, is_changed = true;
    uint64_t next_step = 0, published = 0;
    bool in_step = false, is_discarded = false, is_closed = false;
};

std::string channel_name(const std::string &stream);
std::string control_name(const std::string &stream);

} // namespace onespace_adios
