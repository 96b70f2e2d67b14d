/* tests/arch/oracle.hpp: what an independent disassembler says of the patch sites that our search
 * takes. */
#ifndef TESTS_ARCH_ORACLE_HPP
#define TESTS_ARCH_ORACLE_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "elf_code.hpp"
#include "search.h"

struct OracleSite {
    uint64_t address;
    unsigned length;
    long nr;           /* SEARCH_CPUID: a cpuid sequence */
    std::string where; /* function and offset */
    std::string fault; /* empty: it may be patched */
    bool beside_table; /* its function has an indirect jump, perhaps through a table */
};

/* A system call of a wanted number, or of one that is not known (-1), that is not taken. */
struct OracleMiss {
    uint64_t address;
    long nr;
    std::string where, why;
};

struct OracleReport {
    std::vector<OracleSite> sites;
    std::vector<OracleMiss> misses;
    unsigned functions = 0, instructions = 0, undecoded = 0, table_entries = 0;
    double search_us = 0; /* what our search took */
    unsigned faults() const;
};

OracleReport consult_oracle(const ElfCode &code, search_kind kind);
/* What interpose_patch_loaded takes the file for, by its name. */
search_kind kind_of_file(const std::string &path);

#endif
