/*
 * tls_test.c - encrypted connections, certificates on both sides, and a user that may do just what
 * is needed.
 */
#include "backend/host.h"
#include "lib/port.h"
#include "party.h"
#include "rights.h"
#include "server.h"

#include <strings.h>

static struct server server;
static char folder[TEST_PATH_MAX];
static int tls_port;

/* ---- Certificates ---------------------------------------------------------------------------- */

static const char *file(const char *name)
{
    static char paths[8][TEST_PATH_MAX + 32];
    static unsigned turn;
    char *path = paths[turn++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void run(const char *format, ...)
{
    char command[2048];
    char line[2048 + TEST_PATH_MAX + 64];
    va_list list;

    va_start(list, format);
    vsnprintf(command, sizeof command, format, list);
    va_end(list);
    snprintf(line, sizeof line, "cd %s && (%s) >openssl.log 2>&1", folder, command);
    if (system(line) != 0)
        fail_msg("failed: %s", line);
}

static void make_authority(const char *name)
{
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        "-subj /CN=%s -keyout %s.key -out %s.crt",
        name, name, name);
}

static void make_certificate(const char *name, const char *authority, const char *names)
{
    run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=%s "
        "-keyout %s.key -out %s.csr && printf 'subjectAltName=%s' >%s.ext && "
        "openssl x509 -req -in %s.csr -CA %s.crt -CAkey %s.key -CAcreateserial -days 2 "
        "-extfile %s.ext -out %s.crt",
        name, name, name, names, name, name, authority, authority, name, name);
}

static void make_all(void)
{
    test_folder_create(folder);
    make_authority("ca");
    make_authority("stranger");
    make_certificate("server", "ca", "IP:127.0.0.1,DNS:redis.example");
    make_certificate("client", "ca", "DNS:client");
    make_certificate("intruder", "stranger", "DNS:client");
    run("openssl ec -in client.key -aes128 -passout pass:opensesame -out locked.key");
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static const char *tls_url(const char *format, ...)
{
    static char url[2048];
    char rest[1900];
    va_list list;

    va_start(list, format);
    vsnprintf(rest, sizeof rest, format, list);
    va_end(list);
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?%s", tls_port, rest);
    return url;
}

static void assert_works(const char *url)
{
    struct host host;
    int code = host_open(&host, url);

    if (code != SIMBA_OK)
        fail_msg("%s: %s", url, host.open_error.text);
    assert_string_equal(host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0).owner, "a");
    assert_true(host_close(&host));
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static void a_server_with_a_trusted_certificate_is_used(void **state)
{
    (void)state;
    assert_works(tls_url("tls-ca=%s", file("ca.crt")));
}

static void a_certificate_of_a_wrong_authority_is_refused(void **state)
{
    (void)state;
    host_expect_failure(tls_url("tls-ca=%s", file("stranger.crt")), SIMBA_EUNAVAILABLE,
                        "not trusted");
    host_expect_failure(tls_url(""), SIMBA_EUNAVAILABLE, "not trusted");
    assert_works(tls_url("tls-verify=no"));
}

static void the_name_in_the_certificate_is_checked(void **state)
{
    (void)state;
    assert_works(tls_url("tls-ca=%s&tls-server-name=redis.example", file("ca.crt")));
    host_expect_failure(tls_url("tls-ca=%s&tls-server-name=other.example", file("ca.crt")),
                        SIMBA_EUNAVAILABLE, "not trusted");
}

static void files_that_cannot_be_used_are_a_wrong_configuration(void **state)
{
    (void)state;
    host_expect_failure(tls_url("tls-ca=%s", file("missing.crt")), SIMBA_ECONFIG, "missing.crt");
    host_expect_failure(tls_url("tls-cert=%s", file("client.crt")), SIMBA_EINVAL,
                        "must be given together");
    host_expect_failure(tls_url("tls-verify=perhaps"), SIMBA_EINVAL, "tls-verify");
    host_expect_failure(tls_url("tls-ca=%s&tls-cert=%s&tls-key=%s", file("ca.crt"),
                                file("client.crt"), file("locked.key")),
                        SIMBA_ECONFIG, "locked.key");
}

static void a_client_certificate_is_shown_when_it_is_wanted(void **state)
{
    (void)state;
    server_do(&server, "CONFIG SET tls-auth-clients yes");
    host_expect_failure(tls_url("tls-ca=%s", file("ca.crt")), SIMBA_EDENIED, "tls-cert");
    host_expect_failure(tls_url("tls-verify=no"), SIMBA_EDENIED, "tls-cert");
    host_expect_failure(tls_url("tls-ca=%s&tls-cert=%s&tls-key=%s", file("ca.crt"),
                                file("intruder.crt"), file("intruder.key")),
                        SIMBA_EDENIED, "client's certificate");
    server_do(&server,
              "CONFIG SET tls-protocols TLSv1.2"); /* its alert comes within the handshake */
    host_expect_failure(tls_url("tls-ca=%s", file("ca.crt")), SIMBA_EUNAVAILABLE, "handshake");
    host_expect_failure(tls_url("tls-verify=no"), SIMBA_EUNAVAILABLE, "handshake");
    server_do(&server, "CONFIG SET tls-protocols %s", "");
    assert_works(tls_url("tls-ca=%s&tls-cert=%s&tls-key=%s", file("ca.crt"), file("client.crt"),
                         file("client.key")));
    assert_works(tls_url("tls-ca=%s&tls-cert=%s&tls-key=%s&tls-key-password=opensesame",
                         file("ca.crt"), file("client.crt"), file("locked.key")));
    server_do(&server, "CONFIG SET tls-auth-clients no");
}

static void plain_and_encrypted_do_not_meet(void **state)
{
    char url[128];

    (void)state;
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?connect-timeout=2s", tls_port);
    host_expect_failure(url, SIMBA_EUNAVAILABLE, "rediss://");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?connect-timeout=2s", server.port);
    host_expect_failure(url, SIMBA_EUNAVAILABLE, "TLS handshake");
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?connect-timeout=2s&tls-verify=no",
             server.port);
    host_expect_failure(url, SIMBA_EUNAVAILABLE, "TLS handshake");
}

