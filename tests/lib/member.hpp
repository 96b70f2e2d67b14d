// tests/lib/member.hpp: the guest obey.c as a task that obeys.
#ifndef ONESPACE_TESTS_LIB_MEMBER_HPP
#define ONESPACE_TESTS_LIB_MEMBER_HPP

#include <sstream>

#include "fixture.hpp"

namespace fixture
{

struct Answer {
    int result = INT32_MIN; // when there was none
    void *address = nullptr;
    int number() const
    {
        return *static_cast<volatile int *>(address);
    }
};

// As text for another member.
inline std::string hex(const void *address)
{
    std::ostringstream text;
    text << address;
    return text.str();
}

class Member : public Task
{
  public:
    explicit Member(int number = -1, int ntasks = -1)
        : Task({program("obey")}, [=](Attr &attr) { attr.number = number, attr.ntasks = ntasks; })
    {
    }
    Answer answer()
    {
        Answer result;
        std::istringstream text(line());
        text >> result.result >> result.address;
        return result;
    }
    // Does it and tells the result.
    template <typename... Parts> Answer tell(const Parts &...parts)
    {
        order(parts...);
        return answer();
    }
    // Only says what to do: the answer comes later.
    template <typename... Parts> void order(const Parts &...parts)
    {
        std::ostringstream text;
        ((text << parts << ' '), ...);
        write_line(text.str());
    }
};

} // namespace fixture

#endif
