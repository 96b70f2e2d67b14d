// plugins/adios2/attributes.cpp: attributes, which every step has, so that late readers get them.
#include "attributes.hpp"

#include "writer.hpp"

#include <cstring>
#include <string_view>

namespace onespace_adios
{
namespace
{

Text store_text(Memory &memory, const std::string &text)
{
    auto to = memory.give_array<char>(text.size() + 1);
    memcpy(to, text.c_str(), text.size() + 1);
    return {to, text.size()};
}

template <class T> const void *store_values(Memory &memory, const std::vector<T> &values)
{
    auto to = memory.give_array<T>(values.size());
    memcpy(static_cast<void *>(to), values.data(), values.size() * sizeof(T));
    return to;
}

const void *store_values(Memory &memory, const std::vector<std::string> &values)
{
    auto to = memory.give_array<Text>(values.size());
    for (size_t i = 0; i < values.size(); i++)
        to[i] = store_text(memory, values[i]);
    return to;
}

template <class T>
bool store(adios2::IO &io, const std::string &name, Memory &memory, Attribute &to)
{
    auto attribute = io.InquireAttribute<T>(name);
    if (!attribute)
        return false;
    std::vector<T> values = attribute.Data();
    to = {store_text(memory, name), element_of<T>, !attribute.IsValue(), values.size(),
          store_values(memory, values)};
    return true;
}

std::vector<std::string> texts_of(const Attribute &from)
{
    std::vector<std::string> texts;
    for (size_t i = 0; i < from.count; i++) {
        const Text &text = static_cast<const Text *>(from.data)[i];
        texts.emplace_back(text.bytes, text.length);
    }
    return texts;
}

// An attribute keeps its type and whether it is an array, so one that changes them is removed.
template <class T>
void define(adios2::IO &io, const std::string &name, const T *values, const Attribute &from)
{
    if (io.AttributeType(name) != "" && io.AttributeType(name) != adios2::GetType<T>())
        io.RemoveAttribute(name);
    if (from.is_array)
        io.DefineAttribute<T>(name, values, from.count, "", "/", true);
    else
        io.DefineAttribute<T>(name, values[0], "", "/", true);
}

} // namespace

void store_attributes(adios2::IO &io, Memory &memory, std::vector<Attribute> &to)
{
    for (const auto &[name, about] : io.AvailableAttributes()) {
        Attribute attribute = {};
        bool is_stored = false;
        const std::string type = about.count("Type") ? about.at("Type") : "";
#define ONESPACE_STORE(T)                                                                          \
    if (!is_stored && type == adios2::GetType<T>())                                                \
        is_stored = store<T>(io, name, memory, attribute);
        ADIOS2_FOREACH_ATTRIBUTE_STDTYPE_1ARG(ONESPACE_STORE)
#undef ONESPACE_STORE
        if (is_stored)
            to.push_back(attribute);
    }
}

// Readers define them anew when the version changes: a hash of what they are.
void Writer::collect_attributes()
{
    attributes = std::make_shared<Attributes>();
    is_changed = false;
    store_attributes(io, attributes->memory, attributes->all);
    uint64_t hash = attributes->all.size();
    auto mix = [&hash](const void *bytes, size_t length) {
        std::string_view view(static_cast<const char *>(bytes), length);
        hash = hash * 1099511628211u + std::hash<std::string_view>()(view);
    };
    for (const Attribute &attribute : attributes->all) {
        mix(attribute.name.bytes, attribute.name.length);
        mix(&attribute.count, sizeof(attribute.count));
        auto texts = static_cast<const Text *>(attribute.data);
        for (size_t i = 0; attribute.element == Element::text && i < attribute.count; i++)
            mix(texts[i].bytes, texts[i].length);
        with_type(attribute.element, [&](auto tag) {
            if (attribute.element != Element::text)
                mix(attribute.data, attribute.count * sizeof(typename decltype(tag)::type));
        });
    }
    attributes->version = hash;
}

void define_attributes(adios2::IO &io, const Part &part)
{
    for (size_t i = 0; i < part.attribute_count; i++) {
        const Attribute &from = part.attributes[i];
        std::string name(from.name.bytes, from.name.length);
        if (from.element == Element::text) {
            std::vector<std::string> texts = texts_of(from);
            define(io, name, texts.data(), from);
            continue;
        }
#define ONESPACE_DEFINE(T)                                                                         \
    if (from.element == element_of<T>)                                                             \
        define(io, name, static_cast<const T *>(from.data), from);
        ADIOS2_FOREACH_ATTRIBUTE_PRIMITIVE_STDTYPE_1ARG(ONESPACE_DEFINE)
#undef ONESPACE_DEFINE
    }
}

} // namespace onespace_adios
