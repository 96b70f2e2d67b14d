// plugins/adios2/attributes.hpp: attributes of an IO as part of a step, and back.
#pragma once

#include "exchange.hpp"
#include "memory.hpp"

#include <adios2.h>

#include <vector>

namespace onespace_adios
{

// Copies all attributes that the program has defined into `memory`.
void store_attributes(adios2::IO &io, Memory &memory, std::vector<Attribute> &to);
// Defines those of a writer's part; those that exist get its values.
void define_attributes(adios2::IO &io, const Part &part);

} // namespace onespace_adios
