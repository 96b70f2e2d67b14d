/* tests/guard/guests/guarded.c: what programs do with signals, threads, children and memory, and
 * what must go on as ever in guarded tasks. Prints "NAME: ok" for each. With ONESPACE_TASK_ID and
 * libc alone: it may run as a process, too. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t seen[65], depth, deepest;
static int globals[1024];

static void note(int number)
{
    int here[64] = {number};
    depth++;
    deepest = depth > deepest ? depth : deepest;
    seen[here[0]]++;
    globals[number]++;
    depth--;
}

static void note_info(int number, siginfo_t *info, void *context)
{
    assert(info->si_signo == number && context);
    note(number);
}

static void handle(int number, int flags, int mask)
{
    struct sigaction action = {.sa_sigaction = note_info, .sa_flags = SA_SIGINFO | flags}, now;
    if (mask)
        sigaddset(&action.sa_mask, mask);
    assert(sigaction(number, &action, NULL) == 0 && sigaction(number, NULL, &now) == 0);
    assert(now.sa_sigaction == note_info && (now.sa_flags & ~0x04000000) == action.sa_flags);
    assert(sigismember(&now.sa_mask, SIGUSR2) == (mask == SIGUSR2));
}

static void signals(void)
{
    for (int number = 1; number < 32; number++) {
        if (number == SIGKILL || number == SIGSTOP)
            continue;
        struct sigaction before;
        assert(sigaction(number, NULL, &before) == 0);
        handle(number, 0, 0);
        raise(number);
        assert(seen[number] == 1);
        assert(sigaction(number, &before, NULL) == 0);
    }
}

static void both_at_once(void)
{
    sigset_t set, none;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGHUP);
    handle(SIGUSR1, 0, 0);
    handle(SIGUSR2, 0, 0);
    handle(SIGHUP, 0, SIGUSR2);
    seen[SIGUSR1] = seen[SIGUSR2] = seen[SIGHUP] = 0;
    for (int i = 0; i < 100; i++) {
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(SIGUSR1);
        raise(SIGUSR2);
        raise(SIGHUP);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    assert(seen[SIGUSR1] == 100 && seen[SIGUSR2] == 100 && seen[SIGHUP] == 100);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    assert(sigsuspend(&none) == -1 && errno == EINTR && seen[SIGUSR1] == 101);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static volatile sig_atomic_t is_blocked;
static void look_at_mask(int number)
{
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    is_blocked = (sigismember(&now, number) ? 1 : 0) | (sigismember(&now, SIGUSR2) ? 2 : 0) |
                 (sigismember(&now, SIGHUP) ? 4 : 0);
}

static void masks_in_handlers(void)
{
    struct sigaction action = {.sa_handler = look_at_mask};
    sigaddset(&action.sa_mask, SIGUSR2);
    assert(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0 && is_blocked == 3);
    action.sa_flags = SA_NODEFER;
    assert(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0 && is_blocked == 2);
    action.sa_flags = SA_RESETHAND;
    assert(sigaction(SIGUSR1, &action, NULL) == 0 && raise(SIGUSR1) == 0);
    assert(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);
    assert(signal(SIGUSR1, SIG_DFL) == SIG_IGN);
}

static void timer(void)
{
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    handle(SIGALRM, SA_RESTART, 0);
    seen[SIGALRM] = 0;
    setitimer(ITIMER_REAL, &often, NULL);
    while (seen[SIGALRM] < 100)
        usleep(100000);
    setitimer(ITIMER_REAL, &never, NULL);
}

static void alternate_stack(void)
{
    static char room[64 * 1024];
    stack_t stack = {.ss_sp = room, .ss_size = sizeof(room)}, none = {.ss_flags = SS_DISABLE};
    assert(sigaltstack(&stack, NULL) == 0);
    handle(SIGUSR1, SA_ONSTACK, 0);
    seen[SIGUSR1] = 0;
    raise(SIGUSR1);
    assert(seen[SIGUSR1] == 1 && sigaltstack(&none, NULL) == 0);
}

static sigjmp_buf back;
static int *volatile nowhere; /* NULL */
static void leave(int number)
{
    siglongjmp(back, number);
}

/* SIGSEGV of the program's own, out of its handler. */
static void own_fault(void)
{
    for (volatile int i = 0; i < 10; i++) {
        struct sigaction action = {.sa_handler = leave}, before;
        assert(sigaction(SIGSEGV, &action, &before) == 0);
        if (sigsetjmp(back, 1) == 0)
            *nowhere = 1;
        globals[1]++; /* may write to its own */
        assert(sigaction(SIGSEGV, &before, NULL) == 0);
    }
}

static void *in_thread(void *argument)
{
    sigset_t set;
    int here[1000];
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    for (int i = 0; i < 100; i++) {
        here[i] = i;
        char *block = malloc(1000 + 100 * (size_t)i);
        memset(block, i, 1000);
        pthread_kill(pthread_self(), SIGUSR1);
        free(block);
    }
    *(int *)argument = here[99];
    return NULL;
}

