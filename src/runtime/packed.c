/*
 * packed.c - packs a machine and its report, and unpacks them. Owns the names of other owners; must
 * not know what a step does, but for this: an owner that a step leaves behind is nobody, the
 * contender, the one that the event names, or the one that the machine knew before.
 */
#include "runtime/packed.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/text.h"

#include <string.h>

struct sb_name {
    unsigned references;
    char text[];
};

static const char nobody[] = "";

/* ---- Names ----------------------------------------------------------------------------------- */

static struct sb_name *name_of(const struct sb_packed *r, const char *id)
{
    if (id == nobody || id == r->own_id)
        return NULL;
    return SB_CONTAINER(struct sb_name, text, id);
}

static void hold(struct sb_name *name)
{
    if (name == NULL)
        return;
    name->references++;
    SB_CHECK(name->references > 0, "references to a name do not overflow");
}

static void drop(struct sb_name *name)
{
    if (name == NULL)
        return;
    SB_CHECK(name->references > 0, "a name is dropped once for each that held it");
    if (--name->references == 0)
        sb_free(name);
}

static bool is_own(const struct sb_packed *r, const char *id)
{
    return r->own_id != NULL && strcmp(r->own_id, id) == 0;
}

/* Mostly it is the owner that is known already. A longer id than there can be is cut, as the
 * machine does. */
bool sb_packed_make_name(const struct sb_packed *r, const char *id, struct sb_name **ret_name)
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
    SB_CHECK(name == NULL || name->text[0] != '\0', "nobody needs no name");
    hold(name);
    *ret_name = name;
    return true;
}

/* ---- Owners ---------------------------------------------------------------------------------- */

static const char *refer(const struct sb_packed *r, const char *id, const struct sb_name *news)
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

static void pack_owner(struct sb_packed *r, struct sb_packed_owner *at,
                       const struct simba_owner *owner, const struct sb_name *news)
{
    if (at->id[0] != owner->id[0] || strcmp(at->id, owner->id) != 0) {
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

static void unpack_owner(const struct sb_packed_owner *from, struct simba_owner *ret_owner)
{
    memset(ret_owner->id, 0, sizeof ret_owner->id);
    if (from->id != nobody)
        sb_text_copy(ret_owner->id, sizeof ret_owner->id, from->id);
    ret_owner->acquired_at_ms = from->acquired_at_ms;
    ret_owner->ttl_at_ms = from->ttl_at_ms;
    ret_owner->transition_at_ms = from->transition_at_ms;
    ret_owner->fence = from->fence;
}

static void set_before(struct sb_packed *r, const struct sb_packed_owner *owner)
{
    struct sb_name *old = name_of(r, r->before.id);

    hold(name_of(r, owner->id));
    r->before = *owner;
    drop(old);
}

void sb_packed_confirm(struct sb_packed *r)
{
    if (!r->pending)
        set_before(r, &r->owner);
}

void sb_packed_forget(struct sb_packed *r)
{
    const struct sb_packed_owner none = {.id = nobody};

    SB_CHECK(!r->pending, "a life that begins has nothing to tell yet");
    set_before(r, &none);
}

void sb_packed_state(const struct sb_packed *r, struct simba_state *ret_state)
{
    unpack_owner(&r->before, &ret_state->before);
    unpack_owner(&r->owner, &ret_state->after);
}

/* ---- Both ------------------------------------------------------------------------------------ */

void sb_packed_get_report(const struct sb_packed *r, struct sb_report *ret_report)
{
    unpack_owner(&r->before, &ret_report->state.before);
    unpack_owner(&r->after, &ret_report->state.after);
    ret_report->pending = r->pending;
    ret_report->acquired = r->acquired;
    ret_report->released = r->released;
    ret_report->renewed = r->renewed;
}

void sb_packed_get_machine(const struct sb_packed *r, const struct sb_timing *timing,
                           union sb_any_machine *ret_machine)
{
    char *rest = (char *)ret_machine + sizeof ret_machine->timing;

    ret_machine->timing = timing;
    if (r->own_id != NULL) {
        memcpy(rest, r->machine.contender, sizeof r->machine.contender);
        unpack_owner(&r->owner, &ret_machine->contender.owner);
    } else {
        memcpy(rest, r->machine.observer, sizeof r->machine.observer);
        unpack_owner(&r->owner, &ret_machine->observer.owner);
    }
}

static const struct simba_owner *pack_machine(struct sb_packed *r,
                                              const union sb_any_machine *machine)
{
    const char *rest = (const char *)machine + sizeof machine->timing;

    if (r->own_id != NULL) {
        memcpy(r->machine.contender, rest, sizeof r->machine.contender);
        return &machine->contender.owner;
    }
    memcpy(r->machine.observer, rest, sizeof r->machine.observer);
    return &machine->observer.owner;
}

static void pack_report(struct sb_packed *r, const struct sb_report *report,
                        const struct sb_name *news)
{
    SB_CHECK(!(report->pending && report->acquired && report->released),
             "a report tells of a win or of a loss, not both");
    pack_owner(r, &r->before, &report->state.before, news);
    pack_owner(r, &r->after, &report->state.after, news);
    r->pending = report->pending;
    r->acquired = report->acquired;
    r->released = report->released;
    r->renewed = report->renewed;
}

/* The report first: it may name the owner that the machine knew before. */
void sb_packed_set(struct sb_packed *r, const union sb_any_machine *machine,
                   const struct sb_report *report, struct sb_name *news)
{
    if (report != NULL)
        pack_report(r, report, news);
    pack_owner(r, &r->owner, pack_machine(r, machine), news);
    drop(news);
}

struct sb_report sb_packed_take_report(struct sb_packed *r)
{
    struct sb_report report;
    struct sb_report taken;

    sb_packed_get_report(r, &report);
    taken = sb_report_take(&report);
    r->pending = report.pending;
    return taken;
}

void sb_packed_init(struct sb_packed *r, const char *own_id, const union sb_any_machine *machine)
{
    SB_CHECK(own_id == NULL || own_id[0] != '\0', "a contender has an id");
    memset(r, 0, sizeof *r);
    r->own_id = own_id;
    r->owner.id = nobody;
    r->before.id = nobody;
    r->after.id = nobody;
    pack_machine(r, machine);
}

void sb_packed_free(struct sb_packed *r)
{
    drop(name_of(r, r->owner.id));
    drop(name_of(r, r->before.id));
    drop(name_of(r, r->after.id));
}
