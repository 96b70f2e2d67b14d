// tests/lib/seccomp.hpp: a filter under which a system call fails.
#ifndef ONESPACE_TESTS_LIB_SECCOMP_HPP
#define ONESPACE_TESTS_LIB_SECCOMP_HPP

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

// From now on the call fails with the error if its argument (the low half) is the value, or has
// bits of it (BPF_JSET in place of BPF_JEQ). Whether the filter is in force.
inline bool deny_call(uint32_t call, unsigned argument, uint16_t comparison, uint32_t value,
                      uint32_t error)
{
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                 uint32_t(offsetof(seccomp_data, args) + argument * sizeof(uint64_t))),
        BPF_JUMP(uint16_t(BPF_JMP | comparison | BPF_K), value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter = {std::size(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

#endif
