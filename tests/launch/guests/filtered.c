/* filtered PROGRAM...: executes it under a seccomp filter that allows everything. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {1, &allow};
    if (argc < 2 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        return 2;
    execvp(argv[1], argv + 1);
    return 127;
}
