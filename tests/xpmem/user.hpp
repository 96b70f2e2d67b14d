// tests/xpmem/user.hpp: the guest xpmem.c as a task that obeys, and the root, which calls XPMEM
// itself.
#ifndef ONESPACE_TESTS_XPMEM_USER_HPP
#define ONESPACE_TESTS_XPMEM_USER_HPP

#include <sys/mman.h>

#include <cerrno>
#include <sstream>

#include "fixture.hpp"
#include "probe.h"
#include "xpmem.h"

namespace fixture
{

constexpr size_t Page = 4096;

// A result, or the error with which a call failed.
struct Reply {
    long long result = INT64_MIN; // when there was none
    int error = -1;
    void *address() const
    {
        return reinterpret_cast<void *>(result);
    }
    bool operator==(const Reply &) const = default;
};

inline std::ostream &operator<<(std::ostream &stream, const Reply &reply)
{
    return stream << reply.result << " (" << (reply.error ? strerror(reply.error) : "no error")
                  << ")";
}

inline Reply fails(int error)
{
    return {-1, error};
}

inline Reply gives(long long result)
{
    return {result, 0};
}

inline Reply parse(const std::string &line)
{
    Reply reply;
    std::istringstream text(line);
    text >> reply.result >> reply.error;
    return reply;
}

class User : public Task
{
  public:
    explicit User(const std::string &name = "xpmem",
                  const std::function<void(Attr &)> &change = nullptr)
        : Task({program(name)}, change)
    {
    }
    template <typename... Parts> Reply tell(const Parts &...parts)
    {
        std::ostringstream words;
        ((words << parts << ' '), ...);
        write_line(words.str());
        return parse(line());
    }
    // Pages of this value, as a segment: their address and the segment's id.
    void share(size_t pages, int value)
    {
        memory = tell("memory", pages * Page, value).result;
        segid = tell("make", memory, pages * Page, "0600").result;
        EXPECT_GT(segid, 0);
    }
    long long memory = 0, segid = 0;
};

// The calls of this process, the root.
template <typename Call> Reply call(Call function)
{
    errno = 0;
    long long result = (long long)function();
    return {result, result == -1 ? errno : 0};
}
inline Reply make(void *address, size_t size, uintptr_t mode = 0600, int type = XPMEM_PERMIT_MODE)
{
    return call([&] { return xpmem_make(address, size, type, reinterpret_cast<void *>(mode)); });
}
inline Reply remove_segment(xpmem_segid_t segid)
{
    return call([&] { return static_cast<long long>(xpmem_remove(segid)); });
}
inline Reply get(xpmem_segid_t segid, int flags = XPMEM_RDWR, int type = XPMEM_PERMIT_MODE)
{
    return call([&] { return xpmem_get(segid, flags, type, nullptr); });
}
inline Reply release(xpmem_apid_t apid)
{
    return call([&] { return static_cast<long long>(xpmem_release(apid)); });
}
inline Reply attach(xpmem_apid_t apid, off_t offset, size_t size, void *at = nullptr)
{
    return call([&] { return xpmem_attach({apid, offset}, size, at); });
}
inline Reply detach(void *address)
{
    return call([&] { return static_cast<long long>(xpmem_detach(address)); });
}

inline unsigned char byte_at(const void *address, size_t offset = 0)
{
    return static_cast<const volatile unsigned char *>(address)[offset];
}

// Pages of the root's own.
class Memory
{
  public:
    explicit Memory(size_t pages, int value = 0) : size_(pages * Page)
    {
        at_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(at_, value, size_);
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    ~Memory()
    {
        munmap(at_, size_);
    }
    char *at(size_t offset = 0) const
    {
        return static_cast<char *>(at_) + offset;
    }

  private:
    void *at_;
    size_t size_;
};

inline bool is_gone(const void *address)
{
    return eventually([&] { return onespace_owner(address) == -ENOENT; });
}

} // namespace fixture

#endif
