/*
 * server.c - a private redis-server.
 */
#include "server.h"

#include "lib/port.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- The process ----------------------------------------------------------------------------- */

static void run_sentinel(const struct server *server)
{
    const char *arguments[] = {"redis-server", "sentinel.conf", "--sentinel", NULL};

    if (chdir(server->folder) == 0)
        execvp(arguments[0], (char **)(uintptr_t)arguments);
    _exit(121);
}

static void run(const struct server *server)
{
    char port[16];
    const char *arguments[SERVER_ARGUMENTS_MAX + 16] = {
        "redis-server", "--bind", "127.0.0.1", "--port",    port, "--dir",
        server->folder, "--save", "",          "--logfile", "log"};
    size_t count = 11;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(port, sizeof port, "%d", server->port);
    for (size_t i = 0; server->arguments[i] != NULL; i++)
        arguments[count++] = server->arguments[i];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    if (server->sentinel)
        run_sentinel(server);
    execvp(arguments[0], (char **)(uintptr_t)arguments);
    _exit(121);
}

static void disconnect(struct server *server)
{
    if (server->context != NULL)
        redisFree(server->context);
    server->context = NULL;
}

static bool try_connect(struct server *server)
{
    struct timeval patience = {5, 0};
    redisReply *reply;

    disconnect(server);
    server->context = redisConnectWithTimeout("127.0.0.1", server->port, patience);
    if (server->context == NULL || server->context->err != 0)
        return false;
    if (server->password == NULL)
        return true;
    reply = redisCommand(server->context, "AUTH %s %s",
                         server->user != NULL ? server->user : "default", server->password);
    if (reply != NULL)
        freeReplyObject(reply);
    return reply != NULL;
}

static bool answers(void *user)
{
    struct server *server = user;
    redisReply *reply = NULL;
    bool pong;

    if (try_connect(server))
        reply = redisCommand(server->context, "PING");
    pong = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return pong;
}

static void launch(struct server *server)
{
    server->pid = fork();
    if (server->pid == 0)
        run(server);
    assert_true(server->pid > 0);
}

void server_start(struct server *server, ...)
{
    size_t count = 0;
    va_list list;

    signal(SIGPIPE, SIG_IGN);
    server->port = test_free_port();
    test_folder_create(server->folder);
    va_start(list, server);
    while ((server->arguments[count] = va_arg(list, const char *)) != NULL)
        assert_true(++count < SERVER_ARGUMENTS_MAX);
    va_end(list);
    launch(server);
    if (!test_wait(answers, server))
        fail_msg("redis-server on port %d does not answer", server->port);
}

void server_start_sentinel(struct server *server, int master_port)
{
    char path[TEST_PATH_MAX + 32];
    FILE *file;

    server->sentinel = true;
    server->port = test_free_port();
    test_folder_create(server->folder);
    snprintf(path, sizeof path, "%s/sentinel.conf", server->folder);
    file = fopen(path, "we");
    assert_non_null(file);
    fprintf(file,
            "bind 127.0.0.1\nport %d\ndir %s\nlogfile log\n"
            "sentinel monitor main 127.0.0.1 %d 2\n"
            "sentinel down-after-milliseconds main 700\n"
            "sentinel failover-timeout main 3000\n",
            server->port, server->folder, master_port);
    assert_int_equal(fclose(file), 0);
    launch(server);
    if (!test_wait(answers, server))
        fail_msg("the sentinel on port %d does not answer", server->port);
}

void server_launch_again(struct server *server)
{
    launch(server);
}

void server_start_again(struct server *server)
{
    launch(server);
    if (!test_wait(answers, server))
        fail_msg("redis-server on port %d does not answer again", server->port);
}

void server_kill(struct server *server, int signal_number)
{
    disconnect(server);
    if (server->pid <= 0)
        return;
    kill(server->pid, signal_number);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

void server_pause(struct server *server)
{
    int status = 0;

    kill(server->pid, SIGSTOP);
    assert_int_equal(waitpid(server->pid, &status, WUNTRACED), server->pid);
    assert_true(WIFSTOPPED(status));
}

void server_go_on(struct server *server)
{
    kill(server->pid, SIGCONT);
}

void server_stop(struct server *server)
{
    if (server->pid > 0)
        server_go_on(server);
    server_kill(server, SIGKILL);
    if (server->folder[0] != '\0')
        test_folder_remove(server->folder);
    server->folder[0] = '\0';
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static redisReply *ask_once(struct server *server, const char *format, va_list list)
{
    va_list copy;
    redisReply *reply;

    if ((server->context == NULL || server->context->err != 0) && !test_wait(answers, server))
        fail_msg("redis-server on port %d does not answer", server->port);
    va_copy(copy, list);
    reply = redisvCommand(server->context, format, copy);
    va_end(copy);
    return reply;
}

/* A server that changes its role cuts its clients off: then it is asked again. */
static redisReply *ask(struct server *server, const char *format, va_list list)
{
    redisReply *reply = ask_once(server, format, list);

    if (reply == NULL)
        reply = ask_once(server, format, list);
    if (reply == NULL)
        fail_msg("no reply to %s: %s", format, server->context->errstr);
    return reply;
}

redisReply *server_ask(struct server *server, const char *format, ...)
{
    redisReply *reply;
    va_list list;

    va_start(list, format);
    reply = ask(server, format, list);
    va_end(list);
    return reply;
}

long long server_number(struct server *server, const char *format, ...)
{
    redisReply *reply;
    long long number;
    va_list list;

    va_start(list, format);
    reply = ask(server, format, list);
    va_end(list);
    if (reply->type != REDIS_REPLY_INTEGER)
        fail_msg("%s: no number but type %d: %s", format, reply->type, reply->str);
    number = reply->integer;
    freeReplyObject(reply);
    return number;
}

const char *server_text(struct server *server, const char *format, ...)
{
    static char text[65536];
    redisReply *reply;
    va_list list;

    va_start(list, format);
    reply = ask(server, format, list);
    va_end(list);
    if (reply->type != REDIS_REPLY_STRING && reply->type != REDIS_REPLY_STATUS &&
        reply->type != REDIS_REPLY_NIL)
        fail_msg("%s: no text but type %d", format, reply->type);
    snprintf(text, sizeof text, "%s", reply->type == REDIS_REPLY_NIL ? "" : reply->str);
    freeReplyObject(reply);
    return text;
}

void server_do(struct server *server, const char *format, ...)
{
    redisReply *reply;
    va_list list;

    va_start(list, format);
    reply = ask(server, format, list);
    va_end(list);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    freeReplyObject(reply);
}

uint64_t server_time_us(struct server *server)
{
    redisReply *reply = server_ask(server, "TIME");
    uint64_t time_us = strtoull(reply->element[0]->str, NULL, 10) * 1000000 +
                       strtoull(reply->element[1]->str, NULL, 10);

    freeReplyObject(reply);
    return time_us;
}

size_t server_clients(struct server *server, const char *name)
{
    const char *list = server_text(server, "CLIENT LIST");
    char part[64];
    size_t count = 0;

    snprintf(part, sizeof part, " name=%s ", name);
    while ((list = strstr(list, part)) != NULL) {
        count++;
        list += strlen(part);
    }
    return count;
}

const char *server_url(const struct server *server, const char *rest)
{
    static char urls[4][1024];
    static unsigned turn;
    char *url = urls[turn++ % 4];

    snprintf(url, sizeof urls[0], "redis://127.0.0.1:%d%s", server->port, rest);
    return url;
}
