/* tests/arch/elf_code.hpp: the code of an ELF file and where its functions begin. */
#ifndef TESTS_ARCH_ELF_CODE_HPP
#define TESTS_ARCH_ELF_CODE_HPP

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

struct Segment {
    uint64_t address;
    std::vector<unsigned char> bytes;
    bool holds(uint64_t at) const
    {
        return at >= address && at - address < bytes.size();
    }
};

/* Function starts are those of symbols (both tables) and of the FDEs of .eh_frame: what is left of
 * a stripped library's static functions. */
struct ElfCode {
    std::vector<Segment> executable, data;
    std::set<uint64_t> starts, fdes;
    std::map<uint64_t, std::string> names;

    /* "NAME+0x12", or the address. */
    std::string describe(uint64_t address) const;
};

/* Throws std::runtime_error. */
ElfCode read_elf_code(const std::string &path);

#endif
