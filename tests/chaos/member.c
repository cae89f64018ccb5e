/*
 * member.c - what the kinds of members share: being asked, and using the resource.
 */
#include "member.h"

#include "journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TELL_AGAIN_NS 50000000 /* while nothing changes */
#define NS_PER_MS 1000000

static unsigned hash_of(const char *name)
{
    unsigned hash = 5381;

    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

void member_start(struct member *m, const struct member_kind *kind, simba_client *client,
                  char **argv, const atomic_bool *stopping)
{
    *m = (struct member){.kind = kind, .client = client, .stopping = stopping, .yielded = true};
    snprintf(m->who, sizeof m->who, "%s/%s", argv[1], kind->letter);
    m->seed = hash_of(m->who);
    m->id = argv[6];
    vault_open(&m->vault, argv[4]);
    pthread_mutex_init(&m->lock, NULL);
    if (pthread_create(&m->thread, NULL, kind->run, m) != 0)
        exit(1);
}

/* The worker is stopping: the thread takes no other locker after this one. */
static void cancel_wait(struct member *m)
{
    pthread_mutex_lock(&m->lock);
    if (m->kind->owned != NULL && m->locker != NULL)
        simba_locker_cancel(m->locker);
    pthread_mutex_unlock(&m->lock);
}

void member_join(struct member *m)
{
    cancel_wait(m);
    pthread_join(m->thread, NULL);
    pthread_mutex_destroy(&m->lock);
    vault_close(&m->vault);
}

int member_draw(struct member *m, int least, int most)
{
    return least + rand_r(&m->seed) % (most - least);
}

void member_pause_ms(int ms)
{
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};

    nanosleep(&pause, NULL);
}

/* ---- What it believes ------------------------------------------------------------------------ */

static int64_t deadline_of(const struct member *m)
{
    return m->kind->deadline_ms != NULL ? m->kind->deadline_ms(m) : 0;
}

static int owned_by(const struct member *m, struct owned owned[OWNED_MAX])
{
    if (m->kind->owned != NULL)
        return m->kind->owned(m, owned);
    snprintf(owned[0].mutex, sizeof owned[0].mutex, "%s", m->kind->mutex);
    owned[0].fence = m->kind->fence(m);
    return 1;
}

/* The first one that it does not own; NULL: it owns all. */
static const struct owned *first_not_owned(const struct owned owned[OWNED_MAX], int count)
{
    for (int i = 0; i < count; i++)
        if (owned[i].fence == 0)
            return &owned[i];
    return NULL;
}

static bool are_same(const struct owned *one, const struct owned *other, int count)
{
    for (int i = 0; i < count; i++)
        if (one[i].fence != other[i].fence || strcmp(one[i].mutex, other[i].mutex) != 0)
            return false;
    return true;
}

/* A contender that says that it owns past its own deadline is taken at its word, for this
 * instant. */
static void tell_belief(struct member *m, struct belief *b, const struct owned *owned,
                        int64_t deadline_ms)
{
    int64_t now_ns = journal_now_ns();
    bool same = b->believed && are_same(&b->of, owned, 1) && b->told_deadline_ms == deadline_ms;

    if (same && now_ns - b->told_at_ns < TELL_AGAIN_NS)
        return;
    journal_write_at(now_ns, "believe %s %s %" PRIu64 " %" PRId64, owned->mutex, m->who,
                     owned->fence, deadline_ms * NS_PER_MS);
    *b = (struct belief){*owned, true, deadline_ms, now_ns};
}

/* The end of what was believed. */
static void tell_end(struct member *m, int64_t at_ns, const char *how)
{
    for (int i = 0; i < OWNED_MAX; i++) {
        if (m->beliefs[i].believed)
            journal_write_at(at_ns, "%s %s %s", how, m->beliefs[i].of.mutex, m->who);
        m->beliefs[i].believed = false;
    }
}

/* Whoever says that it owns, before and after, has a token of each of its mutexes. */
static void check_whole(const struct member *m)
{
    int64_t before_ms = deadline_of(m);
    bool owner = m->kind->is_owner(m);
    struct owned owned[OWNED_MAX];
    int count = owned_by(m, owned);
    const struct owned *lacking = first_not_owned(owned, count);

    if (owner && lacking != NULL && m->kind->is_owner(m) && deadline_of(m) == before_ms)
        journal_write("partial %s %s", lacking->mutex, m->who);
}

/* The tokens are asked for twice: the answers are of one term when they are the same before and
 * after. */
static void ask(struct member *m)
{
    int64_t before_ns = journal_now_ns();
    struct owned owned[OWNED_MAX];
    struct owned again[OWNED_MAX];
    int count = owned_by(m, owned);
    int64_t deadline_ms = deadline_of(m);
    bool owner = m->kind->is_owner(m);

    if (owner && first_not_owned(owned, count) == NULL && owned_by(m, again) == count &&
        are_same(owned, again, count))
        for (int i = 0; i < count; i++)
            tell_belief(m, &m->beliefs[i], &owned[i], deadline_ms);
    if (!owner)
        tell_end(m, before_ns, "doubt");
    if (m->kind->owned != NULL)
        check_whole(m);
}

void member_sample(struct member *m)
{
    pthread_mutex_lock(&m->lock);
    if (!m->yielded)
        ask(m);
    pthread_mutex_unlock(&m->lock);
}

void member_yield(struct member *m)
{
    pthread_mutex_lock(&m->lock);
    tell_end(m, journal_now_ns(), "yield");
    m->yielded = true;
    pthread_mutex_unlock(&m->lock);
}

void member_contend(struct member *m)
{
    pthread_mutex_lock(&m->lock);
    m->yielded = false;
    pthread_mutex_unlock(&m->lock);
}

/* ---- The resource ---------------------------------------------------------------------------- */

static bool still_owner(void *user)
{
    const struct member *m = user;

    return m->kind->is_owner(m);
}

void member_use(struct member *m)
{
    struct owned owned[OWNED_MAX];
    int count = owned_by(m, owned);

    if (first_not_owned(owned, count) != NULL || !m->kind->is_owner(m))
        return;
    for (int i = 0; i < count; i++)
        vault_use(&m->vault, owned[i].mutex, m->who, owned[i].fence, still_owner, m);
}
