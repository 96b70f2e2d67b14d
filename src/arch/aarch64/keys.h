/* src/arch/aarch64/keys.h: there are no protection keys here, and so no guard mode: FEAT_S1POE, of
 * which Linux 6.12 makes such keys, is not supported yet. */
#ifndef ONESPACE_ARCH_KEYS_H
#define ONESPACE_ARCH_KEYS_H

#define ARCH_HAS_KEYS 0

static inline int arch_cpu_has_keys(void)
{
    return 0;
}

static inline int arch_kernel_has_keys(void)
{
    return 0;
}

#endif
