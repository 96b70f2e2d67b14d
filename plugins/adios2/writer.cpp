// plugins/adios2/writer.cpp: a writer from Open to Close.
//
// A step of ADIOS2 is a step of a channel. Its StepBuffer belongs to the writer again when
// onespace_insitu_begin has returned. Put (Sync) and PerformPuts copy data into it; EndStep lends
// the remaining Puts to the readers (step.hpp: Loan) or copies them.
#include "writer.hpp"

#include <onespace.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace onespace_adios
{
namespace
{

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds FIRST_RANK_TIMEOUT{60};

int milliseconds(float seconds)
{
    return seconds < 0 ? -1 : (int)(seconds * 1000.0f);
}

// Channel names are limited in length; a stream's name may be a path.
std::string shortened(const std::string &prefix, const std::string &stream)
{
    constexpr size_t SUFFIX_BYTES = 24;
    std::string name = prefix + stream;
    if (name.size() <= ONESPACE_INSITU_NAME_MAX)
        return name;
    std::string hash = std::to_string(std::hash<std::string>()(stream));
    return prefix + hash + stream.substr(stream.size() - SUFFIX_BYTES);
}

Text store_text(StepMemory &memory, const std::string &text)
{
    auto to = memory.allocate_array<char>(text.size() + 1);
    memcpy(to, text.c_str(), text.size() + 1);
    return {to, text.size()};
}

// A description of `bytes` bytes at `address`, which every array of a channel needs.
onespace_insitu_array array_of(void *address, size_t bytes)
{
    onespace_insitu_array array = {};
    array.name = PART_NAME;
    array.address = address;
    array.bytes = bytes;
    array.type = ONESPACE_INSITU_UINT8;
    array.dimensions = 1;
    array.shape[0] = bytes;
    return array;
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

void Writer::fail(const char *call, int result) const
{
    std::string reason = onespace_insitu_message();
    throw std::runtime_error("onespace: " + std::string(call) + " of stream \"" + name +
                             "\": " + (reason.empty() ? strerror(-result) : reason));
}

Writer::Writer(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
               const Ranks &writers)
    : io(program_io), name(stream), ranks(writers), puts(parameters.puts),
      retains_first(parameters.retains_first),
      deferred_min_bytes(puts == Parameters::Puts::wait ? 0 : parameters.deferred_min_bytes),
      awaited_reader_groups(parameters.reader_groups)
{
    onespace_insitu_options options = ONESPACE_INSITU_OPTIONS_INIT;
    options.policy = parameters.discards ? ONESPACE_INSITU_SKIP : ONESPACE_INSITU_WAIT;
    // QueueLimit does not count the step that is being written; the channel's depth does.
    const unsigned depth_max =
        std::min<unsigned>(ONESPACE_INSITU_DEPTH_MAX, ONESPACE_INSITU_PARTS_MAX / ranks.size);
    depth = puts == Parameters::Puts::wait ? 1
            : parameters.queue_limit       ? parameters.queue_limit + 1
                                           : depth_max;
    if (depth > depth_max)
        throw std::invalid_argument("onespace: engine parameter QueueLimit=\"" +
                                    std::to_string(parameters.queue_limit) + "\": a writer of " +
                                    std::to_string(ranks.size) + " ranks may have at most " +
                                    std::to_string(depth_max - 1));
    options.depth = depth;
    options.rank = ranks.rank;
    options.ranks = ranks.size;
    for (unsigned i = 0; i <= depth; i++)
        buffers.push_back(std::make_unique<StepBuffer>());
    int result = onespace_insitu_create(channel_name(name).c_str(), &options, &channel);
    if (result < 0)
        fail("Open for writing", result);
    try {
        if (ranks.rank == 0)
            create_control();
    } catch (...) { // the name is free for another Open
        (void)!onespace_insitu_close(channel, 0);
        (void)!onespace_insitu_close(control_channel, 0);
        throw;
    }
}

// ---- The control channel ----

void Writer::create_control()
{
    control = std::make_unique<Control>();
    control->magic = MAGIC;
    control->abi = ABI;
    control->ranks = ranks.size;
    strncpy(control->adios2_version, ADIOS2_VERSION_STR, sizeof(control->adios2_version) - 1);
    control->arrived.store(0);
    control->has_begun.store(0);
    if (retains_first) {
        first_parts = std::make_unique<std::atomic<const Part *>[]>(ranks.size);
        control->first_parts = first_parts.get();
    }
    int result = onespace_insitu_create(control_name(name).c_str(), nullptr, &control_channel);
    if (result == 0)
        result = onespace_insitu_begin(control_channel, 0, 0);
    onespace_insitu_array array = array_of(control.get(), sizeof(Control));
    if (result == 0)
        result = onespace_insitu_put(control_channel, &array);
    if (result == 0)
        result = onespace_insitu_publish(control_channel);
    if (result < 0)
        fail("Open for writing", result);
}

// The first rank's control. Returns NULL after the timeout. Paired with close_control.
Control *Writer::open_control(int timeout_ms)
{
    if (control)
        return control.get();
    if (shown_control)
        return shown_control;
    int result = 0;
    if (!control_channel)
        result = onespace_insitu_open(control_name(name).c_str(), ONESPACE_INSITU_LATEST,
                                      timeout_ms, &control_channel);
    onespace_insitu_step step;
    onespace_insitu_array array = {};
    if (result == 0)
        result = onespace_insitu_take(control_channel, &step, timeout_ms);
    if (result == 0)
        result = onespace_insitu_get(control_channel, &step, 0, PART_NAME, ONESPACE_INSITU_UINT8,
                                     &array);
    if (result == -ETIMEDOUT)
        return nullptr;
    if (result < 0)
        fail("BeginStep", result);
    shown_control = static_cast<Control *>(array.address);
    return shown_control;
}

void Writer::close_control()
{
    if (control)
        return; // the first rank's own, which stays open until Close
    (void)!onespace_insitu_close(control_channel, 0);
    control_channel = nullptr;
    shown_control = nullptr;
}

// SST waits for readers in Open. The engine waits before the first step, so that two programs may
// open each other's streams in any order. Every rank waits: a rank that wrote its steps and closed
// would end the channel. Returns false after the timeout.
bool Writer::await_readers(float timeout_s)
{
    auto begin = Clock::now();
    auto timeout = std::chrono::duration<float>(timeout_s);
    while (awaited_reader_groups) {
        Control *shared = open_control(100);
        if (shared && shared->arrived.load() >= awaited_reader_groups * READER_UNIT)
            awaited_reader_groups = 0;
        else if (timeout_s >= 0 && Clock::now() - begin > timeout)
            return false;
        else
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        close_control();
    }
    return true;
}

// For retain_first_step. All ranks have opened the stream, and the first one does not close it
// before this one has published the step that it has begun.
void Writer::hold_control()
{
    auto deadline = Clock::now() + FIRST_RANK_TIMEOUT;
    while (!open_control(100))
        if (Clock::now() > deadline)
            throw std::runtime_error("onespace: BeginStep of stream \"" + name +
                                     "\": its first rank has ended");
}

// Called after the first step was published. Its buffer is not used for another step.
void Writer::retain_first_step()
{
    first_step = std::move(buffers[0]);
    buffers[0] = std::make_unique<StepBuffer>();
    open_control(0)->first_parts[ranks.rank].store(&first_step->part);
    close_control();
}

// ---- Steps ----

Writer::StepBuffer &Writer::step_buffer()
{
    return *buffers[is_discarded ? depth : published % depth];
}

adios2::StepStatus Writer::begin_step(float timeout_s)
{
    if (in_step)
        throw std::logic_error("onespace: BeginStep of stream \"" + name +
                               "\": the last step has no EndStep");
    if (!await_readers(timeout_s))
        return adios2::StepStatus::NotReady;
    int result = onespace_insitu_begin(channel, next_step, milliseconds(timeout_s));
    if (result == -ETIMEDOUT)
        return adios2::StepStatus::NotReady;
    if (result < 0)
        fail("BeginStep", result);
    if (control)
        control->has_begun.store(1);
    is_discarded = result == 1;
    if (retains_first && published == 0 && !is_discarded)
        hold_control();
    in_step = true;
    lent.clear();
    StepBuffer &buffer = step_buffer();
    buffer.memory.free_all();
    buffer.blocks.clear();
    if (!is_discarded)
        attach_part(buffer);
    return adios2::StepStatus::OK;
}

// Adds the part to the channel's step before its contents are known, so that EndStep has less to
// do. The address is the same each time, because the channel asks the kernel about a new one.
void Writer::attach_part(StepBuffer &buffer)
{
    onespace_insitu_array array = array_of(&buffer.part, sizeof(Part));
    int result = onespace_insitu_put(channel, &array);
    if (result < 0)
        fail("BeginStep", result);
}

void Writer::end_step()
{
    if (!in_step)
        throw std::logic_error("onespace: EndStep of stream \"" + name + "\" without BeginStep");
    StepBuffer &buffer = step_buffer();
    bool is_retained = retains_first && published == 0 && !is_discarded;
    if (!is_discarded && !is_retained && !deferred.empty())
        lend_deferred_puts();
    perform_puts();
    if (!is_discarded)
        publish();
    in_step = false;
    next_step++;
    if (is_retained)
        retain_first_step();
    else if (!is_discarded && puts == Parameters::Puts::wait)
        await_release();
    else if (!lent.empty())
        end_loan(buffer);
}

void Writer::publish()
{
    StepBuffer &buffer = step_buffer();
    collect_attributes();
    buffer.attributes = attributes;
    begin_loan(buffer.loan);
    buffer.part = {MAGIC,
                   ABI,
                   ranks.rank,
                   &buffer.loan,
                   next_step,
                   buffer.blocks.size(),
                   attributes->all.size(),
                   buffer.blocks.data(),
                   attributes->all.data(),
                   attributes->version};
    int result = onespace_insitu_publish(channel);
    if (result < 0)
        fail("EndStep", result);
    published++;
}

// ---- Attributes ----

namespace
{

template <class T> const void *store_values_of(StepMemory &memory, const std::vector<T> &values)
{
    auto to = memory.allocate_array<T>(values.size());
    memcpy(static_cast<void *>(to), values.data(), values.size() * sizeof(T));
    return to;
}

const void *store_values_of(StepMemory &memory, const std::vector<std::string> &values)
{
    auto to = memory.allocate_array<Text>(values.size());
    for (size_t i = 0; i < values.size(); i++)
        to[i] = store_text(memory, values[i]);
    return to;
}

template <class T>
bool store_attribute(adios2::IO &io, const std::string &name, StepMemory &memory, Attribute &to)
{
    auto attribute = io.InquireAttribute<T>(name);
    if (!attribute)
        return false;
    std::vector<T> values = attribute.Data();
    to = {store_text(memory, name), element_of<T>, !attribute.IsValue(), values.size(),
          store_values_of(memory, values)};
    return true;
}

uint64_t hash_of(const std::vector<Attribute> &attributes)
{
    uint64_t hash = attributes.size();
    auto mix = [&hash](const void *bytes, size_t length) {
        std::string_view view(static_cast<const char *>(bytes), length);
        hash = hash * 1099511628211u + std::hash<std::string_view>()(view);
    };
    for (const Attribute &attribute : attributes) {
        mix(attribute.name.bytes, attribute.name.length);
        mix(&attribute.element, sizeof(attribute.element));
        mix(&attribute.is_array, sizeof(attribute.is_array));
        mix(&attribute.count, sizeof(attribute.count));
        auto texts = static_cast<const Text *>(attribute.data);
        for (size_t i = 0; attribute.element == Element::text && i < attribute.count; i++)
            mix(texts[i].bytes, texts[i].length);
        with_type(attribute.element, [&](auto tag) {
            if (attribute.element != Element::text)
                mix(attribute.data, attribute.count * sizeof(typename decltype(tag)::type));
        });
    }
    return hash;
}

} // namespace

// Every step has all attributes, so that late readers get them. ADIOS2 does not tell plug-ins when
// an attribute changes, so each step reads all of them. An unchanged set keeps its memory.
void Writer::collect_attributes()
{
    if (!spare_attributes)
        spare_attributes = std::make_shared<AttributeSet>();
    AttributeSet &set = *spare_attributes;
    set.memory.free_all();
    set.all.clear();
    for (const auto &[attribute_name, properties] : io.AvailableAttributes()) {
        Attribute attribute = {};
        bool is_stored = false;
        auto found = properties.find("Type");
        const std::string type = found == properties.end() ? "" : found->second;
#define ONESPACE_STORE(T)                                                                          \
    if (!is_stored && type == adios2::GetType<T>())                                                \
        is_stored = store_attribute<T>(io, attribute_name, set.memory, attribute);
        ADIOS2_FOREACH_ATTRIBUTE_STDTYPE_1ARG(ONESPACE_STORE)
#undef ONESPACE_STORE
        if (is_stored)
            set.all.push_back(attribute);
    }
    set.version = hash_of(set.all);
    if (!attributes || attributes->version != set.version)
        attributes = std::move(spare_attributes); // steps may still refer to the old set
}

// ---- Puts ----

Block &Writer::add_block(const Request &request)
{
    if (!in_step) // Put without steps: one step until Close
        begin_step(-1.0f);
    StepBuffer &buffer = step_buffer();
    auto copied = [&](const Dims &dims) -> const uint64_t * {
        if (dims.empty())
            return nullptr;
        auto to = buffer.memory.allocate_array<uint64_t>(dims.size());
        memcpy(to, dims.data(), dims.size() * sizeof(uint64_t));
        return to;
    };
    Block block = {};
    block.name = store_text(buffer.memory, request.name);
    block.element = request.element;
    block.shape_kind = static_cast<Shape>(request.shape_kind);
    bool is_array =
        block.shape_kind != Shape::global_value && block.shape_kind != Shape::local_value;
    if (is_array) {
        block.dimensions = (uint32_t)request.count.size();
        block.shape = copied(request.shape);
        block.start = copied(request.start);
        block.count = copied(request.count);
    }
    block.bytes =
        is_array ? element_count(request.count) * request.element_bytes : request.element_bytes;
    buffer.blocks.push_back(block);
    return buffer.blocks.back();
}

// Copies the values into the step.
void Writer::store_values(Block &block, const Request &request, const void *values)
{
    StepMemory &memory = step_buffer().memory;
    if (request.element == Element::text) {
        if (block.dimensions)
            throw std::invalid_argument("onespace: Put of \"" + request.name +
                                        "\": arrays of strings are not supported");
        Text text = store_text(memory, *static_cast<const std::string *>(values));
        block.data = text.bytes;
        block.bytes = text.length;
        return;
    }
    if (is_discarded)
        return;
    void *to = memory.allocate(block.bytes);
    memcpy(to, values, block.bytes);
    block.data = to;
}

void Writer::put(const Request &request, const void *values, bool is_deferred)
{
    Block &block = add_block(request);
    // SST and BP5 copy small deferred Puts at once, and programs rely on it.
    if (is_deferred && block.bytes >= deferred_min_bytes)
        deferred.push_back({step_buffer().blocks.size() - 1, request, values});
    else
        store_values(block, request, values);
}

void Writer::perform_puts()
{
    for (const DeferredPut &put : deferred)
        store_values(step_buffer().blocks[put.block], put.request, put.values);
    deferred.clear();
}

// ---- Lending deferred Puts (step.hpp: Loan) ----

// Lends the arrays among the deferred Puts. With Puts="wait" EndStep waits until the step is
// released, so their memory can be the step's.
void Writer::lend_deferred_puts()
{
    if (puts == Parameters::Puts::copy ||
        (puts == Parameters::Puts::lend && !lending.should_attempt()))
        return;
    std::vector<DeferredPut> remaining;
    for (DeferredPut &put : deferred) {
        Block &block = step_buffer().blocks[put.block];
        if (block.dimensions == 0) {
            remaining.push_back(std::move(put));
        } else if (puts == Parameters::Puts::wait) {
            block.data = put.values;
        } else {
            block.lent = put.values;
            lent.push_back(put.block);
        }
    }
    deferred = std::move(remaining);
}

void Writer::begin_loan(Loan &loan) const
{
    uint32_t state = lent.empty() ? Loan::none : Loan::lent;
    if (state == Loan::lent) { // readers of a step without a loan use none of these
        loan.copy_requested.store(0);
        loan.writer = onespace_self();
        for (std::atomic<int32_t> &slot : loan.readers)
            slot.store(0);
    }
    if (loan.state.load() != state)
        loan.state.store(state);
}

// Waits until the readers have released the step, at most for loan_timeout; then copies the blocks.
void Writer::end_loan(StepBuffer &buffer)
{
    uint64_t bytes = 0;
    for (size_t number : lent)
        bytes += buffer.blocks[number].bytes;
    auto deadline = Clock::now() + loan_timeout(bytes);
    int result = -ETIMEDOUT;
    while (result == -ETIMEDOUT && !buffer.loan.copy_requested.load() && Clock::now() < deadline)
        result = onespace_insitu_reclaim(channel, 1);
    lending.record(result == 0);
    if (result == -ETIMEDOUT)
        copy_lent_blocks(buffer);
    lent.clear();
    if (result < 0 && result != -ETIMEDOUT)
        fail("EndStep", result);
}

void Writer::copy_lent_blocks(StepBuffer &buffer)
{
    try {
        for (size_t number : lent) {
            Block &block = buffer.blocks[number];
            void *to = buffer.memory.allocate(block.bytes);
            memcpy(to, block.lent, block.bytes);
            block.data = to;
        }
    } catch (const std::bad_alloc &) {
        await_release(); // no memory for a copy
        return;
    }
    buffer.loan.state.store(Loan::copied);
    while (has_readers(buffer.loan))
        std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void Writer::await_release()
{
    int result = onespace_insitu_reclaim(channel, -1);
    if (result < 0)
        fail("EndStep", result);
}

// ---- Close ----

// Waits until the readers have read all steps that they are owed. Memory that a reader still holds
// is leaked, because the reader may read it even after this program has exited.
void Writer::close()
{
    if (is_closed)
        return;
    if (in_step)
        end_step();
    is_closed = true;
    int result = onespace_insitu_close(channel, -1);
    channel = nullptr;
    // A reader that is just opening the stream releases the control within that time.
    bool is_held = onespace_insitu_close(control_channel, 1000) == -ETIMEDOUT;
    if (is_held) {
        (void)control.release();
        (void)first_parts.release();
    }
    if (is_held || ranks.rank > 0) // only the first rank knows whether a reader holds the control
        (void)first_step.release();
    control_channel = nullptr;
    if (result < 0)
        fail("Close", result);
}

// Without Close: does not wait.
Writer::~Writer()
{
    if (is_closed)
        return;
    if (onespace_insitu_close(channel, 0) < 0) {
        for (std::unique_ptr<StepBuffer> &buffer : buffers)
            (void)buffer.release();
        (void)first_step.release();
    }
    if (onespace_insitu_close(control_channel, 0) < 0) {
        (void)control.release();
        (void)first_parts.release();
    }
}

} // namespace onespace_adios
