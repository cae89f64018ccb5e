/*
 * dash_page.h - the files of the page of `simba dashboard`, which the build puts into the program:
 * see src/cli/dashboard.
 */
#ifndef CLI_DASH_PAGE_H
#define CLI_DASH_PAGE_H

#include <stddef.h>

struct cli_dash_file {
    const char *path; /* NULL behind the last */
    const char *type;
    const unsigned char *data;
    size_t length;
};

extern const struct cli_dash_file cli_dash_files[];

#endif
