/*
 * cli.h - what all files of the program share: exit codes, options, verbs, messages, results, text.
 *
 * A new verb is one file that defines a struct cli_verb, and one line in CLI_VERB_MAP.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <simba/simba.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* After sysexits.h where it has a word for it. What a child returned is passed on as it is. */
enum cli_exit {
    CLI_EXIT_OK = 0,
    CLI_EXIT_FAILED = 1,       /* the answer is no: a case of the kit failed; warnings */
    CLI_EXIT_PROBLEMS = 2,     /* doctor has found some */
    CLI_EXIT_USAGE = 64,       /* the command line is wrong */
    CLI_EXIT_UNAVAILABLE = 69, /* the store cannot be reached or cannot serve */
    CLI_EXIT_LOST = 70,        /* the lease was lost, or the mutex was gone at its release */
    CLI_EXIT_SYSTEM = 71,      /* the system refused: no memory, no process, no descriptor */
    CLI_EXIT_OUTPUT = 74,      /* standard output cannot be written */
    CLI_EXIT_CONTENDED = 75,   /* not acquired: held by another, or the wait ran out */
    CLI_EXIT_DENIED = 77,      /* the store refused the credentials */
    CLI_EXIT_CONFIG = 78,      /* a URL, name or timing is invalid */
    CLI_EXIT_OVERDUE = 124,    /* the child was stopped at the end of its time, as by timeout(1) */
    CLI_EXIT_NOT_EXECUTABLE = 126,
    CLI_EXIT_NOT_FOUND = 127,
    CLI_EXIT_SIGNAL = 128 /* plus the number of the signal */
};

/* How long the program waits for its last steps: to print messages, to close a client. */
#define CLI_PATIENCE_MS 1000

/* ---- Options: option.c ----------------------------------------------------------------------- */

enum cli_option_kind {
    CLI_OPTION_CALL,     /* `apply` stores the value */
    CLI_OPTION_FLAG,     /* a bool, which becomes true */
    CLI_OPTION_TEXT,     /* a const char * */
    CLI_OPTION_DURATION, /* an int64_t of milliseconds, at least `low` */
    CLI_OPTION_SECONDS,  /* the same; also "30" and "1.5s", as flock(1) takes them */
    CLI_OPTION_NUMBER,   /* an int from `low` to `high` */
    CLI_OPTION_WORD      /* an int or enum: the index in `words` */
};

struct cli_option {
    char letter;       /* 0: only the long form */
    const char *name;  /* without the dashes; NULL ends a table */
    const char *value; /* what the value is called in the help; NULL: takes none */
    const char *help;
    enum cli_option_kind kind;
    size_t offset; /* of the member that is set, in what the table is applied to */
    int low;
    int high;
    const char *const *words; /* NULL behind the last */
    /* Stores the value (NULL where the option takes none). Returns false for an invalid value,
     * after a message. */
    bool (*apply)(void *into, const char *value);
};

/* The rest of an option, behind its help. */
#define CLI_FLAG(type, member) .kind = CLI_OPTION_FLAG, .offset = offsetof(type, member)
#define CLI_TEXT(type, member) .kind = CLI_OPTION_TEXT, .offset = offsetof(type, member)
#define CLI_DURATION(type, member) .kind = CLI_OPTION_DURATION, .offset = offsetof(type, member)
/* A duration longer than 0. */
#define CLI_INTERVAL(type, member)                                                                 \
    .kind = CLI_OPTION_DURATION, .offset = offsetof(type, member), .low = 1
#define CLI_SECONDS(type, member) .kind = CLI_OPTION_SECONDS, .offset = offsetof(type, member)
#define CLI_NUMBER(type, member, from, to)                                                         \
    .kind = CLI_OPTION_NUMBER, .offset = offsetof(type, member), .low = (from), .high = (to)
#define CLI_WORD(type, member, names)                                                              \
    .kind = CLI_OPTION_WORD, .offset = offsetof(type, member), .words = (names)
#define CLI_CALL(function) .kind = CLI_OPTION_CALL, .apply = (function)

#define CLI_OPTIONS_END                                                                            \
    {                                                                                              \
        .name = NULL                                                                               \
    }

/* One table and what its options are applied to. */
struct cli_option_set {
    const struct cli_option *options; /* may be NULL */
    void *into;
    const char *verb; /* NULL; or their verb: in front of it they are refused, with a hint */
    const bool *all_operands; /* NULL; or whether operands go on up to "--", however many */
};

/* Applies all options in argv[1..], searching the tables in order, and moves the operands together
 * at argv[0..*argc). Options may stand between the first `operands_max` operands. The next operand,
 * or "--", begins the part that is left as it is, such as the command of `simba lock`;
 * *ret_operands is the number of operands in front of that part. Returns false for a wrong command
 * line, after a message. */
bool cli_options_parse(const struct cli_option_set *sets, size_t sets_count, size_t operands_max,
                       int *argc, char **argv, size_t *ret_operands);

