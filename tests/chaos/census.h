/*
 * census.h - how many threads and descriptors this process has.
 */
#ifndef SIMBA_CHAOS_CENSUS_H
#define SIMBA_CHAOS_CENSUS_H

struct census {
    int threads;
    int descriptors;
};

struct census census_take(void);

/* Writes into the journal what each open descriptor is. */
void census_tell_descriptors(void);

#endif
