/*
 * listener.c - the connection that sleeps until a waiter of the client is next. Owns that
 * connection and its thread; must not know mutexes.
 */
#include "backend/mysql/listener.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "base/thread.h"
#include "base/time.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 10000
#define UNFIT_MS 60000 /* until it is tried again whether wake-ups arrive by now */

/* So long at most the connection of a client that is gone stays; mostly it ends with the worker's,
 * which holds the lock. */
#define SLEEP_MS 5000
#define LATE_MS 5000 /* that an answer may take */
#define TRIAL_MS 3000
#define PAUSE_MS 20 /* for the worker to take its lock */

/* A sleep is worth 2 ms, and up to 50 may follow each other at once. So a server that ends every
 * sleep as it begins makes the client ask 500 times a second. */
#define SLEEP_MIN_MS 2
#define BURST_MS 100

struct sb_mysql_listener {
    struct sb_mysql_listener_config config;
    pthread_mutex_t lock; /* guards the next two */
    bool started;         /* the thread, which is not joined yet */
    bool stopping;
    int stop; /* an eventfd */
    pthread_t thread;
    struct simba_task ended;

    /* The thread's own: */
    char text[64 + SB_SQL_CLIENT_MAX]; /* the statement that sleeps */
    struct sb_mysql_connection *connection;
    unsigned failures;
    uint64_t random;
    int64_t paced_ms; /* until when the sleeps so far are worth, by the clock */

    void (*closed)(void *argument);
    void *argument;
};

/* ---- Sleeping -------------------------------------------------------------------------------- */

static bool is_stopping(struct sb_mysql_listener *s)
{
    bool stopping;

    pthread_mutex_lock(&s->lock);
    stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return stopping;
}

static void set_state(struct sb_mysql_listener *s, enum sb_mysql_listener_state state)
{
    atomic_store(&s->config.settings->listener, state);
}

