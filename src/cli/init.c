/*
 * init.c - `simba init`: creates what a store needs before its first use.
 *
 * Every store creates it by itself when it may. This verb is for an administrator who creates it
 * for others, and for a user who wants to see what it is.
 */
#include "cli/cli.h"
#include "cli/store.h"

#include <simba/backend.h>
#include <simba/sql.h>

#include <ctype.h>
#include <string.h>

static struct init {
    bool print;
} init;

static const struct cli_option options[] = {
    {0, "print", NULL, "print the statement that creates the table and connect to nothing",
     CLI_FLAG(struct init, print)},
    CLI_OPTIONS_END,
};

/* The name of the store that serves a URL, whose scheme may be in capitals. Returns false, with a
 * message, where none does. */
static bool find_store(const char *url, const char **ret_name)
{
    char scheme[32];
    const struct simba_backend_ops *ops;
    simba_client *client;
    struct simba_error error;

    snprintf(scheme, sizeof scheme, "%.*s", (int)strcspn(url, ":"), url);
    for (char *letter = scheme; *letter != 0; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    ops = simba_backend_find(scheme);
    if (ops == NULL) {
        simba_client_open(url, NULL, &client, &error); /* fails: no store serves it */
        cli_fail(&error);
        return false;
    }
    *ret_name = ops->name;
    return true;
}

/* `print`: as a comment of SQL, since the reader of the statement may be a database. */
static int report_nothing_to_create(const char *url, bool print)
{
    const char *name;

    if (!find_store(url, &name))
        return CLI_EXIT_CONFIG;
    if (!print)
        printf("there is nothing to create: %s has no tables\n", name);
    else if (strcmp(name, "sqlite") == 0)
        puts("-- simba creates the tables of an SQLite file by itself: there is no statement to "
             "run");
    else
        printf("-- %s needs nothing: it has no tables\n", name);
    return CLI_EXIT_OK;
}

static int print_statement(const char *url)
{
    struct simba_error error;
    const char *statement;

    int code = simba_repository_schema(url, &statement, &error);
    if (code == SIMBA_EUNSUPPORTED)
        return report_nothing_to_create(url, true);
    if (code != SIMBA_OK)
        return cli_fail(&error);
    puts("-- the users of the table need: GRANT SELECT, INSERT, UPDATE ON simba_mutex TO ...");
    if (strstr(statement, "simba_waiter") != NULL)
        puts("-- and: GRANT SELECT, INSERT, UPDATE, DELETE ON simba_waiter TO ...");
    printf("%s;\n", statement);
    return CLI_EXIT_OK;
}

/* Where the user may not create the table, the whole statement follows the message, to be passed
 * on to an administrator. */
static int fail(const char *url, const struct simba_error *error)
{
    struct simba_error shown = *error;
    char *advice = strstr(shown.text, "; somebody who may");
    const char *statement;

    if (error->code != SIMBA_EDENIED || advice == NULL ||
        simba_repository_schema(url, &statement, NULL) != SIMBA_OK)
        return cli_fail(error);
    *advice = 0;
    int status = cli_fail(&shown);
    fprintf(stderr, "Somebody who may create tables has to run this, once:\n%s;\n", statement);
    return status;
}

static int create(const char *url)
{
    simba_repository *repository = NULL;
    struct simba_error error;
    bool created = false;

    int code = simba_repository_open(url, &repository, &error);
    if (code == SIMBA_EUNSUPPORTED)
        return report_nothing_to_create(url, false);
    if (code == SIMBA_OK)
        code = simba_repository_init_schema(repository, &created, &error);
    simba_repository_close(repository);
    if (code != SIMBA_OK)
        return fail(url, &error);
    puts(created ? "the table simba_mutex has been created"
                 : "the table simba_mutex is there already");
    return CLI_EXIT_OK;
}

static int run(struct cli *cli, int argc, char **argv)
{
    struct cli_store_found found;
    struct simba_error error;

    (void)argc;
    (void)argv;
    if (cli_store_locate(cli, false, &found, &error) != SIMBA_OK)
        return cli_fail(&error);
    int status = init.print ? print_statement(found.url) : create(found.url);
    cli_store_forget(&found);
    return status;
}

static const char details[] =
    "Creates the table that an SQL store needs, and says whether it was missing. It\n"
    "is harmless when the table is there. Every command creates it by itself where it\n"
    "may: run this as a user with more rights, or give what --print shows to an\n"
    "administrator. Other stores need nothing, and SQLite files are set up by simba\n"
    "alone.\n"
    "\n"
    "Examples:\n"
    "  simba -u postgres://admin@db/jobs init\n"
    "  simba -u mysql://db/jobs init --print | mysql jobs\n"
    "\n"
    "Exit codes: 0, or 64, 69, 77, 78 as 'simba --help' lists them. 77: the user may\n"
    "not create it; the statement follows on standard error.";

const struct cli_verb cli_verb_init = {
    .name = "init",
    .usage = "init [OPTION...]",
    .summary = "create the table of an SQL store; harmless when it is there",
    .details = details,
    .options = options,
    .into = &init,
    .operands = CLI_OPERANDS_NONE,
    .run = run,
};
