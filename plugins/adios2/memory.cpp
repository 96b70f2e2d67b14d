// plugins/adios2/memory.cpp: the memory of a step, and copies of boxes between arrays.
#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace onespace_adios
{
namespace
{

constexpr size_t ALIGNMENT = 64, MAPPING_MIN_BYTES = size_t(64) << 10,
                 HUGE_PAGE_BYTES = size_t(2) << 20;

size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

} // namespace

// ---- Step memory ----

StepMemory::~StepMemory()
{
    unmap_all();
}

void StepMemory::unmap_all()
{
    for (const Mapping &mapping : mappings)
        munmap(mapping.address, mapping.bytes);
    mappings.clear();
    used = 0;
}

void StepMemory::map(size_t bytes)
{
    bytes = round_up(std::max(bytes, MAPPING_MIN_BYTES),
                     bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : MAPPING_MIN_BYTES);
    void *address =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        throw std::bad_alloc();
    if (bytes >= HUGE_PAGE_BYTES)
        madvise(address, bytes, MADV_HUGEPAGE);
    mappings.push_back({static_cast<char *>(address), bytes});
    used = 0;
}

void *StepMemory::allocate(size_t bytes)
{
    bytes = round_up(std::max(bytes, size_t(1)), ALIGNMENT);
    if (mappings.empty() || mappings.back().bytes - used < bytes)
        map(std::max(bytes, allocated)); // doubling keeps the number of mappings small
    void *address = mappings.back().address + used;
    used += bytes;
    allocated += bytes;
    return address;
}

void StepMemory::free_all()
{
    if (mappings.size() > 1) {
        size_t bytes = allocated;
        unmap_all();
        map(bytes);
    }
    used = allocated = 0;
}

// ---- Boxes ----

namespace
{

struct BoxCopy {
    const Dims &common; // elements to copy along each dimension
    Dims from_strides, to_strides;
    size_t row_dimension; // both arrays are contiguous from this dimension on
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

void copy_rows(const BoxCopy &copy, size_t dimension, const char *from, char *to)
{
    if (dimension == copy.row_dimension) {
        memcpy(to, from, copy.row_bytes);
        return;
    }
    for (size_t i = 0; i < copy.common[dimension]; i++)
        copy_rows(copy, dimension + 1, from + i * copy.from_strides[dimension],
                  to + i * copy.to_strides[dimension]);
}

} // namespace

size_t element_count(const Dims &count)
{
    size_t elements = 1;
    for (size_t extent : count)
        elements *= extent;
    return elements;
}

size_t copy_box(const void *from, const Extent &source, void *to, const Extent &target,
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
    BoxCopy copy{common, strides_of(source.count, element_bytes),
                 strides_of(target.count, element_bytes), dimensions, element_bytes};
    const char *from_first = static_cast<const char *>(from);
    char *to_first = static_cast<char *>(to);
    for (size_t d = 0; d < dimensions; d++) {
        from_first += (first[d] - source.start[d]) * copy.from_strides[d];
        to_first += (first[d] - target.start[d]) * copy.to_strides[d];
    }
    bool is_contiguous = true; // in all later dimensions
    while (copy.row_dimension > 0 && is_contiguous) {
        size_t d = --copy.row_dimension;
        copy.row_bytes *= common[d];
        is_contiguous = common[d] == source.count[d] && common[d] == target.count[d];
    }
    copy_rows(copy, 0, from_first, to_first);
    return element_count(common);
}

} // namespace onespace_adios