/* Longer than a record of TLS, in both directions. */
static void a_large_batch_goes_through(void **state)
{
    enum { COUNT = 2000 };
    struct call *calls = calloc(COUNT, sizeof *calls);
    char(*names)[16] = calloc(COUNT, sizeof *names);
    struct host host;

    (void)state;
    assert_int_equal(host_open(&host, tls_url("tls-ca=%s", file("ca.crt"))), SIMBA_OK);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "batch-%zu", i);
        calls[i] = host_call(SIMBA_OP_ACQUIRE, names[i], "a", 0);
    }
    host_submit(&host, calls, COUNT);
    assert_true(host_wait(&host, calls, COUNT));
    for (size_t i = 0; i < COUNT; i++)
        assert_string_equal(calls[i].owner, "a");
    assert_true(host_close(&host));
    free(names);
    free(calls);
}

static void a_waiter_is_woken_over_tls(void **state)
{
    char url[1024];
    struct party owner;
    struct party waiter;

    (void)state;
    snprintf(url, sizeof url, "%s", tls_url("tls-ca=%s&ttl=20s&transition=20s", file("ca.crt")));
    party_join(&owner, url, "wake", "a");
    party_await_acquired(&owner, 1);
    party_join(&waiter, url, "wake", "b");
    while (server_number(&server, "EXISTS simba:{wake}:contender") == 0)
        test_pause_ms(1);
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
}

/* ---- Rotated files --------------------------------------------------------------------------- */

/* Until the connection that was ended has been replaced. */
static bool acquires(void *host)
{
    return host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_OK;
}

static bool is_refused(void *host)
{
    return host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0).code == SIMBA_EDENIED;
}

static void open_and_acquire(struct host *host, const char *url)
{
    if (host_open(host, url) != SIMBA_OK)
        fail_msg("%s", host->open_error.text);
    assert_true(acquires(host));
}

