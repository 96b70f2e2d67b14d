// plugins/adios2/writer.hpp: the writing end of a stream in a space.
#pragma once

#include "configuration.hpp"
#include "step.hpp"

#include <adios2.h>
#include <onespace/insitu.h>

#include <memory>
#include <string>
#include <vector>

namespace onespace_adios
{

class Writer
{
  public:
    // Creates the channel. Throws std::runtime_error. `writers` must outlive the object.
    Writer(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
           const Ranks &writers);
    ~Writer();

    adios2::StepStatus begin_step(float timeout_s);
    void end_step();
    size_t current_step() const
    {
        return next_step;
    }
    void put(const Request &request, const void *values, bool is_deferred);
    void perform_puts();
    void close();

  private:
    struct AttributeSet {
        StepMemory memory;
        std::vector<Attribute> all;
        uint64_t version = 0; // a hash of names, types and values
    };
    // The memory of one step of the channel. Readers see `part`.
    struct StepBuffer {
        StepMemory memory;
        std::vector<Block> blocks;
        std::shared_ptr<AttributeSet> attributes;
        Part part = {};
        Loan loan = {};
    };
    struct DeferredPut {
        size_t block;
        Request request;
        const void *values;
    };

    // The control channel.
    void create_control();
    Control *open_control(int timeout_ms);
    void close_control();
    bool await_readers(float timeout_s);
    void hold_control();
    void retain_first_step();

    // Steps.
    StepBuffer &step_buffer();
    void attach_part(StepBuffer &buffer);
    void publish();
    void collect_attributes();

    // Puts.
    Block &add_block(const Request &request);
    void store_values(Block &block, const Request &request, const void *values);

    // The loan of deferred Puts.
    void lend_deferred_puts();
    void begin_loan(Loan &loan) const;
    void end_loan(StepBuffer &buffer);
    void copy_lent_blocks(StepBuffer &buffer);
    void await_release();

    [[noreturn]] void fail(const char *call, int result) const;

    adios2::IO io;
    const std::string name;
    const Ranks &ranks;
    const Parameters::Puts puts;
    const bool retains_first;
    const size_t deferred_min_bytes; // smaller deferred Puts are copied at once
    unsigned awaited_reader_groups;
    unsigned depth = 1;
    onespace_insitu *channel = nullptr, *control_channel = nullptr;
    Control *shown_control = nullptr;                         // of another rank, while it is open
    std::unique_ptr<Control> control;                         // of the first rank
    std::unique_ptr<std::atomic<const Part *>[]> first_parts; // control->first_parts
    std::unique_ptr<StepBuffer> first_step;                   // this rank's, with retains_first
    // One for each step of the channel, then one for steps that are discarded.
    std::vector<std::unique_ptr<StepBuffer>> buffers;
    std::vector<DeferredPut> deferred;
    std::vector<size_t> lent; // numbers of this step's lent blocks
    Backoff lending;
    std::shared_ptr<AttributeSet> attributes, spare_attributes;
    uint64_t next_step = 0, published = 0;
    bool in_step = false, is_discarded = false, is_closed = false;
};

// The names of a stream's two channels.
std::string channel_name(const std::string &stream);
std::string control_name(const std::string &stream);

} // namespace onespace_adios
