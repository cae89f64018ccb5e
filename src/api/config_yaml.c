/*
 * config_yaml.c - reads YAML into entries with dotted keys. Owns the form; must not know what a key
 * means.
 *
 * Maps nest, and a key may have dots in it, as with Spring: `simba: {redis: {ttl: 5s}}` and
 * `simba.redis.ttl: 5s` are the same. So are initial-delay, initialDelay and initial_delay. What a
 * configuration does not need is refused: lists, aliases, a second document.
 */
#include "api/config.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>
#include <yaml.h>

#define ENTRIES_MAX 256
#define DEPTH_MAX 8
#define VALUE_MAX 4096 /* bytes */
#define KEY_SHOWN_MAX 64
#define KEY_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"

struct reader {
    yaml_parser_t parser;
    struct sb_config *config;
    struct simba_error *error;
    size_t maps; /* how many have begun */
};

static struct sb_config_place place_of(yaml_mark_t mark)
{
    return (struct sb_config_place){mark.line + 1, mark.column + 1};
}

/* Whether the line of the problem is indented with a tab: libyaml does not name it. */
static bool is_indented_by_tab(const yaml_parser_t *parser)
{
    const unsigned char *at = parser->input.string.start;
    const unsigned char *end = parser->input.string.end;

    for (size_t line = 0; line < parser->problem_mark.line && at != NULL; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at != NULL ? at + 1 : NULL;
    }
    while (at != NULL && at < end && *at == ' ')
        at++;
    return at != NULL && at < end && *at == '\t';
}

/* The caller deletes the event. */
static int next_event(struct reader *r, yaml_event_t *event)
{
    const yaml_parser_t *parser = &r->parser;

    if (yaml_parser_parse(&r->parser, event) == 1)
        return SIMBA_OK;
    if (parser->error == YAML_MEMORY_ERROR)
        return sb_error_plain(r->error, SIMBA_ENOMEM);
    return sb_config_fail(
        r->config, place_of(parser->problem_mark), r->error, "this is not YAML: %s%s",
        parser->problem != NULL ? parser->problem : "it cannot be read",
        is_indented_by_tab(parser) ? "; indent with spaces, YAML refuses tabs" : "");
}

/* Takes one event whose content does not matter, and tells its type. */
static int skip_event(struct reader *r, yaml_event_type_t *ret_type,
                      struct sb_config_place *ret_place)
{
    yaml_event_t event;
    int code = next_event(r, &event);

    if (code != SIMBA_OK)
        return code;
    *ret_type = event.type;
    *ret_place = place_of(event.start_mark);
    yaml_event_delete(&event);
    return SIMBA_OK;
}

/* Takes two of them, of which the second tells something. */
static int skip_to_second(struct reader *r, yaml_event_type_t *ret_type,
                          struct sb_config_place *ret_place)
{
    int code = skip_event(r, ret_type, ret_place);

    return code == SIMBA_OK ? skip_event(r, ret_type, ret_place) : code;
}

static bool is_whole_text(const yaml_event_t *scalar)
{
    return strlen((const char *)scalar->data.scalar.value) == scalar->data.scalar.length;
}

/* A value with a tag such as !!int or !!binary means something else than its text. */
static bool is_text(const yaml_event_t *scalar)
{
    const char *tag = (const char *)scalar->data.scalar.tag;

    return tag == NULL || strcmp(tag, "!") == 0 || strcmp(tag, YAML_STR_TAG) == 0;
}

/* Maps of one name merge where they stand in different maps: one of them has dots in its key. */
static int check_duplicate(struct reader *r, const struct sb_config_entry *entry)
{
    for (size_t i = 0; i < r->config->count; i++) {
        const struct sb_config_entry *other = &r->config->entries[i];

        if (strcmp(other->key, entry->key) != 0)
            continue;
        if (!other->is_map || !entry->is_map || other->parent == entry->parent)
            return sb_config_fail(r->config, entry->key_place, r->error,
                                  "the key '%s' stands in line %zu already", entry->key,
                                  other->key_place.line);
    }
    return SIMBA_OK;
}

static int add_entry(struct reader *r, const struct sb_config_entry *entry)
{
    struct sb_config *config = r->config;
    int code = check_duplicate(r, entry);

    SB_CHECK(config->count <= config->capacity, "the entries have room");
    if (code != SIMBA_OK)
        return code;
    if (config->count == ENTRIES_MAX)
        return sb_config_fail(config, entry->key_place, r->error, "there are more than %d keys",
                              ENTRIES_MAX);
    if (config->count == config->capacity) {
        size_t capacity = config->capacity > 0 ? 2 * config->capacity : 16;
        struct sb_config_entry *grown =
            sb_realloc(config->entries, capacity * sizeof *config->entries);

        if (grown == NULL)
            return sb_error_plain(r->error, SIMBA_ENOMEM);
        config->entries = grown;
        config->capacity = capacity;
    }
    config->entries[config->count++] = *entry;
    return SIMBA_OK;
}

