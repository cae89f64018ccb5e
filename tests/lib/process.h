/*
 * process.h - how many threads and descriptors this process has.
 */
#ifndef SIMBA_TEST_PROCESS_H
#define SIMBA_TEST_PROCESS_H

/* Both return -1 when the kernel does not tell. A thread that was joined is not counted, although
 * the kernel may list it for a moment more. */
int test_thread_count(void);
int test_descriptor_count(void);

#endif
