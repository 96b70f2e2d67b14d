// tests/elf/read_test.cpp: elf_read on real programs and on headers that lie.
#include "files.hpp"

using files::Bytes;
using files::Crafted;
using files::Descriptor;

namespace
{

class elf_read_real : public files::Directory
{
};

struct Result {
    int status;
    elf_info info;
    elf_problem problem;
    std::string reason() const
    {
        return problem.reason;
    }
};

Result read(int fd)
{
    Result result{};
    result.status = elf_read(fd, &result.info, &result.problem);
    if (result.status != 0) {
        EXPECT_EQ(result.problem.error, -result.status);
        EXPECT_NE(result.reason(), "");
        EXPECT_NE(std::string(result.problem.fix), "");
    }
    return result;
}

Result read(const Bytes &bytes)
{
    Descriptor fd(files::memory_file(bytes));
    return read(fd);
}

Result read(const Crafted &crafted)
{
    return read(crafted.bytes());
}

#define EXPECT_REASON(result, part)                                                                \
    EXPECT_NE((result).reason().find(part), std::string::npos) << (result).reason()

TEST_F(elf_read_real, accepts_a_pie)
{
    Descriptor fd(compile("pie", "-fPIE -pie"));
    Result result = read(fd);
    ASSERT_EQ(result.status, 0) << result.reason();
    EXPECT_STREQ(result.info.interpreter, "/lib64/ld-linux-x86-64.so.2");
    EXPECT_GE(result.info.segment_count, 2u);
    EXPECT_EQ(result.info.phdr_vaddr, sizeof(Elf64_Ehdr));
    EXPECT_NE(result.info.dynamic_vaddr, 0u);
    EXPECT_EQ(result.info.executable_stack, 0);
}

TEST_F(elf_read_real, accepts_a_static_pie_without_interpreter)
{
    std::string path = compile("static", "-static-pie -fPIE");
    if (path.empty())
        GTEST_SKIP() << "no static C library";
    Descriptor fd(path);
    Result result = read(fd);
    ASSERT_EQ(result.status, 0) << result.reason();
    EXPECT_STREQ(result.info.interpreter, "");
}

TEST_F(elf_read_real, accepts_a_musl_program)
{
    std::string path = compile("musl", "-fPIE -pie", "int main(void) { return 0; }", "musl-gcc");
    if (path.empty())
        GTEST_SKIP() << "no musl-gcc";
    Descriptor fd(path);
    Result result = read(fd);
    ASSERT_EQ(result.status, 0) << result.reason();
    EXPECT_NE(std::string(result.info.interpreter).find("ld-musl"), std::string::npos);
}

TEST_F(elf_read_real, reports_an_executable_stack)
{
    Descriptor fd(compile("pie", "-fPIE -pie -Wl,-z,execstack"));
    Result result = read(fd);
    ASSERT_EQ(result.status, 0);
    EXPECT_EQ(result.info.executable_stack, 1);
}

TEST_F(elf_read_real, reports_the_largest_alignment)
{
    Descriptor fd(compile("pie", "-fPIE -pie -Wl,-z,max-page-size=0x200000"));
    Result result = read(fd);
    ASSERT_EQ(result.status, 0);
    EXPECT_EQ(result.info.align, 0x200000u);
}

TEST_F(elf_read_real, refuses_a_fixed_program)
{
    Descriptor fd(compile("fixed", "-no-pie"));
    Result result = read(fd);
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "is not position independent");
    EXPECT_NE(std::string(result.problem.fix).find("-fPIE -pie"), std::string::npos);
}

TEST_F(elf_read_real, refuses_an_object_file)
{
    Descriptor fd(compile("object.o", "-c"));
    Result result = read(fd);
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "is an object file");
}

TEST_F(elf_read_real, refuses_a_shared_library)
{
    Descriptor fd(compile("lib.so", "-shared -fPIC -Wl,-e,0"));
    Result result = read(fd);
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "is a shared library, not a program");
}

