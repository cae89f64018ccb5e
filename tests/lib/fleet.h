/*
 * fleet.h - two processes on the mutex `m`: contenders of ours in this one, those of the JVM
 * library in the other, each on a thread of its own. Those of the JVM are stand-ins, which a
 * store's test brings.
 */
#ifndef SIMBA_TEST_LIB_FLEET_H
#define SIMBA_TEST_LIB_FLEET_H

struct fleet_stand_in;

struct fleet {
    const char *url; /* of the clients of ours */
    int size;        /* contenders of each kind */
    int ms;          /* how long they compete */
    int term_ms;
    int pause_ms; /* between two terms of a contender */

    struct fleet_stand_in *(*open)(const char *id);
    void (*acquire)(struct fleet_stand_in *stand_in); /* waits; on its thread, like the next */
    void (*release)(struct fleet_stand_in *stand_in);
    void (*close)(struct fleet_stand_in *stand_in);
};

/* Runs it, and fails the test if two owned at a time, or if one kind had more than twice the terms
 * of the other. */
void fleet_run(const struct fleet *fleet);

#endif
