// python/core/module.cpp: the extension onespace._core, the part of the package that calls
// libonespace.
#include "parts.hpp"

NB_MODULE(_core, module)
{
    add_tasks(module);
    add_arrays(module);
    add_channels(module);
}
