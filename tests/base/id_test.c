/*
 * Names: what is allowed, and ids that differ between contenders, threads and processes. The linker
 * leads calls of getpid here (--wrap).
 */
#include "test.h"

#include <simba/simba.h>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/wait.h>

pid_t __real_getpid(void);
pid_t __wrap_getpid(void);

/* What getpid tells; 0: the truth. */
static pid_t told_pid;

pid_t __wrap_getpid(void)
{
    return told_pid != 0 ? told_pid : __real_getpid();
}

static void repeat(char *text, char c, size_t count)
{
    memset(text, c, count);
    text[count] = '\0';
}

static void good_names_pass(void **state)
{
    char longest[SIMBA_MUTEX_MAX + 1];
    static const char *const names[] = {"m", "backup", "a b", " a", "a/b", "Löwe", "{x}", "a@@b"};

    repeat(longest, 'm', SIMBA_MUTEX_MAX);
    assert_int_equal(simba_mutex_validate(longest, NULL), SIMBA_OK);
    for (size_t i = 0; i < TEST_COUNT(names); i++)
        assert_int_equal(simba_mutex_validate(names[i], NULL), SIMBA_OK);
}

static void bad_names_are_refused_with_the_rule(void **state)
{
    char too_long[SIMBA_MUTEX_MAX + 2];
    struct simba_error error;

    repeat(too_long, 'm', SIMBA_MUTEX_MAX + 1);
    assert_int_equal(simba_mutex_validate(too_long, &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "264"));
    assert_int_equal(simba_mutex_validate("", &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "blank"));
    assert_int_equal(simba_mutex_validate("   ", &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "blank"));
    assert_int_equal(simba_mutex_validate("a\nb", &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "0x0a"));
    assert_int_equal(simba_mutex_validate("\x7f", &error), SIMBA_EINVAL);
    assert_int_equal(simba_mutex_validate("\t", &error), SIMBA_EINVAL);
    assert_int_equal(simba_mutex_validate(NULL, &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "missing"));
}

static void ids_have_rules_of_their_own(void **state)
{
    char text[SIMBA_ID_MAX + 2];
    struct simba_error error;

    repeat(text, 'i', SIMBA_ID_MAX);
    assert_int_equal(simba_id_validate(text, &error), SIMBA_OK);
    repeat(text, 'i', SIMBA_ID_MAX + 1);
    assert_int_equal(simba_id_validate(text, &error), SIMBA_EINVAL);
    assert_int_equal(simba_id_validate("0:1@10.0.0.1", &error), SIMBA_OK);
    assert_int_equal(simba_id_validate("a@b@c", &error), SIMBA_OK);
    assert_int_equal(simba_id_validate("a@@b", &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "@@"));
    assert_int_equal(simba_id_validate("@@", &error), SIMBA_EINVAL);
    assert_int_equal(simba_id_validate(" ", &error), SIMBA_EINVAL);
    assert_int_equal(simba_id_validate("a\x1b", &error), SIMBA_EINVAL);
    assert_null(strchr(error.text, '\x1b'));
    assert_int_equal(simba_id_validate(NULL, NULL), SIMBA_EINVAL);
}

/* Takes "{counter}:{pid}@{address}" apart; returns what follows the '@'. */
static const char *read_host_id(const char *id, unsigned long *ret_counter, long *ret_pid)
{
    int length = 0;

    assert_int_equal(sscanf(id, "%lu:%ld@%n", ret_counter, ret_pid, &length), 2);
    assert_true(length > 0);
    return id + length;
}

static void the_host_id_counts_up_and_names_pid_and_address(void **state)
{
    char first[SIMBA_ID_MAX + 1];
    char second[SIMBA_ID_MAX + 1];
    unsigned long counters[2];
    const char *address;
    long pid;

    assert_int_equal(simba_id_host(NULL, first), SIMBA_OK);
    assert_int_equal(simba_id_host(NULL, second), SIMBA_OK);
    address = read_host_id(first, &counters[0], &pid);
    assert_true(strlen(address) > 0);
    assert_null(strchr(address, '~'));
    assert_int_equal(pid, getpid());
    assert_string_equal(read_host_id(second, &counters[1], &pid), address);
    assert_int_equal(counters[1], counters[0] + 1);
    assert_int_equal(simba_id_validate(first, NULL), SIMBA_OK);
}

