/*
 * server.h - a private database server in a temporary folder, on a free port of the loopback.
 *
 * Each test program is linked with one dialect (mysql_server.c or postgres_server.c), which knows
 * how its server is set up, started and spoken to.
 */
#ifndef SIMBA_TEST_SQLSERVERS_SERVER_H
#define SIMBA_TEST_SQLSERVERS_SERVER_H

#include "test.h"

#include <signal.h>
#include <sys/types.h>

#define SERVER_FAKETIME_LIBRARY "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
#define SERVER_ARGUMENTS_MAX 32
#define SERVER_TEXT_MAX 65536

struct server {
    pid_t pid; /* 0: not running */
    int port;
    char folder[TEST_PATH_MAX];
    char url[256];        /* of a user that may do anything */
    bool tls;             /* set it before: it has a certificate for `localhost`, folder/cert.pem */
    bool without_tls;     /* the same: newer versions of MariaDB make a certificate of their own */
    bool logs_statements; /* the same: MySQL replicates statements, not rows */
    char faketime[600];   /* empty, or the file with the offset of the server's clock */
};

/* The one that the program's tests share; started by server_setup. */
extern struct server server;

/* cmocka group fixtures. The whole program is skipped (exit code 77) where the server is not
 * installed. */
int server_setup(void **state);
int server_teardown(void **state);

/* Runs a group of tests on a server of its own. */
#define server_run_tests(name, tests)                                                              \
    (server_is_installed()                                                                         \
         ? cmocka_run_group_tests_name(name, tests, server_setup, server_teardown)                 \
         : 77)

bool server_is_installed(void);

/* Creates its files and starts it; `faketime`: its clock can be stepped. */
void server_create(struct server *s, bool faketime);
void server_destroy(struct server *s);

void server_start(struct server *s); /* and waits until it answers */
void server_kill(struct server *s);  /* like a crash */
void server_pause(struct server *s); /* and waits until it stands still */
void server_resume(struct server *s);
/* Gives it another key and certificate; it goes on with the old ones until it is told to look. */
void server_renew_certificate(const struct server *s);
/* Starts another program in the server's folder, as its user. */
pid_t server_spawn(const struct server *s, const char *const *arguments);
void server_reap(pid_t pid); /* ends it */

/* Counts SIGPIPE from now on; and how many have come since, which ends it. */
void server_watch_pipes(void);
int server_pipe_signals(void);

/* Watches, and makes writes to a connection of this process with the server fail. A plain write to
 * one of them shows that it raises the signal. */
void server_break_pipes(const struct server *s);

void server_step_clock(struct server *s, int seconds);

/* A URL for another user, and with options behind it. In static memory, one of four. */
const char *server_url(const struct server *s, const char *user, const char *options);

/* ---- Statements by the administrator, past the library --------------------------------------- */

struct session;

struct session *session_open(const struct server *s);
void session_close(struct session *session);

/* Runs a statement; fails the test when it fails. Returns the first column of all rows, separated
 * by newlines, in static memory. */
const char *session_sql(struct session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same on a session of its own. */
const char *server_sql(const struct server *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int64_t server_number(const struct server *s, const char *sql);

/* ---- What a dialect brings ------------------------------------------------------------------- */

extern const char *const dialect_user; /* of the operating system, that the server runs as */
extern const char *const dialect_scheme;
extern const char *const dialect_admin;
extern const char *const dialect_database;

/* The program's path; NULL: not installed. */
const char *dialect_program(void);

/* The command lines to create the files in the folder and to start the server, NULL behind the
 * last. */
void dialect_create(const struct server *s, const char *arguments[SERVER_ARGUMENTS_MAX]);
void dialect_start(const struct server *s, const char *arguments[SERVER_ARGUMENTS_MAX]);

/* After the first start. */
void dialect_set_up(const struct server *s);

struct session *dialect_connect(const struct server *s); /* NULL: does not answer */
bool dialect_run(struct session *session, const char *sql, char *ret_text, size_t size);
void dialect_disconnect(struct session *session);

void dialect_kill_clients(const struct server *s); /* ends all connections of the library */

extern const bool dialect_pushes; /* a release is told, not looked for */

/* What tests need in the dialect's own words. */
extern const char *const dialect_now_ms;             /* the server's clock */
extern const int dialect_marks;                      /* UPDATEs by which a waiter tells the owner */
extern const char *const dialect_counts;             /* condition: a row of simba_waiter counts */
extern const char *const dialect_count_listeners;    /* clients that hear of releases; or NULL */
extern const char *const dialect_count_clients;      /* how many it has */
extern const char *const dialect_count_commits;      /* that the server has made so far */
extern const char *const dialect_create_user;        /* `plain` with password `secret`, no rights */
extern const char *const dialect_set_password;       /* behind ALTER USER, before the password */
extern const char *const dialect_reload_certificate; /* the server's own */
extern const char *const dialect_widen_mutex;        /* to 255 characters */
extern const char *const dialect_grant_use; /* gives `plain` what the documents say it needs */
extern const char *const dialect_revoke_use;
extern const char *const dialect_read_only;  /* refuses writes of `plain` from now on */
extern const char *const dialect_read_write; /* takes them again */
extern const char
    *const dialect_isolations[]; /* each makes a level the default; NULL behind the last */
extern const char *const dialect_describe;   /* all that matters of the table, in one line */
extern const char *const dialect_old_table;  /* of older installations: ids of 32 characters */
extern const char *const dialect_wide_table; /* fills the table with 20,000 rows more */

/* Changes of the mutex `slow` take a while, and so do those that make `poison` the owner, which
 * then fail. */
extern const char *const dialect_trigger;
extern const char *const dialect_count_updates;  /* statements since then, with and without a row */
extern const char *const dialect_odd_sessions;   /* sessions begin with another character set */
extern const char *const dialect_count_connects; /* connections that were made so far */
extern const bool dialect_drops_spaces;          /* at the end of names */
extern const char *const dialect_show_isolation; /* the level of a new session */

/* What behind the folder names the server's socket. */
const char *dialect_socket(const struct server *s);

/* Contenders named `late` cannot finish to enter a queue as long as this session lives; and how
 * many are at it. */
extern const char *const dialect_hold_late;
extern const char *const dialect_let_late_go;
extern const char *const dialect_count_late;

extern const char *const dialect_count_sleepers; /* statements that are in the trigger now */

#endif
