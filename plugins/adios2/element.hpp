// plugins/adios2/element.hpp: the types of elements, as they cross programs. ADIOS2's own numbers
// (adios2::DataType) may differ from version to version; these are ours.
#pragma once

#include <adios2/common/ADIOSMacros.h>
#include <adios2/common/ADIOSTypes.h>

#include <complex>
#include <cstdint>
#include <string>

namespace onespace_adios
{

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

// Calls what(Tag<T>()) with the C++ type of the element; false: there is no such element.
template <class F> bool with_type(Element element, F &&what)
{
#define ONESPACE_CASE(T)                                                                           \
    case element_of<T>:                                                                            \
        what(Tag<T>());                                                                            \
        return true;
    switch (element) {
        ADIOS2_FOREACH_STDTYPE_1ARG(ONESPACE_CASE)
    default:
        return false;
    }
#undef ONESPACE_CASE
}

} // namespace onespace_adios
