/*
 * backend_example_main.c - runs the compatibility kit on the backend of backend_example.c, as the
 * author of any backend should.
 *
 *     backend_example [FILE]
 */
#include "backend_example.h"

#include <simba/tck.h>

#include <stdio.h>

static void report(void *user, const char *name, int passed, const char *text)
{
    (void)user;
    if (passed >= 0)
        printf("%-18s %s%s%s\n", name, passed ? "passed" : "FAILED", text[0] != '\0' ? ": " : "",
               text);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct simba_tck_options options = SIMBA_TCK_OPTIONS_INIT;
    struct simba_error error;
    char url[512];
    int passed;
    int failed;
    int code;

    snprintf(url, sizeof(url), "file:%s", argc > 1 ? argv[1] : "backend_example.mutexes");
    code = simba_backend_register(&backend_example, &error); /* from now on file: is a store */
    if (code != SIMBA_OK) {
        fprintf(stderr, "backend_example: %s\n", error.text);
        return 1;
    }
    options.url = url;
    options.processes = 3;
    options.report = report;
    code = simba_tck_run(&options, &passed, &failed, &error);
    if (code != SIMBA_OK)
        fprintf(stderr, "backend_example: %s\n", error.text);
    return code == SIMBA_OK ? 0 : 1;
}
