// tests/space/registrant.hpp: the guest registrant.c, which registers memory with a device.
#ifndef TESTS_SPACE_REGISTRANT_HPP
#define TESTS_SPACE_REGISTRANT_HPP

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>

#include "member.hpp"

namespace fixture
{

constexpr int Size = 64 * 1024;

// Each command has a word, an address, a size and a value.
class Registrant : public Task
{
  public:
    explicit Registrant(const char *name = "registrant") : Task({program(name)})
    {
    }
    void order(const std::string &command, const std::string &word, const void *start, size_t size,
               int value)
    {
        std::ostringstream text;
        text << command << ' ' << word << ' ' << start << ' ' << size << ' ' << value;
        write_line(text.str());
    }
    Answer answer()
    {
        Answer result;
        std::istringstream text(line());
        text >> result.result >> result.address;
        return result;
    }
    Answer tell(const std::string &command, const std::string &word = "-",
                const void *start = nullptr, size_t size = 0, int value = 0)
    {
        order(command, word, start, size, value);
        return answer();
    }
    void *memory(const std::string &kind = "mmap", size_t size = Size)
    {
        Answer made = tell("memory", kind, nullptr, size);
        EXPECT_EQ(made.result, 0) << kind;
        return made.address;
    }
    // The result of the transfer: how many bytes, or -errno.
    int send(const void *to, int value, size_t size = Size)
    {
        return tell("send", "-", to, size, value).result;
    }
    int count(const void *start, int value, size_t size = Size)
    {
        return tell("count", "-", start, size, value).result;
    }
    int heard()
    {
        return tell("heard").result;
    }
    // The state that all threads have, as in /proc/PID/stat, or a space.
    char state() const
    {
        std::string states;
        for (const auto &entry :
             std::filesystem::directory_iterator("/proc/" + std::to_string(pid()) + "/task")) {
            std::ifstream file(entry.path() / "stat");
            std::string stat((std::istreambuf_iterator<char>(file)), {});
            states += stat.substr(stat.rfind(')') + 2, 1);
        }
        return std::count(states.begin(), states.end(), states[0]) == std::ssize(states) ? states[0]
                                                                                         : ' ';
    }
    int verbs(const std::string &way, const void *start, size_t size = Size)
    {
        return tell("verbs", way, start, size).result;
    }
    int unmap(const void *start, size_t size = Size)
    {
        return tell("unmap", "-", start, size).result;
    }
};

inline double seconds_of(const std::function<void()> &action)
{
    auto begin = std::chrono::steady_clock::now();
    action();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace fixture

#endif
