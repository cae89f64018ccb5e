/*
 * login.c - connects and logs in. Owns what is asked of the client library before a password is
 * sent; must not know statements.
 *
 *     option files   user, password, host, port and socket, read by us: the library reads none
 *     TLS            as the URL says. A server that does not offer it is left at its greeting
 *     logging in     only in ways that do not tell the password, unless TLS is verified
 *     the client     gives no file to a server, and loads code from one folder only
 */
#include "backend/mysql/connection.h"

#include "backend/mysql/option_file.h"
#include "base/error.h"

#include <errmsg.h>
#include <errno.h>
#include <limits.h>
#include <mysqld_error.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#if MARIADB_PACKAGE_VERSION_ID >= 30400
#include <ma_pvio.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#endif

/* The library looks for the name that a server asks for anywhere in these. */
#define PROVING "mysql_native_password,client_ed25519,parsec,auth_gssapi_client"

/* With these the server learns the password: it goes there encrypted by TLS, or with a key that the
 * server sends, whichever server that is. */
#define TELLING "caching_sha2_password,sha256_password"

/* ---- TLS ------------------------------------------------------------------------------------- */

/* TLS means the same with every version of the client library.
 *
 *     before 3.4   the library verifies certificate and name. Its handshake is on a blocking socket
 *     from 3.4     it accepts any certificate at a loopback address. Elsewhere, too, it accepts any
 *                  certificate for now where it has no authority, and lets the server prove with
 *                  the password that it is the right one. It gives each wait of a handshake 5 ms
 *
 * With the newer ones the verification and the wait are those below.
 */

#if MARIADB_PACKAGE_VERSION_ID >= 30400

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
static int set_tls(MYSQL *mysql, const struct sb_sql_address *a, struct simba_error *error)
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

/* ---- Options --------------------------------------------------------------------------------- */

static bool needs_tls(const struct sb_mysql_connection *c)
{
    enum sb_sql_tls tls = c->settings->address.tls;

    return tls == SB_SQL_TLS_ENCRYPT || tls == SB_SQL_TLS_VERIFY;
}

const struct sb_url_option sb_mysql_options[] = {
    SB_SQL_ADDRESS_OPTIONS,
    SB_URL_OPTIONS_END,
};

/* A server names the way to log in, also in its greeting; so the first one is ours. */
static bool restrict_login(MYSQL *mysql, const struct sb_sql_address *a, bool is_local)
{
    bool accepts_any = is_local || a->tls == SB_SQL_TLS_ENCRYPT;

    return a->tls == SB_SQL_TLS_VERIFY ||
           (mysql_optionsv(mysql, MYSQL_DEFAULT_AUTH, "mysql_native_password") == 0 &&
            mysql_optionsv(mysql, MARIADB_OPT_RESTRICTED_AUTH,
                           accepts_any ? PROVING "," TELLING : PROVING) == 0);
}

static int refuse_file(void **handler, const char *name, void *user)
{
    (void)name;
    (void)user;
    *handler = NULL;
    return 1;
}

static int read_no_file(void *handler, char *buffer, unsigned size)
{
    (void)handler;
    (void)buffer;
    (void)size;
    return -1;
}

static void end_no_file(void *handler)
{
    (void)handler;
}

static int explain_no_file(void *handler, char *text, unsigned size)
{
    (void)handler;
    if (size > 0)
        text[0] = '\0';
    return CR_UNKNOWN_ERROR;
}

/* Its limit for connecting counts only when the kernel has ended a wait for TLS: without one it
 * would go on waiting. */
