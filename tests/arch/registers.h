/* tests/arch/registers.h: run code with chosen registers. */
#ifndef TESTS_ARCH_REGISTERS_H
#define TESTS_ARCH_REGISTERS_H

#include <stdint.h>

/* In hardware order; rsp is not loaded. */
struct registers {
    uint64_t general[16];
    uint64_t flags;
    uint64_t code; /* called */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Loads the registers, calls the code, and stores them again. The trap flag is off afterwards. */
void run_with_registers(struct registers *registers);

#ifdef __cplusplus
}
#endif

#endif
