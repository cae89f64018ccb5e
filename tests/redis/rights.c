/*
 * rights.c - reads the page and does what it says.
 */
#include "rights.h"

#define LINE_START "    ACL SETUSER simba "

/* The rule behind the name of the user. */
static const char *documented(void)
{
    static char line[1024];
    const char *path = getenv("SIMBA_REDIS_PAGE");
    FILE *page;
    bool found = false;

    assert_non_null(path);
    page = fopen(path, "re");
    assert_non_null(page);
    while (!found && fgets(line, sizeof line, page) != NULL)
        found = strncmp(line, LINE_START, strlen(LINE_START)) == 0;
    fclose(page);
    assert_true(found);
    line[strcspn(line, "\n")] = '\0';
    return line + strlen(LINE_START);
}

void rights_grant(struct server *server, const char *more)
{
    char command[2048];

    snprintf(command, sizeof command, "ACL SETUSER simba reset %s %s", documented(), more);
    server_do(server, command);
}
