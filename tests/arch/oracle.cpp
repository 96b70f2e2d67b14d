/* tests/arch/oracle.cpp: judges patch sites with Zydis.
 *
 * Zydis, and not Capstone, because it knows x86 alone and completely: its tables are its own, it
 * gives the operands that an instruction reads and writes, hidden ones too, and it needs no memory
 * and a tenth of the time. It shares nothing with src/arch/x86_64, which is the point.
 *
 * Functions begin where symbols and FDEs say; each is decoded from its start to the next one's. */
#include "oracle.hpp"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace
{

struct Decoded {
    uint64_t address;
    ZydisDecodedInstruction instruction;
    std::vector<ZydisDecodedOperand> operands;
};

const ZydisDecoder &decoder()
{
    static const ZydisDecoder decoder = [] {
        ZydisDecoder made;
        ZydisDecoderInit(&made, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
        return made;
    }();
    return decoder;
}

std::optional<Decoded> decode(const Segment &segment, uint64_t address)
{
    Decoded result{address, {}, {}};
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    const unsigned char *at = segment.bytes.data() + (address - segment.address);
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), at,
                                             segment.bytes.size() - (address - segment.address),
                                             &result.instruction, operands)))
        return std::nullopt;
    result.operands.assign(operands, operands + result.instruction.operand_count);
    return result;
}

std::optional<uint64_t> branch_target(const Decoded &at)
{
    for (const ZydisDecodedOperand &operand : at.operands)
        if (operand.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && operand.imm.is_relative) {
            ZyanU64 target = 0;
            if (ZYAN_SUCCESS(
                    ZydisCalcAbsoluteAddress(&at.instruction, &operand, at.address, &target)))
                return target;
        }
    return std::nullopt;
}

ZydisRegister whole(ZydisRegister part)
{
    return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, part);
}

