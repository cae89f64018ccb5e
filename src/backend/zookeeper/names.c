/*
 * names.c - builds and reads the names of nodes, and orders them. Must not know sessions or calls.
 */
#include "backend/zookeeper/names.h"

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"

#include <string.h>

#define PROTECTION "_c_"
#define LATCH "latch-"
#define PROPERTIES "-property" /* behind BASE */

/* ---- What may be a name ---------------------------------------------------------------------- */

static uint32_t decode(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t character = length == 1 ? bytes[0] : bytes[0] & (0x7fU >> length);

    for (size_t i = 1; i < length; i++)
        character = character << 6 | (bytes[i] & 0x3fU);
    return character;
}

/* As the servers check the characters of a path, in UTF-16: what lies behind U+FFFF has surrogates
 * there. */
int sb_zk_check_characters(const char *what, const char *name, struct simba_error *error)
{
    uint32_t character;
    size_t length;

    for (const char *c = name; *c != '\0'; c += length) {
        length = sb_utf8_length(c);
        if (length == 0)
            return sb_error_set(error, SIMBA_EINVAL,
                                "the %s \"%s\" is not UTF-8, as ZooKeeper's names are", what, name);
        character = decode(c, length);
        if (character <= 0x1f || (character >= 0x7f && character <= 0x9f) ||
            (character >= 0xd800 && character <= 0xf8ff) || character >= 0xfff0)
            return sb_error_set(error, SIMBA_EINVAL,
                                "the %s \"%s\" has the character U+%04X, which ZooKeeper refuses",
                                what, name, (unsigned)character);
    }
    return SIMBA_OK;
}

int sb_zk_check_mutex(const char *mutex, struct simba_error *error)
{
    if (strchr(mutex, '/') != NULL)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the mutex name '%s' has a '/', which separates nodes in ZooKeeper",
                            mutex);
    if (strcmp(mutex, ".") == 0 || strcmp(mutex, "..") == 0)
        return sb_error_set(error, SIMBA_EINVAL,
                            "the mutex name '%s' is not allowed as the name of a ZooKeeper node",
                            mutex);
    return sb_zk_check_characters("mutex name", mutex, error);
}

/* ---- Paths and uuids ------------------------------------------------------------------------- */

void sb_zk_make_uuid(char ret_uuid[SB_ZK_UUID_SIZE])
{
    uint64_t high = (sb_random_seed() & 0xffffffffffff0fffU) | 0x4000U; /* version 4 */
    uint64_t low = (sb_random_seed() & 0x3fffffffffffffffU) | 0x8000000000000000U;
    struct sb_text text;

    sb_text_init(&text, ret_uuid, SB_ZK_UUID_SIZE);
    sb_text_add(&text, "%08llx-%04llx-%04llx-%04llx-%012llx", (unsigned long long)(high >> 32),
                (unsigned long long)(high >> 16 & 0xffff), (unsigned long long)(high & 0xffff),
                (unsigned long long)(low >> 48), (unsigned long long)(low & 0xffffffffffffU));
}

bool sb_zk_mutex_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex)
{
    struct sb_text text;

    sb_text_init(&text, ret_path, SB_ZK_PATH_SIZE);
    sb_text_add(&text, "%s/%s", base, mutex);
    return !text.cut;
}

bool sb_zk_node_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex,
                     const char *node)
{
    struct sb_text text;

    sb_text_init(&text, ret_path, SB_ZK_PATH_SIZE);
    sb_text_add(&text, "%s/%s/%s", base, mutex, node);
    return !text.cut;
}

bool sb_zk_new_node_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex,
                         const char *uuid)
{
    struct sb_text text;

    sb_text_init(&text, ret_path, SB_ZK_PATH_SIZE);
    sb_text_add(&text, "%s/%s/" PROTECTION "%s-" LATCH, base, mutex, uuid);
    return !text.cut;
}

bool sb_zk_property_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex,
                         const char *name)
{
    struct sb_text text;

    sb_text_init(&text, ret_path, SB_ZK_PATH_SIZE);
    sb_text_add(&text, "%s" PROPERTIES "/%s/%s", base, mutex, name);
    return !text.cut;
}