/* Prints a table, aligned. */
void cli_options_print(FILE *stream, const struct cli_option *options);

/* Read a value. Each returns false for an invalid one, after a message that names `source`: an
 * option or a variable of the environment. A duration is at least `low_ms`. `kind` is what the word
 * is: a level. */
bool cli_option_duration(const char *source, const char *text, int low_ms, int64_t *ret_ms);
bool cli_option_seconds(const char *source, const char *text, int64_t *ret_ms);
bool cli_option_number(const char *source, const char *text, int low, int high, int *ret_number);
bool cli_option_word(const char *source, const char *kind, const char *text,
                     const char *const *words, int *ret_index);

/* ---- Verbs: main.c --------------------------------------------------------------------------- */

/* The global options, which stand before or after the verb. */
struct cli {
    const char *url;    /* NULL: what the configuration says */
    const char *config; /* NULL: the file that is looked for, or else the default store */
    bool url_given;     /* on the command line, not by the environment */
    bool config_given;
    const char *id;       /* gets a random part; NULL: made by the library */
    const char *exact_id; /* stays as it is; at most one of the two is given */
    int64_t ttl_ms;
    int64_t transition_ms;
    int log_level;   /* an enum simba_log_level; -1: not given */
    int log_format;  /* 0: text, 1: JSON; -1: not given */
    bool quiet;      /* print only what is wrong */
    bool show_store; /* print which store is used */
    bool help;
    bool version;
    char **arguments; /* the command line in its order, without a password; NULL behind the last */
    const char *hidden_url;      /* where in them the URL stood that had one; NULL: nowhere */
    const struct cli_verb *verb; /* NULL: not known yet */
    size_t names;                /* in front of the command, where it may be several; else 0 */
};

/* What stands behind a verb and its options. main.c checks it before `run` is called. */
enum cli_operands {
    CLI_OPERANDS_ANY,
    CLI_OPERANDS_NONE,
    CLI_OPERANDS_NAME,   /* one valid name of a mutex */
    CLI_OPERANDS_COMMAND /* such a name, in argv[0], and a command, from argv[1] on */
};

struct cli_verb {
    const char *name;
    const char *usage;   /* what follows "simba " in the first line of its help */
    const char *summary; /* one line, for the list of verbs */
    const char *details; /* what it does, examples, exit codes */
    const struct cli_option *options;
    const struct cli_option *shared; /* more of them, which other verbs have, too; may be NULL */
    void *into;                      /* what both tables are applied to; holds the defaults */
    enum cli_operands operands;
    const bool *all_operands; /* NULL; or whether all operands up to "--" are names */
    /* `argv` holds the operands and ends with NULL. Returns the exit code. */
    int (*run)(struct cli *cli, int argc, char **argv);
};

/* All verbs of `simba`, in the order of its help. X(name) stands for cli_verb_name. */
#define CLI_VERB_MAP(X)                                                                            \
    X(lock)                                                                                        \
    X(lead)                                                                                        \
    X(schedule)                                                                                    \
    X(status)                                                                                      \
    X(watch)                                                                                       \
    X(top)                                                                                         \
    X(dashboard)                                                                                   \
    X(acquire)                                                                                     \
    X(renew)                                                                                       \
    X(release)                                                                                     \
    X(handover)                                                                                    \
    X(semaphore)                                                                                   \
    X(prune)                                                                                       \
    X(migrate)                                                                                     \
    X(doctor)                                                                                      \
    X(init)                                                                                        \
    X(tck)                                                                                         \
    X(bench)

#define CLI_VERB_DECLARE(name) extern const struct cli_verb cli_verb_##name;
CLI_VERB_MAP(CLI_VERB_DECLARE)
#undef CLI_VERB_DECLARE

/* The verbs of this program; NULL behind the last. In simba.c, or in the file of the program that
 * `simba` starts. */
extern const struct cli_verb *const cli_verbs[];

/* In place of an exit code: nothing has been decided, the verb goes on. */
#define CLI_CONTINUE (-1)

/* Prints what is wrong with the command line of the verb, and where its help is. Returns
 * CLI_EXIT_USAGE. */
int cli_usage_error(const struct cli *cli, const char *format, ...) SIMBA_PRINTF(2, 3);

/* ---- Messages on standard error: message.c --------------------------------------------------- */

/* Prints "simba: " and the sentence as one line, in one write. */
void cli_message(const char *format, ...) SIMBA_PRINTF(1, 2);

/* The log hook for clients: "simba: warning: ...". */
void cli_message_log(void *user, enum simba_log_level level, const char *line);

/* Holds the warnings of the library back until cli_message_print_held prints them. That drops those
 * that only repeat `error`, which is printed next (NULL: none is). Any thread. */
void cli_message_hold_warnings(void);
void cli_message_print_held(const char *error);

/* The exit code for an error of the library. */
int cli_exit_code(int code);

/* Prints what failed and returns its exit code. */
int cli_fail(const struct simba_error *error);

