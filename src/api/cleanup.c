/*
 * cleanup.c - what SIMBA_SCOPED calls when a scope ends.
 */
#include <simba/simba.h>

void simba_client_cleanup(simba_client **client)
{
    simba_client_close(*client, NULL);
}

void simba_contender_cleanup(simba_contender **contender)
{
    simba_contender_close(*contender);
}

void simba_locker_cleanup(simba_locker **locker)
{
    simba_locker_close(*locker);
}

void simba_observer_cleanup(simba_observer **observer)
{
    simba_observer_close(*observer);
}

void simba_scheduler_cleanup(simba_scheduler **scheduler)
{
    simba_scheduler_close(*scheduler);
}
