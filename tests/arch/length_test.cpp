/* tests/arch/length_test.cpp: arch_decode() against a disassembler. */
#include <Zydis/Zydis.h>
#include <gtest/gtest.h>

#include <random>

#include "../lib/long.hpp"
#include "corpus.hpp"

extern "C" {
#include "arch/code/decode.h"
}

namespace
{

class Zydis
{
  public:
    Zydis()
    {
        ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    }
    /* The length, or 0; whether it branches, and where to. */
    unsigned decode(const unsigned char *code, size_t size, bool &branch, int64_t &distance) const
    {
        ZydisDecodedInstruction found;
        if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder_, nullptr, code, size, &found)))
            return 0;
        /* Knights Corner: a coprocessor with programs of its own. */
        std::string set = ZydisISASetGetString(found.meta.isa_set);
        if (found.encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX || set.starts_with("KNC"))
            return 0;
        if (found.meta.isa_set == ZYDIS_ISA_SET_SSE4A) /* length.c says so */
            return 0;
        branch = found.raw.imm[0].is_relative;
        distance = branch ? found.raw.imm[0].value.s : 0;
        return found.length;
    }

  private:
    ZydisDecoder decoder_;
};

void compare(const Zydis &zydis, const unsigned char *code, size_t size)
{
    bool branch = false;
    int64_t distance = 0;
    unsigned expected = zydis.decode(code, size, branch, distance);
    if (!expected)
        return;
    arch_instruction found = {};
    int status = arch_decode(code, size, &found);
    std::string bytes;
    for (unsigned i = 0; i < 15 && i < size; i++)
        bytes += "0123456789abcdef"[code[i] >> 4], bytes += "0123456789abcdef"[code[i] & 15],
            bytes += ' ';
    ASSERT_EQ(status, 0) << bytes;
    ASSERT_EQ(found.length, expected) << bytes;
    ASSERT_EQ(found.branch != 0, branch) << bytes;
    ASSERT_EQ(found.distance, distance) << bytes;
}

/* All first three bytes, with what follows at random. */
TEST(Decode, AgreesOnEveryOpcode)
{
    Zydis zydis;
    std::mt19937 random(1);
    unsigned char code[16];
    for (unsigned first = 0; first < 1u << 24; first += 1 + random() % 3) {
        for (unsigned char &byte : code)
            byte = (unsigned char)random();
        for (unsigned i = 0; i < 3; i++)
            code[i] = (unsigned char)(first >> (16 - 8 * i));
        ASSERT_NO_FATAL_FAILURE(compare(zydis, code, sizeof(code)));
    }
}

TEST(Decode, AgreesBehindPrefixes)
{
    static const unsigned char prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0x2e,
                                             0x64, 0x40, 0x48, 0x4f, 0xf0};
    Zydis zydis;
    std::mt19937 random(2);
    unsigned char code[16];
    for (unsigned round = 0; round < 4000000; round++) {
        for (unsigned char &byte : code)
            byte = (unsigned char)random();
        for (unsigned i = 0; i < random() % 4; i++)
            code[i] = prefixes[random() % sizeof(prefixes)];
        ASSERT_NO_FATAL_FAILURE(compare(zydis, code, sizeof(code)));
    }
}

/* From every byte of real code. */
/* In a usual run from every third on. */
TEST(Decode, AgreesOnEveryByteOfLibraries)
{
    Zydis zydis;
    for (const std::string &path : corpus_files())
        for (const Segment &segment : read_elf_code(path).executable)
            for (size_t at = 0; at < segment.bytes.size(); at += every(3))
                ASSERT_NO_FATAL_FAILURE(
                    compare(zydis, &segment.bytes[at], segment.bytes.size() - at))
                    << path << " at " << at;
}

TEST(Decode, SaysSoWhenTheEndIsMissing)
{
    const unsigned char call[] = {0xe8, 1, 2, 3, 4};
    arch_instruction found;
    for (size_t size = 0; size < sizeof(call); size++)
        EXPECT_EQ(arch_decode(call, size, &found), -1) << size;
    EXPECT_EQ(arch_decode(call, sizeof(call), &found), 0);
    EXPECT_EQ(found.distance, 0x04030201);
}

/* Sixteen prefixes are not an instruction, whatever follows. */
TEST(Decode, StopsAtFifteenBytes)
{
    unsigned char code[20];
    std::fill(std::begin(code), std::end(code), (unsigned char)0x66);
    arch_instruction found;
    EXPECT_EQ(arch_decode(code, sizeof(code), &found), -1);
}

} // namespace
