/*
 * mysql_memory_test.c - memory that runs out between a change and the look behind it. The program's
 * own mysql_stmt_init stands before libmariadb's.
 */
#include "server.h"

#include "backend/host.h"

#include <dlfcn.h>
#include <mysql.h>
#include <stdatomic.h>

static atomic_int left = -1; /* statements that there is memory for; negative: for all */

typedef MYSQL_STMT *init(MYSQL *mysql);

MYSQL_STMT *STDCALL mysql_stmt_init(MYSQL *mysql)
{
    void *next = dlsym(RTLD_NEXT, "mysql_stmt_init");
    init *real;

    memcpy(&real, &next, sizeof real);
    if (atomic_load(&left) < 0)
        return real(mysql);
    return atomic_fetch_sub(&left, 1) > 0 ? real(mysql) : NULL;
}

static int open_store(void **state)
{
    struct host host;

    server_setup(state);
    if (host_open(&host, server.url) != SIMBA_OK)
        return -1;
    host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    if (!host_close(&host))
        return -1;
    server_sql(&server, "%s", dialect_trigger);
    return 0;
}

/* A trigger keeps the version from us, so that a look has to follow, over a connection that has not
 * prepared one yet. */
static void a_change_is_never_told_as_not_made(void **state)
{
    struct host host;
    struct call call;

    assert_int_equal(host_open(&host, server.url), SIMBA_OK);
    atomic_store(&left, 1);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(atomic_load(&left), -1); /* the twin: there was none for the look */
    assert_int_equal(call.code, SIMBA_EUNKNOWN);
    assert_int_equal(call.answers, 1);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_is_never_told_as_not_made),
    };

    return server_is_installed()
               ? cmocka_run_group_tests_name("memory", tests, open_store, server_teardown)
               : 77;
}
