/*
 * id.c - the rules for names of mutexes and contenders, and the makers of contender ids.
 *
 * Owns the parts of an id that make it unique: an address, a counter, six random characters. They
 * are right in a forked child, too: no lock here could be inherited locked.
 */
#include "base/alloc.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- Rules ----------------------------------------------------------------------------------- */

static bool is_control(unsigned char byte)
{
    return byte < 0x20 || byte == 0x7f;
}

static int validate(const char *kind, const char *name, size_t max, struct simba_error *error)
{
    size_t length;

    if (name == NULL)
        return sb_error_set(error, SIMBA_EINVAL, "the %s is missing", kind);
    for (const char *c = name; *c != '\0'; c++)
        if (is_control((unsigned char)*c))
            return sb_error_set(error, SIMBA_EINVAL,
                                "the %s has a control character (0x%02x) at byte %zu", kind,
                                (unsigned)(unsigned char)*c, (size_t)(c - name));
    length = strlen(name);
    if (strspn(name, " ") == length)
        return sb_error_set(error, SIMBA_EINVAL, "the %s '%.20s' is blank", kind, name);
    if (length > max)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the %s '%.20s...' is %zu bytes long; the limit is %zu", kind, name,
                            length, max);
    return SIMBA_OK;
}

int simba_mutex_validate(const char *mutex, struct simba_error *error)
{
    return validate("mutex name", mutex, SIMBA_MUTEX_MAX, error);
}

int simba_id_validate(const char *id, struct simba_error *error)
{
    int code = validate("contender id", id, SIMBA_ID_MAX, error);

    if (code == SIMBA_OK && strstr(id, "@@") != NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the contender id '%s' contains '@@', which is reserved for messages",
                            id);
    return code;
}

/* ---- What tells this process from others ----------------------------------------------------- */

#define ADDRESS_MAX 64 /* bytes: an IPv4 address or a host name */
#define FEW 128        /* addresses that are looked at without memory of their own */
#define MANY 65536     /* that are looked at */

static char host_address[ADDRESS_MAX + 1];
static pthread_once_t host_address_once = PTHREAD_ONCE_INIT;

/* Whether it leads to this host alone. An address may have a label by which the kernel knows no
 * interface. */
static bool is_loopback(int socket_fd, const char *label, struct in_addr address)
{
    struct ifreq question = {0};

    if (ntohl(address.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET)
        return true;
    sb_text_copy(question.ifr_name, sizeof(question.ifr_name), label);
    return ioctl(socket_fd, SIOCGIFFLAGS, &question) == 0 &&
           (question.ifr_flags & IFF_LOOPBACK) != 0;
}

static bool take_address(int socket_fd, const struct ifreq *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct sockaddr_in address;

        memcpy(&address, &list[i].ifr_addr, sizeof(address));
        if (!is_loopback(socket_fd, list[i].ifr_name, address.sin_addr) &&
            inet_ntop(AF_INET, &address.sin_addr, host_address, ADDRESS_MAX) != NULL)
            return true;
    }
    return false;
}

/* Asks for the addresses of IPv4 alone: getifaddrs has the kernel write down all that it knows of
 * every interface, which takes ten times as long. Returns how many there are; as many as there is
 * room for: there may be more. */
static size_t list_addresses(int socket_fd, struct ifreq *list, size_t room)
{
    struct ifconf question = {.ifc_len = (int)(room * sizeof(*list)), .ifc_req = list};

    return ioctl(socket_fd, SIOCGIFCONF, &question) == 0 ? (size_t)question.ifc_len / sizeof(*list)
                                                         : 0;
}

static bool find_among_many(int socket_fd)
{
    bool found = false;
    bool more = true;

    for (size_t room = 8 * FEW; !found && more && room <= MANY; room *= 8) {
        struct ifreq *list = sb_alloc(room * sizeof(*list));
        size_t count = list != NULL ? list_addresses(socket_fd, list, room) : 0;

        found = take_address(socket_fd, list, count);
        more = count == room;
        sb_free(list);
    }
    return found;
}

static bool find_ipv4(int socket_fd)
{
    struct ifreq list[FEW];
    size_t count = list_addresses(socket_fd, list, FEW);

    return take_address(socket_fd, list, count) || (count == FEW && find_among_many(socket_fd));
}

