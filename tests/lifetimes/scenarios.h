/*
 * scenarios.h - the rounds of the stress program. Each plays one, and ends the process where a rule
 * is broken.
 */
#ifndef SIMBA_LIFETIMES_SCENARIOS_H
#define SIMBA_LIFETIMES_SCENARIOS_H

void play_stops(void);         /* nothing begins after a stop, callbacks alternate */
void play_losses(void);        /* nothing begins for a term that is over */
void play_starts(void);        /* a callback closes what is being started */
void play_closes(void);        /* from callbacks and from outside, under short stop timeouts */
void play_pools(void);         /* the same on an executor with threads */
void play_single_thread(void); /* an executor without threads of its own */
void play_cancels(void);       /* lockers */
void play_forks(void);         /* from callbacks and from outside */

#endif
