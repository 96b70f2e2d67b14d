/* tests/arch/search.h: the search of src/interpose/patch/patch_sites.c for C++, without a space. */
#ifndef TESTS_ARCH_SEARCH_H
#define TESTS_ARCH_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum search_kind { SEARCH_LDSO, SEARCH_LIBC, SEARCH_PROGRAM };
enum { SEARCH_MOST = 96 };
#define SEARCH_CPUID 0xffff

struct search_result {
    uint32_t at;
    long nr; /* SEARCH_CPUID: a sequence that ends in cpuid */
    unsigned length, displaced;
};

/* What is patched in code of that kind (in ld.so, also of a task in thread mode): how many. */
unsigned search_code(const unsigned char *code, size_t size, enum search_kind kind,
                     struct search_result results[SEARCH_MOST]);
/* Whether calls of `nr` are patched there. */
int search_wants(long nr, enum search_kind kind);
const char *search_name(long nr);

#ifdef __cplusplus
}
#endif

#endif
