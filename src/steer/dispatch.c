/* src/steer/dispatch.c: from a system call's number to the function that stands for it. */
#include "steer/loader.h"
#include "steer/steer.h"
#include "task/threads.h"

long steer_call(struct space_slot *self, long nr, const long a[6])
{
    switch (nr) {
    case __NR_mmap:
        return steer_mmap(self, a);
    case __NR_munmap:
        return steer_munmap(self, (uintptr_t)a[0], (size_t)a[1]);
    case __NR_mremap:
        return steer_mremap(self, a);
    case __NR_brk:
        return steer_brk(self, (uintptr_t)a[0]);
    case __NR_shmat:
        return steer_shmat(self, a);
    case __NR_shmdt:
        return steer_shmdt(self, (uintptr_t)a[0]);
    case __NR_rt_sigaction:
        return steer_sigaction(self, a);
    case __NR_readlink:
    case __NR_readlinkat:
        return steer_readlink(self, nr, a);
    case __NR_execve:
    case __NR_execveat:
        return steer_execve(self, nr, a);
    case __NR_process_vm_readv:
    case __NR_process_vm_writev:
        return steer_copy(self, nr, a);
    case __NR_exit_group:
        threads_exit(self, (int)a[0]);
    default:
        return raw_syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
    }
}

long steer_dispatch(const struct arch_site *site, const long arguments[6])
{
    if (site->is_loader && site->nr == __NR_mmap)
        return loader_mmap(site->self, arguments);
    if (site->is_loader && site->nr == __NR_munmap)
        return loader_munmap(site->self, (uintptr_t)arguments[0], (size_t)arguments[1]);
    if (site->is_loader && site->nr == __NR_mprotect)
        return loader_mprotect(site->self, arguments);
    if (site->is_loader && site->nr == __NR_openat)
        return loader_openat(arguments);
    return steer_call(site->self, site->nr, arguments);
}
