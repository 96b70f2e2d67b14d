// plugins/adios2/reader.cpp: a reader from Open to Close.
//
// BeginStep takes a step of the channel and holds it; EndStep releases it. In between, each Get
// copies once from the writers' memory (reader_get.cpp).
//
// With FirstTimestepPrecious the writer retains its first step and shows it in its control. A
// reader that opens the stream late holds the control and reads that step before all others.
#include "reader.hpp"

#include "writer.hpp"

#include <onespace.h>

#include <cerrno>
#include <chrono>
#include <cstdio>

namespace onespace_adios
{
namespace
{

constexpr int OPEN_SLICE_MS = 100;

// Gets the address of the structure of type T that `rank` has published in a step.
template <class T>
int find_published(onespace_insitu *channel, const onespace_insitu_step &step, unsigned rank,
                   T **found)
{
    onespace_insitu_array array;
    int result =
        onespace_insitu_get(channel, &step, rank, PART_NAME, ONESPACE_INSITU_UINT8, &array);
    if (result == 0)
        *found = static_cast<T *>(array.address);
    return result;
}

} // namespace

void Reader::fail(const char *call, const std::string &reason) const
{
    throw std::runtime_error("onespace: " + std::string(call) + " of stream \"" + name +
                             "\": " + reason);
}

// ---- Open ----

Reader::Reader(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
               const Ranks &readers, const std::function<std::string()> &why_not_in_space)
    : io(program_io), name(stream), ranks(readers), has_statistics(parameters.has_statistics),
      shows_addresses(parameters.shows_addresses), takes_latest(parameters.takes_latest),
      polling(parameters.poll_us)
{
    if (takes_latest && ranks.size > 1)
        fail("Open for reading", "AlwaysProvideLatestTimestep needs a reader of one rank; this "
                                 "reader has " +
                                     std::to_string(ranks.size));
    try {
        open_channels(parameters, why_not_in_space);
    } catch (...) {
        (void)!onespace_insitu_close(channel, 0);
        (void)!onespace_insitu_close(control_channel, 0);
        throw;
    }
}

void Reader::verify_abi(const Control &shown) const
{
    if (shown.magic != MAGIC || shown.abi != ABI)
        fail("Open for reading",
             "the writer's plug-in (for ADIOS2 " + std::string(shown.adios2_version) +
                 ") has ABI " + std::to_string(shown.abi) +
                 ", this plug-in (for ADIOS2 " ADIOS2_VERSION_STR ") has ABI " +
                 std::to_string(ABI) + ": build both from the same version of onespace");
}

// Adds this rank's share to Control::arrived.
void Reader::arrive(Control &shown) const
{
    // Such ranks would begin with different steps if they open the stream while it runs. Loaded
    // before the share is added, for which the writer's first step may wait.
    if (!ranks.can_communicate() && shown.has_begun.load())
        fail("Open for reading",
             "its writer has begun the first step, and the " + std::to_string(ranks.size) +
                 " ranks of this reader, which have no communicator, cannot agree on a later one: "
                 "start them before the writer's first step (RendezvousReaderCount)");
    shown.arrived.fetch_add((READER_UNIT + ranks.size - 1) / ranks.size);
}

// Opens the channel, and keeps the control's if the control has a first step to read.
void Reader::open_channels(const Parameters &parameters,
                           const std::function<std::string()> &why_not_in_space)
{
    using Clock = std::chrono::steady_clock;
    auto deadline = Clock::now() + std::chrono::seconds(parameters.open_timeout_s);
    int mode = takes_latest ? ONESPACE_INSITU_LATEST : ONESPACE_INSITU_EVERY;
    do {
        onespace_insitu_step shown = {};
        Control *found = nullptr;
        int result = onespace_insitu_open(control_name(name).c_str(), ONESPACE_INSITU_LATEST,
                                          OPEN_SLICE_MS, &control_channel);
        if (result == 0) {
            result = onespace_insitu_take(control_channel, &shown, OPEN_SLICE_MS);
            if (result == 0)
                result = find_published(control_channel, shown, 0, &found);
            if (result == 0) {
                verify_abi(*found);
                result =
                    onespace_insitu_open(channel_name(name).c_str(), mode, OPEN_SLICE_MS, &channel);
            }
            if (result == 0) {
                arrive(*found);
                if (found->first_parts && !takes_latest) {
                    control = found;
                    control_step = shown;
                    return;
                }
            }
            // If not opened: the writer is closing, has died, or has ranks that have not opened the
            // stream yet.
            (void)!onespace_insitu_close(control_channel, 0);
            control_channel = nullptr;
            if (result == 0)
                return;
        }
        if (result != -ETIMEDOUT && result != -ENODATA && result != -EOWNERDEAD)
            fail("Open for reading", onespace_insitu_message());
        std::string reason = why_not_in_space();
        if (!reason.empty())
            throw NotInSpace(reason);
    } while (Clock::now() < deadline);
    fail("Open for reading", "no writer of this space has opened it within " +
                                 std::to_string(parameters.open_timeout_s) +
                                 " s (OpenTimeoutSecs): start the writer in the same space and set "
                                 "the same Channel for both");
}

// ---- Steps ----

adios2::StepStatus Reader::take_step(int timeout_ms)
{
    int result;
    int left_ms = polling.poll(timeout_ms, step.ranks + ranks.size, [&] {
        result = onespace_insitu_take(channel, &step, 0);
        return result != -ETIMEDOUT;
    });
    if (result == -ETIMEDOUT && timeout_ms != 0)
        result = onespace_insitu_take(channel, &step, left_ms);
    if (result == 0 && has_read_first_step && step.step == 0) {
        (void)!onespace_insitu_release(channel, &step);
        return take_step(timeout_ms);
    }
    if (result == 0)
        return adios2::StepStatus::OK;
    if (result == -ETIMEDOUT)
        return adios2::StepStatus::NotReady;
    if (result == -ENODATA)
        return adios2::StepStatus::EndOfStream;
    // No exception: the other ranks wait for this rank's status.
    fprintf(stderr, "onespace: stream \"%s\": %s\n", name.c_str(), onespace_insitu_message());
    return adios2::StepStatus::OtherError;
}

// Takes the next step, the same one on all ranks that can communicate. They may have opened the
// stream at different times, and begin with the latest of their first steps. The worst status of
// any rank is the status of all; a rank that has taken a step keeps it for a later BeginStep. Only
// results of reductions decide whether there is another one, so all ranks make the same number.
adios2::StepStatus Reader::take_common_step(int timeout_ms)
{
    using adios2::StepStatus;
    static_assert(StepStatus::OK < StepStatus::NotReady &&
                  StepStatus::NotReady < StepStatus::EndOfStream &&
                  StepStatus::EndOfStream < StepStatus::OtherError);
    StepStatus status = has_next ? StepStatus::OK : take_step(timeout_ms);
    for (;;) {
        uint64_t common[] = {static_cast<uint64_t>(status), step.step, ~step.step};
        ranks.allreduce_max(common, 3);
        has_next = status == StepStatus::OK;
        uint64_t latest = common[1], earliest = ~common[2];
        if (common[0] != static_cast<uint64_t>(StepStatus::OK) || earliest == latest)
            return static_cast<StepStatus>(common[0]);
        while (status == StepStatus::OK && step.step < latest) {
            (void)!onespace_insitu_release(channel, &step);
            status = take_step(-1); // does not wait: another rank has a later step
        }
    }
}

// Begins the step that the writer retains, if every rank of the writer shows its part. All ranks of
// the reader decide alike. A rank that also finds the step in the channel skips it there.
bool Reader::begin_first_step()
{
    if (!control || has_read_first_step)
        return false;
    bool is_complete = true;
    for (unsigned rank = 0; rank < control->ranks; rank++)
        is_complete = is_complete && control->first_parts[rank].load();
    if (ranks.any(!is_complete))
        return false;
    reads_first_step = has_read_first_step = true;
    return true;
}

void Reader::release_control()
{
    if (!control)
        return;
    reads_first_step = false;
    control = nullptr;
    if (onespace_insitu_release(control_channel, &control_step) < 0)
        fail("EndStep", onespace_insitu_message());
}

adios2::StepStatus Reader::begin_step(adios2::StepMode mode, float timeout_s)
{
    if (in_step)
        throw std::logic_error("onespace: BeginStep of stream \"" + name +
                               "\": the last step has no EndStep");
    if (mode != adios2::StepMode::Read)
        throw std::invalid_argument("onespace: BeginStep of stream \"" + name +
                                    "\": a reader's StepMode must be Read");
    if (is_over)
        return adios2::StepStatus::EndOfStream;
    int timeout_ms = timeout_s < 0 ? -1 : (int)(timeout_s * 1000.0f);
    adios2::StepStatus status =
        begin_first_step() ? adios2::StepStatus::OK : take_common_step(timeout_ms);
    if (status != adios2::StepStatus::OK) {
        is_over = status != adios2::StepStatus::NotReady;
        if (is_over && has_next) // another rank cannot read the step
            (void)!onespace_insitu_release(channel, &step);
        if (is_over)
            release_control();
        return status;
    }
    if (!reads_first_step && step.step > 0)
        begin_first_step(); // and the step that was taken is the next one
    has_next = has_next && reads_first_step;
    if (!reads_first_step)
        release_control();
    in_step = true;
    read_variables();
    return status;
}

void Reader::end_step()
{
    if (!in_step)
        throw std::logic_error("onespace: EndStep of stream \"" + name + "\" without BeginStep");
    perform_gets();
    in_step = false;
    if (reads_first_step)
        release_control();
    else if (onespace_insitu_release(channel, &step) < 0)
        fail("EndStep", onespace_insitu_message());
}

void Reader::find_parts()
{
    parts.resize(reads_first_step ? control->ranks : step.ranks);
    for (unsigned rank = 0; rank < parts.size(); rank++) {
        if (reads_first_step)
            parts[rank] = control->first_parts[rank].load();
        else if (find_published(channel, step, rank, &parts[rank]) < 0)
            fail("BeginStep", onespace_insitu_message());
    }
}

// ---- Close ----

void Reader::close()
{
    if (in_step)
        end_step();
    for (auto &[variable_name, variable] : variables)
        if (variable.is_defined)
            undefine(variable_name, variable);
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
