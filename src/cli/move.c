/*
 * move.c - moves one mutex from a store to another. Owns the order of the steps:
 *
 *     FROM   ........|-- held ------------------|== marked: "moved~x7k2p9 (moved to URL)" ===>
 *     TO     ...|------------ held -------------------|......... free for contenders
 *                     copy what is remembered,
 *                     raise the floor of tokens
 *
 * Nobody can own on TO before nobody can own on FROM. The mark comes last, so a mutex that is
 * marked has been moved completely, and after a crash the move can be done again.
 *
 * The mark is an owner like any other, whose lease outlives this program. On the way back the
 * store with the mark is TO: the mutex is then acquired under the id of the mark, so that no
 * waiter gets it in between.
 */
#include "cli/move.h"

#include "base/error.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/last_run.h"
#include "cli/store.h"

#include <string.h>

#define TIMEOUT_MS 5000

/* The lease on TO once both are held. Nobody renews it, since an owner that renews after the floor
 * was raised may lose its term. Longer than all requests that follow may take. */
#define HOLD_MS 60000

/* Of the JVM library's tables, where `owner_id` is char(32). */
#define SHORT_ID_MAX 32

#define MARK "moved"
#define MARK_NOTE " (moved to "
#define TARGET_MAX 96 /* bytes of the URL in a mark */

struct held {
    const struct cli_move_side *side;
    const char *mutex;
    char id[SIMBA_ID_MAX + 1];
    uint64_t fence;
    simba_locker *locker; /* NULL: not held */
    bool detached;
    bool was_marked; /* it was acquired under the id of its mark */
};

/* ---- Marks ----------------------------------------------------------------------------------- */

static bool is_mark(const char *id)
{
    return strncmp(id, MARK "~", sizeof MARK) == 0;
}

static int make_mark(const struct cli_move *move, char id[SIMBA_ID_MAX + 1],
                     struct simba_error *error)
{
    int code = simba_id_unique(MARK, id, error);
    size_t used = strlen(id);

    if (code == SIMBA_OK)
        snprintf(id + used, SIMBA_ID_MAX + 1 - used, MARK_NOTE "%.*s)", TARGET_MAX, move->to.shown);
    return code;
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static void set_waiting(struct cli_move *move, simba_locker *locker)
{
    pthread_mutex_lock(&move->lock);
    move->waiting = locker;
    if (locker != NULL && move->cancelled)
        simba_locker_cancel(locker);
    pthread_mutex_unlock(&move->lock);
}

void cli_move_cancel(struct cli_move *move)
{
    pthread_mutex_lock(&move->lock);
    move->cancelled = true;
    if (move->waiting != NULL)
        simba_locker_cancel(move->waiting);
    pthread_mutex_unlock(&move->lock);
}

bool cli_move_is_cancelled(struct cli_move *move)
{
    pthread_mutex_lock(&move->lock);
    bool cancelled = move->cancelled;
    pthread_mutex_unlock(&move->lock);
    return cancelled;
}

/* ---- Holding a mutex on one store ------------------------------------------------------------ */

static int create(const struct held *held, bool detachable, simba_locker **ret_locker,
                  struct simba_error *error)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;

    options.mutex = held->mutex;
    options.id = held->id;
    options.fail_fast = true;
    options.detachable = detachable;
    return simba_locker_create(held->side->client, &options, ret_locker, error);
}

static int acquire(struct cli_move *move, struct held *held, struct simba_error *error)
{
    int code = create(held, held->side->detaches, &held->locker, error);

    if (code != SIMBA_OK)
        return code;
    set_waiting(move, held->locker);
    if (move->try_once)
        code = simba_locker_try_acquire(held->locker, error);
    else if (move->wait_ms != SIMBA_UNSET)
        code = simba_locker_acquire_timeout(held->locker, move->wait_ms, error);
    else
        code = simba_locker_acquire(held->locker, error);
    set_waiting(move, NULL);
    held->fence = simba_locker_fence(held->locker);
    if (code != SIMBA_OK) {
        simba_locker_close(held->locker);
        held->locker = NULL;
    }
    return code;
}

