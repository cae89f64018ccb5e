/*
 * transcript.c - reads a section line by line, steps a machine with each event, and writes down
 * what it answers. It must not judge: the test compares.
 */
#include "transcript.h"

#include "core/observer.h"

#include <simba/simba.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUESTS_MAX 64
#define WORDS_MAX 16
#define LINE_MAX_BYTES 256

struct request {
    enum simba_op op;
    uint32_t generation;
    uint64_t fence;
    int64_t sent_at_ms;
};

struct replay {
    FILE *out;
    char *error;
    size_t error_size;
    bool failed;
    int line;
    bool observer;
    bool made;
    struct sb_timing timing;
    struct sb_machine machine;
    struct sb_observer watcher;
    struct request requests[REQUESTS_MAX];
    size_t request_count;
    int64_t now_ms;
    int64_t deadline_ms; /* that the last step named */
};

static void fail(struct replay *r, const char *format, ...) SIMBA_PRINTF(2, 3);

static void fail(struct replay *r, const char *format, ...)
{
    char reason[LINE_MAX_BYTES];
    va_list arguments;

    if (r->failed)
        return;
    r->failed = true;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    snprintf(r->error, r->error_size, "line %d of the section: %s", r->line, reason);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *const op_names[] = {"NONE", "ACQUIRE", "GUARD", "RELEASE", "READ", "LIST"};

static const struct {
    const char *name;
    int code;
} codes[] = {{"OK", SIMBA_OK},
#define CODE(name, number, group, text) {#name, number},
             SIMBA_ERROR_MAP(CODE)
#undef CODE
};

static const char *code_name(int code)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (codes[i].code == code)
            return codes[i].name;
    }
    return "?";
}

static int find_code(struct replay *r, const char *name)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strcmp(codes[i].name, name) == 0)
            return codes[i].code;
    }
    fail(r, "there is no code '%s'", name);
    return SIMBA_OK;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static size_t split(char *line, char *words[WORDS_MAX])
{
    size_t count = 0;

    for (char *word = strtok(line, " "); word != NULL && count < WORDS_MAX;
         word = strtok(NULL, " "))
        words[count++] = word;
    return count;
}

/* The value of `name=` among the words, or NULL. */
static const char *option(char *words[], size_t count, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < count; i++) {
        if (strncmp(words[i], name, length) == 0 && words[i][length] == '=')
            return words[i] + length + 1;
    }
    return NULL;
}

static int64_t parse_ms(struct replay *r, const char *text)
{
    int64_t ms = 0;

    if (strcmp(text, "never") == 0)
        return SIMBA_INFINITE;
    if (simba_duration_parse(text, &ms, NULL) != SIMBA_OK)
        fail(r, "'%s' is no duration", text);
    return ms;
}

static int64_t option_ms(struct replay *r, char *words[], size_t count, const char *name,
                         int64_t missing_ms)
{
    const char *value = option(words, count, name);

    return value != NULL ? parse_ms(r, value) : missing_ms;
}

static int64_t parse_number(struct replay *r, const char *text)
{
    char *end;
    int64_t number = strtoll(text, &end, 10);

    if (*text == '\0' || *end != '\0')
        fail(r, "'%s' is no number", text);
    return number;
}

static int64_t option_number(struct replay *r, char *words[], size_t count, const char *name,
                             int64_t missing)
{
    const char *value = option(words, count, name);

    return value != NULL ? parse_number(r, value) : missing;
}

/* ---- Making the machine ---------------------------------------------------------------------- */

static void read_jitter(struct replay *r, char *words[], size_t count)
{
    const char *value = option(words, count, "jitter");
    char low[LINE_MAX_BYTES];
    const char *dots = value != NULL ? strstr(value, "..") : NULL;

    if (value == NULL)
        return;
    if (dots == NULL) {
        fail(r, "a jitter is MIN..MAX, not '%s'", value);
        return;
    }
    snprintf(low, sizeof low, "%.*s", (int)(dots - value), value);
    r->timing.jitter_min_ms = parse_ms(r, low);
    r->timing.jitter_max_ms = parse_ms(r, dots + 2);
}

