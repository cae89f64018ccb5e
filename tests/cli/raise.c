/*
 * raise.c - a program that lets the tokens of a mutex begin above a number: raise URL MUTEX FENCE.
 * Prints what the library says. The mutex is taken and given back by `simba lock` afterwards.
 */
#include <simba/simba.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    simba_client *client = NULL;
    struct simba_error error;
    bool done = false;

    if (argc != 4 || simba_client_open(argv[1], NULL, &client, &error) != SIMBA_OK)
        return 2;
    int code = simba_client_raise_fence(client, argv[2], NULL, strtoull(argv[3], NULL, 10), 5000,
                                        &done, &error);
    puts(code != SIMBA_OK ? error.text : done ? "raised" : "in use");
    simba_client_close(client, NULL);
    return 0;
}
