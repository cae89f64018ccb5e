/*
 * name.c - fuzzes the rules for names of mutexes and for ids of contenders.
 */
#include "fuzz.h"

#include <simba/simba.h>

#include <stdlib.h>
#include <string.h>

static bool has_control(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return true;
    return false;
}

static void demand_name(const char *text, size_t most)
{
    fuzz_demand(strlen(text) <= most, "a name is not too long");
    fuzz_demand(strspn(text, " ") < strlen(text), "a name is not blank");
    fuzz_demand(!has_control(text), "a name has no control character");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct simba_error error = {0};

    if (simba_mutex_validate(text, &error) == SIMBA_OK)
        demand_name(text, SIMBA_MUTEX_MAX);
    else
        fuzz_demand(error.text[0] != '\0', "a refusal says why");
    if (simba_id_validate(text, &error) == SIMBA_OK) {
        demand_name(text, SIMBA_ID_MAX);
        fuzz_demand(strstr(text, "@@") == NULL, "an id does not delimit messages");
    }
    free(text);
    return 0;
}
