/*
 * url_redact.c - writes a URL, or a message that may quote one, without its secrets.
 *
 * It works on any text, also on one that is no valid URL, because that is when it ends up in an
 * error. In doubt it hides too much.
 */
#include "base/text.h"
#include "base/url.h"

#include <string.h>
#include <strings.h>

#define HIDDEN "***"
#define DELIMITERS "?&;#, " /* of parameters, as this library and others write them */
#define AUTHORITY_END "/?#;& "
#define DIGITS "0123456789"

static void add_bytes(struct sb_text *out, const char *text, size_t length)
{
    sb_text_add(out, "%.*s", (int)length, text);
}

static bool ends_in(const char *name, size_t length, const char *ending)
{
    size_t ending_length = strlen(ending);

    return length >= ending_length &&
           strncasecmp(name + length - ending_length, ending, ending_length) == 0;
}

static bool contains(const char *name, size_t length, const char *word)
{
    size_t word_length = strlen(word);

    for (size_t i = 0; i + word_length <= length; i++)
        if (strncasecmp(name + i, word, word_length) == 0)
            return true;
    return false;
}

/* Misspelt names count as secrets, too. */
static bool names_secret(const char *text, size_t length)
{
    static const char *const words[] = {"pas", "word", "pwd", "secret"};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (contains(text, length, words[i]))
            return true;
    return false;
}

/* A name with an escape may spell "password" in another way, so it counts as one. What says where a
 * password is, by a file or a variable, is none. */
static bool is_secret(const char *name, size_t length)
{
    if (memchr(name, '%', length) != NULL)
        return true;
    if (ends_in(name, length, "password-file") || ends_in(name, length, "password-env"))
        return false;
    return names_secret(name, length);
}

/* Whether a value is itself a list of names and values, with a secret among them. */
static bool holds_secret(const char *value, size_t length)
{
    return names_secret(value, length) &&
           (memchr(value, '=', length) != NULL || contains(value, length, "%3d"));
}

/* The first of the delimiters, or the end. */
static const char *find_any(const char *text, const char *end, const char *delimiters)
{
    size_t length = strcspn(text, delimiters);

    return length < (size_t)(end - text) ? text + length : end;
}

/* Writes "?a=b" or "?password=***" and returns what follows it. The value of a secret may have a
 * '?' in it. */
static const char *add_param(struct sb_text *out, const char *text, const char *end)
{
    const char *name_end = find_any(text + 1, end, "=" DELIMITERS);
    const char *value_end = find_any(text + 1, end, DELIMITERS);

    if (name_end < end && *name_end == '=' &&
        (is_secret(text + 1, (size_t)(name_end - text - 1)) ||
         holds_secret(name_end + 1, (size_t)(value_end - name_end - 1)))) {
        add_bytes(out, text, (size_t)(name_end + 1 - text));
        sb_text_add(out, HIDDEN);
        return find_any(name_end, end, "&");
    }
    if ((name_end == end || *name_end != '=') &&
        holds_secret(text + 1, (size_t)(value_end - text - 1))) { /* with its '=' as an escape */
        add_bytes(out, text, 1);
        sb_text_add(out, HIDDEN);
        return value_end;
    }
    add_bytes(out, text, (size_t)(value_end - text));
    return value_end;
}

/* Writes a part that has no password but in its parameters. */
static void add_part(struct sb_text *out, const char *text, const char *end)
{
    const char *params = find_any(text, end, DELIMITERS);

    add_bytes(out, text, (size_t)(params - text));
    while (params < end)
        params = add_param(out, params, end);
}

/* The ':' behind which a password may stand, NULL where there is none before `at`. The one of the
 * scheme counts when no '/' follows: it may be no scheme at all. */
static const char *find_colon(const char *text, const char *at)
{
    const char *first = memchr(text, ':', (size_t)(at - text));

    if (first == NULL || first[1] != '/')
        return first;
    return memchr(first + 1, ':', (size_t)(at - first - 1));
}

/* Whether the '@' may stand in the value of a parameter that is a secret, and goes on behind it. */
static bool is_in_secret(const char *text, const char *at)
{
    const char *param = memrchr(text, '&', (size_t)(at - text));

    if (param == NULL)
        param = memchr(text, '?', (size_t)(at - text));
    return param != NULL && is_secret(param, (size_t)(at - param));
}

static const char *find(const char *text, const char *end, const char *word)
{
    return memmem(text, (size_t)(end - text), word, strlen(word));
}

/* Whether it is a port, or a part of an IPv6 address in brackets, perhaps before the quote or dot
 * that ends a URL in a sentence. */
static bool is_port(const char *text, const char *end, bool bracketed)
{
    text += strspn(text, bracketed ? DIGITS "abcdefABCDEF." : DIGITS);
    return text + strspn(text, "'\").") >= end;
}

/* The ':' in front of what should be a port and is none: it may be a password. NULL: there is
 * none. */
static const char *find_no_port(const char *text, const char *end)
{
    bool bracketed = false;

    for (; text < end; text++) {
        if (*text == '[' || *text == ']')
            bracketed = *text == '[';
        if (*text == ':' && !is_port(text + 1, find_any(text + 1, end, ":,]"), bracketed))
            return text;
    }
    return NULL;
}

/* Where a password may begin in a text without user and password, or behind them. A path is that of
 * a file only to SQLite. */
static const char *find_stray(const char *text, const char *end, bool has_user)
{
    const char *slashes = find(text, end, "://");
    const char *first = memchr(text, ':', (size_t)(end - text));

    if (slashes != NULL)
        return find_no_port(slashes + 3, find_any(slashes + 3, end, AUTHORITY_END));
    if (has_user)
        return find_no_port(text, find_any(text, end, AUTHORITY_END));
    if (first == NULL || find(text, end, "//") != NULL ||
        contains(text, (size_t)(first - text), "sqlite"))
        return NULL;
    return memchr(first + 1, ':', (size_t)(end - first - 1));
}

/* A password may have a raw '@', '/', '?' or '&' in it and reach over what looks like the end of
 * the hosts or even like parameters, so that it ends at the last '@' of all. */
static void add_url(struct sb_text *out, const char *text, const char *end)
{
    const char *at = memrchr(text, '@', (size_t)(end - text));
    const char *colon = at != NULL ? find_colon(text, at) : NULL;
    const char *stray;

    if (colon != NULL) {
        add_part(out, text, colon + 1);
        sb_text_add(out, HIDDEN "@");
        text = is_in_secret(text, at) ? find_any(at, end, "&") : at + 1;
    }
    stray = find_stray(text, end, colon != NULL);
    add_part(out, text, stray != NULL ? stray + 1 : end);
    if (stray != NULL)
        sb_text_add(out, HIDDEN);
}

const char *sb_url_redact(const char *text, char *buffer, size_t size)
{
    struct sb_text out;

    sb_text_init(&out, buffer, size);
    add_url(&out, text, text + strlen(text));
    return buffer;
}

/* A word counts with the space before it, which may be the delimiter of a parameter. */
const char *sb_url_redact_message(const char *text, char *buffer, size_t size)
{
    struct sb_text out;

    sb_text_init(&out, buffer, size);
    while (*text != '\0') {
        const char *end = text + 1 + strcspn(text + 1, " ");

        if (find(text, end, "://") != NULL)
            add_url(&out, text, end);
        else
            add_part(&out, text, end);
        text = end;
    }
    return buffer;
}
