// tests/elf/symbol_test.cpp: symbols in real files and in section headers that lie.
#include "files.hpp"

#include "failing_malloc.hpp"

using files::Bytes;
using files::Descriptor;

namespace
{

const char LIBRARY[] = R"(
__asm__(".symver old_answer, answer@ONE\n.symver new_answer, answer@@TWO");
__asm__(".symver only_old, relic@ONE");
int data_words[10] = {1};
__thread int per_thread = 3;
int old_answer(void) { return 41; }
int new_answer(void) { return 42; }
int only_old(void) { return 43; }
__attribute__((weak)) int weakling(void) { return 1; }
static int hidden_one(void) { return 5; }
extern int elsewhere(void);
int caller(void) { return elsewhere() + hidden_one(); }
)";

struct Symbol {
    int status = 0;
    uint64_t value = 0, size = 0;
    unsigned type = 0;
};

Symbol look_up(int fd, const char *name)
{
    Elf64_Sym found = {};
    int status = elf_symbol(fd, name, &found);
    return {status, found.st_value, found.st_size, ELF64_ST_TYPE(found.st_info) + 0u};
}

class elf_symbol_real : public files::Directory
{
  protected:
    std::string library(const std::string &options = "")
    {
        write("versions", "ONE { }; TWO { } ONE;", 0644);
        return compile("lib.so",
                       "-shared -fPIC -O0 -Wl,--version-script=" + at("versions") + " " + options,
                       LIBRARY);
    }
};

TEST_F(elf_symbol_real, finds_what_symtab_defines)
{
    Descriptor fd(library());
    Symbol data = look_up(fd, "data_words");
    EXPECT_EQ(data.status, 0);
    EXPECT_EQ(data.size, 10 * sizeof(int));
    EXPECT_EQ(data.type, unsigned{STT_OBJECT});
    Symbol code = look_up(fd, "caller");
    EXPECT_EQ(code.status, 0);
    EXPECT_EQ(code.type, unsigned{STT_FUNC});
    EXPECT_NE(code.value, 0u);
    EXPECT_EQ(look_up(fd, "per_thread").type, unsigned{STT_TLS});
    EXPECT_EQ(look_up(fd, "hidden_one").status, 0);
    EXPECT_EQ(look_up(fd, "weakling").status, 0);
    EXPECT_EQ(look_up(fd, "elsewhere").status, -ENOENT) << "it is only used";
}

TEST_F(elf_symbol_real, finds_dynamic_symbols_in_a_stripped_file)
{
    Descriptor whole(library());
    Symbol before = look_up(whole, "data_words");
    Descriptor fd(library("-s"));
    Symbol after = look_up(fd, "data_words");
    EXPECT_EQ(after.status, 0);
    EXPECT_EQ(after.size, before.size);
    EXPECT_EQ(look_up(fd, "hidden_one").status, -ENOENT);
}

TEST_F(elf_symbol_real, prefers_the_default_version_in_symtab)
{
    Descriptor fd(library());
    Symbol answer = look_up(fd, "answer");
    ASSERT_EQ(answer.status, 0);
    EXPECT_EQ(answer.value, look_up(fd, "new_answer").value);
    EXPECT_NE(answer.value, look_up(fd, "old_answer").value);
}

TEST_F(elf_symbol_real, prefers_the_default_version_in_dynsym)
{
    Descriptor whole(library());
    uint64_t expected = look_up(whole, "new_answer").value;
    std::string stripped = at("stripped.so");
    ASSERT_EQ(std::system(("strip -o " + stripped + " " + at("lib.so")).c_str()), 0);
    Descriptor fd(stripped);
    EXPECT_EQ(look_up(fd, "answer").value, expected);
}

TEST_F(elf_symbol_real, takes_an_old_version_when_there_is_no_other)
{
    Descriptor fd(library("-s"));
    EXPECT_EQ(look_up(fd, "relic").status, 0);
}

TEST_F(elf_symbol_real, does_not_find_parts_of_names)
{
    Descriptor fd(library());
    for (const char *name : {"data_word", "ata_words", "data_words2", "", "no such thing"})
        EXPECT_EQ(look_up(fd, name).status, -ENOENT) << name;
}

TEST_F(elf_symbol_real, finds_the_dynamic_linkers_own)
{
    Descriptor fd("/lib64/ld-linux-x86-64.so.2");
    Symbol found = look_up(fd, "_r_debug");
    EXPECT_EQ(found.status, 0);
    EXPECT_EQ(found.type, unsigned{STT_OBJECT});
}

TEST_F(elf_symbol_real, needs_section_headers)
{
    Bytes bytes = files::contents(library());
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof(header));
    header.e_shoff = 0;
    bytes.replace(0, sizeof(header), reinterpret_cast<char *>(&header), sizeof(header));
    Descriptor fd(files::memory_file(bytes));
    EXPECT_EQ(look_up(fd, "caller").status, -ENOENT);
}

