/* tests/arch/oracle_test.cpp: the disassembler's judgement of every patch site in real code. */
#include <gtest/gtest.h>

#include <algorithm>

#include "../lib/long.hpp"
#include "corpus.hpp"
#include "oracle.hpp"

namespace
{

class Oracle : public testing::TestWithParam<CorpusFile>
{
  protected:
    OracleReport consult()
    {
        return consult_oracle(read_elf_code(GetParam().path), kind_of_file(GetParam().name));
    }
};

unsigned count(const OracleReport &report, const char *name)
{
    return (unsigned)std::count_if(
        report.sites.begin(), report.sites.end(),
        [&](const OracleSite &site) { return search_name(site.nr) == std::string(name); });
}

/* Each patch site begins and ends with an instruction, and no branch or function begins in its
 * middle. */
void expect_agreement(const CorpusFile &file)
{
    SCOPED_TRACE(file.name);
    OracleReport report = consult_oracle(read_elf_code(file.path), kind_of_file(file.name));
    for (const OracleSite &site : report.sites)
        EXPECT_EQ(site.fault, "") << search_name(site.nr) << " at " << site.where;
    EXPECT_GT(report.instructions, 0u);
    // A program whose first segment is code has the file's headers and constants in it.
    EXPECT_LT(report.undecoded, report.instructions / 1000 + 100) << "the oracle itself is lost";
}

TEST_P(Oracle, AgreesWithEverySite)
{
    if (GetParam().path.empty())
        GTEST_SKIP() << GetParam().name << " is not here: scripts/setup test fetches C libraries";
    expect_agreement(GetParam());
}

/* Without these nothing of a task's memory is its own: each C library has them. */
TEST_P(Oracle, FindsWhatMattersInEveryLibc)
{
    search_kind kind = kind_of_file(GetParam().name);
    if (GetParam().path.empty())
        GTEST_SKIP() << GetParam().name << " is not here: scripts/setup test fetches C libraries";
    if (kind == SEARCH_PROGRAM || GetParam().name.find("libpthread") != std::string::npos)
        return;
    OracleReport report = consult();
    for (const char *name : {"mmap", "munmap", "rt_sigaction"})
        EXPECT_GE(count(report, name), 1u) << name;
    if (kind == SEARCH_LDSO) {
        for (const char *name : {"mprotect", "openat", "exit_group", "cpuid"})
            EXPECT_GE(count(report, name), name == std::string("openat") ? 3u : 1u) << name;
        return;
    }
    for (const char *name : {"brk", "mremap", "shmat", "shmdt", "readlink", "readlinkat", "execve",
                             "process_vm_readv", "process_vm_writev"})
        EXPECT_GE(count(report, name), 1u) << name;
}

std::string test_name(const testing::TestParamInfo<CorpusFile> &info)
{
    std::string name = info.param.name;
    std::replace_if(
        name.begin(), name.end(), [](unsigned char letter) { return !isalnum(letter); }, '_');
    return name;
}

INSTANTIATE_TEST_SUITE_P(Libc, Oracle, testing::ValuesIn(corpus_libcs()), test_name);
INSTANTIATE_TEST_SUITE_P(OtherPrograms, Oracle, testing::ValuesIn(corpus_other_programs()),
                         test_name);

/* A usual run takes every fourth program, because start files and C library are the same. */
TEST(OracleOfTestPrograms, AgreesWithEverySite)
{
    auto programs = corpus_test_programs();
    if (programs.empty())
        GTEST_SKIP() << "tests/programs is not built";
    for (size_t i = 0; i < programs.size(); i += every(4))
        expect_agreement(programs[i]);
}

/* clang's code for a call with one of two numbers, which was once patched. */
TEST(OracleOfSharedCalls, SeesTheBranch)
{
    ElfCode code;
    std::vector<unsigned char> bytes(1217, 0x90);
    const unsigned char shared[] = {0xb8, 0x95, 0, 0,    0,    0xeb, 0x05, 0xb8, 0x0b,
                                    0,    0,    0, 0x48, 0x89, 0xd6, 0x0f, 0x05};
    std::copy(std::begin(shared), std::end(shared), bytes.begin() + 600);
    code.executable.push_back({0x1000, bytes});
    OracleReport report = consult_oracle(code, SEARCH_PROGRAM);
    EXPECT_TRUE(report.sites.empty());
    ASSERT_EQ(report.misses.size(), 1u);
    EXPECT_NE(report.misses[0].why.find("leads between number and call"), std::string::npos);
}

} // namespace
