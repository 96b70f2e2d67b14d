/* bench/call/call.c: a function of another task, called by several methods: see run.
 *
 *   call                   the root: starts the callee and the calling task, and measures itself
 *   call callee            serves calls, and answers requests with a thread of its own
 *   call caller CALLEE     measures as a task
 *
 * Prints "METHOD X SECONDS": per call, X is 1 for the empty function, 2 for malloc, snprintf
 * and free. Each method runs batches of at least BATCH_SECONDS. */
#include <onespace/call.h>

#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "../lib/bench.h"

enum { FUNCTIONS = 2, TIMEOUT_MS = 20000 };
static double batch_seconds = 0.02;

/* The callee exports one. */
struct service {
    onespace_call_function *functions[FUNCTIONS];
    /* Requests to its own thread. `request` counts them: by the caller, with release; read by the
     * callee, which copies it to `reply` with release when it has answered. Each has a cache line
     * of its own. */
    _Alignas(128) _Atomic uint32_t request;
    uint32_t function, sleeps; /* of the request; sleeps: wait for the next one by a futex */
    _Alignas(128) _Atomic uint32_t reply;
};

/* Not inlined, and not known to be empty. */
static __attribute__((noinline)) intptr_t empty(void *argument)
{
    __asm__ volatile("" : "+r"(argument));
    return (intptr_t)argument;
}

static intptr_t allocate(void *argument)
{
    char *text = malloc(64);
    intptr_t length = snprintf(text, 64, "step %d", (int)(intptr_t)argument);
    free(text);
    return length;
}

static void check(const char *what, int result)
{
    if (result < 0)
        bench_fail(what, strerror(-result));
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* ---- The callee ---- */

static int serve(void)
{
    static struct service service = {.functions = {empty, allocate}, .sleeps = 1};
    if (onespace_call_serve() < 0)
        bench_fail("onespace_call_serve", onespace_call_message());
    check("export", onespace_export("service", &service, sizeof(service)));
    for (uint32_t seen = 0;; seen++) {
        while (atomic_load_explicit(&service.request, memory_order_acquire) == seen)
            if (service.sleeps)
                futex(&service.request, FUTEX_WAIT, seen);
            else
                bench_relax();
        service.functions[service.function](NULL);
        atomic_store_explicit(&service.reply, seen + 1, memory_order_release);
        if (service.sleeps)
            futex(&service.reply, FUTEX_WAKE, 1);
    }
}

/* ---- Methods ---- */

struct side {
    int callee;
    struct service *service;
};
typedef void method(const struct side *side, unsigned function);

static void by_own_function(const struct side *side, unsigned function)
{
    static onespace_call_function *const volatile own[FUNCTIONS] = {empty, allocate};
    (void)side;
    own[function](NULL);
}

static void by_call(const struct side *side, unsigned function)
{
    if (onespace_call(side->callee, side->service->functions[function], NULL, NULL) < 0)
        bench_fail("onespace_call", onespace_call_message());
}

static void request(struct service *service, unsigned function, unsigned sleeps)
{
    uint32_t next = atomic_load_explicit(&service->request, memory_order_relaxed) + 1;
    unsigned slept = service->sleeps;
    service->function = function;
    service->sleeps = sleeps;
    atomic_store_explicit(&service->request, next, memory_order_release);
    if (sleeps || slept)
        futex(&service->request, FUTEX_WAKE, 1);
    while (atomic_load_explicit(&service->reply, memory_order_acquire) != next)
        if (sleeps)
            futex(&service->reply, FUTEX_WAIT, next - 1);
        else
            bench_relax();
}

static void by_spinning_thread(const struct side *side, unsigned function)
{
    request(side->service, function, 0);
}

static void by_sleeping_thread(const struct side *side, unsigned function)
{
    request(side->service, function, 1);
}

static void measure(const char *name, const struct side *side, method *call_once)
{
    for (unsigned function = 0; function < FUNCTIONS; function++) {
        long count = 0;
        call_once(side, function);
        double began = seconds_now(), now;
        do {
            for (int i = 0; i < 200; i++)
                call_once(side, function);
            count += 200;
        } while ((now = seconds_now()) - began < batch_seconds);
        bench_print(name, function + 1, (now - began) / (double)count);
    }
    fflush(stdout);
}

static struct side find(int callee)
{
    void *service;
    check("import", onespace_import(callee, "service", &service, NULL, TIMEOUT_MS));
    return (struct side){callee, service};
}

static int call_as_task(int callee)
{
    struct side side = find(callee);
    measure("own", &side, by_own_function);
    measure("task", &side, by_call);
    return 0;
}

/* ---- The root ---- */

static int start(char *program, char *role, const char *argument, int cpu)
{
    char text[16];
    cpu_set_t cpus;
    snprintf(text, sizeof(text), "%s", argument);
    char *words[] = {program, role, text, NULL};
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    attr.cpus = &cpus;
    attr.cpus_size = sizeof(cpus);
    int task = onespace_spawn(program, words, NULL, &attr);
    check(role, task);
    return task;
}

int main(int argc, char **argv)
{
    const char *given = getenv("BATCH_SECONDS");
    batch_seconds = given ? atof(given) : batch_seconds;
    if (argc > 1 && strcmp(argv[1], "callee") == 0)
        return serve();
    if (argc > 1)
        return call_as_task(atoi(argv[2]));
    int cpu = bench_cpu(0), other = bench_cpu(1);
    bench_bind(cpu);
    check("onespace_init", onespace_init());
    char id[16];
    int callee = start(argv[0], "callee", "", other);
    struct onespace_status status = {.status = 1};
    struct side side = find(callee);
    snprintf(id, sizeof(id), "%d", callee);
    check("wait", onespace_wait(start(argv[0], "caller", id, cpu), &status, -1));
    measure("root", &side, by_call);
    if (other != cpu)
        measure("spinning", &side, by_spinning_thread);
    measure("sleeping", &side, by_sleeping_thread);
    check("kill", onespace_kill(callee, SIGKILL));
    check("wait", onespace_wait(callee, NULL, -1));
    return status.status != 0;
}
