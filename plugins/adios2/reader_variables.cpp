// plugins/adios2/reader_variables.cpp: the variables and attributes of a step in the program's IO.
//
// As with SST, the IO has the variables of the current step, with their shapes, and no others.
#include "reader.hpp"

namespace onespace_adios
{

void Reader::read_variables()
{
    find_parts();
    for (auto &[ignored, variable] : variables)
        variable.blocks.clear();
    attribute_versions.resize(parts.size());
    for (unsigned rank = 0; rank < parts.size(); rank++) {
        const Part &part = *parts[rank];
        for (uint64_t i = 0; i < part.block_count; i++)
            add_block(part.blocks[i], rank, part.loan);
        if (attribute_versions[rank] != part.attributes_version)
            define_attributes(part);
        attribute_versions[rank] = part.attributes_version;
    }
    if (shows_addresses)
        add_address_variables();
    for (auto &[variable_name, variable] : variables) {
        if (!variable.blocks.empty()) {
            compute_shape(variable);
            define(variable_name, variable);
        } else if (variable.is_defined) {
            undefine(variable_name, variable);
        }
    }
}

// ---- Blocks ----

void Reader::add_block(const Block &block, unsigned writer, Loan *loan)
{
    std::string_view block_name(block.name.bytes, block.name.length);
    auto found = variables.find(block_name);
    if (found == variables.end())
        found = variables.emplace(std::string(block_name), VariableState()).first;
    VariableState &variable = found->second;
    bool is_changed = variable.element != block.element || variable.shape_kind != block.shape_kind;
    if (!variable.blocks.empty()) // of this step
        is_changed |= variable.blocks.front().block->dimensions != block.dimensions;
    if (variable.blocks.empty()) {
        if (is_changed && variable.is_defined)
            undefine(found->first, variable);
        variable.element = block.element;
        variable.shape_kind = block.shape_kind;
    } else if (is_changed) {
        fail("BeginStep", "ranks " + std::to_string(variable.blocks.front().writer) + " and " +
                              std::to_string(writer) + " have defined variable \"" + found->first +
                              "\" with different types or shapes");
    }
    BlockRef ref = {};
    ref.block = &block;
    ref.loan = loan;
    ref.writer = writer;
    if (block.start)
        ref.start.assign(block.start, block.start + block.dimensions);
    if (block.count)
        ref.count.assign(block.count, block.count + block.dimensions);
    variable.blocks.push_back(std::move(ref));
}

// The shape that the program sees, and the places of the blocks of a joined array.
void Reader::compute_shape(VariableState &variable)
{
    const Block &first = *variable.blocks.front().block;
    variable.shape.clear();
    if (variable.shape_kind == Shape::local_value)
        variable.shape = {variable.blocks.size()};
    if (variable.shape_kind == Shape::global_array || variable.shape_kind == Shape::joined_array)
        variable.shape.assign(first.shape, first.shape + first.dimensions);
    if (variable.shape_kind != Shape::joined_array)
        return;
    size_t joined = 0;
    while (joined + 1 < variable.shape.size() && variable.shape[joined] != adios2::JoinedDim)
        joined++;
    variable.shape[joined] = 0;
    for (BlockRef &ref : variable.blocks) {
        ref.start.assign(variable.shape.size(), 0);
        ref.start[joined] = variable.shape[joined];
        variable.shape[joined] += ref.count[joined];
    }
}

// ---- Definitions in the program's IO ----

void Reader::define(const std::string &variable_name, VariableState &variable)
{
    with_type(variable.element, [&](auto tag) {
        define_type<typename decltype(tag)::type>(variable_name, variable);
    });
}

// Defines the variable, or gives it this step's shape, with everything selected. A selection of the
// last step is not valid for this one.
template <class T>
void Reader::define_type(const std::string &variable_name, VariableState &variable)
{
    variable.element_bytes = sizeof(T);
    adios2::Variable<T> handle;
    bool is_text = variable.element == Element::text;
    bool is_value = variable.shape_kind == Shape::global_value;
    bool is_global_array = !is_text && !is_value && variable.shape_kind != Shape::local_array;
    auto select_all = [&] {
        handle.SetBlockSelection(NO_BLOCK); // get() detects another block
        handle.SetSelection({Dims(variable.shape.size(), 0), variable.shape});
        handle.SetMemorySelection();
    };
    if (variable.is_defined && is_global_array) {
        handle = io.InquireVariable<T>(variable_name);
        if (handle && variable.defined_shape.size() == variable.shape.size()) {
            if (variable.defined_shape != variable.shape)
                handle.SetShape(variable.shape);
            variable.defined_shape = variable.shape;
            select_all();
            return;
        }
    }
    if (variable.is_defined)
        undefine(variable_name, variable);
    if (io.InquireVariable<T>(variable_name)) // defined by the program, for another stream
        io.RemoveVariable(variable_name);
    if (is_value)
        handle = io.DefineVariable<T>(variable_name);
    else if (is_text) // ADIOS2 has no arrays of strings, but one string of each writer
        handle = io.DefineVariable<T>(variable_name, {adios2::LocalValueDim});
    else if (variable.shape_kind == Shape::local_array)
        handle = io.DefineVariable<T>(variable_name, {}, {}, variable.blocks.front().count);
    else
        handle = io.DefineVariable<T>(variable_name, variable.shape, Dims(variable.shape.size(), 0),
                                      variable.shape);
    if (is_global_array)
        select_all();
    variable.is_defined = true;
    variable.defined_shape = variable.shape;
}

void Reader::undefine(const std::string &variable_name, VariableState &variable)
{
    io.RemoveVariable(variable_name);
    variable.is_defined = false;
}

// ---- Attributes ----

namespace
{

// An attribute keeps its type and whether it is an array; one that changes these is removed first.
template <class T>
void define_attribute(adios2::IO &io, const std::string &name, const T *values,
                      const Attribute &from)
{
    auto existing = io.InquireAttribute<T>(name);
    if (existing ? existing.IsValue() == (from.is_array != 0) : io.AttributeType(name) != "")
        io.RemoveAttribute(name);
    if (from.is_array)
        io.DefineAttribute<T>(name, values, from.count, "", "/", true);
    else
        io.DefineAttribute<T>(name, values[0], "", "/", true);
}

} // namespace

void Reader::define_attributes(const Part &part)
{
    for (size_t i = 0; i < part.attribute_count; i++) {
        const Attribute &from = part.attributes[i];
        std::string attribute_name(from.name.bytes, from.name.length);
        if (from.element == Element::text) {
            std::vector<std::string> texts;
            for (size_t t = 0; t < from.count; t++) {
                const Text &text = static_cast<const Text *>(from.data)[t];
                texts.emplace_back(text.bytes, text.length);
            }
            define_attribute(io, attribute_name, texts.data(), from);
            continue;
        }
#define ONESPACE_DEFINE(T)                                                                         \
    if (from.element == element_of<T>)                                                             \
        define_attribute(io, attribute_name, static_cast<const T *>(from.data), from);
        ADIOS2_FOREACH_ATTRIBUTE_PRIMITIVE_STDTYPE_1ARG(ONESPACE_DEFINE)
#undef ONESPACE_DEFINE
    }
}

// ---- Addresses ----

const Block &Reader::address_block(const std::string &variable_name, VariableState &variable)
{
    static const uint64_t zero = 0;
    if (!variable.address_variable) {
        variable.address_variable = std::make_unique<AddressVariable>();
        variable.address_variable->name = "onespace/address/" + variable_name;
    }
    AddressVariable &shown = *variable.address_variable;
    shown.addresses.clear();
    for (const BlockRef &ref : variable.blocks)
        shown.addresses.push_back((uint64_t)data_until_release(ref.loan, *ref.block));
    shown.count = shown.addresses.size();
    shown.block = {};
    shown.block.name = {shown.name.data(), shown.name.size()};
    shown.block.element = Element::uint64;
    shown.block.shape_kind = Shape::global_array;
    shown.block.dimensions = 1;
    shown.block.shape = shown.block.count = &shown.count;
    shown.block.start = &zero;
    shown.block.data = shown.addresses.data();
    shown.block.bytes = shown.addresses.size() * sizeof(uint64_t);
    return shown.block;
}

// Addresses="on": each array NAME has a variable onespace/address/NAME with the addresses of its
// blocks, for programs that read in place.
void Reader::add_address_variables()
{
    std::vector<const Block *> blocks; // added after the loop over `variables`, which they change
    for (auto &[variable_name, variable] : variables)
        if (!variable.blocks.empty() && variable.blocks.front().block->dimensions)
            blocks.push_back(&address_block(variable_name, variable));
    for (const Block *block : blocks)
        add_block(*block, 0, nullptr);
}

} // namespace onespace_adios
