// python/core/module.cpp: the extension onespace._core, the part of the package that calls
// libonespace.
#include "parts.hpp"

NB_MODULE(_core, module)
{
    // A thread or a forked child may end the interpreter while views or pools exist: no message.
    nanobind::set_leak_warnings(false);
    add_tasks(module);
    add_arrays(module);
    add_channels(module);
    add_messages(module);
    add_dispatcher(module);
    add_worker(module);
}
