/*
 * name_validate.c - names of mutexes and contenders: any text is read within its bytes, and the
 * accepted ones are those that the rules permit.
 *
 * The last PROVE_BYTES bytes are any. Before them stand PROVE_BEFORE letters, which bring the name
 * near the longest one.
 */
#include "prove.h"

#include <string.h>

#define PROVE_BYTES 6

int main(void)
{
    char text[PROVE_BEFORE + PROVE_BYTES + 1];
    bool has_letter = false; /* other than a space */
    bool has_control = false;
    bool has_delimiter = false;
    size_t length = 0;

    memset(text, 'a', PROVE_BEFORE);
    text[PROVE_BEFORE + PROVE_BYTES] = '\0';
    for (; text[length] != '\0'; length++) {
        unsigned char byte = (unsigned char)text[length];

        has_letter |= byte != ' ';
        has_control |= byte < 0x20 || byte == 0x7f;
        has_delimiter |= length > 0 && byte == '@' && text[length - 1] == '@';
    }
    PROVE_THAT((simba_mutex_validate(text, NULL) == SIMBA_OK) ==
                   (has_letter && !has_control && length <= SIMBA_MUTEX_MAX),
               "a mutex has a name that the rules permit");
    PROVE_THAT((simba_id_validate(text, NULL) == SIMBA_OK) ==
                   (has_letter && !has_control && length <= SIMBA_ID_MAX && !has_delimiter),
               "a contender has an id that the rules permit");
    PROVE_END();
    return 0;
}
