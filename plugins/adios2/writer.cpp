// plugins/adios2/writer.cpp: steps of a writer, from Open to Close.
//
// A step of ADIOS2 is one of a channel, with one Stage of memory, which is the writer's again when
// onespace_insitu_begin has returned. Data is copied by Put (Sync) or PerformPuts, or was written
// in place, into a span; what is left in EndStep is lent to readers (loan.hpp) or copied.
#include "writer.hpp"

#include <onespace.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace onespace_adios
{
namespace
{

constexpr unsigned DEPTH_MAX = ONESPACE_INSITU_DEPTH_MAX;

int milliseconds(float seconds)
{
    return seconds < 0 ? -1 : (int)(seconds * 1000.0f);
}

// A channel's name is short; a stream's may be a path.
std::string shortened(const std::string &prefix, const std::string &stream)
{
    std::string name = prefix + stream;
    if (name.size() <= ONESPACE_INSITU_NAME_MAX)
        return name;
    std::string hash = std::to_string(std::hash<std::string>()(stream));
    return prefix + hash + stream.substr(stream.size() - 24);
}

} // namespace

std::string channel_name(const std::string &stream)
{
    return shortened("adios2:", stream);
}

std::string control_name(const std::string &stream)
{
    return shortened("adios2+", stream);
}

// ---- Open ----

void Writer::fail(const char *what, int result) const
{
    std::string why = onespace_insitu_message();
    throw std::runtime_error("onespace: " + std::string(what) + " of stream \"" + name +
                             "\": " + (why.empty() ? strerror(-result) : why));
}

Writer::Writer(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
               const Ranks &writers)
    : io(program_io), name(stream), ranks(writers), puts(parameters.puts),
      is_first_kept(parameters.keeps_first),
      copied_at_once(puts == Parameters::Puts::wait ? 0 : parameters.copied_at_once),
      readers_awaited(parameters.readers)
{
    create(parameters);
    for (unsigned i = 0; i <= depth; i++)
        stages.push_back(std::make_unique<Stage>());
}

void Writer::create(const Parameters &parameters)
{
    onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    options.policy = parameters.discards ? ONESPACE_INSITU_SKIP : ONESPACE_INSITU_WAIT;
    // The step that is being written is not in the queue.
    depth = puts == Parameters::Puts::wait ? 1
            : parameters.queue_limit       ? parameters.queue_limit + 1
                                           : DEPTH_MAX;
    options.depth = depth;
    options.rank = ranks.rank;
    options.ranks = ranks.size;
    int result = onespace_insitu_create(channel_name(name).c_str(), &options, &channel);
    if (result < 0)
        fail("Open for writing", result);
    if (ranks.rank == 0)
        show_control();
}

// ---- Steps ----

Writer::Stage &Writer::stage()
{
    return *stages[is_discarded ? depth : published % depth];
}

adios2::StepStatus Writer::begin_step(adios2::StepMode, float timeout_seconds)
{
    if (in_step)
        throw std::logic_error("onespace: BeginStep of stream \"" + name +
                               "\": the last step has no EndStep");
    if (!await_readers(timeout_seconds))
        return adios2::StepStatus::NotReady;
    int result = onespace_insitu_begin(channel, next_step, milliseconds(timeout_seconds));
    if (result == -ETIMEDOUT)
        return adios2::StepStatus::NotReady;
    if (result < 0)
        fail("BeginStep", result);
    is_discarded = result == 1;
    in_step = true;
    spans.clear();
    lent.clear();
    Stage &now = stage();
    now.memory.reuse();
    now.blocks.clear();
    if (!is_discarded)
        announce(now);
    return adios2::StepStatus::OK;
}

// Where the step's part will be: here, so that EndStep has less to do while readers wait. Always at
// the same address: the channel asks the kernel about others.
void Writer::announce(Stage &now)
{
    onespace_insitu_array array = {};
    array.name = PART_NAME;
    array.address = &now.part;
    array.bytes = sizeof(Part);
    array.type = ONESPACE_INSITU_UINT8;
    array.dimensions = 1;
    array.shape[0] = sizeof(Part);
    int result = onespace_insitu_put(channel, &array);
    if (result < 0)
        fail("BeginStep", result);
}

// Put without steps: one step until Close.
void Writer::begin_if_needed()
{
    if (!in_step)
        begin_step(adios2::StepMode::Append, -1.0f);
}

void Writer::end_step()
{
    if (!in_step)
        throw std::logic_error("onespace: EndStep of stream \"" + name + "\" without BeginStep");
    Stage &now = stage();
    bool is_kept = is_first_kept && published == 0 && !is_discarded;
    if (!is_discarded && !is_kept && !deferred.empty())
        lend();
    perform_puts();
    if (!is_discarded)
        publish();
    in_step = false;
    next_step++;
    if (is_kept)
        keep_first();
    else if (!is_discarded && puts == Parameters::Puts::wait)
        await_release();
    else if (!lent.empty())
        settle(now);
}

// Nobody looks at the rest where nothing is lent.
void Writer::prepare_loan(Loan &loan) const
{
    uint32_t state = lent.empty() ? Loan::none : Loan::lent;
    if (state == Loan::lent) {
        loan.is_called.store(0);
        loan.writer = onespace_self();
        for (std::atomic<int32_t> &place : loan.reading)
            place.store(0);
    }
    if (loan.state.load() != state)
        loan.state.store(state);
}

void Writer::publish()
{
    Stage &now = stage();
    if (is_changed || !is_told)
        collect_attributes();
    now.attributes = attributes;
    if (layout.size() > now.blocks.size()) {
        layout.resize(now.blocks.size());
        layout_version++;
    }
    prepare_loan(now.loan);
    now.part = {MAGIC,
                ABI,
                ranks.rank,
                &now.loan,
                next_step,
                now.blocks.size(),
                attributes->all.size(),
                now.blocks.data(),
                attributes->all.data(),
                attributes->version,
                layout_version};
    int result = onespace_insitu_publish(channel);
    if (result < 0)
        fail("EndStep", result);
    published++;
}

size_t Writer::current_step() const
{
    return next_step;
}

// ---- Puts ----

Block &Writer::add_block(const Request &request)
{
    begin_if_needed();
    Stage &now = stage();
    auto copied = [&](const Dims &dims) -> const uint64_t * {
        if (dims.empty())
            return nullptr;
        auto to = now.memory.give_array<uint64_t>(dims.size());
        memcpy(to, dims.data(), dims.size() * sizeof(uint64_t));
        return to;
    };
    auto characters = now.memory.give_array<char>(request.name.size() + 1);
    memcpy(characters, request.name.c_str(), request.name.size() + 1);
    Block block = {};
    block.name = {characters, request.name.size()};
    block.element = request.element;
    switch (request.shape_kind) {
    case adios2::ShapeID::GlobalValue:
        block.shape_kind = Shape::global_value;
        break;
    case adios2::ShapeID::LocalValue:
        block.shape_kind = Shape::local_value;
        break;
    case adios2::ShapeID::GlobalArray:
        block.shape_kind = Shape::global_array;
        break;
    case adios2::ShapeID::JoinedArray:
        block.shape_kind = Shape::joined_array;
        break;
    default:
        block.shape_kind = Shape::local_array;
    }
    bool is_array =
        block.shape_kind != Shape::global_value && block.shape_kind != Shape::local_value;
    if (is_array) {
        block.dimensions = (uint32_t)request.count.size();
        block.shape = copied(request.shape);
        block.start = copied(request.start);
        block.count = copied(request.count);
    }
    block.bytes =
        is_array ? elements_of(request.count) * request.element_bytes : request.element_bytes;
    note_layout(now.blocks.size(), request);
    now.blocks.push_back(block);
    return now.blocks.back();
}

// Compared here, so that readers of an unchanged step need not.
void Writer::note_layout(size_t number, const Request &request)
{
    if (number < layout.size()) {
        const Described &last = layout[number];
        if (last.name == request.name && last.element == request.element &&
            last.shape_kind == request.shape_kind && last.shape == request.shape &&
            last.start == request.start && last.count == request.count)
            return;
    }
    layout.resize(number);
    layout.push_back({request.name, request.element, request.shape_kind, request.shape,
                      request.start, request.count});
    layout_version++;
}

// Copies the values into the step.
void Writer::store(Block &block, const Request &request, const void *values)
{
    Memory &memory = stage().memory;
    if (request.element == Element::text) {
        if (block.dimensions)
            throw std::invalid_argument("onespace: Put of \"" + request.name +
                                        "\": an array of strings");
        const std::string &text = *static_cast<const std::string *>(values);
        auto to = memory.give_array<char>(text.size() + 1);
        memcpy(to, text.c_str(), text.size() + 1);
        block.data = to;
        block.bytes = text.size();
        return;
    }
    if (is_discarded)
        return;
    void *to = memory.give(block.bytes);
    block.data = to;
    if (request.memory_count.empty() || block.dimensions == 0) {
        memcpy(to, values, block.bytes);
        return;
    }
    // The program's memory is larger than the block, which begins at memory_start in it.
    Extent program = {Dims(block.dimensions, 0), request.memory_count};
    Extent chosen = {request.memory_start, request.count};
    copy_common(values, program, to, chosen, chosen, request.element_bytes);
}

void Writer::put(const Request &request, const void *values, bool is_deferred)
{
    Block &block = add_block(request);
    // Programs reuse memory of small deferred Puts, since SST and BP5 copy them at once too.
    if (is_deferred && block.bytes >= copied_at_once)
        deferred.push_back({stage().blocks.size() - 1, request, values});
    else
        store(block, request, values);
}

void *Writer::put_span(const Request &request)
{
    Block &block = add_block(request);
    void *to = stage().memory.give(block.bytes);
    block.data = to;
    spans[request.variable]++;
    return to;
}

size_t Writer::span_count(const void *variable) const
{
    auto found = in_step ? spans.find(variable) : spans.end();
    return found == spans.end() ? 0 : found->second;
}

void Writer::perform_puts()
{
    for (const Deferred &put : deferred)
        store(stage().blocks[put.block], put.request, put.values);
    deferred.clear();
}

// ---- Close ----

// Waits until readers have what they are owed, so that the memory is the program's again.
void Writer::close()
{
    if (is_closed)
        return;
    if (in_step)
        end_step();
    is_closed = true;
    int result = onespace_insitu_close(channel, -1);
    channel = nullptr;
    // A reader that has just come reads it and gives it back at once.
    bool is_held = onespace_insitu_close(control_channel, 1000) == -ETIMEDOUT;
    if (is_held) {
        (void)control.release();
        (void)firsts.release();
    }
    if (is_held || ranks.rank > 0) // whose first step a late reader may still read
        (void)first.release();
    control_channel = nullptr;
    if (result < 0)
        fail("Close", result);
}

// Without Close: does not wait. What a reader may still need is not unmapped, and stays as long as
// the reader holds it, even beyond the end of this program.
Writer::~Writer()
{
    if (is_closed)
        return;
    if (onespace_insitu_close(channel, 0) < 0) {
        for (std::unique_ptr<Stage> &kept : stages)
            (void)kept.release();
        (void)first.release();
    }
    if (onespace_insitu_close(control_channel, 0) < 0) {
        (void)control.release();
        (void)firsts.release();
    }
}

adios2::MinVarInfo *Writer::blocks(const std::string &)
{
    return nullptr;
}

} // namespace onespace_adios
