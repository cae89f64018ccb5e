/*
 * dns_test.c - names that take long to look up. The program's own getaddrinfo stands before the C
 * library's.
 */
#include "lib/locker.h"
#include "server.h"

#include <simba/simba.h>

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>

#define SLOW_MS 3000

static atomic_bool slow;
static atomic_int lookups; /* that were slow */

typedef int lookup(const char *name, const char *service, const struct addrinfo *hints,
                   struct addrinfo **result);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                struct addrinfo **result)
{
    static const char host[] = "127.0.0.1";
    void *next = dlsym(RTLD_NEXT, "getaddrinfo");
    lookup *real;

    memcpy(&real, &next, sizeof real);
    if (name == NULL || strcmp(name, "dbhost") != 0)
        return real(name, service, hints, result);
    if (atomic_load(&slow)) {
        atomic_fetch_add(&lookups, 1);
        test_pause_ms(SLOW_MS);
        return EAI_AGAIN;
    }
    return real(host, service, hints, result);
}

static simba_client *open_client(void)
{
    char url[256];
    struct simba_error error;
    simba_client *client = NULL;

    snprintf(url, sizeof url,
             "%s://%s@dbhost:%d/%s?ttl=300ms&transition=900ms&jitter=0ms..50ms&connect-timeout=1s",
             dialect_scheme, dialect_admin, server.port, dialect_database);
    if (simba_client_open(url, NULL, &client, &error) != SIMBA_OK)
        fail_msg("%s", error.text);
    return client;
}

static simba_locker *create(simba_client *client, const char *mutex)
{
    simba_locker *locker = NULL;

    assert_int_equal(test_locker_create(client, mutex, NULL, &locker, NULL), SIMBA_OK);
    return locker;
}

static bool is_slow(void *user)
{
    (void)user;
    return atomic_load(&lookups) > 0;
}

/* Who has to wait for the first time makes the client connect once more, to hear of the release. */
static void a_slow_look_up_costs_nobody_the_lease(void **state)
{
    simba_client *client = open_client();
    simba_client *other = open_client();
    simba_locker *held = create(client, "held");
    simba_locker *wanted = create(client, "wanted");
    simba_locker *others = create(other, "wanted");

    assert_int_equal(simba_locker_acquire_timeout(held, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire_timeout(others, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    atomic_store(&slow, true);
    assert_int_equal(simba_locker_acquire_timeout(wanted, SLOW_MS - 500, NULL), SIMBA_ETIMEDOUT);
    if (dialect_pushes)
        assert_true(test_wait(is_slow, NULL));
    assert_int_equal(simba_locker_release(held, NULL), SIMBA_OK); /* not SIMBA_ELOST */
    atomic_store(&slow, false);
    assert_int_equal(simba_locker_release(others, NULL), SIMBA_OK);
    assert_int_equal(simba_locker_acquire_timeout(wanted, TEST_PATIENCE_MS, NULL), SIMBA_OK);
    simba_locker_close(others);
    simba_locker_close(wanted);
    simba_locker_close(held);
    assert_int_equal(simba_client_close(other, NULL), SIMBA_OK);
    assert_int_equal(simba_client_close(client, NULL), SIMBA_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_look_up_costs_nobody_the_lease),
    };

    return server_run_tests("dns", tests);
}
