/*
 * resp.c - the protocol of Redis. Owns the memory of the bytes on their way to the server, what a
 * reply may cost, and the sentences for error replies; must not know what is said.
 *
 * hiredis allocates an array as soon as its length is announced. So the arrays of a reply are
 * counted before they are made, all levels of it together. The bytes of a reply are counted as they
 * come, because hiredis keeps the parts that it has parsed. And hiredis looks for the end of a line
 * from its beginning each time that bytes have come. So a line must end soon; the length that a
 * string announces before its bytes is a line, too.
 */
#include "backend/redis/wire/resp.h"

#include "base/alloc.h"
#include "base/check.h"
#include "base/error.h"

#include <hiredis/hiredis.h>
#include <string.h>

#define HEADER_MAX 24                         /* '*' or '$', the digits, CR, LF */
#define LENGTH_MAX ((size_t)16 * 1024 * 1024) /* bytes of one reply */
#define LINE_MAX_BYTES ((size_t)64 * 1024)    /* of one line: an error, a state, a number */
#define PARTS_MAX ((size_t)256 * 1024)        /* elements of all its arrays */

/* ---- Commands -------------------------------------------------------------------------------- */

struct sb_redis_argument sb_redis_argument_text(const char *text)
{
    return (struct sb_redis_argument){text, strlen(text)};
}

/* Writes a number so that it ends there; returns where it begins. */
static char *write_digits(char *end, uint64_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    return end;
}

struct sb_redis_argument sb_redis_argument_number(int64_t number, struct sb_redis_digits *digits)
{
    char *end = digits->text + sizeof digits->text;
    char *first = write_digits(end, number < 0 ? -(uint64_t)number : (uint64_t)number);

    if (number < 0)
        *--first = '-';
    return (struct sb_redis_argument){first, (size_t)(end - first)};
}

/* The room has been reserved. */
static void add_header(struct sb_wire_buffer *buffer, char type, size_t number)
{
    char digits[HEADER_MAX];
    char *first = digits + sizeof digits;

    *--first = '\n';
    *--first = '\r';
    first = write_digits(first, number);
    *--first = type;
    memcpy(buffer->data + buffer->length, first, (size_t)(digits + sizeof digits - first));
    buffer->length += (size_t)(digits + sizeof digits - first);
}

bool sb_redis_buffer_add_command(struct sb_wire_buffer *buffer,
                                 const struct sb_redis_argument *arguments, size_t count)
{
    size_t size = HEADER_MAX;

    for (size_t i = 0; i < count; i++)
        size += HEADER_MAX + arguments[i].length + 2;
    if (!sb_wire_buffer_reserve(buffer, size))
        return false;
    add_header(buffer, '*', count);
    for (size_t i = 0; i < count; i++) {
        add_header(buffer, '$', arguments[i].length);
        memcpy(buffer->data + buffer->length, arguments[i].bytes, arguments[i].length);
        buffer->length += arguments[i].length;
        memcpy(buffer->data + buffer->length, "\r\n", 2);
        buffer->length += 2;
    }
    return true;
}

/* ---- Replies --------------------------------------------------------------------------------- */

/* What hiredis counts elements in. */
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

struct sb_redis_reader {
    redisReader *reader;
    redisReplyObjectFunctions functions;
    void *(*create_array)(const redisReadTask *task, element_count count); /* hiredis' own */
    size_t parts; /* announced so far, of the reply that is being read */
    size_t bytes; /* of that reply and what follows it, whether hiredis has taken them in or not */
};

static void *create_array(const redisReadTask *task, element_count count)
{
    struct sb_redis_reader *r = task->privdata;

    SB_CHECK(r->parts <= PARTS_MAX, "the parts of a reply are bounded");
    if ((size_t)count > PARTS_MAX - r->parts)
        return NULL;
    r->parts += (size_t)count;
    return r->create_array(task, count);
}

struct sb_redis_reader *sb_redis_reader_create(void)
{
    struct sb_redis_reader *r = sb_alloc_zero(sizeof *r);

    if (r == NULL)
        return NULL;
    r->reader = redisReaderCreate();
    if (r->reader == NULL) {
        sb_free(r);
        return NULL;
    }
    r->functions = *r->reader->fn;
    r->create_array = r->functions.createArray;
    r->functions.createArray = create_array;
    r->reader->fn = &r->functions;
    r->reader->privdata = r;
    return r;
}

void sb_redis_reader_free(struct sb_redis_reader *r)
{
    if (r == NULL)
        return;
    redisReaderFree(r->reader);
    sb_free(r);
}

bool sb_redis_reader_feed(struct sb_redis_reader *r, const char *bytes, size_t length)
{
    r->bytes += length;
    return redisReaderFeed(r->reader, bytes, length) == REDIS_OK;
}

bool sb_redis_reader_is_empty(const struct sb_redis_reader *r)
{
    return r->parts == 0 && r->reader->len == r->reader->pos;
}

/* What has not been taken in begins with a line, which must end soon. */
enum sb_redis_reader_verdict sb_redis_reader_next(struct sb_redis_reader *r, redisReply **ret_reply)
{
    const redisReader *reader = r->reader;
    void *reply = NULL;
    size_t left;

    if (redisReaderGetReply(r->reader, &reply) != REDIS_OK)
        return SB_REDIS_READER_NONSENSE;
    left = reader->len - reader->pos;
    SB_CHECK(left <= r->bytes, "what is left is part of what was counted");
    if (reply == NULL) {
        bool endless_line = left > LINE_MAX_BYTES &&
                            memchr(reader->buf + reader->pos, '\n', LINE_MAX_BYTES) == NULL;
        return endless_line || r->bytes > LENGTH_MAX ? SB_REDIS_READER_TOO_LONG
                                                     : SB_REDIS_READER_MORE;
    }
    r->parts = 0;
    r->bytes = left;
    *ret_reply = reply;
    return SB_REDIS_READER_REPLY;
}

