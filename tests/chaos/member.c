/*
 * member.c - what the three kinds of members share: being asked, and using the resource.
 */
#include "member.h"

#include "journal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

void member_join(struct member *m)
{
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

/* A contender that says that it owns past its own deadline is taken at its word, for this
 * instant. */
static void tell_belief(struct member *m, uint64_t fence, int64_t deadline_ms)
{
    int64_t now_ns = journal_now_ns();
    bool same = m->believed && m->told_fence == fence && m->told_deadline_ms == deadline_ms;

    if (same && now_ns - m->told_at_ns < TELL_AGAIN_NS)
        return;
    journal_write_at(now_ns, "believe %s %s %" PRIu64 " %" PRId64, m->kind->mutex, m->who, fence,
                     deadline_ms * NS_PER_MS);
    m->believed = true;
    m->told_fence = fence;
    m->told_deadline_ms = deadline_ms;
    m->told_at_ns = now_ns;
}

/* The token is asked for twice: the three answers are of one term when it is the same before and
 * after. */
static void ask(struct member *m)
{
    int64_t before_ns = journal_now_ns();
    uint64_t fence = m->kind->fence(m);
    int64_t deadline_ms = deadline_of(m);
    bool owner = m->kind->is_owner(m);

    if (owner && fence != 0 && m->kind->fence(m) == fence)
        tell_belief(m, fence, deadline_ms);
    if (!owner && m->believed) {
        journal_write_at(before_ns, "doubt %s %s", m->kind->mutex, m->who);
        m->believed = false;
    }
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
    if (!m->yielded)
        journal_write("yield %s %s", m->kind->mutex, m->who);
    m->yielded = true;
    m->believed = false;
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
    uint64_t fence = m->kind->fence(m);

    if (fence != 0 && m->kind->is_owner(m))
        vault_use(&m->vault, m->kind->mutex, m->who, fence, still_owner, m);
}
