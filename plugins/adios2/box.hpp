// plugins/adios2/box.hpp: copies boxes of elements between arrays of any number of dimensions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace onespace_adios
{

using Dims = std::vector<size_t>;

// An array in memory, without gaps, the last dimension fastest.
struct Extent {
    Dims start; // its first element in the coordinates of both
    Dims count;
};

size_t elements_of(const Dims &count);

// Copies what the two have in common. The number of elements copied.
size_t copy_common(const void *from, const Extent &source, void *to, const Extent &target,
                   const Extent &wanted, size_t element_bytes);

} // namespace onespace_adios