TEST_F(elf_read_real, refuses_every_truncation)
{
    Bytes whole = files::contents(compile("pie", "-fPIE -pie"));
    Elf64_Ehdr header;
    std::memcpy(&header, whole.data(), sizeof(header));
    size_t end = header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr);
    for (size_t length = 0; length <= end; length += 16) {
        Result result = read(whole.substr(0, length));
        EXPECT_EQ(result.status, length < SELFMAG ? -ENOEXEC : -ELIBBAD) << length;
    }
}

TEST_F(elf_read_real, survives_any_byte_of_the_headers)
{
    Bytes whole = files::contents(compile("pie", "-fPIE -pie"));
    Elf64_Ehdr header;
    std::memcpy(&header, whole.data(), sizeof(header));
    size_t end = header.e_phoff + header.e_phnum * sizeof(Elf64_Phdr);
    for (size_t position = 0; position < end; position++) {
        for (char byte : {'\x00', '\x7f', '\x80', '\xff'}) {
            Bytes changed = whole;
            changed[position] = byte;
            read(changed);
        }
    }
}

TEST_F(elf_read_real, refuses_a_directory)
{
    Descriptor fd(directory, O_RDONLY | O_DIRECTORY);
    Result result = read(fd);
    EXPECT_EQ(result.status, -EACCES);
    EXPECT_EQ(result.reason(), "is a directory");
}

TEST(elf_read, refuses_a_closed_descriptor)
{
    EXPECT_EQ(read(-1).status, -EBADF);
}

TEST(elf_read, refuses_a_descriptor_that_cannot_be_read)
{
    Descriptor fd(open("/tmp", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    Result result = read(fd);
    EXPECT_EQ(result.status, -EBADF);
    EXPECT_REASON(result, "cannot be read");
}

TEST(elf_read, refuses_a_pipe)
{
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    Descriptor reader(ends[0]), writer(ends[1]);
    EXPECT_EQ(read(reader).status, -EACCES);
}

TEST(elf_read, does_without_a_problem)
{
    elf_info info;
    Descriptor fd(files::memory_file("#!/bin/sh\n"));
    EXPECT_EQ(elf_read(fd, &info, nullptr), -ENOEXEC);
}

TEST(elf_read, accepts_the_crafted_program)
{
    Result result = read(Crafted());
    ASSERT_EQ(result.status, 0) << result.reason();
    EXPECT_EQ(result.info.entry, 0x800u);
    EXPECT_EQ(result.info.low, 0u);
    EXPECT_EQ(result.info.high, 0x4000u);
    EXPECT_EQ(result.info.align, ARCH_PAGE);
    ASSERT_EQ(result.info.segment_count, 2u);
    EXPECT_EQ(result.info.segments[0].prot, PROT_READ | PROT_EXEC);
    EXPECT_EQ(result.info.segments[1].prot, PROT_READ | PROT_WRITE);
}

TEST(elf_read, refuses_an_empty_file)
{
    Result result = read(Bytes());
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_EQ(result.reason(), "is empty");
}

TEST(elf_read, refuses_text)
{
    Result result = read(Bytes("hello, world; no program is in here"));
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_EQ(result.reason(), "is not an ELF program");
}

TEST(elf_read, refuses_32_bits_even_when_shorter_than_a_header)
{
    Crafted crafted;
    crafted.header.e_ident[EI_CLASS] = ELFCLASS32;
    Result result = read(crafted.bytes().substr(0, sizeof(Elf32_Ehdr)));
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "is not a 64-bit program");
}

TEST(elf_read, refuses_another_architecture_by_name)
{
    Crafted crafted;
    crafted.header.e_machine = EM_AARCH64;
    Result result = read(crafted);
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "is built for aarch64");
    crafted.header.e_machine = 0xfeed;
    EXPECT_REASON(read(crafted), "is built for another architecture");
}

TEST(elf_read, refuses_the_other_byte_order)
{
    Crafted crafted;
    crafted.header.e_ident[EI_DATA] = ELFDATA2MSB;
    Result result = read(crafted);
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "byte order");
}

