/*
 * census.h - what the process has, to see that it is the same afterwards.
 */
#ifndef SIMBA_FAULT_CENSUS_H
#define SIMBA_FAULT_CENSUS_H

struct census {
    long blocks; /* of the library, where its hook is set (heap.h) */
    unsigned threads;
    unsigned descriptors;
};

struct census census_take(void);

/* Waits until the process has what it had, because the kernel may list a thread for a moment after it
 * was joined; fails the test with `occasion` when that does not come. */
void census_check(const struct census *before, const char *occasion);

#endif