bool sb_zk_properties_path(char ret_path[SB_ZK_PATH_SIZE], const char *base, const char *mutex)
{
    struct sb_text text;

    sb_text_init(&text, ret_path, SB_ZK_PATH_SIZE);
    sb_text_add(&text, "%s" PROPERTIES "/%s", base, mutex);
    return !text.cut;
}

bool sb_zk_split_property_path(const char *path, const char *base,
                               char ret_mutex[SIMBA_MUTEX_MAX + 1])
{
    char folder[SB_ZK_PATH_SIZE];
    const char *name;
    struct sb_text text;

    sb_text_init(&text, folder, sizeof folder);
    sb_text_add(&text, "%s" PROPERTIES, base);
    return !text.cut && sb_zk_split_path(path, folder, ret_mutex, &name) && name[0] != '\0';
}

bool sb_zk_split_path(const char *path, const char *base, char ret_mutex[SIMBA_MUTEX_MAX + 1],
                      const char **ret_node)
{
    size_t base_length = strlen(base);
    const char *mutex = path + base_length + 1;
    const char *slash;
    size_t length;

    if (strncmp(path, base, base_length) != 0 || path[base_length] != '/')
        return false;
    slash = strchr(mutex, '/');
    length = slash != NULL ? (size_t)(slash - mutex) : strlen(mutex);
    if (length == 0 || length > SIMBA_MUTEX_MAX)
        return false;
    memcpy(ret_mutex, mutex, length);
    ret_mutex[length] = '\0';
    *ret_node = slash != NULL ? slash + 1 : "";
    return true;
}

/* ---- Order ----------------------------------------------------------------------------------- */

/* What follows the last "latch-"; the whole name of a stranger's node that has none. */
static const char *sort_key(const char *node)
{
    const char *key = node;
    const char *found;

    while ((found = strstr(key, LATCH)) != NULL)
        key = found + strlen(LATCH);
    return key;
}

int sb_zk_compare(const char *a, const char *b)
{
    int order = strcmp(sort_key(a), sort_key(b));

    return order != 0 ? order : strcmp(a, b);
}

bool sb_zk_is_overflown(const char *node)
{
    return sort_key(node)[0] == '-';
}

static bool has_uuid(const char *node, const char *uuid)
{
    size_t length = strlen(PROTECTION);
    size_t uuid_length = SB_ZK_UUID_SIZE - 1;

    return strncmp(node, PROTECTION, length) == 0 &&
           strncmp(node + length, uuid, uuid_length) == 0 && node[length + uuid_length] == '-';
}

static const char *earlier(const char *a, const char *b)
{
    return a == NULL || sb_zk_compare(b, a) < 0 ? b : a;
}

static void keep(struct sb_zk_ranks *ranks, char target[SB_ZK_NODE_MAX + 1], const char *node)
{
    if (node != NULL && !sb_text_copy(target, SB_ZK_NODE_MAX + 1, node))
        ranks->too_long = true;
}

void sb_zk_rank(const char *const *children, size_t count, const char *uuid,
                struct sb_zk_ranks *ret_ranks)
{
    const char *leader = NULL;
    const char *before = NULL;
    const char *mine = NULL;

    memset(ret_ranks, 0, sizeof *ret_ranks);
    ret_ranks->count = count;
    for (size_t i = 0; i < count; i++) {
        leader = earlier(leader, children[i]);
        if (uuid != NULL && has_uuid(children[i], uuid))
            mine = earlier(mine, children[i]);
    }
    keep(ret_ranks, ret_ranks->leader, leader);
    if (mine == NULL)
        return;
    for (size_t i = 0; i < count; i++) {
        if (sb_zk_compare(children[i], mine) >= 0)
            continue;
        ret_ranks->ahead++;
        if (before == NULL || sb_zk_compare(children[i], before) > 0)
            before = children[i];
    }
    ret_ranks->found = true;
    keep(ret_ranks, ret_ranks->mine, mine);
    keep(ret_ranks, ret_ranks->before, before);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

void sb_zk_read_id(const char *data, size_t length, const char *node, char ret_id[SIMBA_ID_MAX + 1])
{
    if (length == 0)
        sb_text_copy(ret_id, SIMBA_ID_MAX + 1, node);
    else
        sb_text_printable(ret_id, SIMBA_ID_MAX + 1, data, length);
}
