/* tests/fuzz/patch_fuzz.c: any bytes as machine code. What is found lies within it, is replaced as
 * it should be, and changes nothing else; and an independent disassembler, which starts with the
 * first byte, sees an instruction begin there and no branch lead into it. */
#include <Zydis/Zydis.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arch/code/decode.h"
#include "arch/code/patch.h"

static void require(int holds)
{
    if (!holds)
        abort();
}

/* Decodes at code[at]: the length, or 0 at what is not an instruction, or one of those that
 * length.c leaves out. */
static unsigned decode(const ZydisDecoder *decoder, const unsigned char *code, size_t size,
                       size_t at, size_t *target)
{
    ZydisDecodedInstruction found;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(decoder, NULL, code + at, size - at, &found)) ||
        found.encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
        found.meta.isa_set == ZYDIS_ISA_SET_SSE4A ||
        strncmp(ZydisISASetGetString(found.meta.isa_set), "KNC", 3) == 0)
        return 0;
    struct arch_instruction ours;
    require(arch_decode(code + at, size - at, &ours) == 0 && ours.length == found.length);
    require(ours.branch == (found.raw.imm[0].is_relative != 0));
    *target = ours.branch ? at + found.length + (size_t)found.raw.imm[0].value.s : SIZE_MAX;
    return found.length;
}

/* From the first byte as far as it can be decoded. */
static void judge(const unsigned char *code, size_t size, const struct arch_span *spans,
                  unsigned count)
{
    ZydisDecoder decoder;
    size_t target;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t at = 0, length;
         at < size && (length = decode(&decoder, code, size, at, &target)) != 0; at += length)
        for (unsigned i = 0; i < count; i++) {
            size_t begin = spans[i].at, end = begin + spans[i].length;
            require(spans[i].length == 0 || at + length <= begin || at >= begin);
            require(spans[i].length == 0 || target <= begin || target >= end);
        }
}

/* The target of the jump at `at`, which must be one. */
static uintptr_t jump_target(const unsigned char *at)
{
    int32_t distance;
    require(at[0] == 0xe9);
    memcpy(&distance, at + 1, sizeof(distance));
    return (uintptr_t)at + ARCH_JUMP_BYTES + (uintptr_t)(intptr_t)distance;
}

static void require_same(const unsigned char *code, const unsigned char *before, size_t begin,
                         size_t end)
{
    require(memcmp(code + begin, before + begin, end - begin) == 0);
}

/* The same instructions, `by` bytes down: an address that is relative to the instruction stays. */
static void require_moved(const unsigned char *now, const unsigned char *was, size_t size,
                          size_t by)
{
    ZydisDecoder decoder;
    ZydisDecodedInstruction found;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    for (size_t at = 0; at < size; at += found.length) {
        require(ZYAN_SUCCESS(
            ZydisDecoderDecodeInstruction(&decoder, NULL, was + at, size - at, &found)));
        if (!(found.attributes & ZYDIS_ATTRIB_IS_RELATIVE)) {
            require_same(now, was, at, at + found.length);
            continue;
        }
        uint32_t distance;
        size_t field = at + found.raw.disp.offset;
        memcpy(&distance, now + field, sizeof(distance));
        require(found.raw.disp.size == 32 && field + sizeof(distance) == at + found.length);
        require_same(now, was, at, field);
        require(distance == (uint32_t)found.raw.disp.value + (uint32_t)by);
    }
}

static void check_calls(unsigned char *code, const unsigned char *before, size_t size)
{
    enum { MOST = 64 };
    struct arch_patch_site sites[MOST];
    struct arch_span spans[MOST];
    unsigned count = 0;
    for (size_t at = 0; count < MOST; at++) {
        at = arch_next_patch_site(code, size, at, &sites[count]);
        if (at == size)
            break;
        require(at < size && sites[count].length <= ARCH_PATCH_SITE_BYTES &&
                at + sites[count].length <= size);
        require(sites[count].length >= sites[count].displaced + ARCH_JUMP_BYTES);
        spans[count] = (struct arch_span){(uint32_t)at, sites[count].length, 0};
        count++;
    }
    arch_reject_unsafe(code, size, spans, count);
    judge(code, size, spans, count);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t trampoline = (uintptr_t)code + 0x10000000 + 16 * i;
        struct arch_span span = spans[i];
        if (!span.length)
            continue;
        require(arch_patch_syscall((uintptr_t)code + span.at, &sites[i], trampoline) == 0);
        require(jump_target(code + span.at + sites[i].displaced) == trampoline);
        require_same(code, before, 0, span.at);
        require_same(code, before, span.at + span.length, size);
        /* The instructions in between stand before the jump. */
        size_t by = span.length - 2u - sites[i].displaced;
        require_moved(code + span.at, before + span.at + by, sites[i].displaced, by);
        memcpy(code, before, size);
    }
}

static void check_cpuids(unsigned char *code, const unsigned char *before, size_t size)
{
    uint32_t offsets[ARCH_CPUIDS_MAX];
    struct arch_cpuid record;
    unsigned count = arch_find_cpuids(code, size, offsets, ARCH_CPUIDS_MAX);
    require(count <= ARCH_CPUIDS_MAX);
    for (unsigned i = 0; i < count; i++) {
        uintptr_t address = (uintptr_t)code + offsets[i], trampoline = address - 0x10000000;
        require(arch_patch_cpuid(address, &record, trampoline) == 0 &&
                jump_target(code + offsets[i]) == trampoline);
        size_t end = record.resume - (uintptr_t)code;
        require(end <= size && end >= offsets[i] + (size_t)ARCH_JUMP_BYTES &&
                before[end - 1] == 0xa2);
        require_same(code, before, 0, offsets[i]);
        require_same(code, before, end, size);
        memcpy(code, before, size);
        struct arch_span span = {offsets[i], (unsigned char)(end - offsets[i]), 0};
        judge(code, size, &span, 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* On the heap, where nothing behind it can be read unseen. */
    unsigned char *code = malloc(size ? size : 1);
    require(code != NULL);
    memcpy(code, data, size);
    check_calls(code, data, size);
    check_cpuids(code, data, size);
    free(code);
    return 0;
}
