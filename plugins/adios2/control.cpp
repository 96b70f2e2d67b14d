// plugins/adios2/control.cpp: what a writer shows beside its steps, from Open to Close: how many
// ranks it has, who has come to read, and with FirstTimestepPrecious the first step.
#include "writer.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace onespace_adios
{

// Readers come to know the number of ranks and versions, and count themselves there.
void Writer::show_control()
{
    control = std::make_unique<Control>();
    control->magic = MAGIC;
    control->abi = ABI;
    control->ranks = ranks.size;
    strncpy(control->adios, ADIOS2_VERSION_STR, sizeof(control->adios) - 1);
    control->arrived.store(0);
    if (is_first_kept) {
        firsts = std::make_unique<std::atomic<const Part *>[]>(ranks.size);
        control->first = firsts.get();
    }
    int result = onespace_insitu_create(control_name(name).c_str(), nullptr, &control_channel);
    if (result == 0)
        result = onespace_insitu_begin(control_channel, 0, 0);
    onespace_insitu_array array = {};
    array.name = PART_NAME;
    array.address = control.get();
    array.bytes = sizeof(Control);
    array.type = ONESPACE_INSITU_UINT8;
    array.dimensions = 1;
    array.shape[0] = sizeof(Control);
    if (result == 0)
        result = onespace_insitu_put(control_channel, &array);
    if (result == 0)
        result = onespace_insitu_publish(control_channel);
    if (result < 0)
        fail("Open for writing", result);
}

// The first rank's, for the others.
Control *Writer::find_control(int timeout_ms)
{
    if (control)
        return control.get();
    int result = control_channel
                     ? 0
                     : onespace_insitu_open(control_name(name).c_str(), ONESPACE_INSITU_LATEST,
                                            timeout_ms, &control_channel);
    onespace_insitu_step shown;
    onespace_insitu_array array = {};
    if (result == 0)
        result = onespace_insitu_take(control_channel, &shown, timeout_ms);
    if (result == 0)
        result = onespace_insitu_get(control_channel, &shown, 0, PART_NAME, ONESPACE_INSITU_UINT8,
                                     &array);
    if (result == -ETIMEDOUT)
        return nullptr;
    if (result < 0)
        fail("BeginStep", result);
    return static_cast<Control *>(array.address);
}

// As SST does in Open; here before the first step, so that two programs may open each other's
// streams in any order. All ranks wait: one that wrote and closed would end the channel.
bool Writer::await_readers(float timeout_seconds)
{
    using clock = std::chrono::steady_clock;
    auto begin = clock::now();
    auto most = std::chrono::duration<float>(timeout_seconds);
    while (readers_awaited) {
        Control *shown = find_control(100);
        if (shown && shown->arrived.load() >= readers_awaited * READER_UNIT)
            readers_awaited = 0;
        else if (timeout_seconds >= 0 && clock::now() - begin > most)
            return false;
        else
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        leave_control();
    }
    return true;
}

void Writer::leave_control()
{
    if (control)
        return; // the first rank's own
    (void)!onespace_insitu_close(control_channel, 0);
    control_channel = nullptr;
}

// ---- The first step ----

// Called when it was published. Its memory is used for no other step.
void Writer::keep_first()
{
    Control *shown = nullptr;
    while (!shown)
        shown = find_control(100);
    first = std::move(stages[0]);
    stages[0] = std::make_unique<Stage>();
    shown->first[ranks.rank].store(&first->part);
    leave_control();
}

} // namespace onespace_adios
