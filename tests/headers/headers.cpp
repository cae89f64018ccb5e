/* See headers.c. */
#include "headers.c"