static bool set_options(MYSQL *mysql, const unsigned *wait_max_s)
{
    const my_bool no = 0;
    const unsigned least = 1;
    const unsigned none = 0;

    mysql_set_local_infile_handler(mysql, refuse_file, read_no_file, end_no_file, explain_no_file,
                                   NULL);
    return mysql_optionsv(mysql, MYSQL_OPT_NONBLOCK, (void *)0) == 0 &&
           mysql_optionsv(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &least) == 0 &&
           mysql_optionsv(mysql, MYSQL_OPT_READ_TIMEOUT, wait_max_s) == 0 &&
           mysql_optionsv(mysql, MYSQL_OPT_WRITE_TIMEOUT, wait_max_s) == 0 &&
           mysql_optionsv(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4") == 0 &&
           mysql_optionsv(mysql, MYSQL_OPT_RECONNECT, &no) == 0 &&
           mysql_optionsv(mysql, MYSQL_OPT_LOCAL_INFILE, &none) == 0 &&
           mysql_optionsv(mysql, MYSQL_PLUGIN_DIR, MARIADB_PLUGINDIR) == 0 &&
           mysql_optionsv(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "simba") == 0;
}

/* ---- Which server, and which user ------------------------------------------------------------ */

/* Whether the URL leaves nothing to option files. */
static bool is_complete(const struct sb_sql_address *a, size_t host)
{
    bool is_placed = a->socket != NULL || (host < a->host_count && a->hosts[host].port != 0);

    return is_placed && a->user != NULL && a->password.text != NULL;
}

static struct sb_mysql_target target_of(const struct sb_sql_address *a, size_t host,
                                        const struct sb_mysql_defaults *defaults)
{
    struct sb_mysql_target target = {.user = a->user != NULL ? a->user : defaults->user,
                                     .database = a->database,
                                     .port = defaults->port,
                                     .socket = defaults->socket};

    if (host < a->host_count) {
        target.host = a->hosts[host].name;
        target.is_tcp = a->hosts[host].port != 0; /* also to localhost */
        target.port = target.is_tcp ? (unsigned)a->hosts[host].port : defaults->port;
    } else if (a->socket != NULL) {
        target.host = "localhost"; /* which stands for the socket */
        target.socket = a->socket;
    } else {
        target.host = defaults->host;
    }
    return target;
}

static bool is_local(const struct sb_mysql_target *target)
{
    return !target->is_tcp && (target->host == NULL || strcmp(target->host, "localhost") == 0);
}

/* ---- Failures -------------------------------------------------------------------------------- */

static int fail_without_tls(struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(&failure->error, SIMBA_EUNAVAILABLE,
                        "MySQL: TLS was asked for and the server does not offer it");
}

/* The library takes a socket for safe: it would tell the password to a server without TLS. */
static int refuse_tls_on_socket(struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ECONFIG,
                        "MySQL: TLS was asked for, and Simba uses none on a socket of the host: "
                        "leave the tls options out, or name a port (localhost:3306)");
}

static int fail_without_greeting(struct sb_sql_failure *failure)
{
    failure->remedy = SB_SQL_RECONNECT;
    return sb_error_set(
        &failure->error, SIMBA_EUNAVAILABLE,
        "MySQL: the server did not begin with a MySQL greeting: check host and port");
}

/* The library reports a lost connection also where there was none yet, with the number of the
 * system error: "..., system error: 111". */
static int fail_unreached(const struct sb_mysql_connection *c, const struct sb_mysql_target *target,
                          struct sb_sql_failure *failure)
{
    static const char words[] = "system error: ";
    const char *found = strstr(mysql_error(c->mysql), words);
    int system_code = found != NULL ? (int)strtol(found + strlen(words), NULL, 10) : 0;
    const char *reason =
        system_code != 0 ? strerror(system_code) : "the server closed the connection";
    int code = failure->error.code;
    int number = (int)mysql_errno(c->mysql);

    if (target->is_local)
        return sb_error_set_backend(
            &failure->error, code, number, "MySQL: cannot connect to the socket %s: %s",
            target->socket != NULL ? target->socket : MARIADB_UNIX_ADDR, reason);
    return sb_error_set_backend(&failure->error, code, number, "MySQL: cannot connect to %s:%u: %s",
                                target->host != NULL ? target->host : "localhost",
                                target->port != 0 ? target->port : MYSQL_PORT, reason);
}

/* The server does not say that it wants TLS of the user, nor can it know that the password may be
 * an old one. */
