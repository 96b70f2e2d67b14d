// plugins/adios2/memory.hpp: the memory of a step, and copies of boxes between arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace onespace_adios
{

// Allocates memory that does not move and frees all of it at once. After some steps of the same
// size it is one mapping, whose pages are populated.
class StepMemory
{
  public:
    StepMemory() = default;
    StepMemory(const StepMemory &) = delete;
    StepMemory &operator=(const StepMemory &) = delete;
    ~StepMemory();

    // Aligned for any element and for vector instructions. Throws std::bad_alloc.
    void *allocate(size_t bytes);
    template <class T> T *allocate_array(size_t count)
    {
        return static_cast<T *>(allocate(count * sizeof(T)));
    }
    void free_all();

  private:
    struct Mapping {
        char *address;
        size_t bytes;
    };
    void map(size_t bytes);
    void unmap_all();

    std::vector<Mapping> mappings; // allocations come from the last one
    size_t used = 0;               // bytes of the last mapping
    size_t allocated = 0;          // bytes in all mappings since free_all
};

using Dims = std::vector<size_t>;

// A contiguous array in memory, in row-major order.
struct Extent {
    Dims start; // coordinates of its first element
    Dims count;
};

size_t element_count(const Dims &count);

// Copies the elements of `wanted` that `source` and `target` both have; all three use the same
// coordinates. Returns the number of elements copied.
size_t copy_box(const void *from, const Extent &source, void *to, const Extent &target,
                const Extent &wanted, size_t element_bytes);

} // namespace onespace_adios
