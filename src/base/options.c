/*
 * options.c - the options structs of the public headers, whose size tells their version, and the
 * version of the library that is running.
 */
#include "base/options.h"

#include "base/error.h"

#include <simba/simba.h>

#include <string.h>

int sb_options_read(const struct sb_options_form *form, const void *given, void *options,
                    struct simba_error *error)
{
    size_t size = given != NULL ? *(const size_t *)given : 0;

    if (given == NULL)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "the options are missing; initialise them with %s", form->init_name);
    if (size < form->least)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "a size of %zu bytes is too small for the options, which need %zu; "
                            "initialise them with %s",
                            size, form->least, form->init_name);
    if (size > form->size)
        return sb_error_set(error, SIMBA_EMISUSE,
                            "the options have %zu bytes and this library knows %zu: the program "
                            "was built for a newer library, or did not initialise them with %s",
                            size, form->size, form->init_name);
    memcpy(options, given, size);
    return SIMBA_OK;
}

const char *simba_version(void)
{
    return SIMBA_VERSION;
}
