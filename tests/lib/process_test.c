/*
 * process_test.c - a thread is counted as long as it runs, and no longer.
 */
#include "process.h"
#include "test.h"

#include <pthread.h>
#include <semaphore.h>

#define ROUNDS 2000 /* of which the kernel lists some dozen threads after they were joined */

struct guest {
    pthread_t thread;
    sem_t leave;
};

static void *stay(void *user)
{
    struct guest *guest = user;

    sem_wait(&guest->leave);
    return NULL;
}

static void guest_begin(struct guest *guest)
{
    sem_init(&guest->leave, 0, 0);
    assert_int_equal(pthread_create(&guest->thread, NULL, stay, guest), 0);
}

static void guest_end(struct guest *guest)
{
    sem_post(&guest->leave);
    pthread_join(guest->thread, NULL);
    sem_destroy(&guest->leave);
}

static void a_thread_counts_until_it_is_joined(void **state)
{
    struct guest guest;
    int alone;

    guest_begin(&guest); /* a sanitizer adds a thread of its own with the first one */
    guest_end(&guest);
    alone = test_thread_count();
    for (int i = 0; i < ROUNDS; i++) {
        guest_begin(&guest);
        assert_int_equal(test_thread_count(), alone + 1);
        guest_end(&guest);
        assert_int_equal(test_thread_count(), alone);
    }
}

static void a_descriptor_counts_until_it_is_closed(void **state)
{
    int before = test_descriptor_count();
    int fd = dup(STDIN_FILENO);

    assert_int_equal(test_descriptor_count(), before + 1);
    close(fd);
    assert_int_equal(test_descriptor_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_counts_until_it_is_joined),
        cmocka_unit_test(a_descriptor_counts_until_it_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