bool writes(const Decoded &at, ZydisRegister target)
{
    return std::any_of(at.operands.begin(), at.operands.end(),
                       [&](const ZydisDecodedOperand &operand) {
                           return operand.type == ZYDIS_OPERAND_TYPE_REGISTER &&
                                  whole(operand.reg.value) == target &&
                                  (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
                       });
}

/* One function's instructions in order. */
using Function = std::vector<Decoded>;

struct Disassembly {
    std::vector<Function> functions;
    std::unordered_map<uint64_t, std::pair<size_t, size_t>> at; /* function and index */
    std::unordered_map<uint64_t, uint64_t> branches;            /* target -> one of its sources */
    unsigned instructions = 0, undecoded = 0, table_entries = 0;
};

bool has_indirect_jump(const Function &function)
{
    return std::any_of(function.begin(), function.end(), [](const Decoded &at) {
        if (at.instruction.mnemonic != ZYDIS_MNEMONIC_JMP || branch_target(at))
            return false;
        /* Through a slot of the GOT at a fixed place: to another function. */
        const ZydisDecodedOperand &target = at.operands.front();
        return target.type != ZYDIS_OPERAND_TYPE_MEMORY || target.mem.base != ZYDIS_REGISTER_RIP;
    });
}

/* A switch's table holds distances of its cases from itself. Read from what the function takes the
 * address of, up to the first entry that leads to no instruction: perhaps too far, never too short.
 */
void read_tables(const ElfCode &code, Disassembly &all)
{
    for (const Function &function : all.functions) {
        if (!has_indirect_jump(function))
            continue;
        for (const Decoded &at : function) {
            ZyanU64 table = 0;
            if (at.instruction.mnemonic != ZYDIS_MNEMONIC_LEA ||
                at.operands[1].mem.base != ZYDIS_REGISTER_RIP ||
                !ZYAN_SUCCESS(
                    ZydisCalcAbsoluteAddress(&at.instruction, &at.operands[1], at.address, &table)))
                continue;
            for (const Segment &segment : code.data)
                for (uint64_t entry = table; segment.holds(entry) && segment.holds(entry + 3);
                     entry += 4) {
                    int32_t distance;
                    std::memcpy(&distance, &segment.bytes[entry - segment.address],
                                sizeof(distance));
                    uint64_t target = table + (uint64_t)(int64_t)distance;
                    if (!all.at.count(target))
                        break;
                    all.branches[target] = at.address;
                    all.table_entries++;
                }
        }
    }
}

Disassembly disassemble(const ElfCode &code)
{
    Disassembly all;
    for (const Segment &segment : code.executable) {
        uint64_t end = segment.address + segment.bytes.size();
        std::set<uint64_t> starts(code.starts.lower_bound(segment.address),
                                  code.starts.lower_bound(end));
        starts.insert(segment.address);
        for (auto start = starts.begin(); start != starts.end(); ++start) {
            uint64_t next = std::next(start) == starts.end() ? end : *std::next(start);
            Function function;
            for (uint64_t at = *start; at < next;) {
                auto decoded = decode(segment, at);
                if (!decoded) {
                    all.undecoded++;
                    at++;
                    continue;
                }
                all.at[at] = {all.functions.size(), function.size()};
                if (auto target = branch_target(*decoded))
                    all.branches[*target] = at;
                at += decoded->instruction.length;
                all.instructions++;
                function.push_back(std::move(*decoded));
            }
            all.functions.push_back(std::move(function));
        }
    }
    return all;
}

std::string judge(const ElfCode &code, const Disassembly &all, uint64_t begin, uint64_t end)
{
    if (!all.at.count(begin))
        return "begins inside an instruction";
    if (!all.at.count(end) &&
        std::none_of(code.executable.begin(), code.executable.end(), [&](const Segment &segment) {
            return end == segment.address + segment.bytes.size();
        }))
        return "ends inside an instruction";
    for (uint64_t at = begin + 1; at < end; at++) {
        auto source = all.branches.find(at);
        if (source != all.branches.end())
            return "a branch at " + code.describe(source->second) + " leads into it";
        if (code.starts.count(at))
            return "a function begins in it: " + code.describe(at);
    }
    return "";
}

/* What is known of the number of the system call at function[index]. */
struct Number {
    long nr = -1;
    std::string why;
};

/* A number that is kept in a register for several calls: if all that the function ever loads into
 * it are constants, the wanted one among them, or any of them; -1 otherwise. */
long constant_in(const Function &function, ZydisRegister number, search_kind kind)
{
    long constant = -1;
    for (const Decoded &at : function) {
        bool is_other_call = at.instruction.meta.category == ZYDIS_CATEGORY_CALL ||
                             at.instruction.mnemonic == ZYDIS_MNEMONIC_SYSCALL;
        if (!writes(at, whole(number)) || is_other_call ||
            at.instruction.mnemonic == ZYDIS_MNEMONIC_POP)
            continue;
        if (at.instruction.mnemonic != ZYDIS_MNEMONIC_MOV ||
            at.operands[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
            return -1;
        long value = (long)at.operands[1].imm.value.u;
        if (constant < 0 || search_wants(value, kind))
            constant = value;
    }
    return constant;
}

Number number_of(const ElfCode &code, const Disassembly &all, const Function &function,
                 size_t index, search_kind kind)
{
    enum { FURTHEST = 24 };
    for (size_t back = 1; back <= FURTHEST; back++) {
        if (back > index)
            return {-1, "number not loaded in this function before it"};
        const Decoded &at = function[index - back];
        const Decoded &behind = function[index - back + 1];
        auto category = at.instruction.meta.category;
        if (at.address + at.instruction.length != behind.address ||
            category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_RET)
            return {-1, "number loaded elsewhere: only branches lead here"};
        if (!writes(at, ZYDIS_REGISTER_RAX))
            continue;
        const ZydisDecodedOperand &source =
            at.operands.size() > 1 ? at.operands[1] : at.operands[0];
        if (at.instruction.mnemonic == ZYDIS_MNEMONIC_XOR)
            return {0, "number by xor"};
        if (at.instruction.mnemonic != ZYDIS_MNEMONIC_MOV)
            return {-1, "number is computed or a result"};
        if (source.type == ZYDIS_OPERAND_TYPE_REGISTER)
            return {constant_in(function, source.reg.value, kind),
                    std::string("number in ") + ZydisRegisterGetString(source.reg.value)};
        if (source.type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
            return {-1, "number from memory"};
        Number known{(long)source.imm.value.u, ""};
        for (size_t inside = index - back + 1; inside <= index; inside++) {
            auto branch = all.branches.find(function[inside].address);
            if (branch != all.branches.end()) {
                known.why = "a branch at " + code.describe(branch->second) +
                            " leads between number and call";
                return known;
            }
        }
        known.why = std::to_string(back - 1) + (back == 2 ? " instruction" : " instructions") +
                    " between number and call";
        return known;
    }
    return {-1, "number not loaded nearby"};
}

void find_misses(const ElfCode &code, const Disassembly &all, search_kind kind,
                 OracleReport &report)
{
    std::set<uint64_t> taken;
    for (const OracleSite &site : report.sites)
        for (unsigned i = 0; i < site.length; i++)
            taken.insert(site.address + i);
    for (const Function &function : all.functions)
        for (size_t i = 0; i < function.size(); i++) {
            if (function[i].instruction.mnemonic != ZYDIS_MNEMONIC_SYSCALL ||
                taken.count(function[i].address))
                continue;
            Number number = number_of(code, all, function, i, kind);
            if (number.nr >= 0 && !search_wants(number.nr, kind))
                continue;
            report.misses.push_back(
                {function[i].address, number.nr, code.describe(function[i].address), number.why});
        }
}

} // namespace

unsigned OracleReport::faults() const
{
    return (unsigned)std::count_if(sites.begin(), sites.end(),
                                   [](const OracleSite &site) { return !site.fault.empty(); });
}

OracleReport consult_oracle(const ElfCode &code, search_kind kind)
{
    OracleReport report;
    Disassembly all = disassemble(code);
    read_tables(code, all);
    report.table_entries = all.table_entries;
    report.functions = (unsigned)all.functions.size();
    report.instructions = all.instructions;
    report.undecoded = all.undecoded;
    for (const Segment &segment : code.executable) {
        search_result results[SEARCH_MOST];
        unsigned count = 0;
        double best_us = 0;
        for (int round = 0; round < 5; round++) {
            auto before = std::chrono::steady_clock::now();
            count = search_code(segment.bytes.data(), segment.bytes.size(), kind, results);
            std::chrono::duration<double, std::micro> took =
                std::chrono::steady_clock::now() - before;
            best_us = round == 0 || took.count() < best_us ? took.count() : best_us;
        }
        report.search_us += best_us;
        for (unsigned i = 0; i < count; i++) {
            uint64_t address = segment.address + results[i].at;
            auto found = all.at.find(address);
            report.sites.push_back(
                {address, results[i].length, results[i].nr, code.describe(address),
                 judge(code, all, address, address + results[i].length),
                 found != all.at.end() && has_indirect_jump(all.functions[found->second.first])});
        }
    }
    find_misses(code, all, kind, report);
    return report;
}

search_kind kind_of_file(const std::string &path)
{
    std::string name = path.substr(path.rfind('/') + 1);
    if (name.starts_with("ld-linux") || name.starts_with("ld-2"))
        return SEARCH_LDSO;
    bool is_libc = name.starts_with("libc.so") || name.starts_with("libc-") ||
                   name.starts_with("libpthread") || name.starts_with("ld-musl");
    return is_libc ? SEARCH_LIBC : SEARCH_PROGRAM;
}
