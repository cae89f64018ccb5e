/*
 * tls.c - makes TLS mean the same with every version of the client library. Owns nothing; must not
 * know statements.
 *
 *     before 3.4   the library verifies certificate and name. Its handshake is on a blocking socket
 *     from 3.4     it accepts any certificate at a loopback address. Elsewhere, too, it accepts any
 *                  certificate for now where it has no authority, and lets the server prove with
 *                  the password that it is the right one. It gives each wait of a handshake 5 ms
 *
 * With the newer ones the verification and the wait are those below.
 */
#include "backend/mysql/tls.h"

#include "base/error.h"

#include <errmsg.h>
#include <stdbool.h>

#if MARIADB_PACKAGE_VERSION_ID >= 30400

#include <errno.h>
#include <limits.h>
#include <ma_pvio.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* The beginning of the library's own struct, which it gives to the verification; its header is not
 * installed whole. */
struct peer {
    void *data;
    MARIADB_PVIO *stream;
    void *session;
};

static bool has_name(SSL *session, const char *host)
{
    X509 *certificate = SSL_get_peer_certificate(session);
    bool has = certificate != NULL && host != NULL &&
               (X509_check_host(certificate, host, strlen(host), 0, NULL) == 1 ||
                X509_check_ip_asc(certificate, host, 0) == 1);

    X509_free(certificate);
    return has;
}

/* The library has checked the chain during the handshake and has left its verdict in the session. A
 * failure of an unknown kind is one that no proof by the password makes good. */
static int verify(struct peer *peer, unsigned flags)
{
    MYSQL *mysql = peer->stream->mysql;
    SSL *session = peer->session;

    (void)flags;
    if (SSL_get_verify_result(session) != X509_V_OK || mysql->net.tls_verify_status != 0) {
        /* the library has told the reason */
    } else if (!has_name(session, mysql->host)) {
        peer->stream->set_error(mysql, CR_SSL_CONNECTION_ERROR, "HY000",
                                "the certificate has another name than %s",
                                mysql->host != NULL ? mysql->host : "the server's");
    } else {
        return 0;
    }
    mysql->net.tls_verify_status |= MARIADB_TLS_VERIFY_UNKNOWN;
    return 1;
}

/* The limit is the one that the connection has put on its socket. */
static int wait_for_socket(my_socket handle, my_bool is_read, int timeout_ms)
{
    struct pollfd socket = {.fd = handle, .events = is_read ? POLLIN : POLLOUT};
    struct timeval limit = {0};
    socklen_t size = sizeof limit;
    int ready;

    if (getsockopt(handle, SOL_SOCKET, SO_RCVTIMEO, &limit, &size) == 0 &&
        (limit.tv_sec > 0 || limit.tv_usec > 0))
        timeout_ms = limit.tv_sec < INT_MAX / 2000
                         ? (int)(limit.tv_sec * 1000 + (limit.tv_usec + 999) / 1000)
                         : INT_MAX;
    do {
        ready = poll(&socket, 1, timeout_ms > 0 ? timeout_ms : -1);
    } while (ready < 0 && errno == EINTR);
    if (ready == 0)
        errno = ETIMEDOUT;
    return ready;
}

/* An older library, which this one may run with, refuses the first option: it does without. */
static int set_own(MYSQL *mysql, bool verifies, struct simba_error *error)
{
    const char *library = NULL;

    if (mysql_optionsv(mysql, MARIADB_OPT_TLS_VERIFICATION_CALLBACK,
                       verifies ? (void *)verify : NULL) != 0)
        return SIMBA_OK;
    if (mysql_optionsv(mysql, MARIADB_OPT_IO_WAIT, wait_for_socket) != 0)
        return sb_error_plain(error, SIMBA_ENOMEM);
    if (!verifies)
        return SIMBA_OK;
    if (mariadb_get_infov(mysql, MARIADB_TLS_LIBRARY, &library) != 0 || library == NULL ||
        strncmp(library, "OpenSSL", strlen("OpenSSL")) != 0)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "MySQL: a certificate can be verified only where libmariadb uses "
                            "OpenSSL; this one uses %s",
                            library != NULL ? library : "no TLS");
    return SIMBA_OK;
}

#else

/* The number of MARIADB_OPT_TLS_VERIFICATION_CALLBACK, which an older library does not know. */
#define NEWER_OPTION ((enum mysql_option)7031)

static int set_own(MYSQL *mysql, bool verifies, struct simba_error *error)
{
    if (verifies && mysql_optionsv(mysql, NEWER_OPTION, NULL) == 0)
        return sb_error_set(error, SIMBA_ECONFIG,
                            "MySQL: Simba was built with libmariadb %s, and this newer one "
                            "verifies no certificate for it; build Simba again",
                            MARIADB_PACKAGE_VERSION);
    return SIMBA_OK;
}

#endif

/* Where the address says nothing the library does what it does by itself. */
int sb_mysql_set_tls(MYSQL *mysql, const struct sb_sql_address *a, struct simba_error *error)
{
    my_bool enforce = a->tls != SB_SQL_TLS_OFF;
    my_bool verify = a->tls == SB_SQL_TLS_VERIFY;
    int code = set_own(mysql, a->tls == SB_SQL_TLS_VERIFY, error);

    if (code != SIMBA_OK || a->tls == SB_SQL_TLS_UNSET)
        return code;
    if (enforce)
        mysql_ssl_set(mysql, a->tls_key, a->tls_cert, a->tls_ca, NULL, NULL);
    if (mysql_optionsv(mysql, MYSQL_OPT_SSL_ENFORCE, &enforce) != 0 ||
        mysql_optionsv(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify) != 0)
        return sb_error_plain(error, SIMBA_ENOMEM);
    return SIMBA_OK;
}
