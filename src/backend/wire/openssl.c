/*
 * openssl.c - OpenSSL between two memory BIOs. Owns certificates and sessions; must not know
 * streams.
 *
 * The server's certificate is checked, with its name, unless the application turned that off.
 */
#include "backend/module.h"
#include "backend/wire/stream.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"

#include <arpa/inet.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

static const struct sb_wire_tls_ops ops;

/* OpenSSL's own words for the first error of this thread, and forgets the others. */
static const char *reason(void)
{
    unsigned long number = ERR_get_error();
    const char *text = ERR_SYSTEM_ERROR(number) ? strerror(ERR_GET_REASON(number))
                       : number != 0            ? ERR_reason_error_string(number)
                                                : NULL;

    ERR_clear_error();
    return text != NULL ? text : "no reason given";
}

/* ---- What all connections share -------------------------------------------------------------- */

static int fail_file(const char *what, const char *path, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ECONFIG, "%s %.150s cannot be used: %s", what, path, reason());
}

static int load_trust(SSL_CTX *context, const struct sb_wire_tls_options *o,
                      struct simba_error *error)
{
    SSL_CTX_set_verify(context, o->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
    if (o->ca == NULL)
        SSL_CTX_set_default_verify_paths(context);
    else if (SSL_CTX_load_verify_locations(context, o->ca, NULL) != 1)
        return fail_file("the CA file", o->ca, error);
    return SIMBA_OK;
}

/* Never asks at the terminal: without a password an encrypted key is an error. */
static int give_password(char *buffer, int size, int writing, void *user)
{
    const char *password = user;
    size_t length = password != NULL ? strlen(password) : 0;

    (void)writing;
    if (length == 0 || length > (size_t)size)
        return -1;
    memcpy(buffer, password, length);
    return (int)length;
}

static int load_key(SSL_CTX *context, const struct sb_wire_tls_options *o,
                    struct simba_error *error)
{
    char buffer[SB_SECRET_MAX + 2];
    const char *password;
    int code = sb_secret_now(&o->key_password, buffer, &password, error);

    if (code == SIMBA_OK) {
        SSL_CTX_set_default_passwd_cb_userdata(context, (void *)password);
        if (SSL_CTX_use_PrivateKey_file(context, o->key, SSL_FILETYPE_PEM) != 1)
            code = fail_file("the private key", o->key, error);
        SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    }
    explicit_bzero(buffer, sizeof buffer);
    return code;
}

static int load_identity(SSL_CTX *context, const struct sb_wire_tls_options *o,
                         struct simba_error *error)
{
    if (o->cert == NULL)
        return SIMBA_OK;
    SSL_CTX_set_default_passwd_cb(context, give_password);
    if (SSL_CTX_use_certificate_chain_file(context, o->cert) != 1)
        return fail_file("the certificate", o->cert, error);
    return load_key(context, o, error);
}

/* The form that OpenSSL wants: a byte with the length, then the name. */
static bool offer_protocol(SSL_CTX *context, const char *protocol)
{
    unsigned char list[32];
    size_t length = strlen(protocol);

    SB_CHECK(length < sizeof list, "a protocol has a short name");
    list[0] = (unsigned char)length;
    memcpy(list + 1, protocol, length);
    return SSL_CTX_set_alpn_protos(context, list, (unsigned)length + 1) == 0;
}

static void destroy(struct sb_wire_tls *tls)
{
    SSL_CTX_free(tls->context);
    sb_free(tls);
}

static int create(const struct sb_wire_tls_options *o, struct sb_wire_tls **ret_tls,
                  struct simba_error *error)
{
    struct sb_wire_tls *tls = sb_alloc_zero(sizeof *tls);
    int code = SIMBA_OK;

