/* tests/guard/guests/guard-experiments.c: what the kernel does with protection keys where processes
 * share memory. docs/internals/guard.md draws the conclusions. Each experiment runs in a child and
 * prints one line: its name, and what happened. Static, without anything of onespace's. */
#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { PAGE = 4096, STACK = 256 * 1024 };

static inline uint32_t rights(void)
{
    uint32_t eax, edx;
    __asm__ volatile("rdpkru" : "=a"(eax), "=d"(edx) : "c"(0));
    return eax;
}

static inline void set_rights(uint32_t value)
{
    __asm__ volatile("wrpkru" : : "a"(value), "c"(0), "d"(0) : "memory");
}

#define DENY(key)     (1u << 2 * (key))
#define READONLY(key) (2u << 2 * (key))

static char *map(size_t size, int key)
{
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (key >= 0 && pkey_mprotect(memory, size, PROT_READ | PROT_WRITE, key) != 0)
        perror("pkey_mprotect");
    return memory;
}

/* The key of the mapping at an address, from /proc/self/smaps. */
static int key_of(const void *address)
{
    char line[512];
    unsigned long start = 0, end = 0;
    int key = -1;
    FILE *file = fopen("/proc/self/smaps", "re");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            start = from, end = to;
        if ((uintptr_t)address >= start && (uintptr_t)address < end)
            sscanf(line, "ProtectionKey: %d", &key);
    }
    if (file)
        fclose(file);
    return key;
}

/* ---- A child that shares memory but is a process of its own, on a stack with a key. ---- */

static int (*volatile to_run)(void);
static int run_it(void *unused)
{
    (void)unused;
    return to_run();
}

static int in_task(int (*function)(void), int key)
{
    char *stack = map(STACK, key);
    to_run = function;
    int status, pid = clone(run_it, stack + STACK, CLONE_VM | SIGCHLD, NULL);
    waitpid(pid, &status, 0);
    return status;
}

static const char *text_of(int status)
{
    static char text[64];
    if (WIFEXITED(status))
        snprintf(text, sizeof(text), "ends with %d", WEXITSTATUS(status));
    else
        snprintf(text, sizeof(text), "killed by %s", strsignal(WTERMSIG(status)));
    return text;
}

/* ---- Handlers ---- */

static volatile uint32_t seen_in_handler;
static volatile int handled, last_code, last_key;

static void plain_handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    handled++;
}

static void note_rights(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    seen_in_handler = rights();
}

/* The entry that opens all keys before it touches memory. */
void opening_entry(int, siginfo_t *, void *);
void count_handler(int, siginfo_t *, void *);
void count_handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    handled++;
}
__asm__(".globl opening_entry\n"
        "opening_entry:\n"
        "  mov %rdx, %r8\n"
        "  xor %ecx, %ecx\n"
        "  xor %edx, %edx\n"
        "  xor %eax, %eax\n"
        "  wrpkru\n"
        "  mov %r8, %rdx\n"
        "  jmp count_handler\n");

typedef void handler_function(int, siginfo_t *, void *);

static void handle(int signal, handler_function *handler, int flags, int mask_all)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    if (mask_all)
        sigfillset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

static size_t saved_rights_at(void)
{
    unsigned a, b, c, d;
    __cpuid_count(0xd, 9, a, b, c, d);
    return b;
}

static uint32_t *saved_rights(void *context)
{
    char *state = (char *)((ucontext_t *)context)->uc_mcontext.fpregs;
    *(uint64_t *)(state + 512) |= UINT64_C(1) << 9; /* it is in use */
    return (uint32_t *)(state + saved_rights_at());
}

/* ---- The experiments ---- */

static int key;

static int print_rights(void)
{
    printf("%08x\n", rights());
    fflush(stdout);
    return 0;
}

static void inherited_by_clone(void)
{
    set_rights(0x55555500 | READONLY(3));
    in_task(print_rights, 0);
}

