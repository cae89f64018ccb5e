/*
 * server.h - a private redis-server on a free loopback port in a folder of its own, and a client
 * that is not ours to look at it with.
 */
#ifndef SIMBA_TEST_REDIS_SERVER_H
#define SIMBA_TEST_REDIS_SERVER_H

#include "test.h"

#include <hiredis/hiredis.h>
#include <sys/types.h>

#define SERVER_ARGUMENTS_MAX 40

struct server {
    pid_t pid;
    int port;
    char folder[TEST_PATH_MAX];
    const char *arguments[SERVER_ARGUMENTS_MAX]; /* what the test added to the command line */
    bool sentinel;                               /* it reads its configuration from a file */
    const char *password;                        /* that server_ask gives */
    const char *user;                            /* with the password; NULL: the default one */
    redisContext *context;
};

/* Starts it with more arguments, NULL behind the last one (strings that stay valid), and waits
 * until it answers. */
void server_start(struct server *server, ...) __attribute__((sentinel));

/* Starts a sentinel that watches a master under the name "main", which two must find dead. */
void server_start_sentinel(struct server *server, int master_port);

/* Starts it again on the same port, in the same folder. */
void server_start_again(struct server *server);

/* The same without waiting until it answers. */
void server_launch_again(struct server *server);

/* Ends the process with a signal and waits for that. The folder stays. */
void server_kill(struct server *server, int signal);

/* SIGSTOP and SIGCONT. */
void server_pause(struct server *server);
void server_go_on(struct server *server);

/* Ends it and removes the folder. */
void server_stop(struct server *server);

/* A command, in the form of hiredis; fails the test when there is no reply. The caller frees it. */
redisReply *server_ask(struct server *server, const char *format, ...);

/* The same where the reply is a number, or a text (valid until the next call; "" for nil), or does
 * not matter. */
long long server_number(struct server *server, const char *format, ...);
const char *server_text(struct server *server, const char *format, ...);
void server_do(struct server *server, const char *format, ...);

/* By its clock, in microseconds. */
uint64_t server_time_us(struct server *server);

/* How many connections of this name the server has. */
size_t server_clients(struct server *server, const char *name);

/* redis://127.0.0.1:PORT with what follows it; valid until the fourth next call. */
const char *server_url(const struct server *server, const char *rest);

#endif
