/*
 * property.c - the case on properties: what one client writes another reads, with the store's
 * times, and an owner's write needs an owner.
 */
#include "tck/kit.h"

#include <inttypes.h>
#include <string.h>

#define X "tck-x"
#define Y "tck-y"

struct stage {
    struct sb_kit *kit;
    simba_client *client; /* writes */
    simba_client *other;  /* reads */
};

static bool get(const struct stage *s, const char *name, struct simba_property *ret_property)
{
    struct simba_error error;
    int code = simba_client_property_get(s->other, s->kit->mutex, name, sb_kit_patience_ms(s->kit),
                                         ret_property, &error);

    return sb_kit_check_ok(s->kit, code, &error, "reading a property");
}

static bool set(const struct stage *s, const char *name, const char *value, const char *id,
                int expected)
{
    struct simba_error error = {.code = SIMBA_OK};
    int code = simba_client_property_set(s->client, s->kit->mutex, name, value, id,
                                         sb_kit_patience_ms(s->kit), &error);

    return sb_kit_check(s->kit, code == expected, "a write as %s returned %d instead of %d: %s",
                        id != NULL ? id : "anybody", code, expected, error.text);
}

static bool expect(const struct stage *s, const char *name, const char *value)
{
    struct simba_property property;

    return get(s, name, &property) &&
           sb_kit_check(s->kit, strcmp(property.value, value) == 0,
                        "the property %s is '%s', not '%s'", name, property.value, value);
}

/* Nobody has written it: the answer has the store's clock, or not even that. */
static bool check_none(const struct stage *s)
{
    struct simba_property property;

    return get(s, "none", &property) &&
           sb_kit_check(s->kit, property.value[0] == '\0' && property.written_ms == 0,
                        "a property that nobody wrote: '%s', %" PRId64 ", %" PRId64, property.value,
                        property.written_ms, property.store_ms);
}

/* Both times are of one clock, which goes on. A store may count in steps of some milliseconds. */
static bool check_times(const struct stage *s)
{
    struct simba_property before;
    struct simba_property first;
    struct simba_property later;

    if (!get(s, "time", &before) || !set(s, "time", "1", NULL, SIMBA_OK) || !get(s, "time", &first))
        return false;
    sb_kit_linger(s->kit->options.ttl_ms);
    if (!get(s, "time", &later))
        return false;
    return sb_kit_check(s->kit,
                        first.written_ms >= before.store_ms && first.written_ms <= first.store_ms,
                        "written at %" PRId64 ", between %" PRId64 " and %" PRId64,
                        first.written_ms, before.store_ms, first.store_ms) &&
           sb_kit_check(s->kit, later.written_ms == first.written_ms,
                        "to read a property has changed its time") &&
           sb_kit_check(s->kit, later.store_ms >= first.store_ms + s->kit->options.ttl_ms / 2,
                        "the store's clock went from %" PRId64 " to %" PRId64 " in %" PRId64 " ms",
                        first.store_ms, later.store_ms, s->kit->options.ttl_ms);
}

static bool check_values(const struct stage *s)
{
    static const char odd[] = "it's \"100 %s\" {x} \\n ; -- \xc3\xa9 ";
    char longest[SIMBA_PROPERTY_VALUE_MAX + 1];

    memset(longest, 'v', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    return set(s, "a", "one", NULL, SIMBA_OK) && set(s, "b", "two", NULL, SIMBA_OK) &&
           expect(s, "a", "one") && expect(s, "b", "two") && set(s, "a", odd, NULL, SIMBA_OK) &&
           expect(s, "a", odd) && set(s, "a", longest, NULL, SIMBA_OK) && expect(s, "a", longest) &&
           set(s, "a", "", NULL, SIMBA_OK) && expect(s, "a", "") && expect(s, "b", "two");
}

/* X owns, with a locker. */
static bool check_owner(const struct stage *s)
{
    struct simba_locker_options options = SIMBA_LOCKER_OPTIONS_INIT;
    struct sb_kit *kit = s->kit;
    simba_locker *locker = NULL;
    struct simba_error error;
    bool held;
    int code;

    if (!set(s, "o", "nobody", X, SIMBA_ELOST) || !expect(s, "o", ""))
        return false;
    options.mutex = kit->mutex;
    options.id = X;
    code = simba_locker_create(s->client, &options, &locker, &error);
    if (code == SIMBA_OK)
        code = simba_locker_acquire_timeout(locker, sb_kit_patience_ms(kit), &error);
    held = sb_kit_check_ok(kit, code, &error, "acquiring the mutex") &&
           set(s, "o", "mine", X, SIMBA_OK) && set(s, "o", "yours", Y, SIMBA_ELOST) &&
           expect(s, "o", "mine") && set(s, "p", "anybody's", NULL, SIMBA_OK) &&
           expect(s, "p", "anybody's");
    if (code == SIMBA_OK)
        code = simba_locker_release(locker, &error);
    simba_locker_close(locker);
    return held && sb_kit_check_ok(kit, code, &error, "releasing the mutex") &&
           set(s, "o", "late", X, SIMBA_ELOST) && expect(s, "o", "mine");
}

void sb_case_properties(struct sb_kit *kit)
{
    struct stage s = {.kit = kit};
    struct simba_property property;

    s.client = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    s.other = sb_kit_client(kit, SB_KIT_LEASE_CALM);
    if (s.client == NULL || s.other == NULL)
        return;
    if (simba_client_property_get(s.other, kit->mutex, "none", sb_kit_patience_ms(kit), &property,
                                  NULL) == SIMBA_EUNSUPPORTED) {
        sb_kit_note(kit, "the store keeps no properties");
        return;
    }
    if (check_none(&s) && check_times(&s) && check_values(&s))
        check_owner(&s);
}
