// plugins/adios2/box.cpp: the common box of two arrays, copied row by row.
#include "box.hpp"

#include <algorithm>
#include <cstring>

namespace onespace_adios
{
namespace
{

struct Walk {
    const Dims &common; // elements along each dimension
    Dims from_strides, to_strides;
    size_t row_dimension; // from there on both are without gaps
    size_t row_bytes;
};

Dims strides_of(const Dims &count, size_t element_bytes)
{
    Dims strides(count.size());
    size_t stride = element_bytes;
    for (size_t d = count.size(); d-- > 0; stride *= count[d])
        strides[d] = stride;
    return strides;
}

void copy_rows(const Walk &walk, size_t dimension, const char *from, char *to)
{
    if (dimension == walk.row_dimension) {
        memcpy(to, from, walk.row_bytes);
        return;
    }
    for (size_t i = 0; i < walk.common[dimension]; i++)
        copy_rows(walk, dimension + 1, from + i * walk.from_strides[dimension],
                  to + i * walk.to_strides[dimension]);
}

} // namespace

size_t elements_of(const Dims &count)
{
    size_t elements = 1;
    for (size_t along : count)
        elements *= along;
    return elements;
}

size_t copy_common(const void *from, const Extent &source, void *to, const Extent &target,
                   const Extent &wanted, size_t element_bytes)
{
    size_t dimensions = wanted.count.size();
    Dims first(dimensions), common(dimensions);
    for (size_t d = 0; d < dimensions; d++) {
        first[d] = std::max(source.start[d], wanted.start[d]);
        size_t end = std::min(source.start[d] + source.count[d], wanted.start[d] + wanted.count[d]);
        if (end <= first[d])
            return 0;
        common[d] = end - first[d];
    }
    Walk walk{common, strides_of(source.count, element_bytes),
              strides_of(target.count, element_bytes), dimensions, element_bytes};
    const char *begin = static_cast<const char *>(from);
    char *place = static_cast<char *>(to);
    for (size_t d = 0; d < dimensions; d++) {
        begin += (first[d] - source.start[d]) * walk.from_strides[d];
        place += (first[d] - target.start[d]) * walk.to_strides[d];
    }
    bool is_whole = true; // along all later dimensions
    while (walk.row_dimension > 0 && is_whole) {
        size_t d = --walk.row_dimension;
        walk.row_bytes *= common[d];
        is_whole = common[d] == source.count[d] && common[d] == target.count[d];
    }
    copy_rows(walk, 0, begin, place);
    return elements_of(common);
}

} // namespace onespace_adios
