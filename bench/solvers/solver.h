/* bench/solvers/solver.h: what solver.c times. */
#ifndef BENCH_SOLVER_H
#define BENCH_SOLVER_H

struct solver {
    const char *name;
    int iterations; /* after so many it begins again */
    /* Makes a problem with so many points along an edge; no more ranks than that. */
    void (*make)(int points, int rank, int ranks);
    void (*begin)(void);
    void (*iterate)(void);
    double (*result)(void); /* one number, on all ranks */
    void (*free)(void);
};

extern const struct solver solver;

#endif
