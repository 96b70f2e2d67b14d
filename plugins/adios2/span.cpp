// plugins/adios2/span.cpp: lets a span of ADIOS2 name memory of the plug-in.
//
// Span::data() asks its engine for the address that belongs to the span's position, which is a
// public member of a class whose header is not installed. Front::attach (front.cpp) makes the
// engine return the position as it is; here it is found: the word, zero so far, that shows in
// data() when it is changed. The number of elements likewise: a span is made once for a variable
// and its number in a step, and keeps the size of the first.
#include "hidden.hpp"

namespace onespace_adios::hidden
{
namespace
{

// Of core::Span: two numbers, the position, an index, a value, the engine, the size.
constexpr size_t WORDS = 4, SIZE_WORDS = 10;

size_t *words_of(void *span)
{
    return static_cast<size_t *>(span);
}

} // namespace

bool set_span(void *span, size_t (*size_of)(void *span), const void *(*data_of)(void *span),
              void *data, size_t size)
{
    static size_t position_word = SIZE_MAX;
    size_t *words = words_of(span);
    for (size_t w = 0; position_word == SIZE_MAX && w < WORDS; w++) {
        size_t before = words[w];
        words[w] = reinterpret_cast<size_t>(data);
        if (data_of(span) == data)
            position_word = w;
        words[w] = before;
    }
    if (position_word == SIZE_MAX)
        return false;
    words[position_word] = reinterpret_cast<size_t>(data);
    // Nothing behind the size is touched: it is the last member.
    for (size_t w = position_word + 1; size_of(span) != size && w < SIZE_WORDS; w++) {
        if (words[w] != size_of(span))
            continue;
        size_t before = words[w];
        words[w] = size;
        if (size_of(span) != size)
            words[w] = before;
    }
    return size_of(span) == size && data_of(span) == data;
}

} // namespace onespace_adios::hidden
