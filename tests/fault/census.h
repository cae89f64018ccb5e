/*
 * census.h - what the process has, to see that it is the same afterwards.
 */
#ifndef SIMBA_FAULT_CENSUS_H
#define SIMBA_FAULT_CENSUS_H

struct census {
    long blocks; /* of the library, where its hook is set (heap.h) */
    int threads;
    int descriptors;
};

struct census census_take(void);

/* Fails the test with `occasion` when the process has more or less than `before`. */
void census_check(const struct census *before, const char *occasion);

#endif