/* Prints that a call of the system failed, with the text of errno, and returns CLI_EXIT_SYSTEM. */
int cli_fail_system(const char *what);

#define CLI_MESSAGE_MAX 4608      /* bytes of a line, with the NUL; what is longer is cut */
#define CLI_MESSAGE_QUEUE_MAX 256 /* lines */

/* From here on a message does not wait for the reader of standard error, so that it cannot delay a
 * renewal: lines go into a queue, which a thread empties in order. A line that finds the queue full
 * is dropped, and counted in its place. Where the thread cannot be started, the caller writes. */
void cli_message_start_queue(void);

/* Prints a line, which ends in a newline, in one write. Any thread. */
void cli_message_put(const char *line);

/* Shows a text without a newline on a terminal. The next line or text replaces it; an empty text
 * removes it. Dropped where there is no thread for it, or the thread has other lines to write. */
void cli_message_show(const char *text);

/* Waits until all is written, but at most `limit_ms`: the reader may be stuck. */
void cli_message_flush(int limit_ms);

/* ---- The form of these lines: line.c --------------------------------------------------------- */

/* From here on each line is a JSON object: at, level, message, and what is known of mutex, id,
 * fence and store. To be called before there are threads, like the next. */
void cli_line_use_json(void);
bool cli_line_is_json(void);

/* From here on lines of text begin with the time, unless they go to a terminal or to the
 * journal. */
void cli_line_stamp(void);

/* What lines are about, from here on. The texts stay as they are; NULL or 0: nothing. Any
 * thread. */
void cli_line_about(const char *mutex, const char *id);
void cli_line_about_store(const char *store);
void cli_line_about_fence(uint64_t fence);

/* Writes a line with its newline. `named`: as text it begins with its level, too. */
void cli_line_write(const char *level, bool named, const char *text, char line[CLI_MESSAGE_MAX]);

/* ---- Results on standard output: message.c --------------------------------------------------- */

/* Begins the struct of each verb that prints results. */
struct cli_output {
    bool json;
};

/* For the tables of their options. */
#define CLI_OPTION_JSON(help)                                                                      \
    {                                                                                              \
        0, "json", NULL, help, CLI_FLAG(struct cli_output, json)                                   \
    }

/* Prints a printable sentence and a newline. On a terminal it breaks long ones between words. */
void cli_result(const char *format, ...) SIMBA_PRINTF(1, 2);

/* Writes what is buffered. Returns false when that, or anything before it, failed. */
bool cli_output_flush(void);

/* The same at the end of the program. Prints what failed and returns the exit code: `status` where
 * that is an error already. A reader that has left is no error. */
int cli_output_finish(int status);

/* ---- Text for a terminal and for JSON: text.c ------------------------------------------------ */

/* Copies `text`, cut at `size`. A '?' replaces every byte that is not UTF-8, and every character
 * that could command the terminal or change the text around it: control characters, invisible ones,
 * and those that change the direction of writing. */
void cli_text_printable(const char *text, char *buffer, size_t size);

/* The columns that a printable text takes on a terminal. */
size_t cli_text_width(const char *text);

/* Cuts a printable text to that many columns. */
void cli_text_cut(char *text, size_t width);

/* The same, but leaves out the middle: "0:2277...zkn2vl". */
void cli_text_shorten(char *text, size_t width);

/* The columns of the terminal on that descriptor, 80 where it does not tell; 0: no terminal. */
size_t cli_text_columns(int fd);

/* Prints a text whose words are separated by spaces or newlines, and a newline. Lines end before
 * `width`, unless a word alone is longer. The text goes on where the cursor is, in column `column`,
 * and its further lines begin in column `indent`. */
void cli_text_flow(FILE *stream, const char *text, size_t column, size_t indent, size_t width);

/* A fencing token as it is shown: "-" for one that is not known. */
#define CLI_FENCE_MAX 24
void cli_text_fence(uint64_t fence, char *buffer, size_t size);

/* A duration as it is shown: whole seconds, unless it is less than one; from an hour on whole
 * minutes, from a day on whole hours. "-" for a negative one, which is not known. 32 bytes
 * suffice. */
void cli_text_duration(int64_t ms, char *buffer, size_t size);

/* No colours from here on. To be called before there are threads. */
void cli_text_refuse_colour(void);

/* Whether to colour what goes to this descriptor: a terminal that can, unless the user refused. */
bool cli_text_in_colour(int fd);

/* JSON: each prints `before`, such as ",\"owner\":", and then a value. In a string, what is not
 * UTF-8 becomes U+FFFD, and the characters that cli_text_printable replaces are escaped. A number
 * that is `unknown`, and a fence of 0, are printed as null. */
void cli_json_string(FILE *stream, const char *before, const char *text);
void cli_json_number(FILE *stream, const char *before, int64_t number, int64_t unknown);
void cli_json_fence(FILE *stream, const char *before, uint64_t fence);

#endif
