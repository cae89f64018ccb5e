/*
 * scheme.c - the sentence for a URL whose scheme no store serves. Nothing is loaded for it.
 */
#include "api/scheme.h"

#include "backend/module.h"
#include "base/error.h"
#include "base/text.h"

#include <string.h>

/* What follows the ':' of a URL. */
static const char *slashes(const char *scheme)
{
    return strcmp(scheme, "sqlite") == 0 || strcmp(scheme, "memory") == 0 ? "" : "//";
}

/* What may follow it behind a '+'. */
static const char *forms(const char *scheme)
{
    return strcmp(scheme, "redis") == 0 ? " (also redis+unix:, +sentinel://, +cluster://)" : "";
}

static void list_schemes(char *buffer, size_t size)
{
    struct sb_text text;
    const char *scheme;

    sb_text_init(&text, buffer, size);
    for (size_t i = 0; (scheme = sb_module_scheme(i)) != NULL; i++)
        sb_text_add(&text, "%s%s:%s%s", i > 0 ? ", " : "", scheme, slashes(scheme), forms(scheme));
}

static struct sb_near find_meant(const char *written)
{
    struct sb_near near = {"", 0};
    const char *scheme;

    for (size_t i = 0; (scheme = sb_module_scheme(i)) != NULL; i++)
        sb_near_offer(&near, written, scheme);
    return near;
}

int sb_scheme_fail(const char *scheme, struct simba_error *error)
{
    struct sb_near near = find_meant(scheme);
    char list[256];

    if (strcmp(scheme, "jdbc") == 0) /* "jdbc:mysql://..." is what the JVM's drivers take */
        return sb_error_set(error, SIMBA_ECONFIG,
                            "leave out 'jdbc:', and write the user and the password as options: "
                            "mysql://HOST/DATABASE?user=USER&password-file=PATH");
    list_schemes(list, sizeof list);
    if (near.name[0] == '\0')
        return sb_error_set(
            error, SIMBA_ECONFIG,
            "no store is known for URLs that begin with '%.30s:'; this build has %s", scheme, list);
    return sb_error_set(error, SIMBA_ECONFIG,
                        "no store is known for URLs that begin with '%.30s:'; did you mean %s:%s? "
                        "This build has %s",
                        scheme, near.name, slashes(near.name), list);
}
