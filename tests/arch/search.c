/* tests/arch/search.c: see search.h. Stands for the table of handlers, which would need the whole
 * core. */
#include "search.h"

#include <asm/unistd.h>

#include "arch/code/patch.h"
#include "interpose/calls.h"
#include "interpose/patch/patch.h"

static const struct {
    unsigned where;
    const char *name;
} calls[] = {
#define ROW(name, where, effect, handler, ldso_handler, guarded_handler, description)              \
    [__NR_##name] = {where, #name},
    INTERPOSED_CALLS(ROW)};

unsigned interposed_where(long nr)
{
    return nr >= 0 && (unsigned long)nr < sizeof(calls) / sizeof(calls[0]) ? calls[nr].where : 0;
}

const char *search_name(long nr)
{
    if (nr == SEARCH_CPUID)
        return "cpuid";
    return interposed_where(nr) ? calls[nr].name : "?";
}

int search_wants(long nr, enum search_kind kind)
{
    static const unsigned where[] = {[SEARCH_LDSO] = IN_LDSO | IN_LDSO_OF_THREAD,
                                     [SEARCH_LIBC] = IN_LIBC,
                                     [SEARCH_PROGRAM] = IN_PROGRAM};
    return (interposed_where(nr) & where[kind]) != 0;
}

/* A cpuid's record has no length: it ends behind the instruction. */
static unsigned cpuid_length(const unsigned char *code)
{
    unsigned length = 0;
    while (code[length] != 0x0f || code[length + 1] != 0xa2)
        length++;
    return length + 2;
}

unsigned search_code(const unsigned char *code, size_t size, enum search_kind kind,
                     struct search_result results[SEARCH_MOST])
{
    static struct patch_sites list;
    unsigned count = 0;
    patch_sites_find((uintptr_t)code, size, -1, 0, kind == SEARCH_LDSO, &list);
    for (unsigned i = 0; i < list.count; i++) {
        const struct space_patch_site *site = &list.items[i];
        if (site->nr == SPACE_PATCH_SITE_CPUID)
            results[count++] =
                (struct search_result){site->at, SEARCH_CPUID, cpuid_length(code + site->at), 0};
        else if (search_wants(site->nr, kind))
            results[count++] =
                (struct search_result){site->at, site->nr, site->length, site->displaced};
    }
    return count;
}
