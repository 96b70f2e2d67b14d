// plugins/adios2/definitions.cpp: variables in the IO of a program that reads. As with SST they are
// those of the step, with their shapes, and no others.
#include "loan.hpp"
#include "reader.hpp"

namespace onespace_adios
{

// The shape as readers see it, and where the blocks of a joined array are.
void Reader::settle(Known &known)
{
    const Block &first = *known.blocks.front().block;
    known.shape.clear();
    if (known.shape_kind == Shape::local_value)
        known.shape = {known.blocks.size()};
    if (known.shape_kind == Shape::global_array || known.shape_kind == Shape::joined_array)
        known.shape.assign(first.shape, first.shape + first.dimensions);
    if (known.shape_kind != Shape::joined_array)
        return;
    size_t joined = 0;
    while (joined + 1 < known.shape.size() && known.shape[joined] != adios2::JoinedDim)
        joined++;
    known.shape[joined] = 0;
    for (Found &found : known.blocks) {
        found.start.assign(known.shape.size(), 0);
        found.start[joined] = known.shape[joined];
        known.shape[joined] += found.count[joined];
    }
}

void Reader::forget(const std::string &variable, Known &known)
{
    // The program may have removed it, and another variable lie there now.
    auto place = by_variable.find(known.variable);
    if (place != by_variable.end() && place->second == &known)
        by_variable.erase(place);
    io.RemoveVariable(variable);
    known.variable = nullptr;
}

void Reader::define_one(const std::string &variable, Known &known)
{
    with_type(known.element,
              [&](auto tag) { define<typename decltype(tag)::type>(variable, known); });
}

void Reader::settle_all()
{
    for (auto &[variable, known] : variables) {
        if (!known.blocks.empty())
            settle(known);
        else if (known.variable)
            forget(variable, known);
    }
}

void Reader::define_all()
{
    for (auto &[variable, known] : variables)
        if (!known.blocks.empty())
            define_one(variable, known);
}

template <class T> void Reader::define(const std::string &variable, Known &known)
{
    known.element_bytes = sizeof(T);
    adios2::Variable<T> handle;
    bool is_text = known.element == Element::text;
    bool is_value = known.shape_kind == Shape::global_value;
    // A selection of the last step does not hold for this one.
    if (known.variable && (is_value || known.shape_kind == Shape::local_array)) {
        forget(variable, known);
    } else if (known.variable) {
        handle = io.InquireVariable<T>(variable);
        if (handle && !is_text && known.defined.size() == known.shape.size()) {
            if (known.defined != known.shape)
                handle.SetShape(known.shape);
            known.defined = known.shape;
            handle.SetSelection({Dims(known.shape.size(), 0), known.shape});
            handle.SetMemorySelection();
            return;
        }
        forget(variable, known);
    }
    if (io.InquireVariable<T>(variable)) // the program's own, of another stream
        io.RemoveVariable(variable);
    // ADIOS2 has no arrays of strings, but one value for each writer.
    if (is_value)
        handle = io.DefineVariable<T>(variable);
    else if (is_text)
        handle = io.DefineVariable<T>(variable, {adios2::LocalValueDim});
    else if (known.shape_kind == Shape::local_array)
        handle = io.DefineVariable<T>(variable, {}, {}, known.blocks.front().count);
    else
        handle =
            io.DefineVariable<T>(variable, known.shape, Dims(known.shape.size(), 0), known.shape);
    known.variable = hidden::core_of(handle);
    known.defined = known.shape;
    known.defined_kind = handle.ShapeID();
    by_variable[known.variable] = &known;
    if (adopt)
        adopt(known.variable);
}

// Done before the step is there: variables of the last one are as long as they were, with nothing
// selected. What has changed is defined anew by collect().
void Reader::select_all()
{
    for (auto &[variable, known] : variables)
        if (known.variable)
            define_one(variable, known);
}

// ---- Addresses ----

const Block &Reader::block_of_addresses(const std::string &variable, Known &known)
{
    static const uint64_t zero = 0;
    if (!known.companion) {
        known.companion = std::make_unique<Companion>();
        known.companion->name = "onespace/address/" + variable;
    }
    Companion &shown = *known.companion;
    shown.addresses.clear();
    for (const Found &found : known.blocks)
        shown.addresses.push_back((uint64_t)lasting_data(found.loan, *found.block));
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

// With Addresses="on" each array NAME has a companion, onespace/address/NAME, with the address of
// each of its blocks: for programs that read in place.
void Reader::define_addresses()
{
    std::vector<const Block *> shown; // added behind the loop, which would go through them
    for (auto &[variable, known] : variables)
        if (!known.blocks.empty() && known.blocks.front().number != OF_COMPANION &&
            known.blocks.front().block->dimensions)
            shown.push_back(&block_of_addresses(variable, known));
    if (is_unchanged) // those of the last step, at the same addresses
        return;
    for (const Block *block : shown)
        add(*block, OF_COMPANION, 0, nullptr);
}

} // namespace onespace_adios
