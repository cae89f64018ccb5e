/*
 * variant.c - statements that depend on which columns the table has. Must not know what they do.
 */
#include "backend/sql/driver.h"

#include "base/text.h"

#include <string.h>

void sb_sql_write_variant(struct sb_text *text, const char *from, bool has_terms)
{
    while (*from != '\0') {
        size_t plain = strcspn(from, "{");
        const char *first = from + plain + 1;
        size_t first_length;
        size_t second_length;

        sb_text_add(text, "%.*s", (int)plain, from);
        if (from[plain] == '\0')
            return;
        first_length = strcspn(first, "|");
        second_length = strcspn(first + first_length + 1, "}");
        if (has_terms)
            sb_text_add(text, "%.*s", (int)first_length, first);
        else
            sb_text_add(text, "%.*s", (int)second_length, first + first_length + 1);
        from = first + first_length + second_length + 2;
    }
}