TEST(elf_read, refuses_a_core_dump)
{
    Crafted crafted;
    crafted.header.e_type = ET_CORE;
    EXPECT_REASON(read(crafted), "is a core dump");
}

TEST(elf_read, refuses_an_unknown_type)
{
    Crafted crafted;
    crafted.header.e_type = 77;
    EXPECT_EQ(read(crafted).status, -ENOEXEC);
}

TEST(elf_read, refuses_an_unknown_version)
{
    Crafted crafted;
    crafted.header.e_version = 2;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_odd_program_headers)
{
    Crafted crafted;
    crafted.header.e_phentsize = 57;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
    crafted = Crafted();
    crafted.header.e_phnum = 0;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_a_huge_number_of_program_headers)
{
    Crafted crafted;
    crafted.header.e_phnum = 0xffff;
    Result result = read(crafted);
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "has 65535 program headers");
}

TEST(elf_read, refuses_program_headers_whose_end_wraps)
{
    Crafted crafted;
    crafted.header.e_phoff = UINT64_MAX - 8;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_a_program_that_loads_nothing)
{
    Crafted crafted;
    for (Elf64_Phdr &entry : crafted.entries)
        entry.p_type = PT_NOTE;
    Result result = read(crafted);
    EXPECT_EQ(result.status, -ELIBBAD);
    EXPECT_REASON(result, "nothing to load");
}

TEST(elf_read, ignores_empty_segments)
{
    Crafted crafted;
    crafted.add(PT_LOAD, PF_R, 5, 17, 0, 0).p_align = 3;
    Result result = read(crafted);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.info.segment_count, 2u);
}

TEST(elf_read, refuses_a_segment_larger_in_the_file_than_in_memory)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_memsz = 0x80;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_a_segment_whose_memory_wraps)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_memsz = UINT64_MAX - 0x1000;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
    crafted.entries[Crafted::DATA].p_memsz = 0x2000;
    crafted.entries[Crafted::DATA].p_vaddr = UINT64_MAX - 0xfff;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_a_segment_in_the_kernels_addresses)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_vaddr = 0x7ffffffff000;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_a_segment_beyond_the_file)
{
    Crafted crafted;
    crafted.size = 0x10ff;
    Result result = read(crafted);
    EXPECT_EQ(result.status, -ELIBBAD);
    EXPECT_REASON(result, "is truncated");
}

TEST(elf_read, refuses_a_segment_whose_place_in_the_file_wraps)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_offset = UINT64_MAX - 0xfff;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_a_segment_that_cannot_be_mapped_at_its_address)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_offset = 0xff0;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, accepts_a_segment_of_zeroes_wherever_its_offset_points)
{
    Crafted crafted;
    crafted.add(PT_LOAD, PF_R | PF_W, UINT64_MAX, 0x5000, 0, 0x1000);
    EXPECT_EQ(read(crafted).status, 0);
}

TEST(elf_read, refuses_impossible_alignments)
{
    for (uint64_t align : {UINT64_C(0x1800), UINT64_C(1) << 40, UINT64_MAX}) {
        Crafted crafted;
        crafted.entries[Crafted::DATA].p_align = align;
        EXPECT_EQ(read(crafted).status, -ELIBBAD) << align;
    }
}

TEST(elf_read, rounds_low_down_to_the_alignment)
{
    Crafted crafted;
    crafted.entries[Crafted::CODE].p_vaddr = 0x203000;
    crafted.entries[Crafted::CODE].p_align = 0x200000;
    crafted.entries[Crafted::DATA].p_vaddr = 0x204000;
    crafted.header.e_entry = 0x203800;
    Result result = read(crafted);
    ASSERT_EQ(result.status, 0) << result.reason();
    EXPECT_EQ(result.info.low, 0x200000u);
    EXPECT_EQ(result.info.phdr_vaddr, 0x203000u + sizeof(Elf64_Ehdr));
}

TEST(elf_read, refuses_overlapping_segments)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_vaddr = 0;
    Result result = read(crafted);
    EXPECT_EQ(result.status, -ELIBBAD);
    EXPECT_REASON(result, "overlap");
}

