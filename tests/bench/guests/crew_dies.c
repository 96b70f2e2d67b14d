/* tests/bench/guests/crew_dies.c: a crew (bench/lib/crew.h) of three; one is killed before they
 * meet.
 *
 * usage: crew_dies tasks|processes worker|leader */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crew.h"

struct block {
    struct crew crew;
    int victim;
};

void crew_work(int number, struct crew *crew)
{
    const struct block *block = (const struct block *)crew;
    if (number == 1)
        kill(block->victim ? block->victim : getpid(), SIGKILL);
    crew_barrier(crew);
}

int main(int argc, char **argv)
{
    crew_enter(argc, argv);
    struct block *block = crew_block(sizeof(*block));
    if (argc != 3)
        return 2;
    block->victim = strcmp(argv[2], "leader") == 0 ? getpid() : 0;
    crew_start(crew_kind_of(argv[1]), 3, &block->crew);
    crew_barrier(&block->crew);
    puts("met");
    crew_end();
    return 0;
}
