/*
 * names.c - makes keys and takes them apart. Knows no messages.
 */
#include "backend/etcd/names.h"

#include "base/check.h"
#include "base/error.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_DIGITS_MAX 17

int sb_etcd_check_mutex(const char *mutex, struct simba_error *error)
{
    if (strncmp(mutex, SB_ETCD_PROPERTIES, strlen(SB_ETCD_PROPERTIES)) != 0)
        return SIMBA_OK;
    return sb_error_set(error, SIMBA_EINVAL,
                        "a mutex on etcd cannot be named '%.60s': below " SB_ETCD_PROPERTIES
                        " are what Simba remembers of mutexes",
                        mutex);
}

void sb_etcd_folder(char ret_key[SB_ETCD_KEY_SIZE], const char *prefix, const char *mutex)
{
    int length = snprintf(ret_key, SB_ETCD_KEY_SIZE, "%s%s/", prefix, mutex);

    SB_CHECK(length < SB_ETCD_KEY_SIZE, "a key has room for the longest names");
}

void sb_etcd_key(char ret_key[SB_ETCD_KEY_SIZE], const char *prefix, const char *mutex,
                 int64_t lease)
{
    int length =
        snprintf(ret_key, SB_ETCD_KEY_SIZE, "%s%s/%" PRIx64, prefix, mutex, (uint64_t)lease);

    SB_CHECK(length < SB_ETCD_KEY_SIZE, "a key has room for the longest names");
}

void sb_etcd_property_key(char ret_key[SB_ETCD_KEY_SIZE], const char *prefix, const char *mutex,
                          const char *property)
{
    int length = snprintf(ret_key, SB_ETCD_KEY_SIZE, "%s" SB_ETCD_PROPERTIES "%s/%s", prefix, mutex,
                          property);

    SB_CHECK(length < SB_ETCD_KEY_SIZE, "a key has room for the longest names");
}

void sb_etcd_range_end(char ret_end[SB_ETCD_KEY_SIZE], const char *key)
{
    size_t length = strlen(key);

    SB_CHECK(length > 0 && key[length - 1] == '/', "a folder ends in a slash");
    sb_text_copy(ret_end, SB_ETCD_KEY_SIZE, key);
    ret_end[length - 1] = '/' + 1;
}

bool sb_etcd_mutex_of(char ret_mutex[SIMBA_MUTEX_MAX + 1], const char *prefix, const void *key,
                      size_t length, int64_t lease)
{
    const char *text = key;
    char digits[LEASE_DIGITS_MAX + 1];
    size_t tail = (size_t)snprintf(digits, sizeof digits, "/%" PRIx64, (uint64_t)lease);
    size_t head = strlen(prefix);

    if (lease == 0 || length <= head + tail || length - head - tail > SIMBA_MUTEX_MAX ||
        memcmp(text, prefix, head) != 0 || memcmp(text + length - tail, digits, tail) != 0 ||
        memchr(text, '\0', length) != NULL)
        return false;
    memcpy(ret_mutex, text + head, length - head - tail);
    ret_mutex[length - head - tail] = '\0';
    return strncmp(ret_mutex, SB_ETCD_PROPERTIES, strlen(SB_ETCD_PROPERTIES)) != 0;
}

bool sb_etcd_key_text(char ret_key[SB_ETCD_KEY_SIZE], const void *key, size_t length)
{
    const char *text = key;

    if (length == 0 || length >= SB_ETCD_KEY_SIZE || text[length - 1] == '/' ||
        memchr(text, '\0', length) != NULL)
        return false;
    memcpy(ret_key, text, length);
    ret_key[length] = '\0';
    return true;
}

int64_t sb_etcd_lease_of(const void *key, size_t length)
{
    const char *end = (const char *)key + length;
    char digits[20];
    size_t count = 0;

    while (count < length && count < sizeof digits - 1 && *(end - count - 1) != '/')
        count++;
    memcpy(digits, end - count, count);
    digits[count] = '\0';
    return (int64_t)strtoull(digits, NULL, 16);
}

void sb_etcd_id_of(char ret_id[SIMBA_ID_MAX + 1], const void *value, size_t length, int64_t lease)
{
    if (length == 0)
        snprintf(ret_id, SIMBA_ID_MAX + 1, "lease-%" PRIx64, (uint64_t)lease);
    else
        sb_text_printable(ret_id, SIMBA_ID_MAX + 1, value, length);
}
