// tests/elf/files.hpp: files for the tests, made at run time in a directory that goes with the
// test.
#ifndef ONESPACE_TESTS_ELF_FILES_HPP
#define ONESPACE_TESTS_ELF_FILES_HPP

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

extern "C" {
#include "elf/internal.h"
}

namespace files
{

using Bytes = std::string;

inline Bytes contents(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// A descriptor that closes itself.
class Descriptor
{
  public:
    explicit Descriptor(int fd) : fd_(fd)
    {
    }
    explicit Descriptor(const std::string &path, int flags = O_RDONLY)
        : fd_(open(path.c_str(), flags | O_CLOEXEC))
    {
    }
    Descriptor(const Descriptor &) = delete;
    Descriptor &operator=(const Descriptor &) = delete;
    ~Descriptor()
    {
        if (fd_ >= 0)
            close(fd_);
    }
    operator int() const
    {
        return fd_;
    }

  private:
    int fd_;
};

// The directory of a test, readable by all users so that tests may give up root's rights.
class Directory : public testing::Test
{
  public:
    void SetUp() override
    {
        char name[] = "/tmp/image-XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        directory = std::filesystem::canonical(name);
        ASSERT_EQ(chmod(name, 0755), 0);
    }
    void TearDown() override
    {
        std::filesystem::remove_all(directory);
    }

    std::string at(const std::string &name) const
    {
        return directory + "/" + name;
    }

    std::string write(const std::string &name, const Bytes &bytes, mode_t mode = 0755) const
    {
        std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
        std::ofstream(at(name), std::ios::binary) << bytes;
        EXPECT_EQ(chmod(at(name).c_str(), mode), 0);
        return at(name);
    }

    // Compiles C; an empty path when the compiler or what the options need is not installed.
    std::string compile(const std::string &name, const std::string &options,
                        const std::string &source = "int main(void) { return 0; }",
                        const std::string &compiler = "cc") const
    {
        write("source.c", source, 0644);
        std::filesystem::create_directories(std::filesystem::path(at(name)).parent_path());
        std::string command = compiler + " -o " + at(name) + " " + at("source.c") + " " + options +
                              " 2>" + at("messages");
        return std::system(command.c_str()) == 0 ? at(name) : "";
    }

    // A program that can be a task.
    std::string program(const std::string &name) const
    {
        return compile(name, "-fPIE -pie");
    }
    std::string script(const std::string &name, const std::string &line) const
    {
        return write(name, line + "\necho hello\n");
    }
    // Runs shell commands in the directory, which has directories first, second, third and bin. Of
    // the commands' own: pie and fixed NAME OPTION... compile, script NAME LINE and data NAME
    // write.
    void make(const std::string &commands) const
    {
        write("source.c", "int main(void) { return 0; }", 0644);
        const std::string own =
            "mkdir first second third bin; set -e\n"
            "pie() { name=$1; shift; cc -fPIE -pie -o $name source.c $*; }\n"
            "fixed() { cc -no-pie -o $1 source.c; }\n"
            "script() { printf '%s\\necho hello\\n' \"$2\" >$1; chmod 755 $1; }\n"
            "data() { echo data >$1; }\n";
        EXPECT_EQ(std::system(("cd " + directory + "\n" + own + commands).c_str()), 0);
    }
    // The text with the directory for each '@'.
    std::string expand(const std::string &text) const
    {
        std::string result;
        for (char letter : text)
            result += letter == '@' ? directory : std::string(1, letter);
        return result;
    }

    std::string directory;
};

// The last argument of INSTANTIATE_TEST_SUITE_P.
inline constexpr auto by_name = [](const auto &info) { return std::string(info.param.name); };

#define EXPECT_REASON(result, part)                                                                \
    EXPECT_NE((result).reason().find(part), std::string::npos) << (result).reason()

// A small ELF program whose header fields a test changes before it is written.
struct Crafted {
    enum { CODE, DATA };
    Elf64_Ehdr header{};
    std::vector<Elf64_Phdr> entries;
    size_t size = 0x1100;

    Crafted()
    {
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_ident[EI_DATA] = ELFDATA2LSB;
        header.e_ident[EI_VERSION] = EV_CURRENT;
        header.e_type = ET_DYN;
        header.e_machine = ARCH_ELF_MACHINE;
        header.e_version = EV_CURRENT;
        header.e_entry = 0x800;
        header.e_phoff = sizeof(header);
        header.e_phentsize = sizeof(Elf64_Phdr);
        add(PT_LOAD, PF_R | PF_X, 0, 0, 0x1000, 0x1000);
        add(PT_LOAD, PF_R | PF_W, 0x1000, 0x2000, 0x100, 0x2000);
    }

    Elf64_Phdr &add(uint32_t type, uint32_t flags, uint64_t offset, uint64_t vaddr, uint64_t filesz,
                    uint64_t memsz)
    {
        const auto align = static_cast<uint64_t>(ARCH_PAGE);
        entries.push_back({type, flags, offset, vaddr, vaddr, filesz, memsz, align});
        header.e_phnum = static_cast<uint16_t>(entries.size());
        return entries.back();
    }

    // The file: the headers, then bytes other than zero.
    Bytes bytes() const
    {
        Bytes file(size, 'x');
        auto put = [&](uint64_t offset, const void *from, size_t length) {
            if (offset < file.size())
                file.replace(offset, std::min(length, file.size() - offset),
                             static_cast<const char *>(from),
                             std::min(length, file.size() - offset));
        };
        put(0, &header, sizeof(header));
        put(header.e_phoff, entries.data(), entries.size() * sizeof(entries[0]));
        return file;
    }
};

inline int memory_file(const Bytes &bytes)
{
    int fd = memfd_create("crafted", MFD_CLOEXEC);
    EXPECT_EQ(::write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return fd;
}

} // namespace files

#endif