    if (tls == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    ERR_clear_error();
    tls->ops = &ops;
    tls->options = o;
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL || (o->protocol != NULL && !offer_protocol(tls->context, o->protocol)))
        code = sb_error_plain(error, SIMBA_ENOMEM);
    if (code == SIMBA_OK) {
        SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
        code = load_trust(tls->context, o, error);
    }
    if (code == SIMBA_OK)
        code = load_identity(tls->context, o, error);
    if (code != SIMBA_OK) {
        destroy(tls);
        return code;
    }
    *ret_tls = tls;
    return SIMBA_OK;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

/* The name is sent to the server, and is what its certificate must be for. */
static bool set_name(SSL *ssl, const char *name)
{
    struct in6_addr ignored;

    if (inet_pton(AF_INET, name, &ignored) == 1 || inet_pton(AF_INET6, name, &ignored) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;
}

static bool init_session(struct sb_wire_tls_session *session, const struct sb_wire_tls *tls,
                         const char *name)
{
    session->ops = &ops;
    session->protocol = tls->options->protocol;
    session->ssl = SSL_new(tls->context);
    if (session->ssl == NULL)
        return false;
    session->in = BIO_new(BIO_s_mem());
    session->out = BIO_new(BIO_s_mem());
    if (session->in == NULL || session->out == NULL) {
        BIO_free(session->in);
        BIO_free(session->out);
        return false;
    }
    SSL_set_bio(session->ssl, session->in, session->out);
    SSL_set_connect_state(session->ssl);
    return set_name(session->ssl, name);
}

static void end(struct sb_wire_tls_session *session)
{
    SSL_free(session->ssl);
    sb_free(session);
}

static struct sb_wire_tls_session *begin(const struct sb_wire_tls *tls, const char *host)
{
    struct sb_wire_tls_session *session = sb_alloc_zero(sizeof *session);
    const char *name = tls->options->server_name;

    if (session == NULL)
        return NULL;
    ERR_clear_error();
    if (!init_session(session, tls, name != NULL ? name : host)) {
        end(session);
        return NULL;
    }
    return session;
}

static bool feed(struct sb_wire_tls_session *session, const char *bytes, size_t length)
{
    return length <= INT_MAX && BIO_write(session->in, bytes, (int)length) == (int)length;
}

/* With TLS 1.3 a server checks the client's certificate after the client has ended its handshake,
 * so a refusal comes when replies are expected. */
static int fail_alert(int alert, const char *step, struct simba_error *error)
{
    switch (alert) {
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return sb_error_set(error, SIMBA_EDENIED,
                            "wants a certificate of the client (tls-cert, tls-key)");
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
        return sb_error_set(error, SIMBA_EDENIED,
                            "refused the client's certificate (tls-cert, tls-key): %s", reason());
    default:
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "%s: %s", step, reason());
    }
}

/* What may be missing in the URL. */
static const char *hint(long verdict)
{
    switch (verdict) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        return " (tls-ca=FILE names who may sign it)";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return " (tls-server-name=NAME if it has another name)";
    default:
        return "";
    }
}

/* The first error of this thread, which OpenSSL has just left. `step` opens the sentence where
 * there is nothing better to say; the server's name stands before it. */
static int fail_session(const struct sb_wire_tls_session *session, const char *step,
                        struct simba_error *error)
{
    int why = ERR_GET_REASON(ERR_peek_error());
    long verdict = SSL_get_verify_result(session->ssl);

    if (why != SSL_R_CERTIFICATE_VERIFY_FAILED)
        return fail_alert(why, step, error);
    return sb_error_set_backend(error, SIMBA_EUNAVAILABLE, (int)verdict,
                                "has a certificate that is not trusted: %s%s",
                                X509_verify_cert_error_string(verdict), hint(verdict));
}

static bool agrees(const struct sb_wire_tls_session *session)
{
    const unsigned char *chosen = NULL;
    unsigned length = 0;

    SSL_get0_alpn_selected(session->ssl, &chosen, &length);
    return session->protocol == NULL ||
           (length == strlen(session->protocol) && memcmp(chosen, session->protocol, length) == 0);
}

static int handshake(struct sb_wire_tls_session *session, bool *ret_done, struct simba_error *error)
{
    int result;

    ERR_clear_error();
    result = SSL_do_handshake(session->ssl);
    if (result != 1 && SSL_get_error(session->ssl, result) != SSL_ERROR_WANT_READ)
        return fail_session(session, "failed the TLS handshake", error);
    if (result == 1 && !agrees(session))
        return sb_error_set(error, SIMBA_EUNAVAILABLE, "does not speak %s", session->protocol);
    *ret_done = result == 1;
    return SIMBA_OK;
}

static int read_plain(struct sb_wire_tls_session *session, char *target, size_t size,
                      struct simba_error *error)
{
    int count;

    ERR_clear_error();
    count = SSL_read(session->ssl, target, size > INT_MAX ? INT_MAX : (int)size);
    if (count > 0)
        return count;
    switch (SSL_get_error(session->ssl, count)) {
    case SSL_ERROR_WANT_READ:
        return 0;
    case SSL_ERROR_ZERO_RETURN:
        sb_error_set(error, SIMBA_EUNAVAILABLE, "ended the connection");
        return -1;
    default:
        fail_session(session, "broke the TLS session", error);
        return -1;
    }
}

/* A memory BIO takes all, so that a write is never partial. */
static bool write_plain(struct sb_wire_tls_session *session, const char *bytes, size_t length)
{
    ERR_clear_error();
    return length == 0 ||
           (length <= INT_MAX && SSL_write(session->ssl, bytes, (int)length) == (int)length);
}

static bool take(struct sb_wire_tls_session *session, struct sb_wire_buffer *target)
{
    char *data = NULL;
    long length = BIO_get_mem_data(session->out, &data);

    if (length <= 0)
        return true;
    if (!sb_wire_buffer_add(target, data, (size_t)length))
        return false;
    return BIO_reset(session->out) == 1;
}

static const struct sb_wire_tls_ops ops = {
    .create = create,
    .destroy = destroy,
    .begin = begin,
    .end = end,
    .feed = feed,
    .handshake = handshake,
    .read = read_plain,
    .write = write_plain,
    .take = take,
};

const struct sb_module_tls sb_module_tls = {SB_MODULE_LIBRARY, &ops};
