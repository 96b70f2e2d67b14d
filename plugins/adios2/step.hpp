// plugins/adios2/step.hpp: the data structures that writers publish and readers of other programs
// read in place.
//
// Every pointer is valid in every member of the space while the step is held. A step of the channel
// (onespace/insitu.h) has one array for each rank, which is the rank's Part: ADIOS2 allows more
// arrays, longer names and more dimensions than a channel does.
#pragma once

#include "memory.hpp"

#include <adios2/common/ADIOSMacros.h>
#include <adios2/common/ADIOSTypes.h>

#include <atomic>
#include <chrono>
#include <complex>
#include <cstdint>
#include <string>

namespace onespace_adios
{

// Increment when a structure below changes: a reader rejects a writer with another ABI.
constexpr uint32_t ABI = 5;
constexpr uint64_t MAGIC = UINT64_C(0x3173616f69646131); // "1adioas1"
constexpr const char *PART_NAME = "adios2";

// ---- Types of elements ----

// Independent of adios2::DataType, whose numbers differ between versions of ADIOS2.
enum class Element : uint32_t {
    none,
    text,
    character,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float32,
    float64,
    long_double,
    complex32,
    complex64,
};

template <class T> constexpr Element element_of = Element::none;
template <> constexpr Element element_of<std::string> = Element::text;
template <> constexpr Element element_of<char> = Element::character;
template <> constexpr Element element_of<int8_t> = Element::int8;
template <> constexpr Element element_of<int16_t> = Element::int16;
template <> constexpr Element element_of<int32_t> = Element::int32;
template <> constexpr Element element_of<int64_t> = Element::int64;
template <> constexpr Element element_of<uint8_t> = Element::uint8;
template <> constexpr Element element_of<uint16_t> = Element::uint16;
template <> constexpr Element element_of<uint32_t> = Element::uint32;
template <> constexpr Element element_of<uint64_t> = Element::uint64;
template <> constexpr Element element_of<float> = Element::float32;
template <> constexpr Element element_of<double> = Element::float64;
template <> constexpr Element element_of<long double> = Element::long_double;
template <> constexpr Element element_of<std::complex<float>> = Element::complex32;
template <> constexpr Element element_of<std::complex<double>> = Element::complex64;

template <class T> struct Tag {
    using type = T;
};

// Calls function(Tag<T>()), where T is the C++ type of `element`. Returns false if there is none.
template <class F> bool with_type(Element element, F &&function)
{
#define ONESPACE_CASE(T)                                                                           \
    case element_of<T>:                                                                            \
        function(Tag<T>());                                                                        \
        return true;
    switch (element) {
        ADIOS2_FOREACH_STDTYPE_1ARG(ONESPACE_CASE)
    default:
        return false;
    }
#undef ONESPACE_CASE
}

// ---- A Put or a Get ----

// The block of a variable for which nothing was selected (Reader::reset_selection).
constexpr size_t NO_BLOCK = SIZE_MAX;

// The variable that the program passed to Put or Get, without its C++ type. Plug-ins see only part
// of a variable's selection: docs/adios2.md.
struct Request {
    std::string name;
    Element element;
    size_t element_bytes;
    adios2::ShapeID shape_kind;
    Dims shape, start, count;
    size_t block;                    // of SetBlockSelection
    bool is_block = false;           // a Selection chooses the whole block
    Dims memory_start, memory_count; // of a Selection; empty: contiguous
};

// ---- A step ----

// The kinds of adios2::ShapeID, and in this version its numbers, too.
enum class Shape : uint32_t {
    global_value = 1,
    global_array,
    joined_array,
    local_value,
    local_array
};
static_assert((uint32_t)adios2::ShapeID::GlobalValue == (uint32_t)Shape::global_value &&
              (uint32_t)adios2::ShapeID::GlobalArray == (uint32_t)Shape::global_array &&
              (uint32_t)adios2::ShapeID::JoinedArray == (uint32_t)Shape::joined_array &&
              (uint32_t)adios2::ShapeID::LocalValue == (uint32_t)Shape::local_value &&
              (uint32_t)adios2::ShapeID::LocalArray == (uint32_t)Shape::local_array);

struct Text {
    const char *bytes;
    uint64_t length;
};

// The data of one Put.
struct Block {
    Text name;
    Element element;
    Shape shape_kind;
    uint32_t dimensions, reserved;
    const uint64_t *shape; // `dimensions` numbers each, or NULL
    const uint64_t *start;
    const uint64_t *count;
    // Contiguous elements in row-major order, or the characters of a text. `data` is memory of the
    // step. `lent`, if not NULL, is memory of the program, which is read as described for Loan.
    const void *data, *lent;
    uint64_t bytes;
};

struct Attribute {
    Text name;
    Element element;
    uint32_t is_array;
    uint64_t count;
    const void *data; // elements; for texts: Text[count]
};

// The loan of a rank's part: while EndStep of the writer waits, readers read blocks in the memory
// of the writer's program.
//
// ADIOS2 gives the memory of a deferred Put back to the program when EndStep returns. If readers
// release a step about as fast as it could be copied, EndStep lends them that memory and waits:
// each byte is then copied once, by the reader's Get. If they take longer, EndStep copies the
// blocks:
//
//   none -> lent      by the writer, before it publishes the step
//   lent -> copied    by the writer, when every Block::data is set
//
//   reader:  enters its id in `readers`          writer:  lent -> copied
//            state still lent?                            waits until `readers` is empty
//            yes: reads Block::lent, leaves               the memory is the program's again
//            no: leaves, reads Block::data
//
// All accesses are sequentially consistent, so at least one of the two sees the other. The writer
// withdraws a step that its readers have released (onespace_insitu_reclaim), so that no later
// reader finds it. tests/models/loan.pml checks the protocol with Spin.
struct Loan {
    enum State : uint32_t { none, lent, copied };
    std::atomic<uint32_t> state;          // written by the writer
    std::atomic<uint32_t> copy_requested; // by a reader that needs the memory until it releases
    // id + 1 of each member that reads lent memory; 0: free. A reader enters and removes its own
    // id. The slot of a dead reader is reused by another one.
    std::atomic<int32_t> readers[32];
    int32_t writer; // the writer's id
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
    uint64_t attributes_version; // equal versions: equal attributes
};

// The writer's first rank shows this in a channel of its own from Open to Close.
struct Control {
    uint64_t magic;
    uint32_t abi, ranks;
    char adios2_version[32]; // the writer's
    // The number of reader groups that have opened the stream, in units of READER_UNIT. Each rank
    // of a group adds its share after it has opened the channel. The writer polls it before its
    // first step.
    std::atomic<uint64_t> arrived;
    // FirstTimestepPrecious: for each rank its part of the first step, stored by that rank after it
    // has published the step. NULL without that parameter.
    std::atomic<const Part *> *first_parts;
    // Stored by the writer before it publishes its first step, loaded by a reader that has opened
    // the channel: 0 means that the reader gets every step.
    std::atomic<uint32_t> has_begun;
};
constexpr uint64_t READER_UNIT = 720720; // divisible by all numbers up to 16

// ---- Reading a block (loan.cpp) ----

// The memory of a block, for a reader that holds the step. Valid until the guard is destroyed.
class BlockGuard
{
  public:
    BlockGuard(Loan *loan, const Block &block);
    ~BlockGuard();
    BlockGuard(const BlockGuard &) = delete;
    BlockGuard &operator=(const BlockGuard &) = delete;
    const void *data() const
    {
        return address;
    }

  private:
    const void *address;
    std::atomic<int32_t> *slot = nullptr;
};

// The memory of a block, valid until the reader releases the step. Makes the writer copy lent
// memory.
const void *data_until_release(Loan *loan, const Block &block);

// For the writer: whether a live member reads lent memory.
bool has_readers(const Loan &loan);

// For the writer: how long EndStep waits for the readers of `bytes` bytes before it copies them.
std::chrono::microseconds loan_timeout(uint64_t bytes);

} // namespace onespace_adios
