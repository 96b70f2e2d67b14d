// plugins/adios2/front.cpp: finds ADIOS2's engine that forwards to the plug-in, and completes it.
#include "hidden.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <typeinfo>
#include <vector>

namespace onespace_adios::hidden
{
namespace
{

// ---- The virtual table ----

struct Table {
    const char *address = nullptr;
    size_t bytes = 0;
    // What an object points to: behind the offset to the top and the type.
    const void *point() const
    {
        return address + 2 * sizeof(void *);
    }
};

Table find_table()
{
    Table table;
    void *symbol = dlsym(RTLD_DEFAULT, "_ZTVN6adios26plugin12PluginEngineE");
    Dl_info info;
    const ElfW(Sym) *entry = nullptr;
    if (symbol && dladdr1(symbol, &info, (void **)&entry, RTLD_DL_SYMENT) && entry)
        table = {static_cast<const char *>(symbol), entry->st_size};
    return table;
}

// ---- Looking for the engine ----

// core::Engine begins with its virtual table, a string with its type, the IO and its name; the ABI
// of a class without public headers, which is verified: the table must be that of PluginEngine, the
// type "Plugin", the IO the one of this call.
struct EngineBegin {
    const void *table;
    std::string type;
    const void *io;
    std::string name;
};

// Copies without faulting on addresses that are none.
bool peek(const void *address, void *to, size_t bytes)
{
    iovec here{to, bytes}, there{const_cast<void *>(address), bytes};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool is_engine(uintptr_t word, const void *table, const void *io)
{
    alignas(EngineBegin) char copy[sizeof(EngineBegin)];
    if (word % alignof(EngineBegin) != 0 || word < 4096)
        return false;
    if (!peek(reinterpret_cast<void *>(word), copy, sizeof(copy)))
        return false;
    const void *found_table, *found_io;
    memcpy(&found_table, copy + offsetof(EngineBegin, table), sizeof(found_table));
    memcpy(&found_io, copy + offsetof(EngineBegin, io), sizeof(found_io));
    return found_table == table && found_io == io &&
           reinterpret_cast<const EngineBegin *>(word)->type == "Plugin";
}

// The words of the stack from here up: the constructor keeps `this` there or, through the calls
// between, in a register that they have saved.
__attribute__((noinline)) void *search_stack(const void *table, const void *io)
{
    __builtin_unwind_init(); // registers too
    pthread_attr_t attributes;
    void *low = nullptr;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        pthread_attr_getstack(&attributes, &low, &size);
        pthread_attr_destroy(&attributes);
    }
    auto here = static_cast<const uintptr_t *>(__builtin_frame_address(0));
    const uintptr_t *end = here + 1024; // 8 KiB reach far beyond the constructor
    auto top = reinterpret_cast<const uintptr_t *>(static_cast<char *>(low) + size);
    if (low && top > here)
        end = std::min(end, top);
    for (const uintptr_t *word = here - 16; word < end; word++)
        if (is_engine(*word, table, io))
            return reinterpret_cast<void *>(*word);
    return nullptr;
}

// ---- Hooks, called by ADIOS2 with its engine as first argument ----

// Never destroyed: programs have engines in static objects, which end later.
std::mutex lock;
std::map<const void *, Hooks *> &all_hooks()
{
    static auto &all = *new std::map<const void *, Hooks *>;
    return all;
}

Hooks *find_hooks(const void *engine)
{
    std::lock_guard<std::mutex> guard(lock);
    auto found = all_hooks().find(engine);
    return found == all_hooks().end() ? nullptr : found->second;
}

// Engine::DoBufferData_*: set_span (span.cpp) has stored the address as the position.
void *buffer_data(void *, int, size_t position, size_t)
{
    return reinterpret_cast<void *>(position);
}

size_t put_count(void *engine, void *variable)
{
    Hooks *hooks = find_hooks(engine);
    return hooks ? hooks->span_count(variable) : 0;
}

bool variable_min_max(void *engine, const void *variable, size_t, adios2::MinMaxStruct &found)
{
    Hooks *hooks = find_hooks(engine);
    return hooks && hooks->min_max(variable, &found.MinUnion, &found.MaxUnion);
}

// Engine::NotifyEngineAttribute, whose further arguments are of no interest.
void attribute_changed(void *engine)
{
    Hooks *hooks = find_hooks(engine);
    if (hooks)
        hooks->attribute_changed();
}

// ---- Replacing ----

using Replacements = std::map<const void *, const void *>;

std::map<std::string, const void *> &replacements_of_others()
{
    static std::map<std::string, const void *> all;
    return all;
}

void add(Replacements &all, const std::string &symbol, const void *with)
{
    if (const void *function = dlsym(RTLD_DEFAULT, symbol.c_str()))
        all[function] = with;
}

Replacements replacements()
{
    const std::string engine = "_ZN6adios24core6Engine";
    Replacements all;
    for (const char *type : {"int8", "char", "uint8", "int16", "uint16", "int32", "uint32", "int64",
                             "uint64", "float", "double", "ldouble", "cfloat", "cdouble"}) {
        std::string function = std::string("DoBufferData_") + type;
        std::string symbol = engine;
        symbol.append(std::to_string(function.size())).append(function).append("Eimm");
        add(all, symbol, reinterpret_cast<void *>(buffer_data));
    }
#define ONESPACE_PUT_COUNT(T)                                                                      \
    add(all, engine + "8PutCountERNS0_8VariableI" + typeid(T).name() + "EE",                       \
        reinterpret_cast<void *>(put_count));
    ADIOS2_FOREACH_PRIMITIVE_STDTYPE_1ARG(ONESPACE_PUT_COUNT)
#undef ONESPACE_PUT_COUNT
    add(all, engine + "14VariableMinMaxERKNS0_12VariableBaseEmRNS_12MinMaxStructE",
        reinterpret_cast<void *>(variable_min_max));
    add(all,
        engine + "21NotifyEngineAttributeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
                 "PNS0_13AttributeBaseEPv",
        reinterpret_cast<void *>(attribute_changed));
    for (const auto &[symbol, function] : replacements_of_others())
        add(all, symbol, function);
    return all;
}

// A copy of the table in which those functions are ours: one for the program, never freed, since
// engines may outlive the plug-in's last one.
const void *completed_table()
{
    static const void *const made = []() -> const void * {
        Table table = find_table();
        auto entries = new std::vector<const void *>(table.bytes / sizeof(void *));
        memcpy(entries->data(), table.address, entries->size() * sizeof(void *));
        Replacements with = replacements();
        for (const void *&entry : *entries) {
            auto found = with.find(entry);
            if (found != with.end())
                entry = found->second;
        }
        return entries->data() + 2;
    }();
    return made;
}

} // namespace

Front Front::find(const adios2::IO &io)
{
    Front front;
    Table table = find_table();
    if (table.address)
        front.engine = search_stack(table.point(), core_of(io));
    return front;
}

const std::string &Front::name() const
{
    return static_cast<const EngineBegin *>(engine)->name;
}

void Front::attach(Hooks *hooks)
{
    if (!engine)
        return;
    {
        std::lock_guard<std::mutex> guard(lock);
        all_hooks()[engine] = hooks;
    }
    static_cast<EngineBegin *>(engine)->table = completed_table();
}

void Front::detach() const
{
    std::lock_guard<std::mutex> guard(lock);
    all_hooks().erase(engine);
}

void Front::replace(const std::string &symbol, const void *with)
{
    replacements_of_others()[symbol] = with;
}

Hooks *Front::hooks_of(const void *engine)
{
    return find_hooks(engine);
}

} // namespace onespace_adios::hidden
