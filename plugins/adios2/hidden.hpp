// plugins/adios2/hidden.hpp: what ADIOS2's interface for plug-ins lacks, found at run time.
//
// The interface of 2.12 is given neither the name that was opened, nor the kind and the memory of
// a selection, cannot say where a span's memory is, and its variables do not know their engine, so
// that Min, Max and the size of a block would be wrong. The headers that would tell are not
// installed. Nothing here relies on a layout that is written down: exported symbols name virtual
// functions, and offsets are found by calling public setters on a variable of our own and looking
// for what changed. What is not found is off, and its use a clear error.
#pragma once

#include "element.hpp"

#include <adios2.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>

namespace onespace_adios::hidden
{

// ---- ADIOS2's own engine, which forwards to the plug-in ----

struct Hooks {
    // Whether the variable is ours, with both values, as 16 bytes each.
    std::function<bool(const void *variable, void *min, void *max)> min_max;
    // Before 2.12 ADIOS2's engine does not forward these, nor Puts with a span
    // (plugin_before_2_12.cpp).
    std::function<size_t()> current_step;
    std::function<adios2::MinVarInfo *(const std::string &variable, size_t step)> blocks;
    void *stream; // the plug-in's, for a Put
    // The program has defined or changed an attribute.
    std::function<void()> attribute_changed;
    // The spans of a variable in this step so far.
    std::function<size_t(const void *variable)> span_count;
};

class Front
{
  public:
    // To be called while ADIOS2 constructs its engine: finds it on the stack. Without it, found()
    // is false.
    static Front find(const adios2::IO &io);

    bool found() const
    {
        return engine != nullptr;
    }
    // What was given to Open.
    const std::string &name() const;
    // Replaces virtual functions of this one object. `hooks` must outlive it.
    void attach(Hooks *hooks);
    void detach() const;
    // For hooks of others: instead of the function of that symbol, for all engines that are
    // attached later; and whose hooks an engine has.
    static void replace(const std::string &symbol, const void *with);
    static Hooks *hooks_of(const void *engine);
    // Lets a variable that we have defined know it.
    void adopt(void *variable) const;

  private:
    void *engine = nullptr;
};

// ---- Variables ----

// The private pointer in a handle of the public interface.
template <class Handle> void *core_of(const Handle &handle)
{
    static_assert(sizeof(Handle) == sizeof(void *), "a handle is a pointer");
    void *core;
    memcpy(&core, &handle, sizeof(core));
    return core;
}

struct Selection {
    bool is_block = false;
    adios2::Dims memory_start, memory_count; // empty: none
    // Of SetSelection and SetBlockSelection; has_box: they were found.
    bool has_box = false;
    adios2::Dims start, count;
    size_t block = 0;
};
// What was chosen last, SetSelection or SetBlockSelection, and SetMemorySelection.
Selection selection_of(const void *variable);
// NULL: it was not found.
const std::string *name_of(const void *variable);

// ---- Spans ----

// Lets a span name `data`; it has `size` elements. false: it cannot.
bool set_span(void *span, size_t (*size_of)(void *span), const void *(*data_of)(void *span),
              void *data, size_t size);

} // namespace onespace_adios::hidden
