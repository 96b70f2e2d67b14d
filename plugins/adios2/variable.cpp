// plugins/adios2/variable.cpp: where a variable of ADIOS2 keeps what only its setters know.
#include "hidden.hpp"

#include <array>
#include <vector>

namespace onespace_adios::hidden
{
namespace
{

// Bytes of a core::Variable that are looked at: less than the smallest has.
constexpr size_t LOOKED_AT = 640;
using Image = std::array<char, LOOKED_AT>;

struct Offsets {
    size_t block = 0, kind = 0, memory_start = 0, memory_count = 0, start = 0, count = 0, name = 0,
           engine = 0, steps = 0; // 0: not found
    int32_t block_kind = 0;       // the value of a kind after SetBlockSelection
};

template <class T> T read_at(const void *variable, size_t offset)
{
    T value;
    memcpy(&value, static_cast<const char *>(variable) + offset, sizeof(value));
    return value;
}

// The offset of a value that is there exactly once; else 0.
template <class T> size_t find_value(const void *variable, const T &wanted)
{
    size_t found = 0, count = 0;
    for (size_t at = sizeof(void *); at + sizeof(T) <= LOOKED_AT; at += sizeof(void *)) {
        // Bytes, since what lies there may be anything.
        if (memcmp(static_cast<const char *>(variable) + at,
                   reinterpret_cast<const char *>(&wanted), sizeof(T)) == 0) {
            found = at;
            count++;
        }
    }
    return count == 1 ? found : 0;
}

// The offset of a vector with that content. A vector is three pointers; only those are followed
// that changed with the setter.
size_t find_vector(const void *variable, const Image &before, const adios2::Dims &wanted)
{
    for (size_t at = sizeof(void *); at + 3 * sizeof(void *) <= LOOKED_AT; at += sizeof(void *)) {
        auto begin = read_at<const size_t *>(variable, at);
        auto end = read_at<const size_t *>(variable, at + sizeof(void *));
        bool is_changed =
            memcmp(before.data() + at, static_cast<const char *>(variable) + at, 16) != 0;
        if (is_changed && begin &&
            (const char *)end - (const char *)begin ==
                (ptrdiff_t)(wanted.size() * sizeof(size_t)) &&
            adios2::Dims(begin, end) == wanted)
            return at;
    }
    return 0;
}

Image image_of(const void *variable)
{
    Image image;
    memcpy(image.data(), variable, image.size());
    return image;
}

adios2::Dims vector_at(const void *variable, size_t offset)
{
    return adios2::Dims(read_at<const size_t *>(variable, offset),
                        read_at<const size_t *>(variable, offset + sizeof(void *)));
}

// Of a variable that was defined without a box: its vectors change with the first one. Tried once
// more with another box.
void find_box(adios2::IO &io, Offsets &found)
{
    auto handle = io.DefineVariable<double>("onespace/box", {97, 97});
    const void *variable = core_of(handle);
    Image before = image_of(variable);
    handle.SetSelection({{31, 32}, {41, 42}});
    size_t start = find_vector(variable, before, {31, 32});
    size_t count = find_vector(variable, before, {41, 42});
    handle.SetSelection({{3, 5}, {7, 11}});
    if (start && count && vector_at(variable, start) == handle.Start() &&
        vector_at(variable, count) == handle.Count() && handle.Count() == adios2::Dims{7, 11}) {
        found.start = start;
        found.count = count;
    }
}

// A short string begins with a pointer to its own characters, behind the length.
size_t find_name(const void *variable, const std::string &wanted)
{
    const char *bytes = static_cast<const char *>(variable);
    for (size_t at = sizeof(void *); at + sizeof(std::string) <= LOOKED_AT; at += sizeof(void *))
        if (read_at<const char *>(variable, at) == bytes + at + 2 * sizeof(void *) &&
            read_at<size_t>(variable, at + sizeof(void *)) == wanted.size() &&
            memcmp(bytes + at + 2 * sizeof(void *), wanted.c_str(), wanted.size() + 1) == 0)
            return at;
    return 0;
}

Offsets find_offsets()
{
    Offsets found;
    adios2::ADIOS adios;
    adios2::IO io = adios.DeclareIO("onespace");
    auto handle = io.DefineVariable<double>("onespace", {7, 7}, {0, 0}, {1, 1});
    const void *variable = core_of(handle);
    found.name = find_name(variable, "onespace");
    find_box(io, found);

    // The kind follows the number of the block, and goes to another value and back.
    constexpr size_t MARK = 0x5eed0b10c1d5eed;
    handle.SetBlockSelection(MARK);
    found.block = find_value(variable, MARK);
    if (found.block) {
        size_t kind = found.block + sizeof(size_t);
        int32_t as_block = read_at<int32_t>(variable, kind);
        handle.SetSelection({{0, 0}, {1, 1}});
        int32_t as_box = read_at<int32_t>(variable, kind);
        handle.SetBlockSelection(MARK);
        if (as_block != as_box && read_at<int32_t>(variable, kind) == as_block) {
            found.kind = kind;
            found.block_kind = as_block;
        }
    }
    handle.SetSelection({{0, 0}, {1, 1}});

    Image before = image_of(variable);
    handle.SetMemorySelection({{1001, 1002}, {2001, 2002}});
    found.memory_start = find_vector(variable, before, {1001, 1002});
    found.memory_count = find_vector(variable, before, {2001, 2002});
    handle.SetMemorySelection();

    // The engine, NULL in a variable that no engine has read, precedes the accuracy asked for; that
    // provided has another error.
    const double marks[2] = {1.25e-77, 2.5e-77};
    handle.SetAccuracy({marks[0], marks[1], true});
    size_t accuracy = find_value(variable, marks);
    if (accuracy && !read_at<void *>(variable, accuracy - sizeof(void *)))
        found.engine = accuracy - sizeof(void *);

    // The number of steps is a word, zero in a new variable, that Steps() returns.
    auto words = static_cast<size_t *>(core_of(handle));
    for (size_t w = 1; !found.steps && w < LOOKED_AT / sizeof(size_t); w++) {
        if (words[w] != 0)
            continue;
        words[w] = 1;
        if (handle.Steps() == 1)
            found.steps = w * sizeof(size_t);
        words[w] = 0;
    }
    return found;
}

const Offsets &offsets()
{
    static const Offsets found = find_offsets();
    return found;
}

} // namespace

Selection selection_of(const void *variable)
{
    const Offsets &at = offsets();
    Selection selection;
    if (at.kind)
        selection.is_block = read_at<int32_t>(variable, at.kind) == at.block_kind;
    if (at.memory_start && at.memory_count) {
        selection.memory_start = vector_at(variable, at.memory_start);
        selection.memory_count = vector_at(variable, at.memory_count);
    }
    if (at.kind && at.start && at.count) {
        selection.has_box = true;
        selection.start = vector_at(variable, at.start);
        selection.count = vector_at(variable, at.count);
        selection.block = read_at<size_t>(variable, at.block);
    }
    return selection;
}

const std::string *name_of(const void *variable)
{
    size_t at = offsets().name;
    return at ? reinterpret_cast<const std::string *>(static_cast<const char *>(variable) + at)
              : nullptr;
}

void Front::adopt(void *variable) const
{
    const size_t one = 1;
    if (engine && offsets().engine)
        memcpy(static_cast<char *>(variable) + offsets().engine, &engine, sizeof(engine));
    if (offsets().steps)
        memcpy(static_cast<char *>(variable) + offsets().steps, &one, sizeof(one));
}

} // namespace onespace_adios::hidden
