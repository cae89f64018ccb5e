/*
 * property.c - the properties of the mutexes of a memory store. Plain data, as in store.c.
 */
#include "backend/memory/store.h"

#include "base/alloc.h"
#include "base/text.h"

#include <string.h>

static struct sb_memory_property *find(const struct sb_memory_record *record, const char *name)
{
    struct sb_memory_property *property = record != NULL ? record->properties : NULL;

    while (property != NULL && strcmp(property->name, name) != 0)
        property = property->next;
    return property;
}

void sb_memory_property_get(const struct sb_memory_record *record, const char *name,
                            int64_t wall_ms, struct simba_property *ret_property)
{
    const struct sb_memory_property *property = find(record, name);

    *ret_property = (struct simba_property){.store_ms = wall_ms};
    if (property == NULL)
        return;
    ret_property->written_ms = property->written_ms;
    sb_text_copy(ret_property->value, sizeof ret_property->value, property->value);
}

int sb_memory_property_set(struct sb_memory_record *record, const char *name, const char *value,
                           int64_t wall_ms)
{
    struct sb_memory_property *property = find(record, name);

    if (property == NULL) {
        property = sb_alloc_zero(sizeof *property);
        if (property == NULL)
            return SIMBA_ENOMEM;
        sb_text_copy(property->name, sizeof property->name, name);
        property->next = record->properties;
        record->properties = property;
    }
    sb_text_copy(property->value, sizeof property->value, value);
    property->written_ms = wall_ms;
    return SIMBA_OK;
}

void sb_memory_properties_free(struct sb_memory_record *record)
{
    while (record->properties != NULL) {
        struct sb_memory_property *property = record->properties;

        record->properties = property->next;
        sb_free(property);
    }
}
