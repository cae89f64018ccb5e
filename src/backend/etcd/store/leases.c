/*
 * leases.c - grants, keeps alive and revokes. Owns the stream of keep-alives; must not know what
 * the leases are for.
 */
#include "backend/etcd/store/leases.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/time.h"

#define TTL_MIN_S 2 /* what servers raise a shorter one to, with their usual election timeout */
#define TTL_MAX_S 9000000000 /* a server's own limit */
#define INTERVAL_MIN_MS 50
#define RESTART_MS 100
#define REVOKE_MS 1000
#define LEAST_PAUSE_MS 20

static int64_t wanted_s(const struct sb_etcd_leases *l)
{
    int64_t lease_s = l->options->lease_ms / 1000 + (l->options->lease_ms % 1000 != 0);

    return sb_max(lease_s, TTL_MIN_S);
}

/* Often while there are contenders: a win counts from the last proof. */
static int64_t interval_ms(const struct sb_etcd_lease *lease)
{
    int64_t slow_ms = lease->ttl_ms / 3;

    if (lease->users == 0)
        return slow_ms;
    return sb_earlier(sb_max(lease->leases->options->ttl_ms / 2, INTERVAL_MIN_MS), slow_ms);
}

bool sb_etcd_lease_is_fresh(const struct sb_etcd_lease *lease)
{
    int64_t limit_ms = sb_max(lease->leases->options->ttl_ms / 2, INTERVAL_MIN_MS);

    return lease->id != 0 && simba_now_ms() <= sb_later(lease->answered_ms, limit_ms);
}

uint64_t sb_etcd_leases_sequence(struct sb_etcd_leases *l)
{
    return ++l->sequence;
}

void sb_etcd_leases_confirm(struct sb_etcd_leases *l, const Etcd__Header *header, uint64_t sequence)
{
    for (struct sb_etcd_lease *lease = l->first; lease != NULL; lease = lease->next)
        if (header != NULL && lease->answered_ms > lease->proved_ms &&
            sequence > lease->answer_sequence && header->raft_term == lease->term)
            lease->proved_ms = lease->answered_ms;
}

/* ---- The end of a lease ---------------------------------------------------------------------- */

static void lose(struct sb_etcd_lease *lease)
{
    struct simba_error error;

    lease->id = 0;
    lease->sent_ms = 0;
    lease->answered_ms = 0;
    lease->proved_ms = 0;
    sb_error_set(&error, SIMBA_EUNAVAILABLE, "the lease of this client on etcd has ended");
    lease->leases->tell(lease->leases->user, lease, SB_ETCD_LEASE_LOST, &error);
}

/* ---- Keeping alive --------------------------------------------------------------------------- */

static bool is_owed(const struct sb_etcd_leases *l)
{
    for (const struct sb_etcd_lease *lease = l->first; lease != NULL; lease = lease->next)
        if (lease->sent_ms != 0 && !lease->granting)
            return true;
    return false;
}

static struct sb_etcd_lease *find(const struct sb_etcd_leases *l, int64_t id)
{
    struct sb_etcd_lease *lease = l->first;

    while (lease != NULL && (lease->id != id || id == 0))
        lease = lease->next;
    return lease;
}

static void on_alive(struct sb_etcd_call *call, const void *bytes, size_t length)
{
    struct sb_etcd_leases *l = call->user;
    Etcd__KeptAlive *answer = sb_etcd_unpack(&etcd__kept_alive__descriptor, bytes, length);
    struct sb_etcd_lease *lease = answer != NULL ? find(l, answer->id) : NULL;

    if (lease != NULL && answer->ttl <= 0) {
        lose(lease);
    } else if (lease != NULL && lease->sent_ms != 0 && answer->header != NULL) {
        lease->answered_ms = lease->sent_ms;
        lease->answer_sequence = sb_etcd_leases_sequence(l);
        lease->term = answer->header->raft_term;
        lease->sent_ms = 0;
        l->tell(l->user, lease, SB_ETCD_LEASE_ANSWERED, NULL);
    }
    call->owed = is_owed(l);
    sb_etcd_free_message(answer);
}

static void on_alive_ended(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    struct sb_etcd_leases *l = call->user;

    (void)maybe;
    sb_etcd_call_clear(call);
    l->streaming = false;
    l->restart_ms = simba_now_ms() + RESTART_MS;
    for (struct sb_etcd_lease *lease = l->first; lease != NULL; lease = lease->next) {
        if (lease->sent_ms == 0 || lease->granting)
            continue;
        lease->sent_ms = 0;
        l->tell(l->user, lease, SB_ETCD_LEASE_FAILED, error);
    }
}

static void keep_alive(struct sb_etcd_lease *lease)
{
    struct sb_etcd_leases *l = lease->leases;
    struct sb_etcd_call *call = &l->alive;
    Etcd__LeaseId message = ETCD__LEASE_ID__INIT;

    if (lease->sent_ms != 0)
        return;
    message.id = lease->id;
    if (!sb_etcd_call_add(call, &message.base))
        return;
    lease->sent_ms = simba_now_ms();
    if (l->streaming) {
        call->sent_ms = call->owed ? call->sent_ms : lease->sent_ms;
        call->owed = true;
        sb_etcd_link_resume(l->link, call);
        return;
    }
    call->owed = true;
    call->path = "/etcdserverpb.Lease/LeaseKeepAlive";
    call->streams = true;
    call->message = on_alive;
    call->ended = on_alive_ended;
    call->user = l;
    call->deadline_ms = SIMBA_INFINITE;
    l->streaming = true;
    sb_etcd_link_send(l->link, call);
}

