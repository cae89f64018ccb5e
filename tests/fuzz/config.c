/*
 * config.c - fuzzes configurations: what is read is a URL that can be read again, what is refused
 * is named, and no refusal tells a password.
 */
#include "fuzz.h"

#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "s3cr3tZ"
#define NAME "fuzz.yaml"

static void read_config(const char *text, size_t size)
{
    struct simba_error error = {0};
    simba_url *parsed = NULL;
    char *url = NULL;
    int code = simba_config_parse(text, size, NAME, &url, &error);

    if (code != SIMBA_OK) {
        fuzz_demand(url == NULL, "a refusal leaves nothing behind");
        fuzz_demand(code == SIMBA_ECONFIG || code == SIMBA_EDISABLED,
                    "a file is wrong or switched off");
        fuzz_demand(strncmp(error.text, NAME, strlen(NAME)) == 0, "a refusal names the file");
        return;
    }
    fuzz_demand(sb_url_parse(url, &parsed, NULL) == SIMBA_OK, "the URL can be read");
    sb_url_free(parsed);
    simba_free(url);
}

/* The input stands behind a password. */
static void hide(const char *input)
{
    size_t size = strlen(input) + 128;
    struct simba_error error = {0};
    char *text = malloc(size);
    char *url = NULL;

    fuzz_demand(text != NULL, "there is memory");
    snprintf(text, size, "simba:\n jdbc:\n  password: " SECRET "\n  url: x://u:" SECRET "@h\n%s",
             input);
    if (simba_config_parse(text, strlen(text), NAME, &url, &error) != SIMBA_OK)
        fuzz_demand(strstr(error.text, SECRET) == NULL, "a refusal hides a password");
    simba_free(url);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    read_config((const char *)data, size);
    if (strstr(text, SECRET) == NULL)
        hide(text);
    free(text);
    return 0;
}
