/* tests/arch/elf_code.cpp: see elf_code.hpp. */
#include "elf_code.hpp"

#include <elf.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace
{

class File
{
  public:
    explicit File(const std::string &path)
    {
        std::ifstream stream(path, std::ios::binary);
        if (!stream)
            throw std::runtime_error(path + ": cannot be opened");
        bytes_.assign(std::istreambuf_iterator<char>(stream), {});
    }
    template <class T> T at(uint64_t offset) const
    {
        T value;
        std::memcpy(&value, range(offset, sizeof(value)), sizeof(value));
        return value;
    }
    const unsigned char *range(uint64_t offset, uint64_t size) const
    {
        if (offset > bytes_.size() || size > bytes_.size() - offset)
            throw std::runtime_error("an ELF file that ends too early");
        return bytes_.data() + offset;
    }
    std::string text(uint64_t offset) const
    {
        std::string text;
        while (char next = at<char>(offset++))
            text += next;
        return text;
    }

  private:
    std::vector<unsigned char> bytes_;
};

/* Reads the FDEs of an .eh_frame that lies at `base` in the file and is mapped at `address`. Only
 * the encoding that all compilers use here is understood: 32 bits, relative to the field. */
void read_frames(const File &file, uint64_t base, uint64_t size, uint64_t address, ElfCode &code)
{
    enum { PC_RELATIVE_32 = 0x1b };
    std::map<uint64_t, bool> understood; /* by the CIE's offset */
    for (uint64_t at = 0; at + 8 <= size;) {
        uint32_t length = file.at<uint32_t>(base + at);
        if (length == 0)
            break;
        uint32_t id = file.at<uint32_t>(base + at + 4);
        if (id == 0) {
            /* version, augmentation string, code and data alignment, return register (one byte
             * each here), length of the augmentation, then its data. */
            std::string augmentation = file.text(base + at + 9);
            uint64_t data = at + 9 + augmentation.size() + 1 + 3 + 1;
            bool known = augmentation.empty();
            for (char letter : augmentation)
                if (letter == 'R')
                    known = file.at<unsigned char>(base + data) == PC_RELATIVE_32;
                else if (letter == 'P') { /* its encoding, and a pointer of four or eight bytes */
                    unsigned char encoding = file.at<unsigned char>(base + data);
                    data += (encoding & 0xf) == 0xb || (encoding & 0xf) == 3 ? 5 : 9;
                } else if (letter == 'L')
                    data++;
            understood[at] = known;
        } else if (understood[at + 4 - id]) {
            uint64_t begin = address + at + 8 + (uint64_t)(int64_t)file.at<int32_t>(base + at + 8);
            code.starts.insert(begin);
            code.fdes.insert(begin);
        }
        at += 4 + length;
    }
}

void read_symbols(const File &file, const Elf64_Shdr &table, const Elf64_Shdr &strings,
                  ElfCode &code)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
        auto symbol = file.at<Elf64_Sym>(table.sh_offset + at);
        int type = ELF64_ST_TYPE(symbol.st_info);
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE ||
            (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE))
            continue;
        for (const Segment &segment : code.executable)
            if (segment.holds(symbol.st_value)) {
                code.starts.insert(symbol.st_value);
                code.names.emplace(symbol.st_value, file.text(strings.sh_offset + symbol.st_name));
            }
    }
}

} // namespace

std::string ElfCode::describe(uint64_t address) const
{
    std::ostringstream text;
    text << std::hex;
    auto after = names.upper_bound(address);
    auto start = starts.upper_bound(address);
    /* A name is that of the function only when no unnamed one begins in between. */
    if (after == names.begin() || start == starts.begin() ||
        std::prev(after)->first != *std::prev(start)) {
        text << "0x" << address;
        return text.str();
    }
    --after;
    text << after->second;
    if (address != after->first)
        text << "+0x" << address - after->first;
    return text.str();
}

ElfCode read_elf_code(const std::string &path)
{
    File file(path);
    auto header = file.at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_X86_64)
        throw std::runtime_error(path + ": no ELF file of x86-64");
    ElfCode code;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        auto program = file.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
        if (program.p_type != PT_LOAD)
            continue;
        const unsigned char *bytes = file.range(program.p_offset, program.p_filesz);
        auto &segments = program.p_flags & PF_X ? code.executable : code.data;
        segments.push_back({program.p_vaddr, {bytes, bytes + program.p_filesz}});
    }
    std::vector<Elf64_Shdr> sections;
    for (unsigned i = 0; i < header.e_shnum; i++)
        sections.push_back(file.at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    for (const Elf64_Shdr &section : sections)
        if (section.sh_type == SHT_SYMTAB || section.sh_type == SHT_DYNSYM)
            read_symbols(file, section, sections.at(section.sh_link), code);
        else if (section.sh_type != SHT_NOBITS && header.e_shstrndx < sections.size() &&
                 file.text(sections[header.e_shstrndx].sh_offset + section.sh_name) == ".eh_frame")
            read_frames(file, section.sh_offset, section.sh_size, section.sh_addr, code);
        else if ((section.sh_flags & SHF_EXECINSTR) && section.sh_type != SHT_NOBITS)
            code.starts.insert(section.sh_addr);
    return code;
}
