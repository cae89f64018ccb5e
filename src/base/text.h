/*
 * text.h - a string builder in memory of the caller's, with a cap; whether bytes are UTF-8; and
 * which of the names that exist was meant by another one, for "did you mean".
 *
 * What does not fit into the builder is cut and remembered; the string is always terminated.
 */
#ifndef SB_BASE_TEXT_H
#define SB_BASE_TEXT_H

#include "base/shared.h"

#include <simba/simba.h>

#include <stdbool.h>
#include <stddef.h>

struct sb_text {
    char *data;
    size_t size; /* with the NUL */
    size_t length;
    bool cut;
};

void sb_text_init(struct sb_text *text, char *data, size_t size) SB_SHARED("text_init");
void sb_text_add(struct sb_text *text, const char *format, ...) SB_SHARED("text_add")
    SIMBA_PRINTF(2, 3);

/* Copies `source` into `target` of `size` bytes; returns whether it fitted whole. */
bool sb_text_copy(char *target, size_t size, const char *source) SB_SHARED("text_copy");

/* The same for bytes from outside, cut where they do not fit: control characters become '?', and an
 * empty text becomes "?". */
void sb_text_printable(char *target, size_t size, const char *bytes, size_t length)
    SB_SHARED("text_printable");

/* Copies a sentence. If it does not fit, its middle is cut out: the subject stands at its beginning
 * and the reason at its end. `size` is at least 8. */
void sb_text_fit(char *target, size_t size, const char *source) SB_SHARED("text_fit");

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* The bytes of the character that `text` begins with; 0 when it begins with none. */
size_t sb_utf8_length(const char *text) SB_SHARED("utf8_length");

/* Whether all of `text` is characters. */
bool sb_utf8_is_valid(const char *text);

/* Adds the value of a label of Prometheus: UTF-8, with three characters escaped. */
void sb_text_add_label(struct sb_text *text, const char *value);

/* ---- Names that are alike -------------------------------------------------------------------- */

#define SB_NEAR_MAX 40 /* bytes of a name, with the NUL; what is longer is like nothing */

/* Zeroed memory has met no candidate yet. */
struct sb_near {
    char name[SB_NEAR_MAX]; /* the candidate that is most like what was written; "": none is */
    size_t distance;
};

/* Remembers the candidate where it is like `written`, and more so than those before. */
void sb_near_offer(struct sb_near *near, const char *written, const char *candidate)
    SB_SHARED("near_offer");

/* The same for the first `length` bytes of `written`. */
void sb_near_offer_part(struct sb_near *near, const char *written, size_t length,
                        const char *candidate) SB_SHARED("near_offer_part");

#endif
