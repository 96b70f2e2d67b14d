/* tests/pip/guests/pip_guest.c: a PiP task. Its exit status is what the scene says, mostly an error
 * number. */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/scene.h"
#include "../shared.h"

__attribute__((visibility("default"))) int number_of_the_task = 4711;
static int in_constructor = -1;

__attribute__((constructor)) static void look_early(void)
{
    in_constructor = pip_is_initialized();
}

static struct shared *shared_memory(void)
{
    struct shared *shared = NULL;
    void *exported = NULL;
    if (pip_init(NULL, NULL, &exported, 0) == 0)
        shared = exported;
    return shared;
}

/* Started in place of main. */
__attribute__((used)) static int begin(void *argument)
{
    int pipid = -1;
    if (pip_get_pipid(&pipid) != 0)
        return 100;
    *(int *)argument = pipid;
    return 40 + pipid;
}

SCENE(exit)
{
    pip_exit(argc > 1 ? atoi(argv[1]) : 0);
}

SCENE(quick_exit)
{
    _exit(argc > 1 ? atoi(argv[1]) : 0);
}

SCENE(returns)
{
    return argc > 1 ? atoi(argv[1]) : 0;
}

SCENE(fin_exit)
{
    return pip_fin() == 0 ? play_exit(argc, argv) : 100;
}

SCENE(fin_return)
{
    return pip_fin() == 0 ? play_returns(argc, argv) : 100;
}

SCENE(fin_quick_exit)
{
    return pip_fin() == 0 ? play_quick_exit(argc, argv) : 100;
}

/* That everything is there without pip_init, and what it says. */
SCENE(questions)
{
    int pipid = -1, ntasks = 0, mode = 0, flag = 9;
    pip_id_t id = 0;
    if (in_constructor != 1 || !pip_is_initialized() || pip_isa_root() || !pip_isa_task())
        return 1;
    if (pip_get_pipid(&pipid) || pipid != atoi(argv[1]) || pip_get_pipid(NULL))
        return 2;
    if (pip_get_ntasks(&ntasks) || ntasks != 8 || pip_get_mode(&mode) ||
        mode != PIP_MODE_PROCESS_PRELOAD || strcmp(pip_get_mode_str(), "process:preload") != 0)
        return 3;
    if (pip_is_threaded(&flag) || flag || pip_is_shared_fd(&flag) || flag)
        return 4;
    if (pip_get_system_id(PIP_PIPID_MYSELF, &id) || id != (pip_id_t)getpid())
        return 5;
    int again = -1;
    if (pip_init(&again, &ntasks, NULL, 0) || again != pipid || ntasks != 8)
        return 6;
    return argc - 2;
}

/* Functions for the root alone. */
SCENE(refusals)
{
    int pipid = PIP_PIPID_ANY, status;
    pip_spawn_program_t program;
    pip_spawn_from_main(&program, argv[0], argv, NULL, NULL);
    if (pip_spawn(argv[0], argv, NULL, PIP_CPUCORE_ASIS, &pipid, NULL, NULL, NULL) != EPERM ||
        pip_task_spawn(&program, PIP_CPUCORE_ASIS, 0, &pipid, NULL) != EPERM)
        return 1;
    if (pip_wait(0, &status) != EPERM || pip_trywait(0, &status) != EPERM ||
        pip_wait_any(&pipid, &status) != EPERM || pip_trywait_any(&pipid, &status) != EPERM)
        return 2;
    return pip_kill_all_child_tasks() == EPERM ? 0 : 3;
}

/* After pip_fin, and in a forked child, nothing works, and nothing crashes. */
static int all_refused(void)
{
    int number = 0;
    void *address;
    pip_barrier_t barrier = {0};
    pip_mutex_t mutex = {0};
    sigset_t set;
    sigemptyset(&set);
    return pip_fin() == EPERM && pip_get_pipid(&number) == EPERM &&
           pip_get_ntasks(&number) == EPERM && pip_get_mode(&number) == EPERM &&
           pip_get_mode_str() == NULL && pip_is_threaded(&number) == EPERM &&
           pip_get_system_id(0, NULL) == EPERM && pip_named_export(&number, "x") == EPERM &&
           pip_named_import(0, &address, "x") == EPERM &&
           pip_named_tryimport(0, &address, "x") == EPERM && pip_export(&number) == EPERM &&
           pip_import(0, &address) == EPERM && pip_set_aux(NULL) == EPERM &&
           pip_get_aux(&address) == EPERM && pip_get_addr(0, "x", &address) == EPERM &&
           pip_kill(0, 0) == EPERM && pip_sigmask(SIG_BLOCK, &set, NULL) == EPERM &&
           pip_signal_wait(SIGUSR1) == EPERM && pip_yield(0) == EPERM &&
           pip_barrier_init(&barrier, 1) == EPERM && pip_barrier_wait(&barrier) == EPERM &&
           pip_barrier_fin(&barrier) == EPERM && pip_mutex_init(&mutex) == EPERM &&
           pip_mutex_lock(&mutex) == EPERM && pip_mutex_unlock(&mutex) == EPERM &&
           pip_mutex_fin(&mutex) == EPERM && !pip_is_initialized() && !pip_isa_task() &&
           !pip_isa_root();
}

