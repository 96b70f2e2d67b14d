/* src/interpose/patch/cpuid.h: the handler of ld.so's cpuid instructions. */
#ifndef ONESPACE_INTERPOSE_CPUID_H
#define ONESPACE_INTERPOSE_CPUID_H

#include "arch/trampoline.h"
#include "space/registry.h"

struct arch_cpuid;
struct patch_sites;

/* arch_handlers.cpuid. */
void interpose_cpuid(const struct arch_cpuid *cpuid, uint64_t registers[16]);

/* Adds those in code[0, size) to the list. */
void cpuid_search(const unsigned char *code, size_t size, struct patch_sites *list);
/* Turns the one at the writable `address` into a jump, as long as the task has trampolines for it.
 */
void cpuid_patch(struct space_slot *self, uintptr_t address);
/* For a task whose dynamic linker was patched at another address, `moved` bytes below. */
void cpuid_relocate(struct arch_trampoline_data *data, unsigned count, uintptr_t moved);

#endif