TEST_F(elf_symbol_real, leaves_the_results_alone_on_failure)
{
    Descriptor fd(library());
    Elf64_Sym symbol = {};
    symbol.st_value = 1;
    symbol.st_size = 2;
    symbol.st_info = 3;
    EXPECT_EQ(elf_symbol(fd, "no_such", &symbol), -ENOENT);
    EXPECT_EQ(symbol.st_value, 1u);
    EXPECT_EQ(symbol.st_size, 2u);
    EXPECT_EQ(symbol.st_info, 3u);
}

TEST_F(elf_symbol_real, reports_missing_memory)
{
    Descriptor fd(library());
    FailingMalloc failing(0);
    EXPECT_EQ(look_up(fd, "caller").status, -ENOMEM);
}

TEST_F(elf_symbol_real, survives_truncation_anywhere)
{
    Bytes bytes = files::contents(library());
    for (size_t length = 0; length < bytes.size(); length += 97) {
        Descriptor fd(files::memory_file(bytes.substr(0, length)));
        EXPECT_NE(look_up(fd, "caller").status, 0) << length;
    }
}

TEST(elf_symbol, refuses_what_is_no_file)
{
    Descriptor directory("/", O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(look_up(directory, "main").status, -EACCES);
    EXPECT_EQ(look_up(-1, "main").status, -EBADF);
    Descriptor text(files::memory_file(Bytes(100, 'x')));
    EXPECT_EQ(look_up(text, "main").status, -ENOEXEC);
}

// A file of sections only: a null one, .dynsym, its strings and its versions.
struct Sections {
    enum { DYNSYM = 1, STRINGS, VERSIONS, COUNT };
    Elf64_Ehdr header{};
    Elf64_Shdr sections[COUNT]{};
    Elf64_Sym symbols[2]{};
    Elf64_Half versions[2]{};
    char strings[16] = "\0main";

    Sections()
    {
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ARCH_ELF_CLASS;
        header.e_ident[EI_DATA] = ARCH_ELF_DATA;
        header.e_shoff = offsetof(Sections, sections);
        header.e_shentsize = sizeof(Elf64_Shdr);
        header.e_shnum = COUNT;
        describe(DYNSYM, SHT_DYNSYM, offsetof(Sections, symbols), sizeof(symbols));
        sections[DYNSYM].sh_entsize = sizeof(Elf64_Sym);
        sections[DYNSYM].sh_link = STRINGS;
        describe(STRINGS, SHT_STRTAB, offsetof(Sections, strings), sizeof(strings));
        describe(VERSIONS, SHT_GNU_versym, offsetof(Sections, versions), sizeof(versions));
        sections[VERSIONS].sh_link = DYNSYM;
        symbols[1].st_name = 1;
        symbols[1].st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
        symbols[1].st_shndx = 1;
        symbols[1].st_value = 0x1234;
    }
    void describe(int index, unsigned type, uint64_t offset, uint64_t size)
    {
        sections[index].sh_type = type;
        sections[index].sh_offset = offset;
        sections[index].sh_size = size;
    }
    int status(uint64_t padded_to = 0) const
    {
        Descriptor fd(
            files::memory_file(Bytes(reinterpret_cast<const char *>(this), sizeof(*this))));
        if (padded_to != 0) {
            EXPECT_EQ(ftruncate(fd, static_cast<off_t>(padded_to)), 0);
        }
        return look_up(fd, "main").status;
    }
};

TEST(elf_symbol, finds_the_crafted_symbol)
{
    EXPECT_EQ(Sections().status(), 0);
}

TEST(elf_symbol, counts_extended_sections)
{
    Sections file;
    file.header.e_shnum = 0;
    file.sections[0].sh_size = Sections::COUNT;
    EXPECT_EQ(file.status(), 0);
    file.sections[0].sh_size = UINT64_MAX;
    EXPECT_EQ(file.status(), -ELIBBAD);
    file.header.e_shoff = sizeof(file);
    EXPECT_EQ(file.status(), -ELIBBAD);
}

struct Damage {
    const char *name;
    void (*make)(Sections &file);
    int status = -ELIBBAD;
    uint64_t size = 0; // of the file; 0: that of the sections
};

class elf_symbol_damaged : public testing::TestWithParam<Damage>
{
};

TEST_P(elf_symbol_damaged, is_refused)
{
    Sections file;
    GetParam().make(file);
    EXPECT_EQ(file.status(GetParam().size), GetParam().status);
}

constexpr auto DYNSYM = Sections::DYNSYM, STRINGS = Sections::STRINGS;
constexpr uint64_t Huge = UINT64_C(3) << 30;

INSTANTIATE_TEST_SUITE_P(
    each, elf_symbol_damaged,
    testing::Values(
        Damage{"headers_beyond_the_file",
               [](Sections &file) { file.header.e_shoff = UINT64_MAX - 63; }},
        Damage{"header_size", [](Sections &file) { file.header.e_shentsize = 1; }},
        Damage{"symbols_beyond_the_file",
               [](Sections &file) { file.sections[DYNSYM].sh_offset = UINT64_MAX - 7; }},
        Damage{"symbol_size", [](Sections &file) { file.sections[DYNSYM].sh_entsize = 0; }},
        Damage{"no_strings", [](Sections &file) { file.sections[DYNSYM].sh_link = 77; }},
        Damage{"other_section_for_strings",
               [](Sections &file) { file.sections[DYNSYM].sh_link = DYNSYM; }},
        Damage{"strings_beyond_the_file",
               [](Sections &file) { file.sections[STRINGS].sh_size = UINT64_MAX; }},
        Damage{"name_outside_the_strings",
               [](Sections &file) { file.symbols[1].st_name = UINT32_MAX; }, -ENOENT},
        Damage{"huge_strings", [](Sections &file) { file.sections[STRINGS].sh_size = Huge; },
               -EFBIG, 2 * Huge},
        Damage{"huge_symbols", [](Sections &file) { file.sections[DYNSYM].sh_size = Huge; }, -EFBIG,
               2 * Huge}),
    files::by_name);

TEST(elf_symbol, refuses_versions_that_are_too_few)
{
    Sections file;
    file.sections[Sections::VERSIONS].sh_size = 2;
    EXPECT_EQ(file.status(), -ELIBBAD);
    file.sections[Sections::VERSIONS].sh_link = 0;
    EXPECT_EQ(file.status(), 0) << "versions of another table do not matter";
}

int collect(const char *name, void *context)
{
    static_cast<std::vector<std::string> *>(context)->push_back(name);
    return 0;
}

int stop_at_once(const char *, void *)
{
    return 7;
}

class elf_each_needed_real : public files::Directory
{
};

TEST_F(elf_each_needed_real, names_the_libraries)
{
    Descriptor fd(compile("program", "-fPIE -pie -Wl,--no-as-needed -lm"));
    elf_info info;
    ASSERT_EQ(elf_read(fd, &info, nullptr), 0);
    std::vector<std::string> names;
    EXPECT_EQ(elf_each_needed(fd, &info, collect, &names), 0);
    EXPECT_EQ(names, (std::vector<std::string>{"libm.so.6", "libc.so.6"}));
    EXPECT_EQ(elf_each_needed(fd, &info, stop_at_once, nullptr), 7);
    FailingMalloc failing(0);
    EXPECT_EQ(elf_each_needed(fd, &info, collect, &names), -ENOMEM);
}

// A crafted program whose data segment holds these dynamic entries and then "\0libx.so\0".
struct Dynamic {
    files::Crafted crafted;
    std::vector<Elf64_Dyn> entries;

    int status()
    {
        const uint64_t size = entries.size() * sizeof(entries[0]);
        crafted.add(PT_DYNAMIC, PF_R, 0x1000, 0x2000, size, size);
        Bytes bytes = crafted.bytes();
        bytes.replace(0x1000, size, reinterpret_cast<char *>(entries.data()), size);
        bytes.replace(0x10f0, 10, Bytes("\0libx.so\0x", 10));
        Descriptor fd(files::memory_file(bytes));
        elf_info info;
        EXPECT_EQ(elf_read(fd, &info, nullptr), 0);
        return elf_each_needed(fd, &info, collect, &names);
    }
    std::vector<std::string> names;
};

TEST(elf_each_needed, reads_up_to_the_end_mark)
{
    Dynamic dynamic;
    dynamic.entries = {{DT_NEEDED, {1}},
                       {DT_STRTAB, {0x20f0}},
                       {DT_STRSZ, {16}},
                       {DT_NULL, {0}},
                       {DT_NEEDED, {99}}};
    EXPECT_EQ(dynamic.status(), 0);
    EXPECT_EQ(dynamic.names, std::vector<std::string>{"libx.so"});
}

TEST(elf_each_needed, refuses_strings_outside_the_file_and_names_outside_the_strings)
{
    for (const auto &[name, size] : {std::pair<uint64_t, uint64_t>(1, UINT64_MAX), {16, 16}}) {
        Dynamic dynamic;
        dynamic.entries = {{DT_NEEDED, {name}}, {DT_STRTAB, {0x20f0}}, {DT_STRSZ, {size}}};
        EXPECT_EQ(dynamic.status(), -ELIBBAD) << name;
    }
}

TEST(elf_each_needed, refuses_a_dynamic_section_that_is_not_in_the_file)
{
    Dynamic dynamic;
    dynamic.entries = {};
    EXPECT_EQ(dynamic.status(), 0) << "none is fine";
    elf_info info{};
    info.dynamic_size = 1024;
    EXPECT_EQ(elf_each_needed(-1, &info, collect, nullptr), -ELIBBAD);
}

} // namespace
