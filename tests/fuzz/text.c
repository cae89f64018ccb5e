/*
 * text.c - fuzzes what the program prints of names and ids that a store holds: a terminal gets no
 * control characters, and JSON is JSON, whatever the bytes.
 */
#include "fuzz.h"

#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- UTF-8, by its own definition: decode, then compare with the shortest form --------------- */

static uint32_t decode(const unsigned char *bytes, size_t *ret_length)
{
    static const unsigned char masks[] = {0x7f, 0x1f, 0x0f, 0x07};
    size_t more = bytes[0] < 0x80 ? 0 : bytes[0] < 0xe0 ? 1 : bytes[0] < 0xf0 ? 2 : 3;
    uint32_t value = bytes[0] & masks[more];

    for (size_t i = 1; i <= more; i++) {
        fuzz_demand((bytes[i] & 0xc0) == 0x80, "a sequence of UTF-8 goes on");
        value = value << 6 | (bytes[i] & 0x3f);
    }
    *ret_length = more + 1;
    return value;
}

static void demand_utf8(const char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *bytes = (const unsigned char *)text;

    while (*bytes != '\0') {
        size_t length;
        uint32_t value = decode(bytes, &length);

        fuzz_demand(value >= least[length], "a sequence of UTF-8 is the shortest");
        fuzz_demand(value < 0xd800 || (value > 0xdfff && value <= 0x10ffff),
                    "a sequence of UTF-8 is a character");
        fuzz_demand(value >= 0x20 && (value < 0x7f || value > 0x9f), "no control character");
        bytes += length;
    }
}

/* ---- Targets --------------------------------------------------------------------------------- */

static void print(const char *text)
{
    char whole[512];
    char cut[7];

    cli_text_printable(text, whole, sizeof whole);
    demand_utf8(whole);
    cli_text_printable(text, cut, sizeof cut);
    demand_utf8(cut);
    fuzz_demand(strncmp(whole, cut, strlen(cut)) == 0, "what is cut is the beginning");
    fuzz_demand(cli_text_width(whole) <= strlen(whole), "a text is no wider than its bytes");
}

/* After a backslash: a letter of JSON's, or u and four digits. Returns what follows. */
static const char *skip_escape(const char *text)
{
    if (*text != 'u') {
        fuzz_demand(*text != '\0' && strchr("\"\\/bfnrt", *text) != NULL, "an escape is JSON's");
        return text + 1;
    }
    for (int i = 1; i <= 4; i++)
        fuzz_demand(text[i] != '\0' && strchr("0123456789abcdefABCDEF", text[i]) != NULL,
                    "an escape has four digits");
    return text + 5;
}

static void demand_json_string(const char *text)
{
    fuzz_demand(*text++ == '"', "a string opens with a quote");
    while (*text != '\0' && *text != '"') {
        fuzz_demand((unsigned char)*text >= 0x20, "a string has no raw control character");
        text = *text == '\\' ? skip_escape(text + 1) : text + 1;
    }
    fuzz_demand(strcmp(text, "\"") == 0, "a string ends with its only quote");
}

static void write_json(const char *text)
{
    char *json = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&json, &size);

    fuzz_demand(stream != NULL, "there is memory");
    cli_json_string(stream, "", text);
    fclose(stream);
    demand_json_string(json);
    free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);

    print(text);
    write_json(text);
    free(text);
    return 0;
}