/* The first address of IPv4 that leads out of this host; false: there is none. */
static bool first_address(char address[INET_ADDRSTRLEN])
{
    struct ifaddrs *interfaces = NULL;
    bool found = false;

    assert_int_equal(getifaddrs(&interfaces), 0);
    for (const struct ifaddrs *i = interfaces; i != NULL && !found; i = i->ifa_next) {
        if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET ||
            (i->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, address,
                  INET_ADDRSTRLEN);
        found = true;
    }
    freeifaddrs(interfaces);
    return found;
}

static void the_host_id_names_the_first_address_that_leads_out(void **state)
{
    char id[SIMBA_ID_MAX + 1];
    char address[INET_ADDRSTRLEN];
    unsigned long counter;
    long pid;

    if (!first_address(address))
        skip();
    assert_int_equal(simba_id_host(NULL, id), SIMBA_OK);
    assert_string_equal(read_host_id(id, &counter, &pid), address);
}

static void the_default_id_is_the_host_id_with_six_characters(void **state)
{
    char first[SIMBA_ID_MAX + 1];
    char second[SIMBA_ID_MAX + 1];
    const char *suffix;

    assert_int_equal(simba_id_default(NULL, first), SIMBA_OK);
    assert_int_equal(simba_id_default(NULL, second), SIMBA_OK);
    suffix = strrchr(first, '~');
    assert_non_null(suffix);
    assert_int_equal(strlen(suffix), 7);
    assert_int_equal(strspn(suffix + 1, "0123456789abcdefghijklmnopqrstuvwxyz"), 6);
    assert_string_not_equal(strrchr(second, '~'), suffix);
    assert_int_equal(simba_id_validate(first, NULL), SIMBA_OK);
}

static void the_uuid_is_32_hex_digits_of_version_4(void **state)
{
    char id[SIMBA_ID_MAX + 1];
    char other[SIMBA_ID_MAX + 1];

    for (int i = 0; i < 1000; i++) {
        assert_int_equal(simba_id_uuid(NULL, id), SIMBA_OK);
        assert_int_equal(strlen(id), 32);
        assert_int_equal(strspn(id, "0123456789abcdef"), 32);
        assert_int_equal(id[12], '4');
        assert_non_null(strchr("89ab", id[16]));
    }
    simba_id_uuid(NULL, other);
    assert_string_not_equal(id, other);
}

/* What a child that `fork_child` makes gets from the default maker, read through a pipe. */
static void default_id_of_child(pid_t (*fork_child)(void), char ret_id[SIMBA_ID_MAX + 1],
                                pid_t *ret_pid)
{
    int ends[2];
    int status;

    assert_int_equal(pipe(ends), 0);
    *ret_pid = fork_child();
    assert_true(*ret_pid >= 0);
    if (*ret_pid == 0) {
        char id[SIMBA_ID_MAX + 1] = "";

        simba_id_default(NULL, id);
        _exit(write(ends[1], id, sizeof(id)) == (ssize_t)sizeof(id) ? 0 : 1);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], ret_id, SIMBA_ID_MAX + 1), SIMBA_ID_MAX + 1);
    close(ends[0]);
    assert_int_equal(waitpid(*ret_pid, &status, 0), *ret_pid);
    assert_int_equal(status, 0);
}

static void a_forked_child_has_its_own_pid_and_characters(void **state)
{
    char own[SIMBA_ID_MAX + 1];
    char childs[SIMBA_ID_MAX + 1];
    unsigned long counter;
    pid_t child;
    long pid;

    simba_id_default(NULL, own);
    default_id_of_child(fork, childs, &child);
    read_host_id(childs, &counter, &pid);
    assert_int_equal(pid, child);
    assert_string_not_equal(strrchr(childs, '~'), strrchr(own, '~'));
}

/* The first processes of two pid namespaces, one forked by the other without the handlers of
 * fork(): pid, counter and address are the same, and so is all of their memory. */
