// plugins/adios2/memory.hpp: where the data of a step lies until readers have released it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace onespace_adios
{

// Gives out memory that does not move and takes all of it back at once. After some steps of the
// same size it is one mapping, whose pages are there.
class Memory
{
  public:
    Memory() = default;
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    ~Memory();

    // Aligned for any element and for vectors. Throws std::bad_alloc.
    void *give(size_t bytes);
    template <class T> T *give_array(size_t count)
    {
        return static_cast<T *>(give(count * sizeof(T)));
    }
    // All that was given out is free again.
    void reuse();

  private:
    struct Mapping {
        char *address;
        size_t bytes;
    };
    void map(size_t bytes);
    void unmap_all();

    std::vector<Mapping> mappings; // the last one is in use
    size_t used = 0;               // of the last one
    size_t given = 0;              // of all, since reuse
};

} // namespace onespace_adios
