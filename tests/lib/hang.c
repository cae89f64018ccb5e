/*
 * hang.c - see hang.h.
 */
#include "lib/hang.h"

#include "lib/locker.h"
#include "redis/proxy.h"
#include "test.h"

#include <simba/simba.h>

#define SOON_MS 1500 /* well below HANG_CONNECT */

struct hang {
    struct proxy proxy;
    simba_client *client;
    simba_contender *contender;
    simba_locker *locker;
    unsigned long traffic; /* seen so far */
};

static void open_all(struct hang *hang, const char *url_format)
{
    struct simba_client_options options = SIMBA_CLIENT_OPTIONS_INIT;
    struct simba_contender_options contender = SIMBA_CONTENDER_OPTIONS_INIT;
    struct simba_error error = {0};
    char url[1024];
    const char *mark = strstr(url_format, "%d");

    assert_non_null(mark);
    snprintf(url, sizeof url, "%.*s%d%s", (int)(mark - url_format), url_format, hang->proxy.port,
             mark + 2);
    options.allow_store_down = true;
    if (simba_client_open(url, &options, &hang->client, &error) != SIMBA_OK)
        fail_msg("%s: %s", url, error.text);
    contender.mutex = "hang";
    assert_int_equal(simba_contender_create(hang->client, &contender, &hang->contender, NULL),
                     SIMBA_OK);
    assert_int_equal(simba_contender_start(hang->contender, NULL), SIMBA_OK);
    assert_int_equal(test_locker_create(hang->client, "hang-lock", NULL, &hang->locker, NULL),
                     SIMBA_OK);
}

/* It ends in time where the loop turns, also when the store does not answer. */
static void check_locker(struct hang *hang)
{
    int64_t begin = test_now_ms();
    int code = simba_locker_acquire_timeout(hang->locker, 100, NULL);

    assert_true(test_now_ms() - begin < SOON_MS);
    if (code == SIMBA_OK)
        assert_int_equal(simba_locker_release(hang->locker, NULL), SIMBA_OK);
}

static void close_all(struct hang *hang)
{
    simba_locker_close(hang->locker);
    simba_contender_close(hang->contender);
    assert_int_equal(simba_client_close(hang->client, NULL), SIMBA_OK);
}

static unsigned long traffic_of(struct hang *hang)
{
    return atomic_load(&hang->proxy.writes) + atomic_load(&hang->proxy.swallowed);
}

static bool has_tried_again(void *user)
{
    struct hang *hang = user;

    return traffic_of(hang) > hang->traffic;
}

void hang_check_close(int server_port, const char *url)
{
    struct hang hang = {0};
    int64_t begin;

    proxy_start(&hang.proxy, server_port);
    atomic_store(&hang.proxy.swallow, true);
    open_all(&hang, url);
    hang.traffic = traffic_of(&hang);
    assert_true(test_wait(has_tried_again, &hang));
    check_locker(&hang);
    begin = test_now_ms();
    simba_contender_stop(hang.contender, NULL);
    close_all(&hang);
    assert_true(test_now_ms() - begin < SOON_MS);
    proxy_stop(&hang.proxy);
}

static bool is_owner_or_hangs(void *user)
{
    struct hang *hang = user;

    return simba_contender_is_owner(hang->contender) || atomic_load(&hang->proxy.swallow);
}

void hang_check_opened_once(int server_port, const char *url)
{
    struct hang hang = {0};

    proxy_start(&hang.proxy, 1); /* nobody listens there: all connections are cut */
    atomic_store(&hang.proxy.swallow_at_end, true);
    open_all(&hang, url);
    atomic_store(&hang.proxy.server_port, server_port);
    assert_true(test_wait(is_owner_or_hangs, &hang));
    check_locker(&hang);
    close_all(&hang);
    proxy_stop(&hang.proxy);
}
