// plugins/adios2/polling.cpp: see polling.hpp.
#include "polling.hpp"

#include <unistd.h>

namespace onespace_adios
{

bool Polling::begins(unsigned ranks)
{
    if (!is_automatic)
        return most.count() > 0;
    return (long)ranks <= sysconf(_SC_NPROCESSORS_ONLN) && backoff.shall_try();
}

std::chrono::microseconds Polling::limit(int timeout_ms) const
{
    std::chrono::microseconds result = is_automatic ? AUTOMATIC : most;
    return timeout_ms < 0
               ? result
               : std::min<std::chrono::microseconds>(result, std::chrono::milliseconds(timeout_ms));
}

} // namespace onespace_adios
