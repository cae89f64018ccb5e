/*
 * find.h - which node is the first, which contender leads, and what an operation does with that.
 *
 * For a job with a latch that the list does not show sb_zk_find_decide calls job->missing; for one
 * that it shows job->found, which goes on with sb_zk_find_place; and when the leader is known
 * job->led, which returns whether it has taken the job over.
 */
#ifndef SB_ZK_FIND_H
#define SB_ZK_FIND_H

#include "backend/zookeeper/ops/job.h"

/* find.c */
void sb_zk_find(struct sb_zk_job *job);        /* sync and list, then decide */
void sb_zk_find_decide(struct sb_zk_job *job); /* the list is known */
void sb_zk_find_place(struct sb_zk_job *job);  /* mine is in the list: first, or behind others */

/* succession.c: the watches of the job's latch and mutex, before the nodes of the list are read and
 * when they were */
void sb_zk_succession_begin(struct sb_zk_job *job);
void sb_zk_succession_fail(struct sb_zk_job *job); /* they could not be read */
void sb_zk_succession_note(
    struct sb_zk_job *job); /* they were, and another node comes before mine */

/* Whether the latch is known to be the first without a list; then it is answered so. */
bool sb_zk_succession_is_due(const struct sb_zk_job *job);
void sb_zk_succession_take(struct sb_zk_job *job);

/* Whether the leader is the one before mine. */
bool sb_zk_succession_is_second(const struct sb_zk_job *job);
bool sb_zk_job_is_waiting(const struct sb_zk_job *job); /* in the queue, for an ACQUIRE */

#endif
