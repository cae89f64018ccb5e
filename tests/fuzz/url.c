/*
 * url.c - fuzzes URLs: they are read within their memory, and neither the redacted form nor a
 * refusal tells a password.
 */
#include "fuzz.h"

#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "s3cr3tZ"

/* Touches all that the accessors point to. */
static size_t measure(simba_url *url)
{
    const char *user = simba_url_user(url);
    const char *password = simba_url_password(url);
    size_t length = strlen(simba_url_scheme(url)) + strlen(simba_url_path(url));

    length += user != NULL ? strlen(user) : 0;
    length += password != NULL ? strlen(password) : 0;
    for (size_t i = 0; i < simba_url_host_count(url); i++) {
        fuzz_demand(simba_url_port(url, i) >= 0 && simba_url_port(url, i) <= 65535,
                    "a port is one");
        length += strlen(simba_url_host(url, i));
    }
    return length;
}

static void ask_params(simba_url *url)
{
    const char *name = sb_url_unused_param(url);
    int64_t ms = 0;

    while (name != NULL) {
        fuzz_demand(simba_url_param(url, name) != NULL, "a parameter has a value");
        simba_url_duration(url, name, &ms, NULL);
        fuzz_demand(sb_url_unused_param(url) != name, "a parameter that was asked for is used");
        name = sb_url_unused_param(url);
    }
}

static void read_url(const char *text)
{
    struct simba_error error = {0};
    simba_url *url = NULL;
    char small[8];
    int code = sb_url_parse(text, &url, &error);

    sb_url_redact(text, small, sizeof small);
    if (code != SIMBA_OK) {
        fuzz_demand(url == NULL && error.text[0] != '\0', "a refusal says why");
        return;
    }
    fuzz_demand(measure(url) <= strlen(text), "the parts are no longer than the whole");
    ask_params(url);
    sb_url_free(url);
}

/* The secret is hidden wherever a password stands, whatever is around it. */
static void hide(const char *format, const char *before, const char *after)
{
    size_t size = strlen(format) + strlen(before) + strlen(SECRET) + strlen(after) + 1;
    struct simba_error error = {0};
    simba_url *url = NULL;
    char *text = malloc(size);
    char *redacted = malloc(size + 64);

    fuzz_demand(text != NULL && redacted != NULL, "there is memory");
    snprintf(text, size, format, before, SECRET, after);
    sb_url_redact(text, redacted, size + 64);
    fuzz_demand(strstr(redacted, SECRET) == NULL, "the redacted form hides a password");
    if (sb_url_parse(text, &url, &error) != SIMBA_OK)
        fuzz_demand(strstr(error.text, SECRET) == NULL, "a refusal hides a password");
    sb_url_free(url);
    free(redacted);
    free(text);
}

/* The halves of the input stand around the secret. */
static void hide_between(const uint8_t *data, size_t size)
{
    size_t middle = size / 2;
    char *before = fuzz_text(data, middle);
    char *after = fuzz_text(data + middle, size - middle);

    if (strstr(before, SECRET) == NULL && strstr(after, SECRET) == NULL) {
        hide("redis://user:%s%s@host%s", before, after);
        hide("postgres:/user:%s%s@host%s", before, after);
        hide("redis://host?a=%s&password=%s&b=%s", before, after);
    }
    free(before);
    free(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    read_url(text);
    if (size > 0)
        hide_between(data, size);
    free(text);
    return 0;
}
