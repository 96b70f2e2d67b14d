/* onespace/call.hpp: calls of another member's functions (onespace/call.h) in C++20.
 *
 *   onespace::Function<int(const double *, size_t)> analyse(task, "analyse");
 *   int peaks = analyse(field.data(), field.size());
 *
 * Arguments and result are integers, enumerations, bool and pointers, at most six: what travels in
 * the registers for them. Everything else goes by a pointer to a structure that both programs know;
 * the function's own type is not checked. A call that fails throws onespace::CallError. Headers
 * only; the program links libonespace. */
#ifndef ONESPACE_CALL_HPP
#define ONESPACE_CALL_HPP

#include <onespace/call.h>

#include <cstdint>
#include <system_error>
#include <type_traits>

namespace onespace
{

/* code() has the error number of onespace/call.h, positive; what() begins with the message. */
class CallError : public std::system_error
{
  public:
    explicit CallError(int result, const char *message)
        : std::system_error(-result, std::generic_category(), message)
    {
    }
};

namespace detail
{

template <typename T>
concept fits_register =
    std::is_integral_v<T> || std::is_enum_v<T> || std::is_pointer_v<T> || std::is_null_pointer_v<T>;

template <fits_register T> intptr_t to_register(T value)
{
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<intptr_t>(value);
    else if constexpr (std::is_null_pointer_v<T>)
        return 0;
    else
        return static_cast<intptr_t>(value);
}

template <fits_register T> T from_register(intptr_t value)
{
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<T>(value);
    else if constexpr (std::is_same_v<T, bool>)
        return (value & 0xff) != 0; /* the upper bits are not defined */
    else
        return static_cast<T>(value);
}

} // namespace detail

template <typename> class Function;

/* A function of another member. Copying it costs nothing; it is valid as long as the member lives,
 * and throws afterwards. Thread-safe. */
template <typename Result, detail::fits_register... Arguments> class Function<Result(Arguments...)>
{
    static_assert(std::is_void_v<Result> || detail::fits_register<Result>,
                  "the result is an integer, an enumeration, a pointer or void");
    static_assert(sizeof...(Arguments) <= ONESPACE_CALL_ARGUMENTS, "too many arguments");

  public:
    /* Looks it up in the member's program and libraries. */
    Function(int member, const char *name) : member_(member)
    {
        void *address = nullptr;
        int result = onespace_lookup(member, name, &address, nullptr);
        if (result < 0)
            throw CallError(result, name);
        address_ = address;
    }
    /* An address of the member's code, as this program's own functions' addresses are in a task. */
    Function(int member, const void *address) : member_(member), address_(address)
    {
    }

    Result operator()(Arguments... values) const
    {
        const intptr_t registers[ONESPACE_CALL_ARGUMENTS] = {detail::to_register(values)...};
        intptr_t value = 0;
        int result = onespace_call_with(member_, address_, registers, &value);
        if (result < 0)
            throw CallError(result, onespace_call_message());
        if constexpr (!std::is_void_v<Result>)
            return detail::from_register<Result>(value);
    }

    int member() const
    {
        return member_;
    }
    const void *address() const
    {
        return address_;
    }

  private:
    int member_;
    const void *address_;
};

} // namespace onespace

#endif