static int fail_to_connect(struct sb_mysql_connection *c, const struct sb_mysql_target *target,
                           const struct simba_error *unread, struct sb_sql_failure *failure)
{
    int code = sb_mysql_fail(c, false, failure);
    int number = (int)mysql_errno(c->mysql);

    if (c->lacks_tls)
        return fail_without_tls(failure);
    if (c->greets_wrong)
        return fail_without_greeting(failure);
    if (!c->timed_out && (number == CR_SERVER_LOST || number == CR_SERVER_LOST_EXTENDED))
        return fail_unreached(c, target, failure);
    if (number == CR_PLUGIN_NOT_ALLOWED) /* the library's text may be any bytes of its buffer */
        return sb_error_set_backend(
            &failure->error, code, number,
            "MySQL: the server asks for a login method that sends it the password; that needs TLS "
            "with a verified certificate (tls=on)");
    if (number == ER_DBACCESS_DENIED_ERROR) /* the server names both */
        return sb_error_set_backend(&failure->error, code, number,
                                    "MySQL: the user may not use the database: %s",
                                    mysql_error(c->mysql));
    if (code == SIMBA_EDENIED && unread->code != SIMBA_OK)
        return sb_error_set_backend(&failure->error, code, number,
                                    "MySQL: the server refuses the user: %s; and %s",
                                    mysql_error(c->mysql), unread->text);
    if (code != SIMBA_EDENIED || c->settings->address.tls != SB_SQL_TLS_UNSET)
        return code;
    return sb_error_set_backend(&failure->error, code, number,
                                "MySQL: the server refuses the user or the password: %s; or the "
                                "user needs tls=on",
                                mysql_error(c->mysql));
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int connect_to(struct sb_mysql_connection *c, struct sb_mysql_target *target,
                      struct sb_sql_failure *failure)
{
    const struct sb_sql_address *a = &c->settings->address;
    struct simba_error unread = {.code = SIMBA_OK};
    char buffer[SB_SECRET_MAX + 2];
    const char *password;
    bool connected;

    sb_secret_now(&a->password, buffer, &password, &unread);
    if (password != NULL)
        target->password = password;
    target->needs_tls = needs_tls(c);
    target->is_local = is_local(target);
    connected = sb_mysql_call_connect(c, target);
    explicit_bzero(buffer, sizeof buffer);
    if (!connected)
        return fail_to_connect(c, target, &unread, failure);
    if (needs_tls(c) && mysql_get_ssl_cipher(c->mysql) == NULL)
        return fail_without_tls(failure);
    return SIMBA_OK;
}

static int log_in_with(struct sb_mysql_connection *c, size_t host,
                       const struct sb_mysql_defaults *defaults, struct sb_sql_failure *failure)
{
    const struct sb_sql_address *a = &c->settings->address;
    struct sb_mysql_target target = target_of(a, host, defaults);
    int code;

    target.password = defaults->password;
    c->mysql = mysql_init(NULL);
    c->timed_out = false;
    c->lacks_tls = false;
    c->greets_wrong = false;
    if (c->mysql == NULL || !set_options(c->mysql, &c->wait_max_s) ||
        !restrict_login(c->mysql, a, is_local(&target)))
        return sb_mysql_fail_memory(failure);
    code = needs_tls(c) && is_local(&target) ? refuse_tls_on_socket(&failure->error)
                                             : set_tls(c->mysql, a, &failure->error);
    if (code != SIMBA_OK) {
        failure->remedy = SB_SQL_GIVE_UP;
        return code;
    }
    return connect_to(c, &target, failure);
}

int sb_mysql_log_in(struct sb_mysql_connection *c, size_t host, struct sb_sql_failure *failure)
{
    struct sb_mysql_defaults defaults = {0};
    int code = SIMBA_OK;

    if (!is_complete(&c->settings->address, host))
        code = sb_mysql_defaults_read(&defaults, &failure->error);
    if (code != SIMBA_OK) {
        failure->remedy = SB_SQL_GIVE_UP;
        return code;
    }
    code = log_in_with(c, host, &defaults, failure);
    sb_mysql_defaults_clear(&defaults);
    return code;
}