/* From here on the lease ends by itself. */
static int lease(struct held *held, int64_t lease_ms, struct simba_error *error)
{
    int64_t deadline_ms;
    int code = held->detached ? SIMBA_OK : simba_locker_detach(held->locker, error);

    if (code != SIMBA_OK)
        return code;
    held->detached = true;
    return simba_client_renew(held->side->client, held->mutex, held->id, held->fence, lease_ms,
                              TIMEOUT_MS, &deadline_ms, error);
}

static int release(struct held *held, struct simba_error *error)
{
    int code;

    if (held->locker == NULL)
        return SIMBA_OK;
    code = held->detached ? simba_client_end(held->side->client, held->mutex, held->id, held->fence,
                                             TIMEOUT_MS, error)
                          : simba_locker_release(held->locker, error);
    simba_locker_close(held->locker);
    held->locker = NULL;
    return code;
}

/* After a failure: as it was before. */
static void give_back(struct held *held)
{
    struct simba_error error;
    int code;

    if (held->locker != NULL && held->was_marked) {
        code = lease(held, SIMBA_LEASE_MAX_MS, &error);
        simba_locker_close(held->locker);
    } else {
        code = release(held, &error);
    }
    if (code != SIMBA_OK)
        cli_message("warning: '%s' may stay held on %s by %s: %s", held->mutex, held->side->shown,
                    held->id, error.text);
}

/* ---- The steps ------------------------------------------------------------------------------- */

static int read_owner(const struct held *held, struct simba_owner *owner, struct simba_error *error)
{
    uint64_t revision;

    return simba_client_revision(held->side->client, held->mutex, TIMEOUT_MS, owner, &revision,
                                 error);
}

static void tell_wait(const struct cli_move *move, const struct held *held, const char *owner)
{
    if (owner[0] != 0 && !move->try_once && !move->quiet)
        cli_message("waiting for '%s' on %s: held by %s", held->mutex, held->side->shown, owner);
}

/* A mutex that somebody holds is no failure of the move. */
static int judge(const struct held *held, int code, const char *owner, struct cli_moved *moved)
{
    if (code != SIMBA_ECONTENDED && code != SIMBA_ETIMEDOUT)
        return code;
    moved->state = CLI_MOVED_HELD;
    moved->on = held->side;
    sb_text_copy(moved->owner, sizeof moved->owner, owner);
    return SIMBA_OK;
}

static int hold_to(struct cli_move *move, struct held *to, struct cli_moved *moved,
                   struct simba_error *error)
{
    struct simba_owner owner;
    int code = read_owner(to, &owner, error);

    if (code != SIMBA_OK)
        return code;
    to->was_marked = to->side->detaches && is_mark(owner.id);
    if (to->was_marked)
        sb_text_copy(to->id, sizeof to->id, owner.id);
    else
        code = simba_id_unique("migrate", to->id, error);
    if (!to->was_marked)
        tell_wait(move, to, owner.id);
    if (code == SIMBA_OK)
        code = acquire(move, to, error);
    return judge(to, code, owner.id, moved);
}

static int hold_from(struct cli_move *move, struct held *from, const struct held *to,
                     struct cli_moved *moved, struct simba_error *error)
{
    struct simba_owner owner;
    int code = read_owner(from, &owner, error);

    if (code == SIMBA_OK && strcmp(owner.id, to->id) == 0)
        code = sb_error_set(error, SIMBA_ECONFIG, "FROM and TO are the same store");
    if (code == SIMBA_OK)
        code = make_mark(move, from->id, error);
    if (code != SIMBA_OK)
        return code;
    tell_wait(move, from, owner.id);
    code = acquire(move, from, error);
    if (code == SIMBA_EINVAL && strlen(from->id) > SHORT_ID_MAX) {
        *strstr(from->id, MARK_NOTE) = 0;
        code = acquire(move, from, error);
    }
    return judge(from, code, owner.id, moved);
}

static int fail_taken(const struct held *held, struct simba_error *error)
{
    return sb_error_set(error, SIMBA_ELOST, "'%s' was lost on %s meanwhile", held->mutex,
                        held->side->shown);
}

