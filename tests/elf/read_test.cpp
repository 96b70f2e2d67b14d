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

TEST_F(elf_read_real, accepts_a_static_and_a_musl_program)
{
    std::string musl = compile("musl", "-fPIE -pie", "int main(void) { return 0; }", "musl-gcc");
    for (const std::string &path : {compile("static", "-static-pie -fPIE"), musl}) {
        if (path.empty())
            continue; // no static C library, no musl-gcc
        Descriptor fd(path);
        Result result = read(fd);
        ASSERT_EQ(result.status, 0) << result.reason();
        EXPECT_EQ(std::string(result.info.interpreter).find("ld-musl") != std::string::npos,
                  path == musl);
    }
}

TEST_F(elf_read_real, reports_an_executable_stack_and_the_largest_alignment)
{
    Descriptor fd(compile("pie", "-fPIE -pie -Wl,-z,execstack -Wl,-z,max-page-size=0x200000"));
    Result result = read(fd);
    ASSERT_EQ(result.status, 0);
    EXPECT_EQ(result.info.executable_stack, 1);
    EXPECT_EQ(result.info.align, 0x200000u);
}

TEST_F(elf_read_real, refuses_what_is_no_position_independent_program)
{
    for (const auto &[options, reason] :
         {std::pair("-no-pie", "is not position independent"),
          {"-c", "is an object file"},
          {"-shared -fPIC -Wl,-e,0", "is a shared library, not a program"}}) {
        Descriptor fd(compile("file", options));
        Result result = read(fd);
        EXPECT_EQ(result.status, -ENOEXEC);
        EXPECT_REASON(result, reason);
        EXPECT_EQ(std::string(result.problem.fix).find("-fPIE -pie") != std::string::npos,
                  options == std::string("-no-pie"));
    }
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

TEST(elf_read, refuses_32_bits_even_when_shorter_than_a_header)
{
    Crafted crafted;
    crafted.header.e_ident[EI_CLASS] = ELFCLASS32;
    Result result = read(crafted.bytes().substr(0, sizeof(Elf32_Ehdr)));
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_REASON(result, "is not a 64-bit program");
}

struct Damage {
    const char *name;
    void (*make)(Crafted &file);
    int status;
    const char *part = ""; // of the reason
};

class elf_read_damaged : public testing::TestWithParam<Damage>
{
};

TEST_P(elf_read_damaged, is_refused)
{
    Crafted file;
    GetParam().make(file);
    Result result = read(file);
    EXPECT_EQ(result.status, GetParam().status);
    EXPECT_REASON(result, GetParam().part);
}

constexpr auto CODE = Crafted::CODE, DATA = Crafted::DATA;

void add_interpreter(Crafted &file, uint64_t offset, uint64_t length)
{
    file.size = 0x4000;
    file.add(PT_INTERP, PF_R, offset, 0x900, length, length);
}

INSTANTIATE_TEST_SUITE_P(
    each, elf_read_damaged,
    testing::Values(
        Damage{"architecture", [](Crafted &file) { file.header.e_machine = EM_AARCH64; }, -ENOEXEC,
               "is built for aarch64"},
        Damage{"unknown_architecture", [](Crafted &file) { file.header.e_machine = 0xfeed; },
               -ENOEXEC, "is built for another architecture"},
        Damage{"byte_order", [](Crafted &file) { file.header.e_ident[EI_DATA] = ELFDATA2MSB; },
               -ENOEXEC, "byte order"},
        Damage{"core_dump", [](Crafted &file) { file.header.e_type = ET_CORE; }, -ENOEXEC,
               "is a core dump"},
        Damage{"type", [](Crafted &file) { file.header.e_type = 77; }, -ENOEXEC},
        Damage{"version", [](Crafted &file) { file.header.e_version = 2; }, -ELIBBAD},
        Damage{"header_size", [](Crafted &file) { file.header.e_phentsize = 57; }, -ELIBBAD},
        Damage{"no_headers", [](Crafted &file) { file.header.e_phnum = 0; }, -ELIBBAD},
        Damage{"number_of_headers", [](Crafted &file) { file.header.e_phnum = 0xffff; }, -ENOEXEC,
               "has 65535 program headers"},
        Damage{"end_of_headers_wraps", [](Crafted &file) { file.header.e_phoff = UINT64_MAX - 8; },
               -ELIBBAD},
        Damage{
            "nothing_to_load",
            [](Crafted &file) { file.entries[CODE].p_type = file.entries[DATA].p_type = PT_NOTE; },
            -ELIBBAD, "nothing to load"},
        Damage{"larger_in_the_file", [](Crafted &file) { file.entries[DATA].p_memsz = 0x80; },
               -ELIBBAD},
        Damage{"memory_wraps",
               [](Crafted &file) { file.entries[DATA].p_memsz = UINT64_MAX - 0x1000; }, -ELIBBAD},
        Damage{"address_wraps",
               [](Crafted &file) { file.entries[DATA].p_vaddr = UINT64_MAX - 0xfff; }, -ELIBBAD},
        Damage{"address_of_the_kernel",
               [](Crafted &file) { file.entries[DATA].p_vaddr = 0x7ffffffff000; }, -ELIBBAD},
        Damage{"beyond_the_file", [](Crafted &file) { file.size = 0x10ff; }, -ELIBBAD,
               "is truncated"},
        Damage{"offset_wraps",
               [](Crafted &file) { file.entries[DATA].p_offset = UINT64_MAX - 0xfff; }, -ELIBBAD},
        Damage{"offset_within_a_page", [](Crafted &file) { file.entries[DATA].p_offset = 0xff0; },
               -ELIBBAD},
        Damage{"alignment_0", [](Crafted &file) { file.entries[DATA].p_align = 0x1800; }, -ELIBBAD},
        Damage{"alignment_1", [](Crafted &file) { file.entries[DATA].p_align = UINT64_C(1) << 40; },
               -ELIBBAD},
        Damage{"alignment_2", [](Crafted &file) { file.entries[DATA].p_align = UINT64_MAX; },
               -ELIBBAD},
        Damage{"overlap", [](Crafted &file) { file.entries[DATA].p_vaddr = 0; }, -ELIBBAD,
               "overlap"},
        Damage{"shared_page", [](Crafted &file) { file.entries[CODE].p_memsz = 0x2001; }, -ELIBBAD},
        Damage{"entry_0", [](Crafted &file) { file.header.e_entry = 0x2010; }, -ELIBBAD,
               "entry point"},
        Damage{"entry_1", [](Crafted &file) { file.header.e_entry = 0x1800; }, -ELIBBAD,
               "entry point"},
        Damage{"entry_2", [](Crafted &file) { file.header.e_entry = 0x9000; }, -ELIBBAD,
               "entry point"},
        Damage{"entry_3", [](Crafted &file) { file.header.e_entry = UINT64_MAX; }, -ELIBBAD,
               "entry point"},
        Damage{"interpreter_length_0", [](Crafted &file) { add_interpreter(file, 0x900, 0); },
               -ELIBBAD},
        Damage{"interpreter_length_1", [](Crafted &file) { add_interpreter(file, 0x900, 1); },
               -ELIBBAD},
        Damage{"interpreter_length_2",
               [](Crafted &file) { add_interpreter(file, 0x900, PATH_MAX + 1); }, -ELIBBAD},
        Damage{"interpreter_length_3",
               [](Crafted &file) { add_interpreter(file, 0x900, UINT64_MAX); }, -ELIBBAD},
        Damage{"interpreter_beyond_the_file",
               [](Crafted &file) { add_interpreter(file, UINT64_MAX - 4, 16); }, -ELIBBAD}),
    files::by_name);

TEST(elf_read, refuses_what_is_no_program)
{
    EXPECT_EQ(read(Bytes()).reason(), "is empty");
    Result result = read(Bytes("hello, world; no program is in here"));
    EXPECT_EQ(result.status, -ENOEXEC);
    EXPECT_EQ(result.reason(), "is not an ELF program");
}

TEST(elf_read, ignores_empty_segments)
{
    Crafted crafted;
    crafted.add(PT_LOAD, PF_R, 5, 17, 0, 0).p_align = 3;
    Result result = read(crafted);
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.info.segment_count, 2u);
}

TEST(elf_read, accepts_a_segment_of_zeroes_wherever_its_offset_points)
{
    Crafted crafted;
    crafted.add(PT_LOAD, PF_R | PF_W, UINT64_MAX, 0x5000, 0, 0x1000);
    EXPECT_EQ(read(crafted).status, 0);
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

TEST(elf_read, refuses_an_empty_interpreter)
{
    Crafted crafted;
    crafted.add(PT_INTERP, PF_R, 0x900, 0x900, 2, 2);
    Bytes bytes = crafted.bytes();
    bytes.replace(0x900, 2, Bytes(2, '\0'));
    EXPECT_EQ(read(bytes).status, -ELIBBAD);
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
