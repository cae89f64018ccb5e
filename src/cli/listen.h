/*
 * listen.h - serves a site on an address that the user gave, by the module of http.h.
 */
#ifndef CLI_LISTEN_H
#define CLI_LISTEN_H

#include "cli/http.h"

#include <stdbool.h>

struct cli_listen {
    const struct cli_http_module *module;
    struct cli_http_server *server; /* NULL: it does not run */
    bool is_loopback;
    char path[108]; /* of the unix socket; empty: none */
};

/* For the tables of options; `member` is a const char *. */
#define CLI_OPTION_LISTEN(type, member, help)                                                      \
    {                                                                                              \
        0, "listen", "ADDRESS", (help), CLI_TEXT(type, member)                                     \
    }

/* Listens at "PORT" or ":PORT" (on the loopback address), "ADDRESS:PORT", "[ADDRESS]:PORT" or
 * "unix:PATH", serves the site there, and says where, unless `quiet`. Port 0: any. Returns
 * CLI_CONTINUE or, after a message, an exit code. */
int cli_listen_start(struct cli_listen *listen, const char *address,
                     const struct cli_http_site *site, bool quiet);

/* Answers with a line that stays for ever. */
void cli_listen_answer(struct cli_http_answer *answer, int status, const char *line);

/* Sets the type of metrics to what the client accepts: true is OpenMetrics, false the older
 * format. */
bool cli_listen_takes_openmetrics(const struct cli_http_request *request,
                                  struct cli_http_answer *answer);

/* Has all streams read again. Any thread, as long as it runs. */
void cli_listen_wake(const struct cli_listen *listen);

/* Waits until nothing of the site runs. Nothing where it does not run. */
void cli_listen_stop(struct cli_listen *listen);

#endif