/* The first IPv4 address that is not loopback; else the host's name, which is there without a
 * net. */
static void find_host_address(void)
{
    int socket_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = socket_fd >= 0 && find_ipv4(socket_fd);

    if (socket_fd >= 0)
        close(socket_fd);
    if (found)
        return;
    if (gethostname(host_address, ADDRESS_MAX) != 0 || host_address[0] == '\0')
        sb_text_copy(host_address, sizeof(host_address), "localhost");
}

/* Counts on in a forked child. */
static uint64_t next_counter(void)
{
    static _Atomic uint64_t counter;

    return atomic_fetch_add(&counter, 1);
}

#define SUFFIX_LENGTH 6                  /* characters, behind a '~' */
#define SUFFIX_COUNT INT64_C(2176782336) /* 36^6 */

/* Drawn anew for each id and never stored. A copy of the process (fork(), a plain clone(), a new
 * pid namespace, a snapshot that is restored twice) would share whatever is stored. */
static void add_suffix(struct sb_text *text)
{
    char suffix[SUFFIX_LENGTH + 1];
    int64_t number = sb_random_between(sb_random_seed(), 0, SUFFIX_COUNT);

    for (size_t i = 0; i < SUFFIX_LENGTH; i++) {
        suffix[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[number % 36];
        number /= 36;
    }
    suffix[SUFFIX_LENGTH] = '\0';
    sb_text_add(text, "~%s", suffix);
}

/* ---- Makers ---------------------------------------------------------------------------------- */

static void begin_host_id(struct sb_text *text, char ret_id[SIMBA_ID_MAX + 1])
{
    pthread_once(&host_address_once, find_host_address);
    sb_text_init(text, ret_id, SIMBA_ID_MAX + 1);
    sb_text_add(text, "%" PRIu64 ":%ld@%s", next_counter(), (long)getpid(), host_address);
}

int simba_id_host(void *user, char ret_id[SIMBA_ID_MAX + 1])
{
    struct sb_text text;

    (void)user;
    if (ret_id == NULL)
        return SIMBA_EMISUSE;
    begin_host_id(&text, ret_id);
    return SIMBA_OK;
}

int simba_id_default(void *user, char ret_id[SIMBA_ID_MAX + 1])
{
    struct sb_text text;

    (void)user;
    if (ret_id == NULL)
        return SIMBA_EMISUSE;
    begin_host_id(&text, ret_id);
    add_suffix(&text);
    return SIMBA_OK;
}

int simba_id_unique(const char *name, char ret_id[SIMBA_ID_MAX + 1], struct simba_error *error)
{
    const size_t max = SIMBA_ID_MAX - 1 - SUFFIX_LENGTH;
    struct sb_text text;
    int code;

    if (ret_id == NULL)
        return sb_error_set(error, SIMBA_EMISUSE, "simba_id_unique needs ret_id");
    code = simba_id_validate(name, error);
    if (code != SIMBA_OK)
        return code;
    if (strlen(name) > max)
        return sb_error_set(
            error, SIMBA_EINVAL,
            "the contender id '%.20s...' is %zu bytes long; with the random part behind it the "
            "limit is %zu",
            name, strlen(name), max);
    sb_text_init(&text, ret_id, SIMBA_ID_MAX + 1);
    sb_text_add(&text, "%s", name);
    add_suffix(&text);
    return SIMBA_OK;
}

/* Version 4, variant 1: the bits that say so are fixed, all others are random. */
int simba_id_uuid(void *user, char ret_id[SIMBA_ID_MAX + 1])
{
    uint64_t high = (sb_random_seed() & ~UINT64_C(0xf000)) | UINT64_C(0x4000);
    uint64_t low = (sb_random_seed() & (UINT64_MAX >> 2)) | UINT64_C(1) << 63;
    struct sb_text text;

    (void)user;
    if (ret_id == NULL)
        return SIMBA_EMISUSE;
    sb_text_init(&text, ret_id, SIMBA_ID_MAX + 1);
    sb_text_add(&text, "%016" PRIx64 "%016" PRIx64, high, low);
    return SIMBA_OK;
}
