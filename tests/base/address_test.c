/*
 * Which address of a host an id names. The linker leads the questions about interfaces here
 * (--wrap), where the host is made up. As a process asks once, each case asks in a child.
 */
#include "test.h"

#include <simba/simba.h>

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

int __wrap_ioctl(int fd, unsigned long request, void *argument);

static struct ifreq addresses[2000];
static size_t address_count;

static void add(const char *label, uint32_t address)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr = {htonl(address)}};
    struct ifreq *added = &addresses[address_count++];

    assert_true(address_count <= TEST_COUNT(addresses));
    snprintf(added->ifr_name, sizeof(added->ifr_name), "%s", label);
    memcpy(&added->ifr_addr, &place, sizeof(place));
}

/* As the kernel does: a list that does not fit is cut, without a word. */
static int list(struct ifconf *answer)
{
    size_t room = (size_t)answer->ifc_len / sizeof(addresses[0]);
    size_t count = address_count < room ? address_count : room;

    memcpy(answer->ifc_req, addresses, count * sizeof(addresses[0]));
    answer->ifc_len = (int)(count * sizeof(addresses[0]));
    return 0;
}

int __wrap_ioctl(int fd, unsigned long request, void *argument)
{
    struct ifreq *interface = argument;

    (void)fd;
    if (request == SIOCGIFCONF)
        return list(argument);
    if (request != SIOCGIFFLAGS ||
        (strcmp(interface->ifr_name, "lo") != 0 && strcmp(interface->ifr_name, "eth0") != 0)) {
        errno = ENODEV;
        return -1;
    }
    interface->ifr_flags = interface->ifr_name[0] == 'l' ? IFF_UP | IFF_LOOPBACK : IFF_UP;
    return 0;
}

static void expect_address(const char *expected)
{
    char id[SIMBA_ID_MAX + 1];
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        bool same =
            simba_id_host(NULL, id) == SIMBA_OK && strcmp(strchr(id, '@') + 1, expected) == 0;

        _exit(same ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int forget(void **state)
{
    address_count = 0;
    return 0;
}

static void an_address_of_the_loopback_interface_is_passed_over(void **state)
{
    add("lo", 0x7f000001);
    add("lo", 0x0a000001);
    add("eth0", 0xc0000207);
    expect_address("192.0.2.7");
}

static void many_addresses_do_not_hide_the_one_that_leads_out(void **state)
{
    static const uint32_t counts[] = {127, 128, 129, 200, 1023, 1024, 1025, 1999};

    for (size_t i = 0; i < TEST_COUNT(counts); i++) {
        forget(state);
        for (uint32_t j = 0; j < counts[i]; j++)
            add("lo", 0x0a000001 + j);
        add("eth0", 0xc0000207);
        expect_address("192.0.2.7");
    }
}

static void a_label_that_is_no_interface_does_not_hide_an_address(void **state)
{
    add("home", 0x7f000001);
    add("uplink", 0xc0000208);
    expect_address("192.0.2.8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_address_of_the_loopback_interface_is_passed_over, forget),
        cmocka_unit_test(many_addresses_do_not_hide_the_one_that_leads_out),
        cmocka_unit_test_setup(a_label_that_is_no_interface_does_not_hide_an_address, forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
