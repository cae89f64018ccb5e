/*
 * port_holder.c - takes as many ports as it is told, prints them, and has them until its standard
 * input ends.
 */
#include "lib/port.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    for (int left = argc > 1 ? atoi(argv[1]) : 0; left > 0; left--)
        printf("%d\n", test_free_port());
    printf("all\n");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
    return 0;
}