SCENE(fin)
{
    int pipid = -1;
    if (pip_fin() != 0)
        return 1;
    if (!all_refused())
        return 2;
    return pip_init(&pipid, NULL, NULL, 0) == 0 && pipid == 0 && pip_is_initialized() ? 0 : 3;
}

SCENE(fork)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(!all_refused() + 2 * (pip_init(NULL, NULL, NULL, 0) != EPERM));
    if (waitpid(child, &status, 0) != child || status != 0)
        return 1;
    return pip_is_initialized() ? 0 : 2;
}

SCENE(set_number)
{
    number_of_the_task = atoi(argv[1]);
    return 0;
}

/* look-up PIPID SYMBOL VALUE */
SCENE(look_up)
{
    void *number;
    int error = pip_get_addr(atoi(argv[1]), argv[2], &number);
    return error ? error : *(int *)number != atoi(argv[3]);
}

/* Exports its number under a name, then does what the third word says. */
SCENE(export)
{
    void *go;
    int error = pip_named_export(&number_of_the_task, "%s", argv[1]);
    if (error || argc < 3)
        return error;
    if (strcmp(argv[2], "exec") == 0)
        execlp("sleep", "sleep", "600", (char *)NULL);
    if (strcmp(argv[2], "wait") == 0)
        return pip_named_import(PIP_PIPID_ROOT, &go, "go");
    return 0;
}

SCENE(import)
{
    void *address = NULL;
    int error = pip_named_import(atoi(argv[1]), &address, "%s", argv[2]);
    return error ? error : argc > 3 && *(int *)address != atoi(argv[3]) ? 120 : 0;
}

/* Results of an export and of an import of names. */
SCENE(names)
{
    char name[200];
    void *address = NULL;
    int number = 1;
    if (pip_named_export(&number, "a%d", 1) || pip_named_export(&number, "a1") != EBUSY)
        return 1;
    if (pip_named_export(&number, NULL) || pip_named_tryimport(PIP_PIPID_SELF, &address, NULL) ||
        address != &number) /* the empty name */
        return 2;
    memset(name, 'n', sizeof(name));
    name[91] = 0;
    if (pip_named_export(&number, "%s", name) ||
        pip_named_import(PIP_PIPID_MYSELF, NULL, "%s", name))
        return 3;
    name[91] = 'n', name[199] = 0;
    if (pip_named_export(&number, "%s", name) != ENAMETOOLONG ||
        pip_named_import(PIP_PIPID_ROOT, &address, "%s", name) != ENAMETOOLONG)
        return 4;
    if (pip_named_import(PIP_PIPID_SELF, &address, "missing") != EDEADLK ||
        pip_named_tryimport(PIP_PIPID_SELF, &address, "missing") != EAGAIN ||
        pip_named_tryimport(PIP_PIPID_ROOT, &address, "missing") != EAGAIN ||
        pip_named_tryimport(7, &address, "of one that is not spawned") != EAGAIN)
        return 5;
    for (int *bad = (int[]){PIP_PIPID_ANY, PIP_PIPID_NULL, 0}; *bad; bad++)
        if (pip_named_import(*bad, &address, "x") != EINVAL || pip_kill(*bad, 0) != EINVAL ||
            pip_import(*bad, &address) != EINVAL)
            return 6;
    for (int *bad = (int[]){-1, 8, INT32_MAX, INT32_MIN, -12345, 0}; *bad; bad++)
        if (pip_named_import(*bad, &address, "x") != ERANGE || pip_kill(*bad, 0) != ERANGE ||
            pip_import(*bad, &address) != ERANGE ||
            pip_get_addr(*bad, "main", &address) != ERANGE ||
            pip_get_system_id(*bad, NULL) != ERANGE)
            return 7;
    return 0;
}

SCENE(export_many)
{
    static int values[10000];
    int *found;
    for (int i = 0; i < 10000; i++) {
        values[i] = i;
        if (pip_named_export(&values[i], "value %d", i) != 0)
            return 1;
    }
    for (int i = 9999; i >= 0; i--)
        if (pip_named_import(PIP_PIPID_SELF, (void **)&found, "value %d", i) != 0 || *found != i)
            return 2;
    return 0;
}

/* More imports from the root, and more beginnings, than a member may have holds. */
SCENE(import_often)
{
    void *address;
    int pipid = 0, error = 0;
    for (int i = 0; !error && i < 66000; i++)
        error = pip_named_import(PIP_PIPID_ROOT, &address, "often");
    for (int i = 0; !error && i < 66000; i++)
        if ((error = pip_fin()) == 0)
            error = pip_init(&pipid, NULL, NULL, 0);
    return error;
}

