// plugins/adios2/first.cpp: with FirstTimestepPrecious a reader that comes late gets the writer's
// first step before all others, as from SST.
//
// The writer keeps its memory, and shows it in its control, which such a reader holds until it has
// seen the step.
#include "reader.hpp"

namespace onespace_adios
{

// Whether the first step is to be seen now; all ranks do the same. If the channel has it too, for
// some of them, they pass over it later (take_first).
bool Reader::show_first()
{
    if (!control || was_first_shown)
        return false;
    bool is_there = true;
    for (unsigned rank = 0; rank < control->ranks; rank++)
        is_there = is_there && control->first[rank].load();
    if (ranks.largest(!is_there))
        return false;
    is_first_shown = was_first_shown = true;
    return true;
}

void Reader::forget_first()
{
    if (!control)
        return;
    is_first_shown = false;
    control = nullptr;
    if (onespace_insitu_release(control_channel, &control_step) < 0)
        fail("EndStep", onespace_insitu_message());
}

} // namespace onespace_adios
