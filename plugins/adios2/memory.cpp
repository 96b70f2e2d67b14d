// plugins/adios2/memory.cpp: mappings that are kept from step to step.
#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace onespace_adios
{
namespace
{

constexpr size_t ALIGNMENT = 64, LEAST = size_t(64) << 10, HUGE_PAGE = size_t(2) << 20;

size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

} // namespace

Memory::~Memory()
{
    unmap_all();
}

void Memory::unmap_all()
{
    for (const Mapping &mapping : mappings)
        munmap(mapping.address, mapping.bytes);
    mappings.clear();
    used = 0;
}

void Memory::map(size_t bytes)
{
    bytes = round_up(std::max(bytes, LEAST), bytes >= HUGE_PAGE ? HUGE_PAGE : LEAST);
    void *address =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        throw std::bad_alloc();
    if (bytes >= HUGE_PAGE)
        madvise(address, bytes, MADV_HUGEPAGE);
    mappings.push_back({static_cast<char *>(address), bytes});
    used = 0;
}

void *Memory::give(size_t bytes)
{
    bytes = round_up(std::max(bytes, size_t(1)), ALIGNMENT);
    if (mappings.empty() || mappings.back().bytes - used < bytes)
        map(std::max(bytes, given)); // doubles, so that there are few
    void *address = mappings.back().address + used;
    used += bytes;
    given += bytes;
    return address;
}

void Memory::reuse()
{
    if (mappings.size() > 1) {
        size_t wanted = given;
        unmap_all();
        map(wanted);
    }
    used = given = 0;
}

} // namespace onespace_adios
