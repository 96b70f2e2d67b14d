// plugins/adios2/backoff.hpp: whether to try what saves time if it goes well, and costs some if it
// does not: by how it went before. After a try in vain the next one is not made, after another the
// next two, then four, 64 at most.
#pragma once

#include <algorithm>

namespace onespace_adios
{

class Backoff
{
  public:
    bool shall_try()
    {
        if (pause > 0)
            return --pause, false;
        return true;
    }
    void ended(bool well)
    {
        pause = well ? 0 : next_pause;
        next_pause = well ? 1 : std::min(2 * next_pause, PAUSE_MAX);
    }

  private:
    static constexpr unsigned PAUSE_MAX = 64;
    unsigned pause = 0, next_pause = 1;
};

} // namespace onespace_adios
