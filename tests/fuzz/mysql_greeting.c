/*
 * mysql_greeting.c - fuzzes what a MySQL server says first, which decides whether it is told
 * anything without TLS. The bytes come one by one: an answer must stay what it is, whatever
 * follows.
 */
#include "fuzz.h"

#include "backend/mysql/connection.h"

#include <stdlib.h>
#include <string.h>

#define HEADER 4
#define OFFERS_TLS 0x0800

/* What stands there as the protocol has it: a version that ends, 13 bytes, what the server can do;
 * all in one packet. */
static bool offers_tls(const uint8_t *bytes, size_t size)
{
    size_t length = HEADER + (bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16);
    size_t place = HEADER + 1;

    if (bytes[HEADER] != 10)
        return false;
    while (place < size && bytes[place] != '\0')
        place++;
    place += 1 + 13;
    return place + 2 <= size && place + 2 <= length &&
           ((bytes[place] | bytes[place + 1] << 8) & OFFERS_TLS) != 0;
}

/* What the library passes over, and so may crash. */
static bool reports_progress(const uint8_t *bytes, size_t size)
{
    return size >= HEADER + 3 && memcmp(bytes + HEADER, "\xff\xff\xff", 3) == 0 &&
           (bytes[0] >= 3 || bytes[1] != 0 || bytes[2] != 0);
}

/* From memory of its own, so that a read behind the end is seen. */
static enum sb_mysql_greeting read_first(const uint8_t *data, size_t count)
{
    unsigned char *bytes = malloc(count > 0 ? count : 1);
    enum sb_mysql_greeting greeting;

    fuzz_demand(bytes != NULL, "there is memory");
    if (count > 0)
        memcpy(bytes, data, count);
    greeting = sb_mysql_read_greeting(bytes, count);
    free(bytes);
    return greeting;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum sb_mysql_greeting answer = SB_MYSQL_GREETING_PART;

    if (size > SB_MYSQL_GREETING_MAX)
        size = SB_MYSQL_GREETING_MAX;
    for (size_t count = 0; count <= size; count++) {
        enum sb_mysql_greeting greeting = read_first(data, count);

        fuzz_demand(answer == SB_MYSQL_GREETING_PART || greeting == answer,
                    "what follows changes no answer");
        fuzz_demand(greeting != SB_MYSQL_GREETING_TLS || offers_tls(data, count),
                    "TLS is offered where a greeting says so");
        fuzz_demand((greeting == SB_MYSQL_GREETING_WRONG) == reports_progress(data, count),
                    "progress is not reported before a greeting");
        answer = greeting;
    }
    fuzz_demand(size < SB_MYSQL_GREETING_MAX || answer != SB_MYSQL_GREETING_PART,
                "nobody is waited for longer than for the bytes that are looked at");
    return 0;
}
