/*
 * url_redact.c - writes a URL without its secrets.
 *
 * It works on any text, also on one that is no valid URL, because that is when it ends up in an error.
 * In doubt it hides too much.
 */
#include "base/text.h"
#include "base/url.h"

#include <string.h>
#include <strings.h>

#define HIDDEN "***"

static void add_bytes(struct sb_text *out, const char *text, size_t length)
{
    sb_text_add(out, "%.*s", (int)length, text);
}

/* Whether "name=" follows, as it does behind the '?' of parameters. */
static bool opens_param(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.%";
    size_t length = strspn(text, letters);

    return length > 0 && text[length] == '=';
}

/* The length of what stands before the parameters. A '?' without a name behind it is somebody's password. */
static size_t find_params(const char *text)
{
    const char *mark = strchr(text, '?');

    while (mark != NULL && !opens_param(mark + 1))
        mark = strchr(mark + 1, '?');
    return mark != NULL ? (size_t)(mark - text) : strlen(text);
}

/* The '@' that ends user and password, NULL where there are none. A password may have a raw '@', '/' or
 * '?' in it and reach over what looks like the end of the hosts, so it is the last one of all. */
static const char *find_at(const char *authority)
{
    return memrchr(authority, '@', find_params(authority));
}

/* Writes "user:***" and returns what follows it, from the '@' on. */
static const char *add_user(struct sb_text *out, const char *text)
{
    const char *at = find_at(text);
    const char *colon;

    if (at == NULL)
        return text;
    colon = memchr(text, ':', (size_t)(at - text));
    if (colon == NULL) {
        add_bytes(out, text, (size_t)(at - text));
    } else {
        add_bytes(out, text, (size_t)(colon + 1 - text));
        sb_text_add(out, HIDDEN);
    }
    return at;
}

/* A name with an escape may spell "password" in another way, so it counts as one. */
static bool is_secret(const char *name, size_t length)
{
    static const char word[] = "password";
    size_t word_length = sizeof(word) - 1;

    if (memchr(name, '%', length) != NULL)
        return true;
    return length >= word_length &&
           strncasecmp(name + length - word_length, word, word_length) == 0;
}

/* `text` is "?a=b&c=d". */
static void add_params(struct sb_text *out, const char *text)
{
    while (*text != '\0') {
        size_t whole = 1 + strcspn(text + 1, "&");
        size_t name = 1 + strcspn(text + 1, "=&");

        if (name < whole && is_secret(text + 1, name - 1)) {
            add_bytes(out, text, name + 1);
            sb_text_add(out, HIDDEN);
        } else {
            add_bytes(out, text, whole);
        }
        text += whole;
    }
}

const char *sb_url_redact(const char *text, char *buffer, size_t size)
{
    const char *slashes = strstr(text, "://");
    struct sb_text out;
    size_t before_params;

    sb_text_init(&out, buffer, size);
    if (slashes != NULL && slashes < text + strcspn(text, "?")) {
        add_bytes(&out, text, (size_t)(slashes + 3 - text));
        text = add_user(&out, slashes + 3);
    }
    before_params = strcspn(text, "?");
    add_bytes(&out, text, before_params);
    add_params(&out, text + before_params);
    return buffer;
}
