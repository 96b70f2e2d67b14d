// plugins/adios2/get.cpp: what a reader gets of a step: values, boxes, blocks, and their
// statistics.
#include "loan.hpp"
#include "reader.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace onespace_adios
{
namespace
{

template <class T> void statistics_of(const void *data, size_t count, void *min, void *max)
{
    if constexpr (std::is_arithmetic_v<T>) {
        const T *values = static_cast<const T *>(data);
        T least = values[0], most = values[0];
        for (size_t i = 1; i < count; i++) {
            least = values[i] < least ? values[i] : least;
            most = values[i] > most ? values[i] : most;
        }
        memcpy(min, &least, sizeof(T));
        memcpy(max, &most, sizeof(T));
    }
}

} // namespace

// ---- Get ----

bool Reader::describe(const void *variable, Request &request) const
{
    const std::string *called = hidden::name_of(variable);
    if (!called)
        return false;
    auto place = variables.find(*called);
    if (place == variables.end() || place->second.variable != variable)
        return false;
    hidden::Selection selection = hidden::selection_of(variable);
    if (!selection.has_box)
        return false;
    request.name = *called;
    request.shape_kind = place->second.defined_kind;
    request.start = std::move(selection.start);
    if (!selection.is_block)
        request.count = std::move(selection.count);
    request.block = selection.block;
    request.is_block = selection.is_block;
    request.memory_start = std::move(selection.memory_start);
    request.memory_count = std::move(selection.memory_count);
    request.variable = const_cast<void *>(variable);
    return true;
}

void Reader::get(const Request &request, void *values, bool is_deferred)
{
    if (!in_step)
        throw std::logic_error("onespace: Get of \"" + request.name + "\" of stream \"" + name +
                               "\" outside BeginStep and EndStep: a stream has no other steps");
    // Values at once, as SST: Engine::Get of a name and a value is deferred whatever it is told.
    bool is_value = request.shape_kind == adios2::ShapeID::GlobalValue ||
                    request.shape_kind == adios2::ShapeID::LocalValue;
    if (is_deferred && !is_value)
        deferred.push_back({request, values});
    else
        copy(request, values);
}

void Reader::perform_gets()
{
    std::vector<Deferred> now = std::move(deferred);
    deferred.clear();
    for (const Deferred &get : now)
        copy(get.request, get.values);
}

void Reader::copy(const Request &request, void *values)
{
    auto found = variables.find(request.name);
    if (found == variables.end() || found->second.blocks.empty())
        fail("Get", "step " + std::to_string(current_step()) + " has no variable \"" +
                        request.name + "\"");
    const Known &known = found->second;
    if (known.element != request.element)
        fail("Get", "variable \"" + request.name + "\" is of another type");
    if (known.shape_kind == Shape::global_value || known.shape_kind == Shape::local_value)
        copy_value(known, request, values);
    else if (known.shape_kind == Shape::local_array || request.is_block)
        copy_block(known, request, values);
    else
        copy_box(known, request, values);
}

// A value of all, or values of some writers.
void Reader::copy_value(const Known &known, const Request &request, void *values)
{
    size_t first = 0, count = 1;
    bool is_text = known.element == Element::text;
    if (known.shape_kind == Shape::local_value) {
        bool is_one = request.is_block || is_text;
        first = is_one ? request.block : request.start.at(0);
        count = is_one ? 1 : request.count.at(0);
    }
    if (first + count > known.blocks.size())
        fail("Get", "variable \"" + request.name + "\" has " + std::to_string(known.blocks.size()) +
                        " values, of which " + std::to_string(first + count - 1) + " is none");
    for (size_t i = 0; i < count; i++) {
        const Block &block = *known.blocks[first + i].block;
        if (is_text)
            static_cast<std::string *>(values)[i].assign(static_cast<const char *>(block.data),
                                                         block.bytes);
        else
            memcpy(static_cast<char *>(values) + i * known.element_bytes, block.data,
                   known.element_bytes);
    }
}

// The array of one Put, or a box of it.
void Reader::copy_block(const Known &known, const Request &request, void *values)
{
    if (request.block >= known.blocks.size())
        fail("Get", "variable \"" + request.name + "\" has " + std::to_string(known.blocks.size()) +
                        " blocks, of which " + std::to_string(request.block) + " is none");
    const Found &found = known.blocks[request.block];
    Extent block = {Dims(found.count.size(), 0), found.count};
    bool is_whole = request.is_block || request.start.size() != found.count.size();
    Extent wanted = is_whole ? block : Extent{request.start, request.count};
    Extent target = wanted;
    if (!request.memory_count.empty()) {
        target.count = request.memory_count;
        for (size_t d = 0; d < target.start.size(); d++)
            target.start[d] = wanted.start[d] - request.memory_start[d];
    }
    Borrowed from(found.loan, *found.block);
    if (copy_common(from.data(), block, values, target, wanted, known.element_bytes) !=
        elements_of(wanted.count))
        fail("Get", "the selection of variable \"" + request.name + "\" is outside block " +
                        std::to_string(request.block));
}

// A box of a global array, from the blocks of all writers. What no writer has put is left alone.
void Reader::copy_box(const Known &known, const Request &request, void *values)
{
    for (size_t d = 0; d < known.shape.size(); d++)
        if (request.start[d] + request.count[d] > known.shape[d])
            fail("Get", "the selection of variable \"" + request.name + "\" ends at " +
                            std::to_string(request.start[d] + request.count[d]) + " of " +
                            std::to_string(known.shape[d]) + " along dimension " +
                            std::to_string(d));
    const Found &only = known.blocks.front();
    if (known.blocks.size() == 1 && request.memory_count.empty() && only.start == request.start &&
        only.count == request.count) {
        Borrowed from(only.loan, *only.block);
        if (only.block->bytes)
            memcpy(values, from.data(), only.block->bytes);
        return;
    }
    Extent wanted = {request.start, request.count}, target = wanted;
    if (!request.memory_count.empty()) {
        target.count = request.memory_count;
        for (size_t d = 0; d < target.start.size(); d++)
            target.start[d] = wanted.start[d] - request.memory_start[d]; // may wrap, and back
    }
    for (const Found &found : known.blocks) {
        Borrowed from(found.loan, *found.block);
        copy_common(from.data(), {found.start, found.count}, values, target, wanted,
                    known.element_bytes);
    }
}

// ---- Blocks ----

// Computed when they are asked for: a writer need not read what it has written.
void Reader::find_statistics(const Known &known, Found &found) const
{
    if (found.has_statistics || !has_statistics)
        return;
    size_t count = known.element == Element::text ? 0 : found.block->bytes / known.element_bytes;
    Borrowed from(found.loan, *found.block);
    if (count)
        with_type(known.element, [&](auto tag) {
            statistics_of<typename decltype(tag)::type>(from.data(), count, found.min, found.max);
        });
    found.has_statistics = true;
}

adios2::MinVarInfo *Reader::blocks(const std::string &variable)
{
    auto place = variables.find(variable);
    if (!in_step || place == variables.end() || place->second.blocks.empty())
        return nullptr;
    Known &known = place->second;
    bool is_value =
        known.shape_kind == Shape::global_value || known.shape_kind == Shape::local_value;
    size_t *shape = known.shape.empty() ? nullptr : known.shape.data();
    auto info = new adios2::MinVarInfo((int)known.blocks.front().count.size(), shape);
    info->Step = current_step();
    info->WasLocalValue = known.shape_kind == Shape::local_value;
    info->IsValue = is_value;
    if (info->WasLocalValue)
        info->Dims = 1;
    for (size_t i = 0; i < known.blocks.size(); i++) {
        Found &found = known.blocks[i];
        find_statistics(known, found);
        adios2::MinBlockInfo block = {};
        block.WriterID = (int)found.writer;
        block.BlockID = i;
        block.Start = found.start.empty() ? nullptr : found.start.data();
        block.Count = found.count.empty() ? nullptr : found.count.data();
        if (info->WasLocalValue) { // numbers, not pointers
            block.Start = reinterpret_cast<size_t *>(i);
            block.Count = reinterpret_cast<size_t *>(1);
        }
        memcpy(&block.MinMax.MinUnion, found.min, sizeof(found.min));
        memcpy(&block.MinMax.MaxUnion, found.max, sizeof(found.max));
        // Of a string ADIOS2 expects where its address is.
        block.BufferP = known.element == Element::text
                            ? const_cast<void **>((void *const *)&found.block->data)
                            : const_cast<void *>(found.block->data);
        info->BlocksInfo.push_back(block);
        if (known.shape_kind == Shape::global_value)
            break;
    }
    return info;
}

bool Reader::min_max(const void *variable, void *min, void *max)
{
    auto place = by_variable.find(variable);
    if (!in_step || place == by_variable.end() || !has_statistics)
        return false;
    Known &known = *place->second;
    bool is_set = false;
    for (Found &found : known.blocks) {
        if (found.block->bytes == 0 || known.element == Element::text)
            continue;
        find_statistics(known, found);
        with_type(known.element, [&](auto tag) {
            using T = typename decltype(tag)::type;
            if constexpr (std::is_arithmetic_v<T>) {
                T values[2], *least = static_cast<T *>(min), *most = static_cast<T *>(max);
                memcpy(&values[0], found.min, sizeof(T));
                memcpy(&values[1], found.max, sizeof(T));
                *least = is_set ? std::min(*least, values[0]) : values[0];
                *most = is_set ? std::max(*most, values[1]) : values[1];
                is_set = true;
            }
        });
    }
    return is_set;
}

} // namespace onespace_adios
