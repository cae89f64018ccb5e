/*
 * options.h - what the URL of a ZooKeeper store says.
 *
 *     zookeeper://[user:password@]h1:2181,h2:2181[/chroot]?session-timeout=16s&acl=open ...
 */
#ifndef SB_ZK_OPTIONS_H
#define SB_ZK_OPTIONS_H

#include "base/secret.h"
#include "base/url_options.h"

#include <simba/backend.h>

enum sb_zk_acl {
    SB_ZK_ACL_OPEN,         /* everybody may do anything */
    SB_ZK_ACL_CREATOR,      /* only clients with the creator's credentials */
    SB_ZK_ACL_CREATOR_READ, /* the same, and everybody may look */
};

/* An owner believes for so much of the session, from a proof: see session.h. */
#define SB_ZK_LEASE_PARTS 5
#define SB_ZK_SESSION_PARTS 12

struct sb_zk_options {
    char *hosts; /* as the client library wants them: h1:2181,h2:2181 */
    char *base;  /* the chroot and /simba */
    char *auth;  /* user:password, for the scheme "digest"; NULL: none */
    char *tls;   /* the client library's list of files for TLS; NULL: no TLS */
    char *tls_ca;
    char *tls_cert;
    char *tls_key;
    struct sb_secret tls_key_password;
    int tls_verify; /* 0: by the authority */
    enum sb_zk_acl acl;
    int release_on_disconnect; /* on-disconnect: 0 keep, 1 release */
    int64_t lease_ms;          /* that the client's owners want to have */
    int64_t session_timeout_ms;
    int64_t connect_timeout_ms;
};

/* What the URLs take. */
extern const struct sb_url_option sb_zk_option_table[];

bool sb_zk_serves(const char *scheme);

/* Reads everything and refuses what it does not know. The options are to be freed in any case. */
int sb_zk_options_read(struct sb_zk_options *options, const struct simba_backend_config *config,
                       struct simba_error *error);
void sb_zk_options_free(struct sb_zk_options *options);

#endif