/* All connections but that of the test. */
static void kill_clients(void)
{
    server_do(&server, "CLIENT KILL TYPE normal SKIPME yes");
    server_do(&server, "CLIENT KILL TYPE pubsub");
}

static const char *file_url(const char *user)
{
    static char url[1024];

    snprintf(url, sizeof url, "redis://%s@127.0.0.1:%d?password-file=%s", user, server.port,
             file("password"));
    return url;
}

static void a_password_that_was_changed_in_its_file_is_used(void **state)
{
    struct host host;

    (void)state;
    run("umask 077 && echo one >password");
    server_do(&server, "ACL SETUSER changing on >one ~* &* +@all");
    open_and_acquire(&host, file_url("changing"));
    server_do(&server, "ACL SETUSER changing <one >two");
    run("echo two >password");
    kill_clients();
    assert_true(host_run_until(&host, acquires, &host));
    assert_true(host_close(&host));
    server_do(&server, "ACL DELUSER changing");
}

/* The password of before is tried; where the server does not take it the reason is told. */
static void a_password_file_that_is_gone_is_told_when_the_server_refuses(void **state)
{
    struct host host;
    struct call call;

    (void)state;
    run("umask 077 && echo one >password");
    server_do(&server, "ACL SETUSER changing on >one ~* &* +@all");
    open_and_acquire(&host, file_url("changing"));
    run("rm password");
    kill_clients();
    assert_true(host_run_until(&host, acquires, &host));
    server_do(&server, "ACL SETUSER changing <one >two");
    kill_clients();
    assert_true(host_run_until(&host, is_refused, &host));
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_EDENIED);
    assert_non_null(strstr(call.error.text, file("password")));
    assert_true(host_close(&host));
    server_do(&server, "ACL DELUSER changing");
}

/* The server has a new certificate of another authority, and wants one of that of the client. */
static void certificates_and_keys_that_were_replaced_are_used(void **state)
{
    struct host host;

    (void)state;
    make_certificate("next-server", "stranger", "IP:127.0.0.1");
    run("cp ca.crt trusted.crt && cp client.crt mine.crt && cp client.key mine.key");
    server_do(&server, "CONFIG SET tls-auth-clients yes");
    open_and_acquire(&host, tls_url("tls-ca=%s&tls-cert=%s&tls-key=%s", file("trusted.crt"),
                                    file("mine.crt"), file("mine.key")));
    server_do(&server, "CONFIG SET tls-cert-file %s tls-key-file %s tls-ca-cert-file %s",
              file("next-server.crt"), file("next-server.key"), file("stranger.crt"));
    run("cp stranger.crt trusted.crt && cp intruder.crt mine.crt && cp intruder.key mine.key");
    kill_clients();
    assert_true(host_run_until(&host, acquires, &host));
    assert_true(host_close(&host));
    server_do(&server, "CONFIG SET tls-cert-file %s tls-key-file %s tls-ca-cert-file %s",
              file("server.crt"), file("server.key"), file("ca.crt"));
    server_do(&server, "CONFIG SET tls-auth-clients no");
}

/* Files that are half written, or gone, leave what was read before. */
static void a_key_that_cannot_be_read_any_more_leaves_the_one_of_before(void **state)
{
    struct host host;

    (void)state;
    run("cp ca.crt trusted.crt && cp client.crt mine.crt && cp client.key mine.key");
    server_do(&server, "CONFIG SET tls-auth-clients yes");
    open_and_acquire(&host, tls_url("tls-ca=%s&tls-cert=%s&tls-key=%s", file("trusted.crt"),
                                    file("mine.crt"), file("mine.key")));
    run("rm mine.key && cp intruder.crt mine.crt && : >trusted.crt");
    kill_clients();
    assert_true(host_run_until(&host, acquires, &host));
    assert_true(host_close(&host));
    server_do(&server, "CONFIG SET tls-auth-clients no");
}

/* ---- Rights ---------------------------------------------------------------------------------- */

static const char *user_url(const char *rest)
{
    static char url[256];

    snprintf(url, sizeof url, "redis://simba:secret@127.0.0.1:%d/1?%s", server.port, rest);
    return url;
}

