// onespace/sync/memory.hpp: memory of one rank to which the others write.
//
// malloc's, unless the rank is a guarded task (onespace run --guard, which says so in the
// environment): others may write only to what that has mapped shared.
#ifndef ONESPACE_SYNC_MEMORY_HPP
#define ONESPACE_SYNC_MEMORY_HPP

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

#include "onespace/sync/flag.hpp"

namespace onespace::sync::detail
{

inline bool is_guarded()
{
    static const bool is = std::getenv("ONESPACE_GUARD") != nullptr;
    return is;
}

// Zeroed, `bytes` being whole lines; null: no memory.
inline void *allocate_open(std::size_t bytes)
{
    if (is_guarded()) {
        void *memory =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        return memory == MAP_FAILED ? nullptr : memory;
    }
    void *memory = std::aligned_alloc(line_size, bytes);
    if (memory)
        std::memset(memory, 0, bytes);
    return memory;
}

inline void free_open(void *memory, std::size_t bytes) noexcept
{
    if (is_guarded() && memory)
        munmap(memory, bytes);
    else
        std::free(memory);
}

} // namespace onespace::sync::detail

#endif
