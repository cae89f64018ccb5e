/*
 * What ids and seeds are made of where the system refuses to help. The linker leads the calls of these
 * functions here (--wrap).
 */
#include "base/random.h"
#include "test.h"

#include <simba/simba.h>

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/types.h>

ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags);
int __wrap_getifaddrs(struct ifaddrs **ret_interfaces);
void __wrap_freeifaddrs(struct ifaddrs *interfaces);
int __wrap_gethostname(char *name, size_t size);

ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags)
{
    (void)data;
    (void)size;
    (void)flags;
    errno = ENOSYS;
    return -1;
}

/* An interface without an address, as a tunnel has it, and nothing else. */
int __wrap_getifaddrs(struct ifaddrs **ret_interfaces)
{
    static struct ifaddrs tunnel;

    *ret_interfaces = &tunnel;
    return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *interfaces)
{
    (void)interfaces;
}

int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "lion-7");
    return 0;
}

static void seeds_differ_without_the_systems_help(void **state)
{
    uint64_t seeds[100];

    (void)state;
    for (size_t i = 0; i < TEST_COUNT(seeds); i++) {
        seeds[i] = sb_random_seed();
        for (size_t j = 0; j < i; j++)
            assert_true(seeds[i] != seeds[j]);
    }
}

static void without_an_address_the_host_name_stands_in(void **state)
{
    char id[SIMBA_ID_MAX + 1];

    (void)state;
    assert_int_equal(simba_id_host(NULL, id), SIMBA_OK);
    assert_string_equal(strchr(id, '@'), "@lion-7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seeds_differ_without_the_systems_help),
        cmocka_unit_test(without_an_address_the_host_name_stands_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
