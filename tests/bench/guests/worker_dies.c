/* tests/bench/guests/worker_dies.c: a workers (bench/lib/workers.h) of three; one is killed before
 * they meet.
 *
 * usage: worker_dies tasks|processes worker|leader */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "workers.h"

struct block {
    struct workers workers;
    int victim;
};

void worker_run(int number, struct workers *workers)
{
    const struct block *block = (const struct block *)workers;
    if (number == 1)
        kill(block->victim ? block->victim : getpid(), SIGKILL);
    workers_barrier(workers);
}

int main(int argc, char **argv)
{
    workers_enter(argc, argv);
    struct block *block = workers_allocate(sizeof(*block));
    if (argc != 3)
        return 2;
    block->victim = strcmp(argv[2], "leader") == 0 ? getpid() : 0;
    workers_start(worker_kind_by_name(argv[1]), 3, &block->workers);
    workers_barrier(&block->workers);
    puts("met");
    workers_join();
    return 0;
}