/* What the library is to be told; 0: it is stopped, or the answer is late. */
static int await(struct sb_mysql_listener *s, int wanted, int64_t deadline_ms)
{
    struct pollfd polled[2] = {
        {.fd = mysql_get_socket(s->connection->mysql),
         .events = (short)((wanted & MYSQL_WAIT_WRITE) != 0 ? POLLIN | POLLOUT : POLLIN)},
        {.fd = s->stop, .events = POLLIN}};
    int ready = -1;

    while (ready < 0) {
        int64_t left_ms = deadline_ms - simba_now_ms();

        ready = left_ms > 0 ? poll(polled, 2, (int)left_ms) : 0;
        if (ready < 0 && errno != EINTR)
            return 0;
    }
    if (ready == 0 || polled[1].revents != 0)
        return 0;
    return (polled[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 ? MYSQL_WAIT_READ
                                                                   : MYSQL_WAIT_WRITE;
}

/* How a sleep has ended. */
enum end { END_LOST, END_IN_TIME, END_WOKEN, END_NOT_HELD };

/* Goes on with what the library has begun. False: the connection was given up. */
static bool finish(struct sb_mysql_listener *s, int64_t deadline_ms, int *status, bool *given_up)
{
    int came = *given_up ? 0 : await(s, *status, deadline_ms);

    if (came == 0 && !*given_up) {
        *given_up = true;
        shutdown((int)mysql_get_socket(s->connection->mysql), SHUT_RDWR);
    }
    *status = came != 0 ? came : MYSQL_WAIT_TIMEOUT;
    return !*given_up;
}

/* What the statement has yielded: 1, 0, or NULL where it was killed. */
static enum end read_end(MYSQL_RES *result)
{
    MYSQL_ROW row = mysql_num_fields(result) == 1 ? mysql_fetch_row(result) : NULL;

    if (row == NULL)
        return END_LOST;
    return row[0] == NULL ? END_WOKEN : strcmp(row[0], "1") == 0 ? END_NOT_HELD : END_IN_TIME;
}

/* One sleep. `woken` is called when it is on its way, unless it is NULL. */
static enum end sleep_once(struct sb_mysql_listener *s, int64_t deadline_ms, bool calls)
{
    MYSQL *mysql = s->connection->mysql;
    MYSQL_RES *rows = NULL;
    bool given_up = false;
    int result = 0;
    int status = mysql_real_query_start(&result, mysql, s->text, strlen(s->text));
    enum end end;

    if (calls)
        s->config.woken(s->config.user);
    while (status != 0) {
        finish(s, deadline_ms, &status, &given_up);
        status = mysql_real_query_cont(&result, mysql, status);
    }
    if (result != 0)
        return !given_up && mysql_errno(mysql) == SB_MYSQL_INTERRUPTED ? END_WOKEN : END_LOST;
    status = mysql_store_result_start(&rows, mysql);
    while (status != 0) {
        finish(s, deadline_ms, &status, &given_up);
        status = mysql_store_result_cont(&rows, mysql, status);
    }
    if (rows == NULL)
        return !given_up && mysql_errno(mysql) == SB_MYSQL_INTERRUPTED ? END_WOKEN : END_LOST;
    end = given_up ? END_LOST : read_end(rows);
    mysql_free_result(rows);
    return end;
}

/* The worker has lost its connection, or does not hold the lock yet: it is left to it. */
static bool leave_lock(struct sb_mysql_listener *s)
{
    struct pollfd stop = {.fd = s->stop, .events = POLLIN};
    char buffer[64 + SB_SQL_CLIENT_MAX];
    struct sb_text text;

    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "DO RELEASE_LOCK('%s" SB_MYSQL_HELD "')", s->config.settings->client);
    sb_mysql_driver.set_deadline(&s->connection->base, simba_now_ms() + LATE_MS);
    return sb_mysql_call_query(s->connection, buffer) == 0 && poll(&stop, 1, PAUSE_MS) == 0;
}

static void say_deaf(struct sb_mysql_listener *s, const char *why)
{
    const struct simba_backend_host *host = s->config.host;

    set_state(s, SB_MYSQL_DEAF);
    s->config.hears(s->config.user, false);
    if (s->failures++ == 0 && !is_stopping(s))
        host->log(host, SIMBA_LOG_INFO,
                  "the client polls for releases, because it cannot be woken: %s", why);
}

/* The first sleep is ended by this client itself, whose poll sees that it is on trial. Returns
 * whether it was. */
static bool pass_trial(struct sb_mysql_listener *s)
{
    int64_t until_ms = simba_now_ms() + TRIAL_MS;
    enum end end = END_NOT_HELD;

    set_state(s, SB_MYSQL_ON_TRIAL);
    while (end == END_NOT_HELD && simba_now_ms() < until_ms) {
        end = sleep_once(s, until_ms, true);
        if (end == END_NOT_HELD && !leave_lock(s))
            return false;
    }
    return end == END_WOKEN;
}

/* Holds back a sleep that comes too soon. Whatever is told meanwhile, the client asks for behind
 * it. False: it is stopped. */
static bool keep_pace(struct sb_mysql_listener *s)
{
    struct pollfd stop = {.fd = s->stop, .events = POLLIN};
    int64_t now_ms = simba_now_ms();

    s->paced_ms = sb_max(s->paced_ms, now_ms - BURST_MS) + SLEEP_MIN_MS;
    return s->paced_ms <= now_ms || poll(&stop, 1, (int)(s->paced_ms - now_ms)) == 0;
}

/* The next sleep is on its way before the client asks what has happened. */
static void sleep_on(struct sb_mysql_listener *s)
{
    enum end end = END_WOKEN;

    while (end != END_LOST && keep_pace(s)) {
        end = sleep_once(s, simba_now_ms() + SLEEP_MS + LATE_MS, end != END_IN_TIME);
        if (end == END_NOT_HELD && !leave_lock(s))
            return;
    }
}

/* ---- The connection -------------------------------------------------------------------------- */

/* An earlier connection of this client may still sleep. The name is this client's alone. */
static bool take_name(struct sb_mysql_listener *s)
{
    const char *client = s->config.settings->client;
    struct sb_mysql_connection *c = s->connection;
    char buffer[64 + SB_SQL_CLIENT_MAX];
    struct sb_text text;
    MYSQL_RES *result;
    MYSQL_ROW row;
    bool taken;

    sb_mysql_driver.set_deadline(&c->base, simba_now_ms() + LATE_MS);
    sb_mysql_wake(c, client);
    sb_text_init(&text, buffer, sizeof buffer);
    sb_text_add(&text, "SELECT GET_LOCK('%s', 1)", client);
    if (sb_mysql_call_query(c, buffer) != 0)
        return false;
    result = sb_mysql_call_store(c);
    if (result == NULL)
        return false;
    row = mysql_num_fields(result) == 1 ? mysql_fetch_row(result) : NULL;
    taken = row != NULL && row[0] != NULL && strcmp(row[0], "1") == 0;
    mysql_free_result(result);
    return taken;
}

/* Returns how long to wait before the next attempt. */
static int64_t serve(struct sb_mysql_listener *s)
{
    const struct simba_backend_host *host = s->config.host;
    struct sb_mysql_settings *settings = s->config.settings;
    struct sb_sql_connection *connection = NULL;
    struct sb_sql_failure failure;
    int64_t pause_ms = 0;

    if (sb_mysql_driver.connect(settings, settings->address.connect_timeout_ms, &connection,
                                &failure) != SIMBA_OK) {
        say_deaf(s, failure.error.text);
        return sb_random_backoff(&s->random, BACKOFF_MIN_MS, BACKOFF_MAX_MS, s->failures);
    }
    s->connection = (struct sb_mysql_connection *)connection;
    if (!connection->has_queue) {
        pause_ms = UNFIT_MS; /* nobody would wake it; the client has said so */
    } else if (!take_name(s)) {
        say_deaf(s, "the server gives out no user-level lock");
        pause_ms = UNFIT_MS;
    } else if (!pass_trial(s)) {
        say_deaf(s, "KILL QUERY does not reach the client's own connection: a proxy is in between");
        pause_ms = UNFIT_MS;
    } else {
        if (s->failures > 0)
            host->log(host, SIMBA_LOG_INFO, "the client is woken by releases again");
        s->failures = 0;
        set_state(s, SB_MYSQL_HEARS);
        s->config.hears(s->config.user, true);
        sleep_on(s);
        say_deaf(s, "the connection was lost");
        pause_ms = sb_random_backoff(&s->random, BACKOFF_MIN_MS, BACKOFF_MAX_MS, s->failures);
    }
    sb_mysql_driver.disconnect(connection);
    s->connection = NULL;
    return pause_ms;
}

static void *run_thread(void *argument)
{
    struct sb_mysql_listener *s = argument;

    while (!is_stopping(s)) {
        int64_t pause_ms = serve(s);
        struct pollfd stop = {.fd = s->stop, .events = POLLIN};

        poll(&stop, 1, (int)pause_ms);
    }
    s->config.host->post(s->config.host, &s->ended);
    return NULL;
}

/* ---- Creating and destroying ----------------------------------------------------------------- */

static void finish_close(struct sb_mysql_listener *s)
{
    void (*closed)(void *argument) = s->closed;
    void *argument = s->argument;

    close(s->stop);
    pthread_mutex_destroy(&s->lock);
    sb_free(s);
    closed(argument);
}

/* On the loop. The thread has nothing left to do but to return. */
static void on_ended(struct simba_task *task)
{
    struct sb_mysql_listener *s = SB_CONTAINER(struct sb_mysql_listener, ended, task);

    pthread_join(s->thread, NULL);
    s->started = false;
    if (s->closed != NULL)
        finish_close(s);
}

int sb_mysql_listener_create(const struct sb_mysql_listener_config *config,
                             struct sb_mysql_listener **ret_listener, struct simba_error *error)
{
    struct sb_mysql_listener *s = sb_alloc_zero(sizeof *s);
    struct sb_text text;

    if (s == NULL)
        return sb_error_plain(error, SIMBA_ENOMEM);
    s->config = *config;
    s->random = sb_random_seed();
    s->ended.run = on_ended;
    pthread_mutex_init(&s->lock, NULL);
    s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->stop < 0) {
        int number = errno;

        pthread_mutex_destroy(&s->lock);
        sb_free(s);
        return sb_error_set_backend(error, SIMBA_ENOMEM, number, "cannot open a descriptor: %s",
                                    strerror(number));
    }
    sb_text_init(&text, s->text, sizeof s->text);
    sb_text_add(&text, "SELECT GET_LOCK('%s" SB_MYSQL_HELD "', 5)", config->settings->client);
    *ret_listener = s;
    return SIMBA_OK;
}

/* Where there is no thread to be had the client polls; the next waiter tries again. */
void sb_mysql_listener_want(struct sb_mysql_listener *s)
{
    pthread_mutex_lock(&s->lock);
    if (!s->started && !s->stopping)
        s->started = sb_thread_start(&s->thread, "simba-listener", run_thread, s) == 0;
    pthread_mutex_unlock(&s->lock);
}

void sb_mysql_listener_stop(struct sb_mysql_listener *s)
{
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_mutex_unlock(&s->lock);
    eventfd_write(s->stop, 1);
}

void sb_mysql_listener_close(struct sb_mysql_listener *s, void (*closed)(void *argument),
                             void *argument)
{
    SB_CHECK(s->closed == NULL, "a listener is closed once");
    s->closed = closed;
    s->argument = argument;
    sb_mysql_listener_stop(s);
    if (!s->started)
        finish_close(s);
}