static void inherited_by_fork(void)
{
    set_rights(0x55555500 | READONLY(3));
    char *memory = map(PAGE, key);
    if (fork() == 0) {
        printf("%08x, the key of its copy is %s\n", rights(),
               key_of(memory) == key ? "the same" : "another");
        exit(0);
    }
    wait(NULL);
}

static void in_a_handler(void)
{
    set_rights(0);
    handle(SIGUSR1, note_rights, 0, 0);
    raise(SIGUSR1);
    printf("%08x, afterwards %08x\n", seen_in_handler, rights());
}

static int raise_plain(void)
{
    handle(SIGUSR1, plain_handler, 0, 0);
    raise(SIGUSR1);
    return handled;
}

static void handler_on_a_stack_with_a_key(void)
{
    printf("%s\n", text_of(in_task(raise_plain, key)));
}

static int raise_opening(void)
{
    handle(SIGUSR1, opening_entry, 0, 0);
    raise(SIGUSR1);
    return handled;
}

static void entry_that_opens(void)
{
    printf("%s\n", text_of(in_task(raise_opening, key)));
}

static int raise_two(int mask_all)
{
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGUSR1);
    sigaddset(&both, SIGUSR2);
    handle(SIGUSR1, opening_entry, 0, mask_all);
    handle(SIGUSR2, opening_entry, 0, mask_all);
    sigprocmask(SIG_BLOCK, &both, NULL);
    raise(SIGUSR1);
    raise(SIGUSR2);
    sigprocmask(SIG_UNBLOCK, &both, NULL);
    return handled;
}

static int raise_two_plainly(void)
{
    return raise_two(0);
}

static int raise_two_masked(void)
{
    return raise_two(1);
}

static void two_signals_at_once(void)
{
    printf("%s\n", text_of(in_task(raise_two_plainly, key)));
}

static void two_signals_with_all_masked(void)
{
    printf("%s\n", text_of(in_task(raise_two_masked, key)));
}

static int raise_while_closed(void)
{
    handle(SIGUSR1, opening_entry, 0, 0);
    /* Own stack inaccessible: nothing but registers until the signal has come. */
    long pid = getpid(), nr = SYS_kill, result;
    register long number __asm__("rsi") = SIGUSR1;
    __asm__ volatile("mov %%eax, %%r12d\n wrpkru\n mov %[nr], %%rax\n syscall\n"
                     "xor %%eax, %%eax\n xor %%ecx, %%ecx\n xor %%edx, %%edx\n wrpkru\n"
                     : "=a"(result)
                     : "a"(DENY(key)), "c"(0), "d"(0), "D"(pid), "r"(number), [nr] "r"(nr)
                     : "r11", "r12", "memory");
    return handled;
}

static void signal_while_the_stack_is_closed(void)
{
    printf("%s\n", text_of(in_task(raise_while_closed, key)));
}

/* glibc's registration is of the thread that called in_task: the child has none. */
struct rseq_area {
    uint32_t cpu_start, cpu;
    uint64_t section;
    uint32_t flags, node, mm, unused;
} __attribute__((aligned(32)));

static char *rseq_memory;
static int handle_with_rseq(void)
{
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    sigset_t none;
    if (syscall(SYS_rseq, rseq_memory, 32, 0, 0x53053053) != 0)
        return 99;
    sigemptyset(&none);
    handle(SIGALRM, opening_entry, 0, 1);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (handled < 50)
        sigsuspend(&none);
    return handled;
}

static void rseq_area_with_a_key(void)
{
    rseq_memory = map(PAGE, key);
    printf("%s; ", text_of(in_task(handle_with_rseq, key)));
    handled = 0;
    rseq_memory = map(PAGE, 0);
    printf("without a key %s\n", text_of(in_task(handle_with_rseq, key)));
}

static char *shared_page;
static int colour_it(void)
{
    int mine = pkey_alloc(0, 0),
        result = pkey_mprotect(shared_page, PAGE, PROT_READ | PROT_WRITE, key);
    printf("by another process %s; its next key is %s; ",
           result == 0 ? "coloured" : strerror(errno),
           mine == key + 1 ? "the next"
           : mine == key   ? "the same"
                           : "another");
    fflush(stdout);
    return 0;
}