/* Fills the space with names. */
SCENE(export_all)
{
    static char byte;
    int error = 0;
    for (int i = 0; !error && i < 20000; i++)
        error = pip_named_export(&byte, "%d", i);
    return error;
}

SCENE(aux)
{
    void *aux = NULL;
    if (pip_get_aux(&aux) || pip_get_aux(NULL) || *(int *)aux != 77)
        return 1;
    return pip_set_aux(&number_of_the_task) || pip_get_aux(&aux) || aux != &number_of_the_task;
}

/* One address without a name: the root reads it, and the task reads the root's. */
SCENE(plain_export)
{
    struct shared *shared = shared_memory();
    void *address = NULL;
    if (pip_export(NULL) != EINVAL || pip_export(&number_of_the_task) ||
        pip_export(&number_of_the_task) != EBUSY)
        return 1;
    if (pip_import(PIP_PIPID_ROOT, &address) || address != shared)
        return 2;
    shared->go = 1;
    return pip_named_import(PIP_PIPID_ROOT, &address, "go");
}

SCENE(barrier)
{
    struct shared *shared = shared_memory();
    int rounds = atoi(argv[1]);
    for (int i = 0; i < rounds; i++) {
        __atomic_add_fetch(&shared->counter, 1, __ATOMIC_RELAXED);
        if (pip_barrier_wait(&shared->barrier))
            return 1;
        if (shared->counter != (i + 1) * shared->barrier.count_init)
            shared->errors = 1;
        if (pip_barrier_wait(&shared->barrier))
            return 2;
    }
    return 0;
}

SCENE(mutex)
{
    struct shared *shared = shared_memory();
    int rounds = atoi(argv[1]);
    for (int i = 0; i < rounds; i++) {
        if (pip_mutex_lock(&shared->mutex))
            return 1;
        int seen = shared->counter;
        if (i % 64 == 0)
            pip_yield(0);
        shared->counter = seen + 1;
        if (pip_mutex_unlock(&shared->mutex))
            return 2;
    }
    return 0;
}

/* [execute]: keeps the mutex, also when it executes another program. */
SCENE(die_with_mutex)
{
    struct shared *shared = shared_memory();
    if (pip_mutex_lock(&shared->mutex))
        return 1;
    shared->go = 1;
    if (argc > 1)
        execlp("sleep", "sleep", "600", (char *)NULL);
    while (pause() != 0) /* it never gives 0 */
        ;
    return 1;
}

/* Waits for SIGUSR1, says so, and waits for SIGUSR2. */
SCENE(signals)
{
    struct shared *shared = shared_memory();
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    if (pip_sigmask(SIG_BLOCK, &set, &old) || sigismember(&old, SIGUSR1) ||
        pip_sigmask(-1, &set, NULL) != EINVAL || pip_signal_wait(12345) != EINVAL)
        return 1;
    shared->go = 1;
    if (pip_signal_wait(SIGUSR1))
        return 2;
    shared->go = 2;
    return pip_signal_wait(SIGUSR2) ? 3 : 0;
}

/* All signals are blocked from the start. */
SCENE(thread_signals)
{
    struct shared *shared = shared_memory();
    shared->go = 1;
    return pip_signal_wait(SIGUSR1);
}

SCENE(kill_self)
{
    return pip_kill(PIP_PIPID_MYSELF, atoi(argv[1]));
}

SCENE(abort)
{
    pip_abort();
}

SCENE(pause)
{
    while (pause() != 0) /* it never gives 0 */
        ;
    return 1;
}

/* A block for the root to free, and one of the root's to free here. */
SCENE(free)
{
    struct shared *shared = shared_memory();
    void *address;
    pip_free(shared->pointer);
    char *block = pip_malloc(1000);
    memset(block, 7, 1000);
    shared->pointer = block;
    shared->go = 1;
    int error = pip_named_import(PIP_PIPID_ROOT, &address, "freed");
    pip_free(pip_realloc(pip_calloc(10, 10), 200)); /* takes the block back */
    return error;
}

SCENE(plain_init)
{
    return pip_init(NULL, NULL, NULL, 0);
}

/* A task of the native interface is a PiP root with a task of its own. */
SCENE(nested_root)
{
    int pipid = 0, ntasks = 1, status = -1;
    char *words[] = {argv[-1], (char *)(uintptr_t) "exit", (char *)(uintptr_t) "6", NULL};
    if (pip_init(&pipid, &ntasks, NULL, 0) || pipid != PIP_PIPID_ROOT || !pip_isa_root())
        return 1;
    pipid = PIP_PIPID_ANY;
    if (pip_spawn(words[0], words, NULL, PIP_CPUCORE_ASIS, &pipid, NULL, NULL, NULL))
        return 2;
    if (pip_wait(pipid, &status) || WEXITSTATUS(status) != 6)
        return 3;
    return pip_fin();
}

int main(int argc, char **argv)
{
    return play_scene(argc, argv);
}