static void the_documented_rights_are_enough(void **state)
{
    struct simba_mutex_status *list = NULL;
    struct party owner;
    struct party waiter;
    size_t count = 0;

    (void)state;
    rights_grant(&server, "");
    party_join(&owner, user_url("ttl=300ms&transition=600ms"), "m", "a");
    party_await_acquired(&owner, 1);
    party_join(&waiter, user_url("ttl=300ms&transition=600ms"), "m", "b");
    while (party_metrics(&owner).renewals < 3)
        test_pause_ms(1);
    assert_int_equal(simba_client_status(owner.client, NULL, 5000, &list, &count, NULL), SIMBA_OK);
    assert_int_equal(count, 1);
    simba_free(list);
    party_leave(&owner);
    party_await_acquired(&waiter, 1);
    party_leave(&waiter);
    server_do(&server, "ACL LOG RESET");
}

/* What was denied is in the server's own log. */
static bool was_denied(const char *word)
{
    redisReply *log = server_ask(&server, "ACL LOG");
    bool denied = false;

    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *entry = log->element[i];

        for (size_t j = 0; j + 1 < entry->elements; j += 2)
            if (strcmp(entry->element[j]->str, "object") == 0)
                denied = denied || strcasecmp(entry->element[j + 1]->str, word) == 0;
    }
    freeReplyObject(log);
    return denied;
}

struct denial {
    struct host *host;
    const char *word;
};

static bool is_denied(void *user)
{
    struct denial *denial = user;

    return was_denied(denial->word);
}

/* Everything that a client does, each once. */
static void do_everything(struct host *host, const char *word)
{
    struct denial denial = {host, word};
    struct call call = host_do(host, SIMBA_OP_ACQUIRE, "m", "a", 0);

    host_do(host, SIMBA_OP_GUARD, "m", "a", call.revision);
    host->ops->listen(host->backend, "m", "b", true);
    host_place(host, "m", "b");
    host_place(host, "m", "b"); /* looks for the dead */
    host_do(host, SIMBA_OP_ACQUIRE, "m", "c", 0);
    host_do(host, SIMBA_OP_QUEUE, "m", NULL, 0);
    host_do(host, SIMBA_OP_READ, "m", NULL, 0);
    host_do(host, SIMBA_OP_LIST, NULL, NULL, 0);
    host_do(host, SIMBA_OP_RELEASE, "m", "a", call.revision);
    host_do(host, SIMBA_OP_RELEASE, "m", "b", 0);
    host_do(host, SIMBA_OP_RELEASE, "free", "b", 0); /* passes the word on */
    call = host_do(host, SIMBA_OP_ACQUIRE, "alone", "a", 0);
    host_do(host, SIMBA_OP_RELEASE, "alone", "a", call.revision);
    if (strcmp(word, "unsubscribe") == 0)
        assert_true(host_wait_notice(host, SIMBA_NOTICE_RELEASED, "", ""));
    host->ops->listen(host->backend, "m", "b", false);
    if (strcmp(word, "subscribe") == 0 || strcmp(word, "unsubscribe") == 0)
        host_run_until(host, is_denied, &denial);
}

static void every_documented_right_is_needed(void **state)
{
    static const char *const words[] = {
        "evalsha",       "eval",  "get",     "set",           "del",         "pexpire",
        "pttl",          "time",  "zadd",    "zrem",          "zrange",      "zpopmin",
        "zcard",         "zrank", "publish", "subscribe",     "unsubscribe", "ping",
        "pubsub|numsub", "scan",  "select",  "client|setname"};

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(words); i++) {
        char taken[64];
        struct host host;

        snprintf(taken, sizeof taken, "-%s", words[i]);
        rights_grant(&server, taken);
        server_do(&server, "ACL LOG RESET");
        server_do(&server, "SCRIPT FLUSH");
        server_do(&server, "FLUSHALL");
        server_do(&server, "SELECT 1"); /* where the URL leads to */
        server_do(&server, "ZADD simba:{m}:contender 1.5 dead");
        server_do(&server, "SELECT 0");
        if (host_open(&host, user_url("")) == SIMBA_OK) {
            do_everything(&host, words[i]);
            assert_true(host_close(&host));
        } else {
            assert_int_equal(host.open_error.code, SIMBA_EDENIED);
        }
        if (!was_denied(words[i]))
            fail_msg("nothing needed +%s", words[i]);
    }
}