static void keys_of_shared_memory(void)
{
    shared_page = map(PAGE, -1);
    in_task(colour_it, -1);
    printf("its key is %s; my right to the child's key is %s\n",
           key_of(shared_page) == key ? "set" : "not set",
           rights() & DENY(key + 1) ? "none" : "full");
}

static void note_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    handled++;
    last_code = info->si_code;
    last_key = (int)info->si_pkey;
    *saved_rights(context) = 0; /* so that the store succeeds */
}

static void fault(void)
{
    char *memory = map(PAGE, key);
    handle(SIGSEGV, note_fault, 0, 0);
    set_rights(READONLY(key));
    volatile char read = *memory;
    (void)read;
    printf("read %s; ", handled ? "faults" : "passes");
    *(volatile char *)memory = 1;
    printf(
        "write: si_code %d (SEGV_PKUERR is %d), si_pkey %s; rights changed in the frame hold: %s\n",
        last_code, SEGV_PKUERR, last_key == key ? "right" : "wrong",
        rights() == 0 && *memory == 1 ? "yes" : "no");
}

static void stepped(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100l;
    *saved_rights(context) = READONLY(key);
}

static void open_for_one(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    handled++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= 0x100;
    *saved_rights(context) = 0;
}

static void one_instruction_at_a_time(void)
{
    char *memory = map(PAGE, key);
    handle(SIGSEGV, open_for_one, 0, 0);
    handle(SIGTRAP, stepped, 0, 0);
    set_rights(READONLY(key));
    for (int i = 0; i < 100; i++)
        ((volatile char *)memory)[i] = 1;
    printf("100 stores, %d faults, rights %s\n", handled,
           rights() == READONLY(key) ? "closed again" : "open");
}

static void kernel_copies(void)
{
    char *memory = map(PAGE, key), here[16] = "xxxxxxxxxxxxxxx";
    int pair[2], zero = open("/dev/zero", O_RDONLY), out = open("/dev/null", O_WRONLY);
    memset(memory, 7, PAGE);
    if (pipe(pair) != 0 || write(pair[1], here, 16) != 16)
        perror("pipe");
    set_rights(READONLY(key));
    long from_pipe = read(pair[0], memory, 16);
    printf("read() of a pipe into it: %s; ", from_pipe < 0 ? strerror(errno) : "passes");
    long from_zero = read(zero, memory, 16);
    printf("of /dev/zero: %s; ", from_zero < 0 ? strerror(errno) : "passes");
    long to = write(out, memory, 16);
    printf("write() out of it: %s; ", to < 0 ? strerror(errno) : "passes");
    struct iovec local = {here, 16}, remote = {memory, 16};
    long vm = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
    printf("process_vm_writev into it: %s; ", vm < 0 ? strerror(errno) : "passes");
    struct iovec into = {memory, 16}, from = {here, 16};
    vm = process_vm_readv(getpid(), &into, 1, &from, 1, 0);
    printf("process_vm_readv into it: %s; ", vm < 0 ? strerror(errno) : "passes");
    int self = open("/proc/self/mem", O_RDWR);
    vm = pwrite(self, here, 16, (off_t)(uintptr_t)memory);
    printf("/proc/self/mem: %s; ", vm < 0 ? strerror(errno) : "passes");
    vm = madvise(memory, PAGE, MADV_DONTNEED);
    printf("MADV_DONTNEED: %s", vm < 0 ? strerror(errno) : "passes");
    set_rights(0);
    printf(" and it is %s\n", *memory ? "kept" : "zero");
}