/* Tokens on TO must be above those of FROM. */
static int raise_floor(const struct held *from, const struct held *to, struct simba_error *error)
{
    bool done = true;
    int code;

    if (to->fence > from->fence)
        return SIMBA_OK;
    code = simba_client_raise_fence(to->side->client, to->mutex, to->id, from->fence, TIMEOUT_MS,
                                    &done, error);
    if (code == SIMBA_EUNSUPPORTED)
        return sb_error_set(error, code,
                            "'%s' had tokens up to %llu, and %s, whose tokens are numbers of its "
                            "own, is at %llu: whatever checks tokens would refuse its owners",
                            from->mutex, (unsigned long long)from->fence, to->side->shown,
                            (unsigned long long)to->fence);
    if (code == SIMBA_OK && !done)
        code = fail_taken(to, error);
    return code;
}

/* Both are held. */
static int transfer(struct held *from, struct held *to, struct cli_moved *moved,
                    struct simba_error *error)
{
    int code = SIMBA_OK;

    if (to->side->detaches)
        code = lease(to, HOLD_MS, error);
    else if (!simba_locker_is_held(to->locker))
        code = fail_taken(to, error);
    if (code == SIMBA_OK)
        code = cli_runs_copy(from->side->client, to->side->client, to->mutex, to->id, error);
    if (code == SIMBA_OK)
        code = raise_floor(from, to, error);
    if (code == SIMBA_OK && from->side->detaches)
        code = lease(from, SIMBA_LEASE_MAX_MS, error);
    if (code != SIMBA_OK)
        return code;
    moved->state = CLI_MOVED;
    moved->fence = from->fence;
    moved->above = to->fence > from->fence ? to->fence : from->fence;
    if (from->side->detaches)
        simba_locker_close(from->locker);
    else
        moved->kept = from->locker;
    from->locker = NULL;
    to->was_marked = false;
    give_back(to);
    return SIMBA_OK;
}

/* Whether there is something to move. */
static bool is_movable(const struct cli_move *move, const struct held *from,
                       const struct simba_owner *owner, struct cli_moved *moved)
{
    moved->fence = owner->fence;
    moved->on = from->side;
    sb_text_copy(moved->owner, sizeof moved->owner, owner->id);
    if (is_mark(owner->id))
        moved->state = CLI_MOVED_BEFORE;
    else if (owner->id[0] != 0 && move->try_once)
        moved->state = CLI_MOVED_HELD;
    return moved->state == CLI_MOVED;
}

int cli_move_mutex(struct cli_move *move, const char *mutex, struct cli_moved *ret_moved,
                   struct simba_error *error)
{
    struct held from = {.side = &move->from, .mutex = mutex};
    struct held to = {.side = &move->to, .mutex = mutex};
    struct simba_owner owner;
    int code = read_owner(&from, &owner, error);

    *ret_moved = (struct cli_moved){.state = CLI_MOVED};
    if (code != SIMBA_OK || !is_movable(move, &from, &owner, ret_moved) || move->dry_run)
        return code;
    code = hold_to(move, &to, ret_moved, error);
    if (code == SIMBA_OK && to.locker != NULL)
        code = hold_from(move, &from, &to, ret_moved, error);
    if (code == SIMBA_OK && from.locker != NULL)
        code = transfer(&from, &to, ret_moved, error);
    give_back(&from);
    give_back(&to);
    return code;
}

/* ---- What the stores can do ------------------------------------------------------------------ */

static int prepare(struct cli_move_side *side, const char *url, struct simba_error *error)
{
    struct held probe = {.side = side, .mutex = "probe", .id = "probe"};
    char shown[CLI_URL_MAX];
    int code;

    sb_url_redact(url, shown, sizeof shown);
    shown[strcspn(shown, "?#")] = 0;
    for (char *c = shown; *c != 0; c++) /* it may be cut at any byte */
        *c = *c > ' ' && *c < 127 ? *c : '?';
    sb_text_copy(side->shown, sizeof side->shown, shown);
    if (side->client == NULL)
        return SIMBA_OK;
    code = create(&probe, true, &probe.locker, error); /* does not use the store */
    side->detaches = code == SIMBA_OK;
    simba_locker_close(probe.locker);
    return code == SIMBA_EUNSUPPORTED ? SIMBA_OK : code;
}

int cli_move_prepare(struct cli_move *move, const char *from_url, const char *to_url,
                     struct simba_error *error)
{
    int code = prepare(&move->from, from_url, error);

    return code == SIMBA_OK ? prepare(&move->to, to_url, error) : code;
}
