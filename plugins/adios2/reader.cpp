// plugins/adios2/reader.cpp: steps of a reader, from Open to Close.
//
// BeginStep takes a step of the channel and holds it, EndStep releases it. In between a Get copies
// from the writers' memory, once (get.cpp). The variables of a step: definitions.cpp.
#include "reader.hpp"

#include "attributes.hpp"
#include "writer.hpp"

#include <onespace.h>

#include <cerrno>
#include <chrono>
#include <stdexcept>

namespace onespace_adios
{
namespace
{

using Clock = std::chrono::steady_clock;
constexpr int SLICE_MS = 100;

int milliseconds(float seconds)
{
    return seconds < 0 ? -1 : (int)(seconds * 1000.0f);
}

// The address that a rank has published in a step, as `T`, which begins with magic and ABI.
template <class T>
int find_published(onespace_insitu *channel, const onespace_insitu_step &step, unsigned rank,
                   const T **found)
{
    onespace_insitu_array array;
    int result =
        onespace_insitu_get(channel, &step, rank, PART_NAME, ONESPACE_INSITU_UINT8, &array);
    if (result == 0)
        *found = static_cast<const T *>(array.address);
    return result;
}

} // namespace

void Reader::fail(const char *what, const std::string &why) const
{
    throw std::runtime_error("onespace: " + std::string(what) + " of stream \"" + name +
                             "\": " + why);
}

// ---- Open ----

Reader::Reader(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
               const Ranks &readers, const std::function<std::string()> &is_elsewhere)
    : io(program_io), name(stream), ranks(readers), has_statistics(parameters.has_statistics),
      shows_addresses(parameters.shows_addresses), takes_latest(parameters.latest),
      polling(parameters.spin_us)
{
    if (parameters.latest && ranks.size > 1)
        fail("Open for reading", "AlwaysProvideLatestTimestep is for readers of one rank, and this "
                                 "one has " +
                                     std::to_string(ranks.size));
    try {
        arrive(parameters, is_elsewhere);
    } catch (...) {
        (void)!onespace_insitu_close(channel, 0);
        (void)!onespace_insitu_close(control_channel, 0);
        throw;
    }
}

void Reader::check(const Control &shown) const
{
    if (shown.magic != MAGIC || shown.abi != ABI)
        fail("Open for reading", "the writer's plug-in (for ADIOS2 " + std::string(shown.adios) +
                                     ") is of version " + std::to_string(shown.abi) +
                                     ", this one (for ADIOS2 " ADIOS2_VERSION_STR ") of version " +
                                     std::to_string(ABI) + ": build both from the same onespace");
}

// Opens the channel and is counted.
void Reader::arrive(const Parameters &parameters, const std::function<std::string()> &is_elsewhere)
{
    auto deadline = Clock::now() + std::chrono::seconds(parameters.open_timeout);
    int mode = parameters.latest ? ONESPACE_INSITU_LATEST : ONESPACE_INSITU_EVERY;
    std::string why = "no writer of this space has opened it within " +
                      std::to_string(parameters.open_timeout) +
                      " s (OpenTimeoutSecs): start the writer in the same space and let both open "
                      "the same name, or give both the engine parameter Channel";
    do {
        onespace_insitu_step shown = {};
        const Control *found = nullptr;
        int result = onespace_insitu_open(control_name(name).c_str(), ONESPACE_INSITU_LATEST,
                                          SLICE_MS, &control_channel);
        if (result == 0) {
            result = onespace_insitu_take(control_channel, &shown, SLICE_MS);
            if (result == 0)
                result = find_published(control_channel, shown, 0, &found);
            if (result == 0) {
                check(*found);
                result = onespace_insitu_open(channel_name(name).c_str(), mode, SLICE_MS, &channel);
            }
            if (result == 0) {
                uint64_t share = (READER_UNIT + ranks.size - 1) / ranks.size;
                const_cast<Control *>(found)->arrived.fetch_add(share);
                if (found->first && !takes_latest) {
                    control = found;
                    control_step = shown;
                    return;
                }
                result = onespace_insitu_release(control_channel, &shown);
                if (result == 0)
                    return;
            }
            // That writer is closing or has died, or its ranks are not all there yet.
            (void)!onespace_insitu_close(control_channel, 0);
            control_channel = nullptr;
        }
        if (result != -ETIMEDOUT && result != -ENODATA && result != -EOWNERDEAD)
            fail("Open for reading", onespace_insitu_message());
        std::string elsewhere = is_elsewhere();
        if (!elsewhere.empty())
            throw Elsewhere(elsewhere);
    } while (Clock::now() < deadline);
    fail("Open for reading", why);
}

// ---- Steps ----

adios2::StepStatus Reader::take(int timeout_ms)
{
    int result;
    int left_ms = polling.poll(timeout_ms, step.ranks + ranks.size, [&] {
        result = onespace_insitu_take(channel, &step, 0);
        return result != -ETIMEDOUT;
    });
    if (result == -ETIMEDOUT && timeout_ms != 0)
        result = onespace_insitu_take(channel, &step, left_ms);
    if (result == 0)
        return adios2::StepStatus::OK;
    if (result == -ETIMEDOUT)
        return adios2::StepStatus::NotReady;
    if (result == -ENODATA)
        return adios2::StepStatus::EndOfStream;
    if (result == -EOWNERDEAD) {
        fprintf(stderr, "onespace: stream \"%s\": %s\n", name.c_str(), onespace_insitu_message());
        return adios2::StepStatus::OtherError;
    }
    fail("BeginStep", onespace_insitu_message());
}

adios2::StepStatus Reader::begin_step(adios2::StepMode mode, float timeout_seconds)
{
    if (in_step)
        throw std::logic_error("onespace: BeginStep of stream \"" + name +
                               "\": the last step has no EndStep");
    if (mode != adios2::StepMode::Read)
        throw std::invalid_argument("onespace: BeginStep of stream \"" + name +
                                    "\": a reader's StepMode is Read");
    if (is_over)
        return adios2::StepStatus::EndOfStream;
    int timeout_ms = milliseconds(timeout_seconds);
    bool are_whole = is_unchanged && timeout_ms != 0; // who looks again and again should pay little
    if (are_whole)
        select_all();
    adios2::StepStatus status = has_next   ? adios2::StepStatus::OK
                                : is_first ? take_first(timeout_ms)
                                           : take(timeout_ms);
    if (status != adios2::StepStatus::OK) {
        is_over = status != adios2::StepStatus::NotReady;
        return status;
    }
    has_next = has_next && is_first_shown;
    in_step = true;
    collect(are_whole);
    return status;
}

// Ranks that opened the stream while steps passed by begin with the same one.
adios2::StepStatus Reader::take_first(int timeout_ms)
{
    if (show_first())
        return adios2::StepStatus::OK;
    adios2::StepStatus status = take(timeout_ms);
    if (status == adios2::StepStatus::OK && was_first_shown && step.step == 0) {
        (void)!onespace_insitu_release(channel, &step);
        status = take(timeout_ms);
    }
    if (status == adios2::StepStatus::NotReady)
        return status;
    uint64_t least = ranks.largest(status == adios2::StepStatus::OK ? step.step : UINT64_MAX);
    while (status == adios2::StepStatus::OK && step.step < least) {
        (void)!onespace_insitu_release(channel, &step);
        status = take(-1);
    }
    is_first = false;
    if (status == adios2::StepStatus::OK && step.step > 0)
        has_next = show_first();
    if (!is_first_shown)
        forget_first();
    return status;
}

void Reader::end_step()
{
    if (!in_step)
        throw std::logic_error("onespace: EndStep of stream \"" + name + "\" without BeginStep");
    perform_gets();
    in_step = false;
    if (is_first_shown)
        forget_first();
    else if (onespace_insitu_release(channel, &step) < 0)
        fail("EndStep", onespace_insitu_message());
}

size_t Reader::current_step() const
{
    return is_first_shown ? 0 : step.step;
}

// ---- The variables of a step ----

void Reader::find_parts()
{
    parts.resize(is_first_shown ? control->ranks : step.ranks);
    for (unsigned rank = 0; rank < parts.size(); rank++) {
        if (is_first_shown)
            parts[rank] = control->first[rank].load();
        else if (find_published(channel, step, rank, &parts[rank]) < 0)
            fail("BeginStep", onespace_insitu_message());
    }
}

bool Reader::has_last_layout() const
{
    bool is_same = layouts_seen.size() == parts.size();
    for (size_t rank = 0; is_same && rank < parts.size(); rank++)
        is_same = parts[rank]->layout == layouts_seen[rank];
    return is_same;
}

// The blocks are those of the last step, in other memory.
void Reader::refresh()
{
    for (auto &[ignored, known] : variables) {
        for (Found &found : known.blocks) {
            if (found.number == OF_COMPANION)
                continue;
            found.block = &parts[found.writer]->blocks[found.number];
            found.loan = parts[found.writer]->loan;
            found.has_statistics = false;
        }
    }
}

// `are_whole`: select_all was done in this BeginStep.
void Reader::collect(bool are_whole)
{
    find_parts();
    is_unchanged = has_last_layout();
    if (is_unchanged) {
        refresh();
    } else {
        layouts_seen.clear();
        for (auto &[ignored, known] : variables)
            known.blocks.clear();
        for (unsigned rank = 0; rank < parts.size(); rank++)
            for (uint64_t i = 0; i < parts[rank]->block_count; i++)
                add(parts[rank]->blocks[i], i, rank, parts[rank]->loan);
    }
    attributes_seen.resize(parts.size());
    for (unsigned rank = 0; rank < parts.size(); rank++) {
        if (attributes_seen[rank] != parts[rank]->attributes_version)
            define_attributes(io, *parts[rank]);
        attributes_seen[rank] = parts[rank]->attributes_version;
    }
    if (shows_addresses)
        define_addresses();
    if (!is_unchanged)
        settle_all();
    if (!is_unchanged || !are_whole)
        define_all();
    layouts_seen.resize(parts.size());
    for (unsigned rank = 0; rank < parts.size(); rank++)
        layouts_seen[rank] = parts[rank]->layout;
}

void Reader::add(const Block &block, size_t number, unsigned writer, Loan *loan)
{
    std::string_view written(block.name.bytes, block.name.length);
    auto found = variables.find(written);
    if (found == variables.end())
        found = variables.emplace(std::string(written), Known()).first;
    Known &known = found->second;
    if (known.blocks.empty()) {
        bool is_other = known.element != block.element || known.shape_kind != block.shape_kind;
        if (is_other && known.variable)
            forget(found->first, known);
        known.element = block.element;
        known.shape_kind = block.shape_kind;
    } else if (known.element != block.element || known.shape_kind != block.shape_kind) {
        fail("BeginStep", "rank " + std::to_string(writer) + " has defined variable \"" +
                              found->first + "\" otherwise than rank " +
                              std::to_string(known.blocks.front().writer));
    }
    Found one = {};
    one.block = &block;
    one.loan = loan;
    one.writer = writer;
    one.number = number;
    if (block.start)
        one.start.assign(block.start, block.start + block.dimensions);
    if (block.count)
        one.count.assign(block.count, block.count + block.dimensions);
    known.blocks.push_back(std::move(one));
}

// ---- Close ----

void Reader::close()
{
    if (in_step)
        end_step();
    for (auto &[variable, known] : variables)
        if (known.variable)
            forget(variable, known);
    (void)!onespace_insitu_close(channel, 0);
    (void)!onespace_insitu_close(control_channel, 0);
    channel = control_channel = nullptr;
    is_over = true;
}

Reader::~Reader()
{
    (void)!onespace_insitu_close(channel, 0);
    (void)!onespace_insitu_close(control_channel, 0);
}

} // namespace onespace_adios