/* A plain scalar without text is YAML's nothing. */
static int add_value(struct reader *r, struct sb_config_entry *entry, const yaml_event_t *event)
{
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    size_t length = event->data.scalar.length;
    int code;

    if (!is_text(event))
        return sb_config_fail_value(r->config, entry, r->error,
                                    "this has a tag; write the value alone");
    if (!is_whole_text(event) || length > VALUE_MAX)
        return sb_config_fail(r->config, entry->value_place, r->error,
                              "%s: the value has a NUL, or more than %d bytes", entry->key,
                              VALUE_MAX);
    if (!plain || length > 0) {
        entry->value = sb_strdup((const char *)event->data.scalar.value);
        if (entry->value == NULL)
            return sb_error_plain(r->error, SIMBA_ENOMEM);
    }
    code = add_entry(r, entry);
    if (code != SIMBA_OK && entry->value != NULL) {
        explicit_bzero(entry->value, length);
        sb_free(entry->value);
    }
    return code;
}

static int read_map(struct reader *r, const char *path, size_t depth);

/* Messages quote keys. Text that is not a key may be a secret: a user who chooses the configuration
 * file of another user's process can choose any file that this process may read. */
static int read_key(struct reader *r, const yaml_event_t *event, struct sb_config_entry *entry)
{
    const char *text;

    entry->key_place = place_of(event->start_mark);
    if (event->type != YAML_SCALAR_EVENT || !is_whole_text(event))
        return sb_config_fail(r->config, entry->key_place, r->error, "a key must be plain text");
    text = (const char *)event->data.scalar.value;
    if (strlen(text) > KEY_SHOWN_MAX || text[strspn(text, KEY_LETTERS)] != '\0' ||
        !sb_config_append_key(entry->key, text))
        return sb_config_fail(r->config, entry->key_place, r->error,
                              "this is no key of a configuration: it is too long, or has other "
                              "characters than letters, digits, '.', '_' and '-'");
    return SIMBA_OK;
}

static int read_value(struct reader *r, struct sb_config_entry *entry, size_t depth)
{
    yaml_event_t event;
    int code = next_event(r, &event);

    if (code != SIMBA_OK)
        return code;
    entry->value_place = place_of(event.start_mark);
    switch (event.type) {
    case YAML_SCALAR_EVENT:
        code = add_value(r, entry, &event);
        break;
    case YAML_MAPPING_START_EVENT:
        entry->is_map = true;
        code = add_entry(r, entry);
        if (code == SIMBA_OK)
            code = read_map(r, entry->key, depth + 1);
        break;
    case YAML_SEQUENCE_START_EVENT:
        code =
            sb_config_fail_value(r->config, entry, r->error, "this must be one value, not a list");
        break;
    default:
        code = sb_config_fail_value(r->config, entry, r->error,
                                    "this is an alias; write the value itself");
    }
    yaml_event_delete(&event);
    return code;
}

/* Reads one key with its value; *ret_ended when the map ends instead. */
static int read_pair(struct reader *r, const char *path, size_t parent, size_t depth,
                     bool *ret_ended)
{
    struct sb_config_entry entry = {.parent = parent};
    yaml_event_t event;
    int code = next_event(r, &event);

    if (code != SIMBA_OK)
        return code;
    *ret_ended = event.type == YAML_MAPPING_END_EVENT;
    if (!*ret_ended) {
        sb_text_copy(entry.key, sizeof entry.key, path);
        code = read_key(r, &event, &entry);
    }
    yaml_event_delete(&event);
    return code == SIMBA_OK && !*ret_ended ? read_value(r, &entry, depth) : code;
}

/* The map has begun already. */
static int read_map(struct reader *r, const char *path, size_t depth)
{
    size_t number = r->maps++;
    bool ended = false;
    int code = SIMBA_OK;

    if (depth > DEPTH_MAX)
        return sb_config_fail(r->config, place_of(r->parser.mark), r->error,
                              "maps are nested more than %d deep", DEPTH_MAX);
    while (code == SIMBA_OK && !ended)
        code = read_pair(r, path, number, depth, &ended);
    return code;
}

/* A text without any content has no document. */
static int read_document(struct reader *r)
{
    struct sb_config_place place;
    yaml_event_type_t type;
    int code = skip_to_second(r, &type, &place); /* behind the start of the stream */

    if (code != SIMBA_OK || type == YAML_STREAM_END_EVENT)
        return code;
    code = skip_event(r, &type, &place);
    if (code == SIMBA_OK && type != YAML_MAPPING_START_EVENT)
        code = sb_config_fail(r->config, place, r->error,
                              "the configuration is no map of keys and values");
    if (code == SIMBA_OK)
        code = read_map(r, "", 1);
    if (code == SIMBA_OK)
        code = skip_to_second(r, &type, &place); /* behind the end of the document */
    if (code == SIMBA_OK && type != YAML_STREAM_END_EVENT)
        code = sb_config_fail(r->config, place, r->error, "a second document begins here");
    return code;
}

int sb_config_load(struct sb_config *config, const char *text, size_t size,
                   struct simba_error *error)
{
    struct reader reader = {.config = config, .error = error};
    int code;

    SB_CHECK(config->entries == NULL, "a configuration is loaded once");
    if (yaml_parser_initialize(&reader.parser) != 1)
        return sb_error_plain(error, SIMBA_ENOMEM);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
    code = read_document(&reader);
    yaml_parser_delete(&reader.parser);
    if (code != SIMBA_OK)
        sb_config_clear(config);
    return code;
}
