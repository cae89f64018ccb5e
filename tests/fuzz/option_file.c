/*
 * option_file.c - fuzzes option files of MySQL: no refusal tells a password, a refusal names the
 * file, and what is written in quotes is read as the same.
 */
#include "fuzz.h"

#include "backend/mysql/option_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECRET "s3cr3tZ"
#define NAME "fuzz.cnf"

/* Reads a copy, because reading changes it. */
static int read_text(const char *text, struct sb_mysql_defaults *ret_defaults,
                     struct simba_error *error)
{
    char *copy = fuzz_text((const uint8_t *)text, strlen(text));
    int code;

    *ret_defaults = (struct sb_mysql_defaults){0};
    code = sb_mysql_defaults_read_text(ret_defaults, NAME, copy, error);
    free(copy);
    return code;
}

static void demand_length(const char *value, size_t size)
{
    fuzz_demand(value == NULL || strlen(value) < size, "a value is no longer than its file");
}

/* What other files on this machine say is not in the input. */
static void demand_own(const struct sb_mysql_defaults *defaults, size_t size, int code,
                       const struct simba_error *error)
{
    fuzz_demand(code == SIMBA_OK || strncmp(error->text, NAME, strlen(NAME)) == 0,
                "a refusal names the file");
    demand_length(defaults->user, size);
    demand_length(defaults->password, size);
    demand_length(defaults->host, size);
    demand_length(defaults->socket, size);
}

static void try_text(const char *text)
{
    struct sb_mysql_defaults defaults;
    struct simba_error error = {0};
    int code = read_text(text, &defaults, &error);

    fuzz_demand(code == SIMBA_OK || code == SIMBA_ECONFIG, "a file is read or refused");
    fuzz_demand(code == SIMBA_OK || error.text[0] != '\0', "a refusal says why");
    fuzz_demand(defaults.port <= 65535, "a port is in its range");
    if (strstr(text, "!include") == NULL)
        demand_own(&defaults, strlen(text), code, &error);
    sb_mysql_defaults_clear(&defaults);
}

/* The input stands behind a password, and is one itself. */
static void hide(const char *input)
{
    size_t size = strlen(input) + 128;
    struct sb_mysql_defaults defaults;
    struct simba_error error = {0};
    char *text = malloc(size);

    fuzz_demand(text != NULL, "there is memory");
    snprintf(text, size, "[client]\npassword=" SECRET "\nport=" SECRET "%s", input);
    fuzz_demand(read_text(text, &defaults, &error) == SIMBA_ECONFIG, "a port is a number");
    fuzz_demand(strstr(error.text, SECRET) == NULL, "a refusal hides what it refuses");
    sb_mysql_defaults_clear(&defaults);
    snprintf(text, size, "[client]\npassword=" SECRET "\n%s", input);
    if (read_text(text, &defaults, &error) != SIMBA_OK)
        fuzz_demand(strstr(error.text, SECRET) == NULL, "a refusal hides a password");
    sb_mysql_defaults_clear(&defaults);
    free(text);
}

/* Writes it so that it is read as it is. */
static void quote(char *to, const char *value)
{
    *to++ = '"';
    for (; *value != '\0'; value++) {
        if (*value == '\\' || *value == '\n')
            *to++ = '\\';
        *to++ = (char)(*value == '\n' ? 'n' : *value);
    }
    *to++ = '"';
    *to = '\0';
}

static void read_quoted(const char *value)
{
    char *text = malloc(2 * strlen(value) + 128);
    struct sb_mysql_defaults defaults;

    fuzz_demand(text != NULL, "there is memory");
    quote(text + sprintf(text, "[client]\npassword = "), value);
    fuzz_demand(read_text(text, &defaults, NULL) == SIMBA_OK && defaults.password != NULL &&
                    strcmp(defaults.password, value) == 0,
                "what is quoted is read as it is");
    sb_mysql_defaults_clear(&defaults);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    try_text(text);
    if (strstr(text, SECRET) == NULL)
        hide(text);
    read_quoted(text);
    free(text);
    return 0;
}
