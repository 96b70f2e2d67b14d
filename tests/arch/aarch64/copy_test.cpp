// tests/arch/aarch64/copy_test.cpp: guarded copies of every small size and alignment.
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

extern "C" {
#include "arch/copy.h"
}

namespace
{

using copy_function = int (*)(void *, const void *, size_t);
const copy_function copies[] = {arch_guarded_copy, arch_guarded_copy_wide};

TEST(Copy, copies_every_size_and_alignment)
{
    for (copy_function copy : copies)
        for (size_t from = 0; from < 17; from++)
            for (size_t size = 0; size < 300; size++) {
                std::vector<unsigned char> source(400), target(400, 0xee);
                for (size_t i = 0; i < source.size(); i++)
                    source[i] = static_cast<unsigned char>(i * 7 + 1);
                size_t to = 16 - from;
                ASSERT_EQ(copy(&target[to], &source[from], size), 0);
                ASSERT_EQ(memcmp(&target[to], &source[from], size), 0) << size;
                for (size_t i = 0; i < target.size(); i++)
                    if (i < to || i >= to + size) {
                        ASSERT_EQ(target[i], 0xee) << size;
                    }
            }
}

void on_fault(int, siginfo_t *, void *context)
{
    if (!arch_fault_recover(context))
        _exit(3);
}

TEST(Copy, returns_when_it_faults)
{
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    auto memory = static_cast<char *>(
        mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(static_cast<void *>(memory), MAP_FAILED);
    ASSERT_EQ(mprotect(memory + page, page, PROT_NONE), 0);
    struct sigaction action = {}, before, before_bus;
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before);
    sigaction(SIGBUS, &action, &before_bus);
    std::vector<char> other(page);
    for (copy_function copy : copies)
        for (size_t rest : {0u, 1u, 15u, 16u, 63u, 64u, 200u}) {
            EXPECT_EQ(copy(other.data(), memory + page - rest, rest), 0);
            EXPECT_EQ(copy(other.data(), memory + page - rest, rest + 1), -1) << rest;
            EXPECT_EQ(copy(memory + page - rest, other.data(), rest + 100), -1) << rest;
        }
    sigaction(SIGSEGV, &before, nullptr);
    sigaction(SIGBUS, &before_bus, nullptr);
    munmap(memory, 2 * page);
}

} // namespace
