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
 * store with the mark is TO: nobody can own there as long as it stands. So the mark itself is what
 * is held on TO, until the last step releases it.
 */
#include "cli/move.h"

#include "base/error.h"
#include "base/text.h"
#include "base/time.h"
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

/* What is left of the lease of a mark. One with less is that of a move which is under way, or which
 * was killed: its lease is an ordinary one. */
#define MARK_MIN_MS ((int64_t)3600 * 1000)

struct held {
    const struct cli_move_side *side;
    const char *mutex;
    char id[SIMBA_ID_MAX + 1];
    uint64_t fence;
    bool holds;
    simba_locker *locker; /* that renews; NULL: nobody does */
    bool marked;          /* by an earlier move, and that is what holds */
};

/* ---- Marks ----------------------------------------------------------------------------------- */

static bool is_mark(const struct cli_move_side *side, const struct simba_owner *owner)
{
    return strncmp(owner->id, MARK "~", sizeof MARK) == 0 &&
           (!side->detaches || sb_time_left(owner->transition_at_ms, simba_now_ms()) > MARK_MIN_MS);
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

static void close_locker(struct held *held)
{
    simba_locker_close(held->locker);
    held->locker = NULL;
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
    held->holds = code == SIMBA_OK;
    if (code != SIMBA_OK)
        close_locker(held);
    return code;
}

/* From here on the lease ends by itself. */
static int lease(struct held *held, int64_t lease_ms, struct simba_error *error)
{
    int64_t deadline_ms;
    int code = held->locker == NULL ? SIMBA_OK : simba_locker_detach(held->locker, error);

    if (code != SIMBA_OK)
        return code;
    close_locker(held);
    return simba_client_renew(held->side->client, held->mutex, held->id, held->fence, lease_ms,
                              TIMEOUT_MS, &deadline_ms, error);
}

static void release(struct held *held)
{
    struct simba_error error;
    int code;

    if (!held->holds)
        return;
    code = held->locker == NULL ? simba_client_end(held->side->client, held->mutex, held->id,
                                                   held->fence, TIMEOUT_MS, &error)
                                : simba_locker_release(held->locker, &error);
    close_locker(held);
    held->holds = false;
    if (code != SIMBA_OK)
        cli_message("warning: '%s' may stay held on %s by %s: %s", held->mutex, held->side->shown,
                    held->id, error.text);
}

/* ---- The steps ------------------------------------------------------------------------------- */

/* Where a store does not keep the token of a term its revision stands for it. */
static int read_owner(struct held *held, struct simba_owner *owner, struct simba_error *error)
{
    int code = simba_client_revision(held->side->client, held->mutex, TIMEOUT_MS, owner,
                                     &held->fence, error);

    if (code == SIMBA_OK && owner->fence != 0)
        held->fence = owner->fence;
    return code;
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
    to->holds = to->marked = to->side->detaches && is_mark(to->side, &owner);
    if (to->marked) {
        sb_text_copy(to->id, sizeof to->id, owner.id);
        return SIMBA_OK;
    }
    code = simba_id_unique("migrate", to->id, error);
    if (code != SIMBA_OK)
        return code;
    tell_wait(move, to, owner.id);
    return judge(to, acquire(move, to, error), owner.id, moved);
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

/* Tokens on TO must be above those of FROM. On some stores the term on TO has the new number then,
 * by which it is released. */
static int raise_floor(const struct held *from, struct held *to, struct simba_error *error)
{
    struct simba_owner owner = SIMBA_OWNER_NONE;
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
    if (code == SIMBA_OK && done)
        code = read_owner(to, &owner, error);
    if (code == SIMBA_OK && strcmp(owner.id, to->id) != 0)
        code = fail_taken(to, error);
    return code;
}

/* Both are held. */
static int transfer(struct held *from, struct held *to, struct cli_moved *moved,
                    struct simba_error *error)
{
    int code = SIMBA_OK;

    if (to->side->detaches)
        code = lease(to, HOLD_MS, error); /* it shortens no mark */
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
    moved->kept = from->locker;
    from->holds = to->marked = false;
    release(to);
    return SIMBA_OK;
}

/* Whether there is something to move. A mark without a lease ends with its process, which may have
 * died already: that is not over. */
static bool is_movable(const struct cli_move *move, const struct held *from,
                       const struct simba_owner *owner, struct cli_moved *moved)
{
    moved->fence = owner->fence;
    moved->on = from->side;
    sb_text_copy(moved->owner, sizeof moved->owner, owner->id);
    if (is_mark(from->side, owner))
        moved->state = from->side->detaches ? CLI_MOVED_BEFORE : CLI_MOVED_HELD;
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
    if (code == SIMBA_OK && to.holds)
        code = hold_from(move, &from, &to, ret_moved, error);
    if (code == SIMBA_OK && from.holds)
        code = transfer(&from, &to, ret_moved, error);
    release(&from);
    if (!to.marked) /* then it stays as it was */
        release(&to);
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
