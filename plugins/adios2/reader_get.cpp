// plugins/adios2/reader_get.cpp: the data of a step: values, boxes, blocks, and their statistics.
#include "reader.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace onespace_adios
{

// ---- Get ----

void Reader::get(const Request &request, void *values, bool is_deferred)
{
    if (!in_step)
        throw std::logic_error("onespace: Get of \"" + request.name + "\" of stream \"" + name +
                               "\" outside BeginStep and EndStep");
    // BlockID() keeps its value when SetSelection is called after SetBlockSelection, so a plug-in
    // cannot know which of both is valid.
    if (request.shape_kind == adios2::ShapeID::GlobalArray && !request.is_block &&
        request.block != NO_BLOCK)
        throw std::invalid_argument(
            "onespace: Get of \"" + request.name +
            "\": ADIOS2 does not pass SetBlockSelection of a global array "
            "to plug-ins: use SetSelection with the block's Start and Count "
            "of BlocksInfo, or Get with a Selection");
    // Values are copied at once, as with SST: Engine::Get of a name and a value is always deferred.
    bool is_value = request.shape_kind == adios2::ShapeID::GlobalValue ||
                    request.shape_kind == adios2::ShapeID::LocalValue;
    if (is_deferred && !is_value)
        deferred.push_back({request, values});
    else
        copy(request, values);
}

void Reader::perform_gets()
{
    std::vector<DeferredGet> gets = std::move(deferred);
    deferred.clear();
    for (const DeferredGet &get : gets)
        copy(get.request, get.values);
}

void Reader::copy(const Request &request, void *values)
{
    auto found = variables.find(request.name);
    if (found == variables.end() || found->second.blocks.empty())
        fail("Get", "step " + std::to_string(current_step()) + " has no variable \"" +
                        request.name + "\"");
    const VariableState &variable = found->second;
    if (variable.element != request.element)
        fail("Get", "variable \"" + request.name + "\" has another type");
    if (variable.shape_kind == Shape::global_value || variable.shape_kind == Shape::local_value)
        copy_values(variable, request, values);
    else if (variable.shape_kind == Shape::local_array || request.is_block)
        copy_block(variable, request, values);
    else
        copy_selected_box(variable, request, values);
}

void Reader::verify_dimensions(const Request &request, const std::string &box, const Dims &start,
                               const Dims &count, size_t dimensions) const
{
    size_t found = start.size() != dimensions ? start.size() : count.size();
    if (found != dimensions)
        fail("Get", "the " + box + " of variable \"" + request.name + "\" has " +
                        std::to_string(found) + " dimensions instead of " +
                        std::to_string(dimensions));
}

void Reader::verify_limits(const Request &request, const std::string &box, const Dims &start,
                           const Dims &count, const Dims &limits) const
{
    for (size_t d = 0; d < limits.size(); d++)
        if (count[d] > limits[d] || start[d] > limits[d] - count[d])
            fail("Get", "the " + box + " of variable \"" + request.name + "\" has " +
                            std::to_string(count[d]) + " elements from " +
                            std::to_string(start[d]) + " on in dimension " + std::to_string(d) +
                            ", which has " + std::to_string(limits[d]));
}

// The selected box lies within an array of that shape.
void Reader::verify_selection(const Request &request, const Dims &shape) const
{
    verify_dimensions(request, "selection", request.start, request.count, shape.size());
    verify_limits(request, "selection", request.start, request.count, shape);
}

// The program's array holds `count` elements from memory_start on.
void Reader::verify_memory(const Request &request, const Dims &count) const
{
    if (request.memory_start.empty() && request.memory_count.empty())
        return;
    const std::string box = "memory selection";
    verify_dimensions(request, box, request.memory_start, request.memory_count, count.size());
    verify_limits(request, box, request.memory_start, count, request.memory_count);
}

// A global value, or local values of some writers.
void Reader::copy_values(const VariableState &variable, const Request &request, void *values)
{
    size_t first = 0, count = 1;
    bool is_text = variable.element == Element::text;
    if (variable.shape_kind == Shape::local_value) {
        bool is_block = request.is_block || (is_text && request.block != NO_BLOCK);
        bool is_box = !is_block && !(is_text && request.start.empty());
        if (is_block && request.block >= variable.blocks.size())
            fail("Get", "value " + std::to_string(request.block) + " of variable \"" +
                            request.name + "\" is selected, which has " +
                            std::to_string(variable.blocks.size()));
        if (is_box)
            verify_selection(request, variable.shape);
        first = is_block ? request.block : is_box ? request.start[0] : 0;
        count = is_box ? request.count[0] : 1;
        verify_memory(request, {count});
        if (!request.memory_start.empty())
            values = static_cast<char *>(values) + request.memory_start[0] * variable.element_bytes;
    }
    for (size_t i = 0; i < count; i++) {
        const Block &block = *variable.blocks[first + i].block;
        if (is_text)
            static_cast<std::string *>(values)[i].assign(static_cast<const char *>(block.data),
                                                         block.bytes);
        else
            memcpy(static_cast<char *>(values) + i * variable.element_bytes, block.data,
                   variable.element_bytes);
    }
}

// The array in the program's memory that receives `wanted`.
static Extent target_of(const Extent &wanted, const Request &request)
{
    Extent target = wanted;
    if (!request.memory_count.empty()) {
        target.count = request.memory_count;
        for (size_t d = 0; d < target.start.size(); d++)
            target.start[d] =
                wanted.start[d] - request.memory_start[d]; // unsigned wrap cancels out
    }
    return target;
}

// The block of one Put, or a box in it.
void Reader::copy_block(const VariableState &variable, const Request &request, void *values)
{
    if (request.block >= variable.blocks.size())
        fail("Get", "block " + std::to_string(request.block) + " of variable \"" + request.name +
                        "\" is selected, which has " + std::to_string(variable.blocks.size()));
    const BlockRef &ref = variable.blocks[request.block];
    Extent block = {Dims(ref.count.size(), 0), ref.count};
    bool is_box = !request.is_block && !request.start.empty();
    // Without a box the program's memory has Count() elements, which is another block's size if the
    // program has not set it: ADIOS2 does not ask plug-ins for the size of the selected block.
    if (!request.is_block && !is_box && element_count(request.count) != element_count(ref.count))
        fail("Get", "block " + std::to_string(request.block) + " of variable \"" + request.name +
                        "\" has " + std::to_string(element_count(ref.count)) +
                        " elements and the selection " +
                        std::to_string(element_count(request.count)) +
                        ": ADIOS2 does not pass the size of a block from plug-ins to programs: use "
                        "SetSelection with the block's Count of BlocksInfo, too");
    if (is_box)
        verify_selection(request, ref.count);
    Extent wanted = is_box ? Extent{request.start, request.count} : block;
    verify_memory(request, wanted.count);
    BlockGuard from(ref.loan, *ref.block);
    copy_box(from.data(), block, values, target_of(wanted, request), wanted,
             variable.element_bytes);
}

// A box of a global array, from the blocks of all writers. Elements that no writer has put are left
// as they are.
void Reader::copy_selected_box(const VariableState &variable, const Request &request, void *values)
{
    verify_selection(request, variable.shape);
    verify_memory(request, request.count);
    const BlockRef &first = variable.blocks.front();
    if (variable.blocks.size() == 1 && request.memory_count.empty() &&
        first.start == request.start && first.count == request.count) {
        BlockGuard from(first.loan, *first.block);
        if (first.block->bytes)
            memcpy(values, from.data(), first.block->bytes);
        return;
    }
    Extent wanted = {request.start, request.count}, target = target_of(wanted, request);
    for (const BlockRef &ref : variable.blocks) {
        BlockGuard from(ref.loan, *ref.block);
        copy_box(from.data(), {ref.start, ref.count}, values, target, wanted,
                 variable.element_bytes);
    }
}

// ---- BlocksInfo ----

// The minimum and maximum of a block, computed when the program asks for them: the writer need not
// read what it has written.
void Reader::compute_statistics(const VariableState &variable, BlockRef &block) const
{
    if (block.has_statistics || !has_statistics)
        return;
    size_t count =
        variable.element == Element::text ? 0 : block.block->bytes / variable.element_bytes;
    BlockGuard from(block.loan, *block.block);
    with_type(variable.element, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (std::is_arithmetic_v<T>) {
            if (count == 0)
                return;
            const T *values = static_cast<const T *>(from.data());
            T min = values[0], max = values[0];
            for (size_t i = 1; i < count; i++) {
                min = values[i] < min ? values[i] : min;
                max = values[i] > max ? values[i] : max;
            }
            memcpy(block.min, &min, sizeof(T));
            memcpy(block.max, &max, sizeof(T));
        }
    });
    block.has_statistics = true;
}