static void make_machine(struct replay *r, char *words[], size_t count)
{
    struct sb_timing *t = &r->timing;

    r->observer = strcmp(words[0], "observer") == 0;
    t->ttl_ms = option_ms(r, words, count, "ttl", 10000);
    t->transition_ms = option_ms(r, words, count, "transition", 6000);
    t->margin_ms = simba_drift_margin_ms(t->ttl_ms + t->transition_ms);
    t->initial_delay_ms = option_ms(r, words, count, "initial-delay", 0);
    t->stop_timeout_ms = option_ms(r, words, count, "stop-timeout", 10000);
    t->turn_ms = option_ms(r, words, count, "turn", 0);
    t->read_ms = option_ms(r, words, count, "look", 0);
    read_jitter(r, words, count);
    if (r->observer)
        sb_observer_init(&r->watcher, t, option_ms(r, words, count, "poll", 1000), 1);
    else
        sb_machine_init(&r->machine, t, 1);
    if (!r->observer && strcmp(words[count - 1], "renewals") == 0)
        sb_machine_tell_renewals(&r->machine);
    if (!r->observer && strcmp(words[count - 1], "follows") == 0)
        sb_machine_follow(&r->machine);
    r->made = true;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static const struct request *find_request(struct replay *r, const char *word)
{
    int64_t number = word[0] == '#' ? parse_number(r, word + 1) : 0;

    if (number < 1 || (size_t)number > r->request_count) {
        fail(r, "there is no request '%s'", word);
        return &r->requests[0];
    }
    return &r->requests[number - 1];
}

static void read_answer(struct replay *r, char *words[], size_t count, struct sb_event *event)
{
    const char *answer = words[3];
    const char *argument = count > 4 ? words[4] : "";

    if (strcmp(answer, "mine") == 0) {
        event->answer = SB_ANSWER_MINE;
        event->owner = "me";
    } else if (strcmp(answer, "other") == 0) {
        event->answer = SB_ANSWER_OTHER;
        event->owner = argument;
    } else if (strcmp(answer, "nobody") == 0) {
        event->answer = SB_ANSWER_NOBODY;
        event->owner = "";
    } else if (strcmp(answer, "failed") == 0) {
        event->answer = SB_ANSWER_FAILED;
        event->code = find_code(r, argument);
    } else if (strcmp(answer, "unknown") == 0) {
        event->answer = SB_ANSWER_UNKNOWN;
        event->code = SIMBA_EUNKNOWN;
    } else {
        fail(r, "there is no answer '%s'", answer);
    }
}

static void read_reply(struct replay *r, char *words[], size_t count, struct sb_event *event)
{
    const struct sb_timing *t = &r->timing;
    const struct request *request;

    if (count < 4) {
        fail(r, "a reply names its request and the answer");
        return;
    }
    request = find_request(r, words[2]);
    event->type = SB_EVENT_REPLY;
    event->op = request->op;
    event->generation = request->generation;
    event->named = request->fence;
    event->sent_at_ms = option_number(r, words, count, "sent", request->sent_at_ms);
    event->ttl_left_ms = option_ms(r, words, count, "ttl", t->ttl_ms);
    event->transition_left_ms =
        option_ms(r, words, count, "transition", t->ttl_ms + t->transition_ms);
    event->revision = (uint64_t)option_number(r, words, count, "revision", 0);
    event->fence = (uint64_t)option_number(r, words, count, "fence", 0);
    event->revision_counts = option_number(r, words, count, "counts", 0) != 0;
    event->place = option_number(r, words, count, "place", 0);
    event->missed = option_number(r, words, count, "missed", 0) != 0;
    read_answer(r, words, count, event);
}

static int64_t read_time(struct replay *r, const char *word)
{
    return word[0] == '+' ? r->now_ms + parse_number(r, word + 1) : parse_number(r, word);
}

static void check_returned(struct replay *r, const struct sb_event *event)
{
    unsigned owed = r->observer ? r->watcher.callbacks : r->machine.callbacks;

    if (event->type == SB_EVENT_RETURNED && event->returned > owed)
        fail(r, "%u callbacks return, but %u run", event->returned, owed);
}

static void read_event(struct replay *r, char *words[], size_t count, struct sb_event *event)
{
    static const struct {
        const char *name;
        enum sb_event_type type;
    } plain[] = {
        {"start", SB_EVENT_START},       {"stop", SB_EVENT_STOP},
        {"leave", SB_EVENT_STOP},        {"tick", SB_EVENT_TICK},
        {"wake", SB_EVENT_WAKE},         {"changed", SB_EVENT_CHANGED},
        {"returned", SB_EVENT_RETURNED}, {"session-lost", SB_EVENT_SESSION_LOST},
    };

    event->now_ms = read_time(r, words[0]);
    if (strcmp(words[1], "reply") == 0) {
        read_reply(r, words, count, event);
        return;
    }
    event->returned = count > 2 ? (unsigned)parse_number(r, words[2]) : 1;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (strcmp(words[1], plain[i].name) == 0) {
            event->type = plain[i].type;
            event->leaves = strcmp(words[1], "leave") == 0;
            check_returned(r, event);
            return;
        }
    }
    fail(r, "there is no event '%s'", words[1]);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void write_request(struct replay *r, const struct sb_step *step, int64_t now_ms)
{
    struct request *request;

    if (step->request.op == SIMBA_OP_NONE)
        return;
    if (r->request_count == REQUESTS_MAX) {
        fail(r, "a section has at most %d requests", REQUESTS_MAX);
        return;
    }
    request = &r->requests[r->request_count++];
    request->op = step->request.op;
    request->generation = step->request.generation;
    request->fence = step->request.fence;
    request->sent_at_ms = now_ms;
    fprintf(r->out, "    send #%zu %s", r->request_count, op_names[request->op]);
    if (step->request.revision != 0)
        fprintf(r->out, " revision %" PRIu64, step->request.revision);
    if (step->request.fence != 0)
        fprintf(r->out, " fence %" PRIu64, step->request.fence);
    fprintf(r->out, " timeout %" PRId64 "\n", step->request.timeout_ms);
}

static void write_change(struct replay *r, const struct sb_step *step)
{
    if (step->renewed)
        fprintf(r->out, "    tell '%s', renewed\n", step->state.after.id);
    if (!step->changed)
        return;
    fprintf(r->out, "    tell '%s' -> '%s'", step->state.before.id, step->state.after.id);
    if (step->state.after.fence != 0)
        fprintf(r->out, " token %" PRIu64, step->state.after.fence);
    fprintf(r->out, "%s%s\n", step->acquired ? ", acquired" : "",
            step->released ? ", released" : "");
}

static void write_standing(struct replay *r, const struct sb_step *step)
{
    const struct sb_machine *m = &r->machine;
    enum simba_status status = r->observer ? r->watcher.status : m->status;
    int64_t until_ms = r->observer ? 0 : sb_machine_belief_ms(m);

    fprintf(r->out, "    %s", simba_status_name(status));
    if (until_ms == SIMBA_INFINITE)
        fprintf(r->out, ", owns with token %" PRIu64, sb_machine_fence(m));
    else if (until_ms != 0)
        fprintf(r->out, ", owns until %" PRId64 " with token %" PRIu64, until_ms,
                sb_machine_fence(m));
    if (step->deadline_ms == SIMBA_INFINITE)
        fputs("; next never\n", r->out);
    else
        fprintf(r->out, "; next at %" PRId64 "\n", step->deadline_ms);
}

/* A tick at the deadline. */
static void read_due(struct replay *r, struct sb_event *event)
{
    if (r->deadline_ms == SIMBA_INFINITE)
        fail(r, "nothing is due");
    event->now_ms = r->deadline_ms;
    fprintf(r->out, "    at %" PRId64 "\n", event->now_ms);
}

static void replay_event(struct replay *r, char *words[], size_t count)
{
    struct sb_event event = {.type = SB_EVENT_TICK};
    bool due = count == 1 && strcmp(words[0], "due") == 0;
    struct sb_step step;
    int code;

    if (!r->made || (count < 2 && !due)) {
        fail(r, "'%s' is neither a machine nor an event", words[0]);
        return;
    }
    if (due)
        read_due(r, &event);
    else
        read_event(r, words, count, &event);
    if (r->failed)
        return;
    r->now_ms = event.now_ms;
    code = r->observer ? sb_observer_step(&r->watcher, &event, &step)
                       : sb_machine_step(&r->machine, &event, &step);
    if (code != SIMBA_OK)
        fprintf(r->out, "    refused with %s\n", code_name(code));
    write_change(r, &step);
    write_request(r, &step, event.now_ms);
    if (step.stopped)
        fprintf(r->out, "    stopped with %s\n", code_name(step.stop_code));
    r->deadline_ms = step.deadline_ms;
    write_standing(r, &step);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static void replay_line(struct replay *r, const char *text, size_t length)
{
    char line[LINE_MAX_BYTES];
    char *words[WORDS_MAX];
    size_t count;

    r->line++;
    if (length >= sizeof line) {
        fail(r, "a line is longer than %zu bytes", sizeof line - 1);
        return;
    }
    if (strncmp(text, "    ", 4) == 0)
        return; /* what it answered when the transcript was written */
    memcpy(line, text, length);
    line[length] = '\0';
    fprintf(r->out, "%s\n", line);
    if (line[0] == '#' || strncmp(line, "==", 2) == 0)
        return;
    count = split(line, words);
    if (count == 0)
        return;
    if (strcmp(words[0], "contender") == 0 || strcmp(words[0], "observer") == 0)
        make_machine(r, words, count);
    else
        replay_event(r, words, count);
}

char *transcript_replay(const char *section, size_t length, char *error, size_t error_size)
{
    struct replay r = {.error = error, .error_size = error_size, .deadline_ms = SIMBA_INFINITE};
    char *text = NULL;
    size_t size = 0;

    r.out = open_memstream(&text, &size);
    if (r.out == NULL) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    for (size_t at = 0; at < length && !r.failed;) {
        const char *end = memchr(section + at, '\n', length - at);
        size_t line = end != NULL ? (size_t)(end - section) - at : length - at;

        replay_line(&r, section + at, line);
        at += line + 1;
    }
    fclose(r.out);
    if (!r.failed)
        return text;
    free(text);
    return NULL;
}

size_t transcript_section_length(const char *text)
{
    const char *next = strstr(text + 1, "\n== ");

    return next != NULL ? (size_t)(next + 1 - text) : strlen(text);
}
