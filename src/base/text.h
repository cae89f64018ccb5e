/*
 * text.h - a string builder in memory of the caller's, with a cap.
 *
 * What does not fit is cut and remembered; the string is always terminated.
 */
#ifndef SB_BASE_TEXT_H
#define SB_BASE_TEXT_H

#include "base/shared.h"

#include <simba/simba.h>

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

/* The same for bytes from outside, cut where they do not fit: control characters become '?', and so
 * does nothing at all. */
void sb_text_printable(char *target, size_t size, const char *bytes, size_t length)
    SB_SHARED("text_printable");

/* Copies a sentence; one that does not fit loses its middle: what it is about opens it, and the
 * reason ends it. There is room for eight bytes at least. */
void sb_text_fit(char *target, size_t size, const char *source) SB_SHARED("text_fit");

#endif
