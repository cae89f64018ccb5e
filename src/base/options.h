/*
 * options.h - the options structs of the public headers, which may grow: a caller's may be older
 * than the library.
 */
#ifndef SB_BASE_OPTIONS_H
#define SB_BASE_OPTIONS_H

#include "base/shared.h"

#include <simba/simba.h>

struct sb_options_form {
    const char *init_name; /* the macro that initialises it */
    size_t least;          /* what holds all that is required */
    size_t size;
};

/* Copies the part of a caller's options struct that its version has; both begin with their size.
 * `options` holds the defaults. SIMBA_EMISUSE where there is none, or where its size cannot be
 * right. */
int sb_options_read(const struct sb_options_form *form, const void *given, void *options,
                    struct simba_error *error) SB_SHARED("options_read");

#endif
