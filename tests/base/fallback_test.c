/*
 * What ids and seeds are made of where the system refuses to help. The linker leads the calls of
 * these functions here (--wrap).
 */
#include "base/random.h"
#include "test.h"

#include <simba/simba.h>

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/types.h>

ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_gethostname(char *name, size_t size);

ssize_t __wrap_getrandom(void *data, size_t size, unsigned flags)
{
    (void)data;
    (void)size;
    (void)flags;
    errno = ENOSYS;
    return -1;
}

/* A socket that knows the way back to this host, and no other interface. */
int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    struct ifconf *list = argument;
    struct ifreq *flags = argument;

    (void)fd;
    if (request == SIOCGIFCONF) {
        list->ifc_len = (int)sizeof(struct ifreq);
        memset(list->ifc_req, 0, sizeof(struct ifreq));
        snprintf(list->ifc_req->ifr_name, sizeof(list->ifc_req->ifr_name), "lo");
        list->ifc_req->ifr_addr.sa_family = AF_INET;
        return 0;
    }
    assert_int_equal(request, SIOCGIFFLAGS);
    assert_string_equal(flags->ifr_name, "lo");
    flags->ifr_flags = IFF_UP | IFF_LOOPBACK;
    return 0;
}

int __wrap_gethostname(char *name, size_t size)
{
    snprintf(name, size, "lion-7");
    return 0;
}

static void seeds_differ_without_the_systems_help(void **state)
{
    uint64_t seeds[100];

    for (size_t i = 0; i < TEST_COUNT(seeds); i++) {
        seeds[i] = sb_random_seed();
        for (size_t j = 0; j < i; j++)
            assert_true(seeds[i] != seeds[j]);
    }
}

static void without_an_address_the_host_name_stands_in(void **state)
{
    char id[SIMBA_ID_MAX + 1];

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
