/* src/interpose/patch/cpuid.h: the handler of ld.so's cpuid instructions. */
#ifndef ONESPACE_INTERPOSE_CPUID_H
#define ONESPACE_INTERPOSE_CPUID_H

#include "arch/trampoline.h"

/* arch_handlers.cpuid. */
void interpose_cpuid(const struct arch_cpuid *cpuid, uint64_t registers[16]);

#endif
