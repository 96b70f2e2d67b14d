// plugins/adios2/exchange.hpp: what a writer publishes and readers of other programs read in place.
//
// All pointers are valid in every member of the space, and as long as the step is held. A step of
// the channel (onespace/insitu.h) has one array for each rank, which is the rank's Part: the arrays
// of ADIOS2 may be more, longer named and of more dimensions than those of a channel, and need no
// checks, since the engine has made them.
#pragma once

#include "element.hpp"

#include <atomic>
#include <cstdint>

namespace onespace_adios
{

// Raised when anything below changes: a plug-in refuses what one of another version has made.
constexpr uint32_t ABI = 3;
constexpr uint64_t MAGIC = UINT64_C(0x3173616f69646131); // "1adioas1"
constexpr const char *PART_NAME = "adios2";

// As adios2::ShapeID, whose numbers are ADIOS2's.
enum class Shape : uint32_t { global_value, global_array, joined_array, local_value, local_array };

struct Text {
    const char *bytes;
    uint64_t length;
};

// What one Put wrote.
struct Block {
    Text name;
    Element element;
    Shape shape_kind;
    uint32_t dimensions, reserved;
    const uint64_t *shape; // dimensions each; NULL: there is none
    const uint64_t *start;
    const uint64_t *count;
    // Elements without gaps, the last dimension fastest; of a text its characters. `data`: in
    // memory of the step; `lent`, if not NULL: in the program's, to be read as loan.hpp says.
    const void *data, *lent;
    uint64_t bytes;
};

struct Attribute {
    Text name;
    Element element;
    uint32_t is_array;
    uint64_t count;
    const void *data; // elements; of texts: Text[count]
};

// What is lent of a part (loan.hpp, which has the protocol).
struct Loan {
    enum State : uint32_t { none, lent, copied };
    std::atomic<uint32_t> state;     // the writer writes it
    std::atomic<uint32_t> is_called; // by readers: they need memory that stays until EndStep
    // id + 1 of members that read lent memory, 0: a free place. Each enters and leaves by itself;
    // one that died in between stays until another takes its place.
    std::atomic<int32_t> reading[32];
    int32_t writer; // its id
};

// One rank's part of a step.
struct Part {
    uint64_t magic;
    uint32_t abi, rank;
    Loan *loan;
    uint64_t step;
    uint64_t block_count, attribute_count;
    const Block *blocks;
    const Attribute *attributes;
    uint64_t attributes_version; // the same: so are the attributes
    // Of this writer: the same as in another step: so are number, order and everything of the
    // blocks but `data`, `lent` and, of texts, `bytes`.
    uint64_t layout;
};

// A writer's first rank shows this in a channel of its own, from Open to Close.
struct Control {
    uint64_t magic;
    uint32_t abi, ranks;
    char adios[32]; // the version of the writer's ADIOS2
    // The groups of readers that have come, in units of READER_UNIT each. Raised by every rank of a
    // group by its share, after it has opened the channel; the writer polls it until it begins.
    std::atomic<uint64_t> arrived;
    // With FirstTimestepPrecious each rank's part of the first step, which that rank stores when it
    // has published it; else NULL.
    std::atomic<const Part *> *first;
};
constexpr uint64_t READER_UNIT = 720720; // a multiple of all numbers to 16

} // namespace onespace_adios