static void copies_of_a_process_with_one_pid_make_different_ids(void **state)
{
    char ids[3][SIMBA_ID_MAX + 1];
    pid_t child;

    told_pid = 1;
    simba_id_default(NULL, ids[0]);
    default_id_of_child(_Fork, ids[0], &child);
    default_id_of_child(fork, ids[1], &child);
    simba_id_default(NULL, ids[2]);
    told_pid = 0;
    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        unsigned long counters[2];
        long pid;

        read_host_id(ids[0], &counters[0], &pid);
        read_host_id(ids[i], &counters[1], &pid);
        assert_int_equal(counters[1], counters[0]);
        assert_int_equal(pid, 1);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(ids[i], ids[j]);
    }
}

static void an_id_given_by_hand_gets_six_characters(void **state)
{
    char name[SIMBA_ID_MAX + 2];
    char ids[2][SIMBA_ID_MAX + 1];
    struct simba_error error;

    for (size_t i = 0; i < TEST_COUNT(ids); i++) {
        assert_int_equal(simba_id_unique("host1", ids[i], NULL), SIMBA_OK);
        assert_memory_equal(ids[i], "host1~", 6);
        assert_int_equal(strlen(ids[i]), 12);
        assert_int_equal(strspn(ids[i] + 6, "0123456789abcdefghijklmnopqrstuvwxyz"), 6);
    }
    assert_string_not_equal(ids[0], ids[1]);
    repeat(name, 'i', SIMBA_ID_MAX - 7);
    assert_int_equal(simba_id_unique(name, ids[0], &error), SIMBA_OK);
    assert_int_equal(simba_id_validate(ids[0], &error), SIMBA_OK);
}

static void an_id_given_by_hand_that_is_wrong_is_refused(void **state)
{
    char name[SIMBA_ID_MAX + 2];
    char id[SIMBA_ID_MAX + 1] = "untouched";
    struct simba_error error;

    assert_int_equal(simba_id_unique(" ", id, &error), SIMBA_EINVAL);
    assert_int_equal(simba_id_unique("a@@b", id, &error), SIMBA_EINVAL);
    assert_int_equal(simba_id_unique(NULL, id, &error), SIMBA_EINVAL);
    assert_int_equal(simba_id_unique("a", NULL, &error), SIMBA_EMISUSE);
    repeat(name, 'i', SIMBA_ID_MAX - 6);
    assert_int_equal(simba_id_unique(name, id, &error), SIMBA_EINVAL);
    assert_non_null(strstr(error.text, "122 bytes"));
    assert_non_null(strstr(error.text, "121"));
    assert_string_equal(id, "untouched");
}

#define THREADS 4
#define IDS_PER_THREAD 500

static char made[THREADS * IDS_PER_THREAD][SIMBA_ID_MAX + 1];

static void *make_ids(void *argument)
{
    char(*ids)[SIMBA_ID_MAX + 1] = argument;

    for (size_t i = 0; i < IDS_PER_THREAD; i++)
        simba_id_default(NULL, ids[i]);
    return NULL;
}

static int compare_ids(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void threads_never_make_the_same_id(void **state)
{
    pthread_t threads[THREADS];

    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_ids, made[i * IDS_PER_THREAD]), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    qsort(made, TEST_COUNT(made), sizeof(made[0]), compare_ids);
    for (size_t i = 1; i < TEST_COUNT(made); i++)
        assert_string_not_equal(made[i], made[i - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_names_pass),
        cmocka_unit_test(bad_names_are_refused_with_the_rule),
        cmocka_unit_test(ids_have_rules_of_their_own),
        cmocka_unit_test(the_host_id_counts_up_and_names_pid_and_address),
        cmocka_unit_test(the_host_id_names_the_first_address_that_leads_out),
        cmocka_unit_test(the_default_id_is_the_host_id_with_six_characters),
        cmocka_unit_test(the_uuid_is_32_hex_digits_of_version_4),
        cmocka_unit_test(a_forked_child_has_its_own_pid_and_characters),
        cmocka_unit_test(copies_of_a_process_with_one_pid_make_different_ids),
        cmocka_unit_test(an_id_given_by_hand_gets_six_characters),
        cmocka_unit_test(an_id_given_by_hand_that_is_wrong_is_refused),
        cmocka_unit_test(threads_never_make_the_same_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
