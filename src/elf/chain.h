/* src/elf/chain.h: the chain from a name through #! lines to an ELF file. resolve.c follows it,
 * chain.c reads and checks the ELF file at its end. */
#ifndef ONESPACE_ELF_CHAIN_H
#define ONESPACE_ELF_CHAIN_H

#include "elf/internal.h"

struct elf_chain { /* one candidate on its way through #! lines */
    int dirfd;
    const char *path;
    bool opened; /* the candidate itself exists: an ENOENT is about something else */
    unsigned depth;
    char current[PATH_MAX]; /* the file that is looked at now */
    char **argv;            /* owned; as it stands for `current` */
    struct elf_problem *problem;
};

/* The end of the chain: an ELF file at fd. Reads it and its interpreter, and refuses what cannot be
 * a task. 0, and then chain->argv belongs to the program, or -errno. */
int elf_finish_chain(struct elf_chain *chain, int fd, struct elf_program *program);

/* A vector of `count` strings and then those of `rest`, in one allocation; NULL without memory. */
char **elf_compose_vector(const char *const head[], size_t count, char *const rest[]);

int elf_refuse_memory(struct elf_problem *problem);

#endif