adios2::MinVarInfo *Reader::blocks(const std::string &variable_name)
{
    auto found = variables.find(variable_name);
    if (!in_step || found == variables.end() || found->second.blocks.empty())
        return nullptr;
    VariableState &variable = found->second;
    bool is_value =
        variable.shape_kind == Shape::global_value || variable.shape_kind == Shape::local_value;
    size_t *shape = variable.shape.empty() ? nullptr : variable.shape.data();
    auto info = new adios2::MinVarInfo((int)variable.blocks.front().count.size(), shape);
    info->Step = current_step();
    info->WasLocalValue = variable.shape_kind == Shape::local_value;
    info->IsValue = is_value;
    if (info->WasLocalValue)
        info->Dims = 1;
    for (size_t i = 0; i < variable.blocks.size(); i++) {
        BlockRef &ref = variable.blocks[i];
        compute_statistics(variable, ref);
        adios2::MinBlockInfo block = {};
        block.WriterID = (int)ref.writer;
        block.BlockID = i;
        block.Start = ref.start.empty() ? nullptr : ref.start.data();
        block.Count = ref.count.empty() ? nullptr : ref.count.data();
        if (info->WasLocalValue) { // ADIOS2 expects numbers here, not pointers
            block.Start = reinterpret_cast<size_t *>(i);
            block.Count = reinterpret_cast<size_t *>(1);
        }
        memcpy(&block.MinMax.MinUnion, ref.min, sizeof(ref.min));
        memcpy(&block.MinMax.MaxUnion, ref.max, sizeof(ref.max));
        // For a string ADIOS2 expects the address of its address.
        block.BufferP = variable.element == Element::text
                            ? const_cast<void **>((void *const *)&ref.block->data)
                            : const_cast<void *>(ref.block->data);
        info->BlocksInfo.push_back(block);
        if (variable.shape_kind == Shape::global_value)
            break;
    }
    return info;
}

} // namespace onespace_adios