/* ---- Error replies --------------------------------------------------------------------------- */

struct meaning {
    const char *word;
    int code;
    const char *text; /* follows the name of the server */
};

static const struct meaning meanings[] = {
    {"NOAUTH", SIMBA_EDENIED, "wants a password"},
    {"WRONGPASS", SIMBA_EDENIED, "refused the user or the password"},
    {"NOPERM", SIMBA_EDENIED,
     "does not permit this to the user (docs/stores/redis.md lists the rights)"},
    {"DENIED", SIMBA_EDENIED, "refused the connection"},
    {"READONLY", SIMBA_EUNAVAILABLE, "is a read-only replica"},
    {"OOM", SIMBA_ESTORE, "has reached its maxmemory"},
    {"LOADING", SIMBA_EUNAVAILABLE, "is still loading its data"},
    {"BUSY", SIMBA_EUNAVAILABLE, "is busy with a script that does not end"},
    {"MISCONF", SIMBA_ESTORE, "takes no writes because it cannot persist them"},
    {"NOREPLICAS", SIMBA_ESTORE, "takes no writes without its replicas"},
    {"MASTERDOWN", SIMBA_EUNAVAILABLE, "is a replica that has lost its master"},
    {"CLUSTERDOWN", SIMBA_EUNAVAILABLE, "belongs to a cluster that is down"},
    {"TRYAGAIN", SIMBA_EUNAVAILABLE, "is moving the mutex to another node"},
    {"MOVED", SIMBA_ESTORE, "belongs to a cluster: use redis+cluster://"},
    {"ASK", SIMBA_ESTORE, "belongs to a cluster: use redis+cluster://"},
    {"WRONGTYPE", SIMBA_ESTORE, "holds other data under the keys of the mutex"},
    {"ERR The user executing the script", SIMBA_EDENIED,
     "does not permit this to the user (docs/stores/redis.md lists the rights)"},
    {"ERR ACL failure in script:", SIMBA_EDENIED,
     "does not permit this to the user (docs/stores/redis.md lists the rights)"},
    {"ERR invalid password", SIMBA_EDENIED, "refused the password"},
    {"ERR AUTH", SIMBA_EDENIED, "has no password, and one was given"},
    {"ERR Client sent AUTH", SIMBA_EDENIED, "has no password, and one was given"},
    {"ERR max number of clients", SIMBA_EUNAVAILABLE, "has no connection to spare"},
    {"ERR DB index", SIMBA_ECONFIG, "has no such database"},
    {"ERR This instance has cluster support disabled", SIMBA_ECONFIG,
     "is no node of a cluster: use redis://"},
    {"ERR unknown command 'SENTINEL'", SIMBA_ECONFIG, "is no sentinel: use redis://"},
    {"ERR unknown command `SENTINEL`", SIMBA_ECONFIG, "is no sentinel: use redis://"},
    {"ERR unknown command 'AUTH'", SIMBA_EDENIED, "takes no password, and one was given"},
    {"ERR unknown command `AUTH`", SIMBA_EDENIED, "takes no password, and one was given"},
    {"ERR unknown command", SIMBA_ESTORE, "does not know a command that is needed"},
};

/* Redis before 7 wraps an error of a script: "ERR Error running script (call to f_...):
 * @user_script:7: OOM command not allowed ...". */
static const char *unwrap(const char *text)
{
    static const char place[] = "@user_script:";
    const char *found;

    if (strncmp(text, "ERR Error running script", 24) != 0)
        return text;
    while ((found = strstr(text, place)) != NULL)
        text = found + sizeof place - 1;
    text += strspn(text, "0123456789: -");
    return text;
}

static bool opens_with(const char *text, const char *word)
{
    size_t length = strlen(word);

    return strncmp(text, word, length) == 0 &&
           (text[length] == '\0' || text[length] == ' ' || text[length] == ',');
}

bool sb_redis_failed_with(const char *text, const char *word)
{
    return opens_with(unwrap(text), word);
}

bool sb_redis_is_redirection(const char *text)
{
    return sb_redis_failed_with(text, "MOVED") || sb_redis_failed_with(text, "ASK");
}

/* The length without where in a script it happened, which tells a user nothing, and without the
 * arguments of a command that the server does not know. */
static int length_to_tell(const char *text)
{
    static const char own[] = "ERR ACL failure in script:"; /* of Redis 8 */
    const char *from = opens_with(text, own) ? text + sizeof own - 1 : text;
    const char *script = strstr(from, " script: ");
    const char *arguments = strstr(text, ", with args beginning with");
    const char *end = script != NULL ? script : text + strlen(text);

    return (int)((arguments != NULL && arguments < end ? arguments : end) - text);
}

static int tell(const struct sb_wire_place *place, const char *text, int length,
                struct simba_error *error)
{
    char where[SB_WIRE_PLACE_TEXT_MAX];

    sb_wire_place_text(place, where);
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (opens_with(text, meanings[i].word))
            return sb_error_set(error, meanings[i].code, "the server at %.80s %s: %.*s", where,
                                meanings[i].text, length, text);
    return sb_error_set(error, SIMBA_ESTORE, "the server at %.80s failed: %.*s", where, length,
                        text);
}

int sb_redis_fail(const struct sb_wire_place *place, const char *text, struct simba_error *error)
{
    const char *words = unwrap(text);

    return tell(place, words, length_to_tell(words), error);
}

int sb_redis_fail_quietly(const struct sb_wire_place *place, const char *text,
                          struct simba_error *error)
{
    return tell(place, text, (int)strcspn(text, " "), error);
}