static void a_right_that_is_missing_is_told_and_grants_nothing(void **state)
{
    struct host host;
    struct call call;

    (void)state;
    server_do(&server, "FLUSHALL");
    rights_grant(&server, "resetkeys ~other:*");
    assert_int_equal(host_open(&host, user_url("")), SIMBA_OK);
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_EDENIED);
    assert_non_null(strstr(call.error.text, "does not permit"));
    rights_grant(&server, "resetchannels");
    call = host_do(&host, SIMBA_OP_ACQUIRE, "m", "a", 0);
    assert_int_equal(call.code, SIMBA_EDENIED);
    rights_grant(&server, "");
    assert_string_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).owner, "");
    assert_true(host_close(&host));
}

/* The rights that earlier versions asked for. */
static void without_the_rights_for_its_place_a_contender_waits_without_it(void **state)
{
    struct host host;

    (void)state;
    server_do(&server, "FLUSHALL");
    server_do(&server, "SELECT 1"); /* where the URL leads to */
    server_do(&server, "ZADD simba:{m}:contender 1.5 dead");
    rights_grant(&server, "-zrank -pubsub|numsub");
    assert_int_equal(host_open(&host, user_url("")), SIMBA_OK);
    assert_int_equal(host_place(&host, "m", "a"), 0);
    host.ops->listen(host.backend, "m", "b", true);
    for (int i = 0; i < 2; i++)
        assert_int_equal(host_place(&host, "m", "b"), 0);
    assert_int_equal(host_do(&host, SIMBA_OP_READ, "m", NULL, 0).waiters, 2);
    rights_grant(&server, "-pubsub|numsub");
    assert_int_equal(host_place(&host, "m", "b"), 2);
    rights_grant(&server, "");
    assert_int_equal(host_place(&host, "m", "b"), 1);
    assert_true(host_close(&host));
    server_do(&server, "SELECT 0");
    server_do(&server, "ACL LOG RESET");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_with_a_trusted_certificate_is_used),
        cmocka_unit_test(a_certificate_of_a_wrong_authority_is_refused),
        cmocka_unit_test(the_name_in_the_certificate_is_checked),
        cmocka_unit_test(files_that_cannot_be_used_are_a_wrong_configuration),
        cmocka_unit_test(a_client_certificate_is_shown_when_it_is_wanted),
        cmocka_unit_test(plain_and_encrypted_do_not_meet),
        cmocka_unit_test(a_large_batch_goes_through),
        cmocka_unit_test(a_waiter_is_woken_over_tls),
        cmocka_unit_test(a_password_that_was_changed_in_its_file_is_used),
        cmocka_unit_test(a_password_file_that_is_gone_is_told_when_the_server_refuses),
        cmocka_unit_test(certificates_and_keys_that_were_replaced_are_used),
        cmocka_unit_test(a_key_that_cannot_be_read_any_more_leaves_the_one_of_before),
        cmocka_unit_test(the_documented_rights_are_enough),
        cmocka_unit_test(every_documented_right_is_needed),
        cmocka_unit_test(a_right_that_is_missing_is_told_and_grants_nothing),
        cmocka_unit_test(without_the_rights_for_its_place_a_contender_waits_without_it),
    };
    char port[16];
    int failed;

    make_all();
    tls_port = test_free_port();
    snprintf(port, sizeof port, "%d", tls_port);
    server_start(&server, "--tls-port", port, "--tls-cert-file", file("server.crt"),
                 "--tls-key-file", file("server.key"), "--tls-ca-cert-file", file("ca.crt"),
                 "--tls-auth-clients", "no", NULL);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    server_stop(&server);
    test_folder_remove(folder);
    return failed;
}
