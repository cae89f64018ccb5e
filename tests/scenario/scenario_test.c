/*
 * scenario_test.c - each section of each transcript is one test: replayed, the machine answers as
 * it is written down. With UPDATE=1 in the environment the transcripts are written anew instead.
 *
 *     scenario_test FILE...
 */
#include "test.h"

#include "transcript.h"

#define SECTIONS_MAX 256

struct section {
    const char *text;
    size_t length;
    char title[128];
};

static struct section sections[SECTIONS_MAX];
static struct CMUnitTest tests[SECTIONS_MAX];
static size_t section_count;

/* ---- Files ----------------------------------------------------------------------------------- */

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = NULL;
    size_t size = 0;

    if (file == NULL || getdelim(&text, &size, '\0', file) < 0) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    return text;
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    if (file == NULL || fputs(text, file) < 0 || fclose(file) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(2);
    }
}

/* A section whose events do not fit what the machine does now stays as it is: a human has to
 * look. */
static bool rewrite_section(const char *path, const char *at, FILE *all)
{
    size_t length = transcript_section_length(at);
    char error[256] = "";
    char *section = transcript_replay(at, length, error, sizeof error);

    if (section == NULL) {
        fprintf(stderr, "%s: %.*s: %s; it is left as it is\n", path, (int)strcspn(at, "\n"), at,
                error);
        fprintf(all, "%.*s", (int)length, at);
        return false;
    }
    fputs(section, all);
    free(section);
    return true;
}

static bool rewrite(const char *path)
{
    char *old = read_text(path);
    char *text = NULL;
    size_t size = 0;
    FILE *all = open_memstream(&text, &size);
    bool whole = true;

    if (all == NULL) {
        fputs("out of memory\n", stderr);
        exit(2);
    }
    for (const char *at = old; *at != '\0'; at += transcript_section_length(at))
        whole &= rewrite_section(path, at, all);
    fclose(all);
    if (strcmp(old, text) != 0) {
        write_text(path, text);
        printf("%s is written anew\n", path);
    }
    free(text);
    free(old);
    return whole;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* Shows the first line that differs, because a whole section is hard to compare by eye. */
static void fail_at_difference(const char *written, const char *now)
{
    int line = 1;

    while (*written == *now) {
        line += *written == '\n';
        written++;
        now++;
    }
    while (written[-1] != '\n') {
        written--;
        now--;
    }
    fail_msg("line %d of the section: written is\n%.*s\nbut the machine answers\n%.*s", line,
             (int)strcspn(written, "\n"), written, (int)strcspn(now, "\n"), now);
}

static void machine_answers_as_written(void **state)
{
    const struct section *section = *state;
    char error[256] = "";
    char *written = strndup(section->text, section->length);
    char *now = transcript_replay(section->text, section->length, error, sizeof error);

    if (now == NULL)
        fail_msg("%s", error);
    if (strcmp(written, now) != 0)
        fail_at_difference(written, now);
    free(written);
    free(now);
}

static void add_section(const char *path, const char *text)
{
    struct section *section = &sections[section_count];
    const char *name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;

    if (section_count == SECTIONS_MAX) {
        fputs("SECTIONS_MAX is too small\n", stderr);
        exit(2);
    }
    section->text = text;
    section->length = transcript_section_length(text);
    snprintf(section->title, sizeof section->title, "%s: %.*s", name, (int)strcspn(text + 3, "\n"),
             text + 3);
    tests[section_count].name = section->title;
    tests[section_count].test_func = machine_answers_as_written;
    tests[section_count].initial_state = section;
    section_count++;
}

static void add_sections(const char *path)
{
    const char *text = read_text(path); /* the sections point into it until the end */

    for (; *text != '\0'; text += transcript_section_length(text)) {
        if (strncmp(text, "== ", 3) == 0)
            add_section(path, text);
    }
}

int main(int argc, char **argv)
{
    bool whole = true;

    for (int i = 1; i < argc; i++) {
        if (getenv("UPDATE") != NULL)
            whole &= rewrite(argv[i]);
        else
            add_sections(argv[i]);
    }
    if (!whole)
        return 1;
    return section_count > 0 ? _cmocka_run_group_tests("scenario", tests, section_count, NULL, NULL)
                             : 0;
}