static void threads(void)
{
    pthread_t all[4];
    int results[4] = {0};
    handle(SIGUSR1, 0, 0);
    for (int i = 0; i < 4; i++)
        assert(pthread_create(&all[i], NULL, in_thread, &results[i]) == 0);
    for (int i = 0; i < 4; i++)
        assert(pthread_join(all[i], NULL) == 0 && results[i] == 99);
}

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void cancelled(void)
{
    pthread_t thread;
    assert(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    usleep(20000);
    assert(pthread_cancel(thread) == 0 && pthread_join(thread, NULL) == 0);
}

static void forked(void)
{
    handle(SIGCHLD, SA_RESTART, 0);
    seen[SIGCHLD] = 0;
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        if (child == 0) {
            handle(SIGUSR1, 0, 0);
            seen[SIGUSR1] = 0;
            raise(SIGUSR1);
            globals[900] = 7;
            char *block = malloc(1 << 20);
            memset(block, 1, 1 << 20);
            _exit(seen[SIGUSR1] == 1 ? 17 : 1);
        }
        int status;
        assert(waitpid(child, &status, 0) == child && WIFEXITED(status) &&
               WEXITSTATUS(status) == 17);
    }
    assert(seen[SIGCHLD] > 0 && globals[900] == 0);
    signal(SIGCHLD, SIG_DFL);
}

static void spawned(void)
{
    char *argv[] = {"sh", "-c", "trap 'exit 5' USR1; kill -USR1 $$; exit 1", NULL};
    pid_t child;
    int status;
    assert(posix_spawn(&child, "/bin/sh", NULL, NULL, argv, environ) == 0);
    assert(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    assert(system("exit 3") == 3 << 8);
}

static void memory(void)
{
    char *blocks[200];
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 200; i++) {
            blocks[i] = malloc(1000u << i % 12);
            memset(blocks[i], i, 1000u << i % 12);
        }
        for (int i = 0; i < 200; i++)
            blocks[i] = realloc(blocks[i], 3000u << i % 12);
        for (int i = 0; i < 200; i++) {
            assert(blocks[i][999] == (char)i);
            free(blocks[i]);
        }
    }
    char *pages = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(mprotect(pages, 1 << 19, PROT_READ | PROT_WRITE) == 0);
    memset(pages, 1, 1 << 19);
    pages = mremap(pages, 1 << 19, 1 << 22, MREMAP_MAYMOVE);
    assert(pages != MAP_FAILED && mprotect(pages, 1 << 22, PROT_READ | PROT_WRITE) == 0);
    memset(pages, 1, 1 << 22);
    assert(munmap(pages, 1 << 22) == 0);
    char *low = sbrk(1 << 20); /* musl has none */
    if (low == (char *)-1)
        return;
    memset(low, 3, 1 << 20);
    assert(mprotect((char *)((uintptr_t)low & -4096ul) + 8192, 4096, PROT_READ) == 0);
    sbrk(-(1 << 20));
    low = sbrk(1 << 20);
    for (int i = 0; i < 1 << 20; i++)
        assert(low[i] == 0 || i < 4096);
    memset(low, 3, 1 << 20);
}

/* A kernel copy into its own memory. */
static void input(void)
{
    int pair[2];
    static char buffer[100000];
    assert(pipe(pair) == 0 && write(pair[1], "hello", 5) == 5 && read(pair[0], buffer, 100) == 5);
    FILE *file = fopen("/proc/self/status", "r");
    assert(file && fread(buffer, 1, sizeof(buffer), file) > 100);
    fclose(file);
    struct iovec to = {globals, 16}, from = {buffer, 16};
    assert(process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 16);
}

/* Keys are left for programs that use them. */
static void keys(void)
{
#ifdef __GLIBC__
    int key = pkey_alloc(0, PKEY_DISABLE_WRITE);
    if (key < 0) {
        printf("(none left) ");
        return;
    }
    int *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(pkey_mprotect(page, 4096, PROT_READ | PROT_WRITE, key) == 0);
    struct sigaction action = {.sa_handler = leave}, before;
    assert(sigaction(SIGSEGV, &action, &before) == 0);
    if (sigsetjmp(back, 1) == 0) {
        *(volatile int *)page = 1;
        assert(0);
    }
    assert(sigaction(SIGSEGV, &before, NULL) == 0);
    assert(pkey_set(key, 0) == 0);
    *page = 1;
    globals[5] = *page;
    assert(munmap(page, 4096) == 0 && pkey_free(key) == 0);
#endif
}

static void many_times(void)
{
    for (int i = 0; i < 2000; i++)
        raise(SIGUSR1);
}

/* clang-format off */
#define TESTS(RUN)                                                                                 \
    RUN(signals)                                                                                   \
    RUN(both_at_once) RUN(masks_in_handlers) RUN(timer) RUN(alternate_stack) RUN(own_fault)        \
        RUN(threads) RUN(cancelled) RUN(many_times) RUN(forked) RUN(spawned) RUN(memory)           \
            RUN(input) RUN(keys)
/* clang-format on */

#define ROW(name) {#name, name},
static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {TESTS(ROW)};

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
        if (argc > 1 && strcmp(argv[1], tests[i].name) != 0)
            continue;
        tests[i].run();
        printf("%s: ok\n", tests[i].name);
    }
    return 0;
}
