// tests/elf/extend_test.cpp: elf_extend's program headers and dynamic section, as ld.so reads them.
#include "files.hpp"

#include <link.h>

using files::Bytes;
using files::Crafted;
using files::Descriptor;

namespace
{

constexpr uintptr_t Bias = 0x100000000;
constexpr uint64_t Strings = 0x900, Section = 0x2040, SectionOffset = 0x1040;
const std::string Library = "/opt/agent.so", Program = "/home/user/bin/program";

// A program with a dynamic section and strings.
struct Dynamic : Crafted {
    std::string strings = std::string("\0libone.so\0$ORIGIN/lib:${ORIGIN}:/usr/$ORIGINAL\0", 48);
    std::vector<Elf64_Dyn> section = {{DT_NEEDED, {1}},
                                      {DT_RUNPATH, {11}},
                                      {DT_STRTAB, {Strings}},
                                      {DT_STRSZ, {48}},
                                      {DT_NULL, {0}}};

    explicit Dynamic(unsigned sections = 1)
    {
        add(PT_PHDR, PF_R, sizeof(header), sizeof(header), 0, 0);
        for (unsigned i = 0; i < sections; i++)
            add(PT_DYNAMIC, PF_R | PF_W, SectionOffset, Section, bytes_of_section(),
                bytes_of_section());
    }
    uint64_t bytes_of_section() const
    {
        return section.size() * sizeof(section[0]);
    }
    Bytes file() const
    {
        Bytes all = bytes();
        all.replace(Strings, strings.size(), strings);
        all.replace(SectionOffset, bytes_of_section(),
                    reinterpret_cast<const char *>(section.data()), bytes_of_section());
        return all;
    }
};

struct Extended {
    static constexpr size_t Beyond = 1 << 20;
    elf_info info{};
    std::vector<char> block;
    int status;

    explicit Extended(const Bytes &file, const std::string &library = Library)
    {
        Descriptor fd(files::memory_file(file));
        elf_problem problem{};
        elf_mapping mapping{};
        EXPECT_EQ(elf_read(fd, &info, &problem), 0) << problem.reason;
        mapping.bias = Bias;
        block.assign(elf_extension_size(&info), 0);
        block.resize(block.size() + Beyond, 'x');
        status = elf_extend(fd, &info, &mapping, Program.c_str(), library.c_str(), block.data());
    }
    bool is_within_its_size() const
    {
        return std::string(block.end() - Beyond, block.end()) == std::string(Beyond, 'x');
    }
    const Elf64_Phdr *header(uint32_t type) const // the last
    {
        auto *table = reinterpret_cast<const Elf64_Phdr *>(block.data()), *found = table;
        for (unsigned i = 0; i < info.phnum; i++)
            found = table[i].p_type == type ? &table[i] : found;
        return found;
    }
    const Elf64_Dyn *section() const
    {
        return reinterpret_cast<const Elf64_Dyn *>(header(PT_DYNAMIC)->p_vaddr + Bias);
    }
    const char *added_text(uint64_t offset) const
    {
        return reinterpret_cast<const char *>(Bias + Strings + offset);
    }
};

TEST(elf_extend, puts_the_library_before_what_the_program_needs)
{
    Dynamic program;
    Extended extended(program.file());
    ASSERT_EQ(extended.status, 0);
    EXPECT_EQ(extended.header(PT_PHDR)->p_vaddr + Bias,
              reinterpret_cast<uintptr_t>(extended.block.data()));
    const Elf64_Dyn *section = extended.section();
    EXPECT_EQ(section[0].d_tag, DT_NEEDED);
    EXPECT_EQ(extended.added_text(section[0].d_un.d_val), Library);
    EXPECT_EQ(section[1].d_tag, ELF_FILE_DYNAMIC);
    EXPECT_EQ(section[1].d_un.d_ptr, Bias + Section);
    EXPECT_EQ(section[2].d_tag, DT_NEEDED);
    EXPECT_EQ(section[2].d_un.d_val, 1u);
    EXPECT_EQ(section[6].d_tag, DT_NULL);
    EXPECT_EQ(extended.header(PT_DYNAMIC)->p_memsz, 8 * sizeof(Elf64_Dyn));
    EXPECT_TRUE(extended.is_within_its_size());
}

TEST(elf_extend, puts_the_directory_in_place_of_origin)
{
    Dynamic program;
    Extended extended(program.file());
    ASSERT_EQ(extended.status, 0);
    EXPECT_EQ(extended.section()[3].d_tag, DT_RUNPATH);
    EXPECT_STREQ(extended.added_text(extended.section()[3].d_un.d_val),
                 "/home/user/bin/lib:/home/user/bin:/usr/$ORIGINAL");
}

TEST(elf_extend, ends_the_section_where_the_program_does_not)
{
    Dynamic program;
    program.section.back() = {DT_DEBUG, {0}};
    Extended extended(program.file());
    ASSERT_EQ(extended.status, 0);
    EXPECT_EQ(extended.section()[6].d_tag, DT_DEBUG);
    EXPECT_EQ(extended.section()[7].d_tag, DT_NULL);
}

TEST(elf_extend, finds_the_section_by_its_address)
{
    Dynamic program;
    program.entries.back().p_offset = 0;
    Extended extended(program.file());
    ASSERT_EQ(extended.status, 0);
    EXPECT_EQ(extended.section()[2].d_un.d_val, 1u);
}

TEST(elf_extend, stays_within_its_size_whatever_the_program_headers_are)
{
    Dynamic program(15); // their table ends before the strings
    Extended extended(program.file(), "/" + std::string(4000, 'a'));
    ASSERT_EQ(extended.status, 0);
    EXPECT_TRUE(extended.is_within_its_size());
    EXPECT_EQ(extended.added_text(extended.section()[0].d_un.d_val), "/" + std::string(4000, 'a'));
}

TEST(elf_extend, leaves_a_program_without_a_dynamic_section_as_it_is)
{
    Dynamic program(0);
    EXPECT_EQ(Extended(program.file()).status, 0);
}

TEST(elf_extend, refuses_a_section_without_strings)
{
    Dynamic program;
    program.section[2] = {DT_DEBUG, {0}};
    EXPECT_EQ(Extended(program.file()).status, -ELIBBAD);
}

TEST(elf_extend, refuses_a_library_that_does_not_fit)
{
    Dynamic program;
    Extended extended(program.file(), "/" + std::string(20000, 'a'));
    EXPECT_EQ(extended.status, -ENAMETOOLONG);
    EXPECT_TRUE(extended.is_within_its_size());
}

TEST(elf_extend, is_not_for_a_section_that_is_too_large)
{
    elf_info info{};
    info.phnum = 1;
    info.dynamic_size = (1 << 20) + 1;
    EXPECT_EQ(elf_extension_size(&info), 0u);
}

} // namespace
