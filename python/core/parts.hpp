// python/core/parts.hpp: the parts that each source of the extension adds to the module.
#pragma once

#include <nanobind/nanobind.h>

void add_tasks(nanobind::module_ &module);
void add_arrays(nanobind::module_ &module);
void add_channels(nanobind::module_ &module);
void add_messages(nanobind::module_ &module);
void add_dispatcher(nanobind::module_ &module);
void add_worker(nanobind::module_ &module);
