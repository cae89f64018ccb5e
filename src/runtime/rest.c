/*
 * rest.c - folds a machine and its report, and unfolds them. Owns the names of other owners; must not know what
 * a step does, but for this: an owner that a step leaves behind is nobody, the contender, the one that the event
 * names, or the one that the machine knew before.
 */
#include "runtime/rest.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/container.h"
#include "base/text.h"

#include <string.h>

struct sb_name {
    unsigned references;
    char text[];
};

static const char nobody[] = "";

/* ---- Names ---------------------------------------------------------------------------------- */

static struct sb_name *name_of(const struct sb_rest *r, const char *id)
{
    if (id == nobody || id == r->own_id)
        return NULL;
    return SB_CONTAINER(struct sb_name, text, id);
}

static void hold(struct sb_name *name)
{
    if (name != NULL)
        name->references++;
}

static void drop(struct sb_name *name)
{
    if (name != NULL && --name->references == 0)
        sb_free(name);
}

static bool is_own(const struct sb_rest *r, const char *id)
{
    return r->own_id != NULL && strcmp(r->own_id, id) == 0;
}

/* Mostly it is the owner that is known already. A longer id than there can be is cut, as the machine does. */
bool sb_rest_make_name(const struct sb_rest *r, const char *id, struct sb_name **ret_name)
{
    size_t length = strnlen(id, SIMBA_ID_MAX);
    struct sb_name *name = NULL;

    if (!is_own(r, id) && strcmp(r->owner.id, id) == 0) {
        name = name_of(r, r->owner.id);
    } else if (!is_own(r, id)) {
        name = sb_alloc_zero(sizeof *name + length + 1);
        if (name == NULL)
            return false;
        sb_text_copy(name->text, length + 1, id);
    }
    hold(name);
    *ret_name = name;
    return true;
}

/* ---- Owners --------------------------------------------------------------------------------- */

static const char *refer(const struct sb_rest *r, const char *id, const struct sb_name *news)
{
    if (id[0] == '\0')
        return nobody;
    if (is_own(r, id))
        return r->own_id;
    if (strcmp(r->owner.id, id) == 0)
        return r->owner.id;
    SB_CHECK(news != NULL && strcmp(news->text, id) == 0, "an owner has been named by somebody");
    return news->text;
}

static void lay_owner(struct sb_rest *r, struct sb_rest_owner *at, const struct simba_owner *owner,
                      const struct sb_name *news)
{
    if (strcmp(at->id, owner->id) != 0) {
        struct sb_name *old = name_of(r, at->id);

        at->id = refer(r, owner->id, news);
        hold(name_of(r, at->id));
        drop(old);
    }
    at->acquired_at_ms = owner->acquired_at_ms;
    at->ttl_at_ms = owner->ttl_at_ms;
    at->transition_at_ms = owner->transition_at_ms;
    at->fence = owner->fence;
}

static void wake_owner(const struct sb_rest_owner *from, struct simba_owner *ret_owner)
{
    memset(ret_owner->id, 0, sizeof ret_owner->id);
    sb_text_copy(ret_owner->id, sizeof ret_owner->id, from->id);
    ret_owner->acquired_at_ms = from->acquired_at_ms;
    ret_owner->ttl_at_ms = from->ttl_at_ms;
    ret_owner->transition_at_ms = from->transition_at_ms;
    ret_owner->fence = from->fence;
}

static void set_before(struct sb_rest *r, const struct sb_rest_owner *owner)
{
    struct sb_name *old = name_of(r, r->before.id);

    hold(name_of(r, owner->id));
    r->before = *owner;
    drop(old);
}

void sb_rest_confirm(struct sb_rest *r)
{
    if (!r->pending)
        set_before(r, &r->owner);
}

void sb_rest_forget(struct sb_rest *r)
{
    const struct sb_rest_owner none = {.id = nobody};

    SB_CHECK(!r->pending, "a life that begins has nothing to tell yet");
    set_before(r, &none);
}

void sb_rest_state(const struct sb_rest *r, struct simba_state *ret_state)
{
    wake_owner(&r->before, &ret_state->before);
    wake_owner(&r->owner, &ret_state->after);
}

/* ---- Both ----------------------------------------------------------------------------------- */

void sb_rest_wake_report(const struct sb_rest *r, struct sb_report *ret_report)
{
    wake_owner(&r->before, &ret_report->state.before);
    wake_owner(&r->after, &ret_report->state.after);
    ret_report->pending = r->pending;
    ret_report->acquired = r->acquired;
    ret_report->released = r->released;
    ret_report->renewed = r->renewed;
}

void sb_rest_wake(const struct sb_rest *r, union sb_mind *ret_mind)
{
    if (r->own_id != NULL) {
        memcpy(&ret_mind->contender, r->mind.contender, sizeof r->mind.contender);
        wake_owner(&r->owner, &ret_mind->contender.owner);
    } else {
        memcpy(&ret_mind->observer, r->mind.observer, sizeof r->mind.observer);
        wake_owner(&r->owner, &ret_mind->observer.owner);
    }
}

static const struct simba_owner *lay_mind(struct sb_rest *r, const union sb_mind *mind)
{
    if (r->own_id != NULL) {
        memcpy(r->mind.contender, &mind->contender, sizeof r->mind.contender);
        return &mind->contender.owner;
    }
    memcpy(r->mind.observer, &mind->observer, sizeof r->mind.observer);
    return &mind->observer.owner;
}

static void lay_report(struct sb_rest *r, const struct sb_report *report,
                       const struct sb_name *news)
{
    lay_owner(r, &r->before, &report->state.before, news);
    lay_owner(r, &r->after, &report->state.after, news);
    r->pending = report->pending;
    r->acquired = report->acquired;
    r->released = report->released;
    r->renewed = report->renewed;
}

/* The report first: it may name the owner that the machine knew before. */
void sb_rest_lay(struct sb_rest *r, const union sb_mind *mind, const struct sb_report *report,
                 struct sb_name *news)
{
    if (report != NULL)
        lay_report(r, report, news);
    lay_owner(r, &r->owner, lay_mind(r, mind), news);
    drop(news);
}

struct sb_report sb_rest_take_report(struct sb_rest *r)
{
    struct sb_report report;
    struct sb_report taken;

    sb_rest_wake_report(r, &report);
    taken = sb_report_take(&report);
    r->pending = report.pending;
    return taken;
}

void sb_rest_init(struct sb_rest *r, const char *own_id, const union sb_mind *mind)
{
    memset(r, 0, sizeof *r);
    r->own_id = own_id;
    r->owner.id = nobody;
    r->before.id = nobody;
    r->after.id = nobody;
    lay_mind(r, mind);
}

void sb_rest_free(struct sb_rest *r)
{
    drop(name_of(r, r->owner.id));
    drop(name_of(r, r->before.id));
    drop(name_of(r, r->after.id));
}