static void mappings(void)
{
    char *memory = map(4 * PAGE, key);
    mprotect(memory, PAGE, PROT_NONE);
    mprotect(memory, PAGE, PROT_READ | PROT_WRITE);
    printf("mprotect %s; ", key_of(memory) == key ? "keeps it" : "loses it");
    char *moved = mremap(memory, 4 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    printf("mremap %s; ", key_of(moved) == key ? "keeps it" : "loses it");
    moved =
        mmap(moved, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    printf("MAP_FIXED over it %s; ", key_of(moved) == key ? "keeps it" : "loses it");
    char *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pkey_mprotect(none, PAGE, PROT_NONE, key);
    mprotect(none, PAGE, PROT_READ | PROT_WRITE);
    printf("given with PROT_NONE it %s; ", key_of(none) == key ? "stays" : "goes");
    char *stack = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0);
    pkey_mprotect(stack, 16 * PAGE, PROT_READ | PROT_WRITE, key);
    ((volatile char *)stack)[-16] = 1;
    printf("a stack that grows %s\n", key_of(stack - 16) == key ? "keeps it" : "loses it");
}

static void keys_in_all(void)
{
    int count = 1; /* one is `key` */
    while (pkey_alloc(0, 0) >= 0)
        count++;
    printf("%d; then %s; ", count, strerror(errno));
    pkey_free(key);
    char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(code, PAGE, PROT_EXEC);
    printf("PROT_EXEC alone %s\n", key_of(code) > 0 ? "takes one" : "takes none");
}

static void after_execve(void)
{
    set_rights(0);
    map(PAGE, key);
    execl("/proc/self/exe", "experiments", "executed", NULL);
    printf("%s\n", strerror(errno));
}

static void altstack_with_a_key(void)
{
    stack_t stack = {.ss_sp = map(STACK, key), .ss_size = STACK};
    sigaltstack(&stack, NULL);
    set_rights(0);
    handle(SIGUSR1, opening_entry, SA_ONSTACK, 1);
    raise(SIGUSR1);
    printf("with an entry that opens: handled %d\n", handled);
}

static int thread_flag;
static int exit_raw(void *flag)
{
    (void)flag;
    syscall(SYS_exit, 0);
    return 0;
}

static void cleared_at_a_threads_end(void)
{
    int *flag = (int *)map(PAGE, key);
    char *stack = map(STACK, 0);
    *flag = 1;
    clone(exit_raw, stack + STACK,
          CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
              CLONE_CHILD_CLEARTID,
          &thread_flag, NULL, NULL, flag);
    usleep(300000);
    printf("with the right to it: %s; ", *flag ? "left" : "cleared");
    *flag = 1;
    set_rights(READONLY(key));
    clone(exit_raw, stack + STACK,
          CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
              CLONE_CHILD_CLEARTID,
          &thread_flag, NULL, NULL, flag);
    usleep(300000);
    printf("without: %s\n", *flag ? "left" : "cleared");
}

/* clang-format off */
#define EXPERIMENTS(RUN)                                                                           \
    RUN(inherited_by_clone)                                                                        \
    RUN(inherited_by_fork) RUN(in_a_handler) RUN(handler_on_a_stack_with_a_key)                    \
        RUN(entry_that_opens) RUN(two_signals_at_once) RUN(two_signals_with_all_masked)            \
            RUN(signal_while_the_stack_is_closed) RUN(altstack_with_a_key)                         \
                RUN(rseq_area_with_a_key) RUN(keys_of_shared_memory) RUN(fault)                    \
                    RUN(one_instruction_at_a_time) RUN(kernel_copies) RUN(mappings)                \
                        RUN(cleared_at_a_threads_end) RUN(keys_in_all) RUN(after_execve)
/* clang-format on */

#define ROW(name) {#name, name},
static const struct {
    const char *name;
    void (*run)(void);
} experiments[] = {EXPERIMENTS(ROW)};

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "executed") == 0) {
        uint32_t now = rights();
        printf("rights %08x, the first key is %d again\n", now, pkey_alloc(0, 0));
        return 0;
    }
    printf("initial: %08x\n", rights());
    if (pkey_alloc(0, 0) < 0) {
        printf("no keys: %s\n", strerror(errno));
        return 1;
    }
    pkey_free(1);
    for (unsigned i = 0; i < sizeof(experiments) / sizeof(experiments[0]); i++) {
        int status = 0;
        printf("%s: ", experiments[i].name);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            key = pkey_alloc(0, 0);
            alarm(60);
            experiments[i].run();
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (status)
            printf("(%s)\n", text_of(status));
    }
    return 0;
}
