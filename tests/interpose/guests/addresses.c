/* tests/interpose/guests/addresses.c: copies between processes at addresses that are, and are not,
 * the target's. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "onespace.h"
#include "programs/scene.h"

/* Words of this process: in its heap, and where the program chose. */
static long *words[2];

static void *const chosen[] = {(void *)(UINT64_C(1) << 44), (void *)(UINT64_C(5) << 42)};

static int make_words(void *place, long value)
{
    words[0] = malloc(1 << 20);
    words[1] = mmap(place, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (words[1] != place)
        return -1;
    *words[0] = *words[1] = value;
    return 0;
}

static int wait_for_line(void)
{
    int byte;
    while ((byte = getchar()) != EOF && byte != '\n')
        ;
    return byte == '\n';
}

/* Says its PID and where its words are; for each line of its input what they hold. */
SCENE(owner)
{
    if (make_words(chosen[0], 1) != 0)
        return 1;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    (void)!onespace_export("word", words[0], sizeof(*words[0])); /* fails in a process */
    printf("%d %p %p\n", getpid(), (void *)words[0], (void *)words[1]);
    while (wait_for_line())
        printf("%ld %ld\n", *words[0], *words[1]);
    return 0;
}

static void say(const char *what, ssize_t result)
{
    printf("%s: %zd%s%s\n", what, result, result < 0 ? " " : "", result < 0 ? strerror(errno) : "");
}

static void copy_all(const char *what, pid_t pid, void *address)
{
    long value = 42;
    struct iovec mine = {&value, sizeof(value)}, theirs = {address, sizeof(value)};
    printf("%s, ", what);
    say("write", process_vm_writev(pid, &mine, 1, &theirs, 1, 0));
    printf("%s, ", what);
    say("syscall", syscall(SYS_process_vm_writev, pid, &mine, 1ul, &theirs, 1ul, 0ul));
    printf("%s, ", what);
    say("read", process_vm_readv(pid, &mine, 1, &theirs, 1, 0));
}

/* stranger PID WORD WORD: copies to the owner's words, and to its own addresses in the owner. */
SCENE(stranger)
{
    long values[2] = {42, 43};
    void *theirs[2];
    if (argc < 4 || make_words(chosen[1], 5) != 0)
        return 1;
    pid_t pid = atoi(argv[1]);
    sscanf(argv[2], "%p", &theirs[0]);
    sscanf(argv[3], "%p", &theirs[1]);
    copy_all("its heap", pid, theirs[0]);
    copy_all("its mapping", pid, theirs[1]);
    copy_all("my heap", pid, words[0]);
    copy_all("my mapping", pid, words[1]);
    struct iovec mine[] = {{values, sizeof(values)}}, both[] = {{theirs[0], 8}, {words[0], 8}};
    say("first its, then mine", process_vm_writev(pid, mine, 1, both, 2, 0));
    mine[0].iov_len = 8;
    say("mine is not reached", process_vm_writev(pid, mine, 1, both, 2, 0));
    both[1].iov_len = (size_t)1 << 40;
    say("mine is not reached and long", process_vm_writev(pid, mine, 1, both, 2, 0));
    both[0] = both[1];
    say("mine is long", process_vm_writev(pid, mine, 1, both, 2, 0));
    say("nothing of mine", process_vm_writev(pid, mine, 0, both, 2, 0));
    printf("mine are %ld %ld\n", *words[0], *words[1]);
    return 0;
}

/* user OWNER: says its PID; for each line of its input imports the owner's word, or releases it. */
SCENE(user)
{
    int owner = argc > 1 ? atoi(argv[1]) : -1;
    printf("%d\n", getpid());
    for (int imported = 0; wait_for_line(); imported = !imported) {
        void *word;
        int result =
            imported ? onespace_release(owner) : onespace_import(owner, "word", &word, NULL, 1000);
        printf("%d\n", result);
    }
    return 0;
}

/* of PID ADDRESS: reads a word there. */
SCENE(of)
{
    long value = -1;
    struct iovec mine = {&value, sizeof(value)}, theirs = {NULL, sizeof(value)};
    if (argc < 3 || sscanf(argv[2], "%p", &theirs.iov_base) != 1)
        return 1;
    say("of", process_vm_readv(atoi(argv[1]), &mine, 1, &theirs, 1, 0));
    printf("it is %ld\n", value);
    return 0;
}

/* As a container's filter may: the kernel refuses all copies between processes. */
static int forbid_copies(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof(code) / sizeof(code[0]), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0;
}

/* filtered FORBID PID WORD WORD: with FORBID 1 where the kernel refuses the calls. UCX reads at
 * address 0 to find out whether the call can be used. */
SCENE(filtered)
{
    enum { PAGE = 65536 };
    static char bytes[3 * PAGE];
    void *word;
    if (argc < 4 || (atoi(argv[1]) && forbid_copies() != 0) || sscanf(argv[3], "%p", &word) != 1)
        return 1;
    char *cut = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(cut + 2 * PAGE, PAGE);
    pid_t pids[] = {getpid(), atoi(argv[2])};
    for (int i = 0; i < 2; i++) {
        struct iovec mine = {bytes, sizeof(bytes)}, null = {NULL, 8}, last = {(void *)-1, 8};
        struct iovec good = {i ? word : (void *)cut, 8}, both[] = {good, null}, none = {NULL, 0};
        say("null", process_vm_readv(pids[i], &mine, 1, &null, 1, 0));
        say("write null", process_vm_writev(pids[i], &mine, 1, &null, 1, 0));
        say("last", process_vm_readv(pids[i], &mine, 1, &last, 1, 0));
        say("good", process_vm_readv(pids[i], &mine, 1, &good, 1, 0));
        say("good and null", process_vm_readv(pids[i], &mine, 1, both, 2, 0));
        say("nothing", process_vm_readv(pids[i], &mine, 1, &none, 1, 0));
    }
    struct iovec mine = {bytes, sizeof(bytes)}, partly = {cut + 100, 3 * PAGE - 100};
    say("partly", process_vm_readv(pids[0], &mine, 1, &partly, 1, 0));
    return 0;
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