/* ---- Granting -------------------------------------------------------------------------------- */

static void on_granted(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    struct sb_etcd_lease *lease = call->user;
    struct sb_etcd_leases *l = lease->leases;
    struct simba_error failure = *error;
    Etcd__GrantAnswer *answer = NULL;

    (void)maybe; /* a lease that nobody knows of ends by itself */
    lease->granting = false;
    if (error->code == SIMBA_OK)
        answer = sb_etcd_call_unpack(call, &etcd__grant_answer__descriptor);
    if (answer != NULL && answer->id != 0 && answer->ttl > 0) {
        lease->id = answer->id;
        lease->ttl_ms = sb_earlier(answer->ttl, TTL_MAX_S) * 1000;
        lease->proved_ms = lease->answered_ms = lease->sent_ms;
    } else if (error->code == SIMBA_OK) {
        sb_error_set(&failure, SIMBA_ESTORE, "etcd has not granted a lease");
    }
    lease->sent_ms = 0;
    sb_etcd_free_message(answer);
    sb_etcd_call_clear(call);
    l->tell(l->user, lease,
            failure.code == SIMBA_OK ? SB_ETCD_LEASE_ANSWERED : SB_ETCD_LEASE_FAILED, &failure);
}

static void grant(struct sb_etcd_lease *lease)
{
    Etcd__Grant message = ETCD__GRANT__INIT;

    message.ttl = wanted_s(lease->leases);
    lease->granting = true;
    lease->sent_ms = simba_now_ms();
    sb_etcd_link_call(lease->leases->link, &lease->grant, "/etcdserverpb.Lease/LeaseGrant",
                      &message.base, sb_later(lease->sent_ms, message.ttl * 1000), on_granted,
                      lease);
}

void sb_etcd_lease_ask(struct sb_etcd_lease *lease)
{
    if (lease->id == 0 && !lease->granting)
        grant(lease);
    else if (lease->id != 0)
        keep_alive(lease);
}

struct sb_etcd_lease *sb_etcd_lease_take(struct sb_etcd_leases *l, size_t skip)
{
    struct sb_etcd_lease **link = &l->first;

    while (*link != NULL && skip-- > 0)
        link = &(*link)->next;
    if (*link == NULL) {
        *link = sb_alloc_zero(sizeof **link);
        if (*link != NULL)
            (*link)->leases = l;
    }
    return *link;
}

int64_t sb_etcd_leases_tend(struct sb_etcd_leases *l)
{
    int64_t now_ms = simba_now_ms();
    int64_t next_ms = SIMBA_INFINITE;

    for (struct sb_etcd_lease *lease = l->first; lease != NULL; lease = lease->next) {
        int64_t due_ms = sb_max(lease->answered_ms + interval_ms(lease), l->restart_ms);

        if (lease->id == 0 || lease->sent_ms != 0)
            continue;
        if (due_ms <= now_ms && sb_etcd_link_is_up(l->link)) {
            keep_alive(lease);
            due_ms = now_ms + interval_ms(lease);
        }
        next_ms = sb_earlier(next_ms, sb_max(due_ms, now_ms + LEAST_PAUSE_MS));
    }
    return next_ms;
}

/* ---- Giving back ----------------------------------------------------------------------------- */

static void on_revoked(struct sb_etcd_call *call, const struct simba_error *error, bool maybe)
{
    struct sb_etcd_lease *lease = call->user;
    struct sb_etcd_leases *l = lease->leases;

    (void)error; /* otherwise it ends by itself */
    (void)maybe;
    SB_CHECK(l->revoking > 0, "a lease is given back once");
    sb_etcd_call_clear(call);
    if (--l->revoking == 0)
        l->revoked(l->user);
}

void sb_etcd_leases_revoke(struct sb_etcd_leases *l, void (*revoked)(void *user))
{
    Etcd__LeaseId message = ETCD__LEASE_ID__INIT;

    l->revoked = revoked;
    l->revoking = 1;
    for (struct sb_etcd_lease *lease = l->first; lease != NULL; lease = lease->next) {
        if (lease->id == 0 || lease->granting)
            continue;
        message.id = lease->id;
        l->revoking++;
        sb_etcd_link_call(l->link, &lease->grant, "/etcdserverpb.Lease/LeaseRevoke", &message.base,
                          simba_now_ms() + REVOKE_MS, on_revoked, lease);
    }
    if (--l->revoking == 0)
        l->revoked(l->user);
}

void sb_etcd_leases_free(struct sb_etcd_leases *l)
{
    while (l->first != NULL) {
        struct sb_etcd_lease *lease = l->first;

        l->first = lease->next;
        sb_etcd_call_clear(&lease->grant);
        sb_free(lease);
    }
    sb_etcd_call_clear(&l->alive);
}