TEST(elf_read, refuses_segments_that_share_a_page)
{
    Crafted crafted;
    crafted.entries[Crafted::CODE].p_memsz = 0x2001;
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_more_segments_than_it_maps)
{
    Crafted crafted;
    for (uint64_t i = 0; i < ELF_SEGMENTS_MAX - 1; i++)
        crafted.add(PT_LOAD, PF_R, 0, 0x10000 + i * 0x1000, 0, 0x1000);
    Result result = read(crafted);
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "more than the 64 loaded segments");
    crafted.entries.pop_back();
    crafted.header.e_phnum--;
    EXPECT_EQ(read(crafted).status, 0);
}

TEST(elf_read, reads_the_first_interpreter)
{
    Crafted crafted;
    crafted.add(PT_INTERP, PF_R, 0x900, 0x900, 8, 8);
    crafted.add(PT_INTERP, PF_R, 0xa00, 0xa00, 8, 8);
    Bytes bytes = crafted.bytes();
    bytes.replace(0x900, 8, Bytes("/ld.so\0x", 8));
    bytes.replace(0xa00, 8, Bytes("/second\0", 8));
    EXPECT_EQ(read(bytes).status, -ELIBBAD) << "no zero byte at the end";
    bytes[0x907] = '\0';
    Result result = read(bytes);
    ASSERT_EQ(result.status, 0) << result.reason();
    EXPECT_STREQ(result.info.interpreter, "/ld.so");
}

TEST(elf_read, refuses_an_interpreter_of_impossible_length)
{
    for (uint64_t length : {UINT64_C(0), UINT64_C(1), UINT64_C(PATH_MAX + 1), UINT64_MAX}) {
        Crafted crafted;
        crafted.size = 0x4000;
        crafted.add(PT_INTERP, PF_R, 0x900, 0x900, length, length);
        EXPECT_EQ(read(crafted).status, -ELIBBAD) << length;
    }
}

TEST(elf_read, refuses_an_empty_interpreter)
{
    Crafted crafted;
    crafted.add(PT_INTERP, PF_R, 0x900, 0x900, 2, 2);
    Bytes bytes = crafted.bytes();
    bytes.replace(0x900, 2, Bytes(2, '\0'));
    EXPECT_EQ(read(bytes).status, -ELIBBAD);
}

TEST(elf_read, refuses_an_interpreter_beyond_the_file)
{
    Crafted crafted;
    crafted.add(PT_INTERP, PF_R, UINT64_MAX - 4, 0x900, 16, 16);
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
}

TEST(elf_read, refuses_an_entry_outside_the_code)
{
    Crafted crafted;
    for (uint64_t entry : {UINT64_C(0x2010), UINT64_C(0x1800), UINT64_C(0x9000), UINT64_MAX}) {
        crafted.header.e_entry = entry;
        Result result = read(crafted);
        EXPECT_EQ(result.status, -ELIBBAD) << entry;
        EXPECT_REASON(result, "entry point");
    }
}

TEST(elf_read, refuses_a_dynamic_section_outside_the_segments)
{
    Crafted crafted;
    crafted.add(PT_DYNAMIC, PF_R, 0x1000, 0x3ff0, 0x20, 0x20);
    EXPECT_EQ(read(crafted).status, -ELIBBAD);
    crafted.entries.back().p_vaddr = 0x3fe0;
    EXPECT_EQ(read(crafted).status, 0);
}

TEST(elf_read, finds_no_table_address_when_it_is_in_no_segment)
{
    Crafted crafted;
    crafted.header.e_phoff = 0x2000;
    crafted.size = 0x3000;
    Result result = read(crafted);
    ASSERT_EQ(result.status, 0);
    EXPECT_EQ(result.info.phdr_vaddr, 0u);
}

TEST(elf_refuse, replaces_what_could_control_a_terminal)
{
    elf_problem problem;
    EXPECT_EQ(elf_refuse(&problem, EIO, "Fix it.", "has %s in it", "\033[2J\x7f"), -EIO);
    EXPECT_STREQ(problem.reason, "has ?[2J? in it");
}

} // namespace
