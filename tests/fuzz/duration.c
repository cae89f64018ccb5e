/*
 * duration.c - fuzzes durations: what is read can be written, and read again to the same.
 */
#include "fuzz.h"

#include <simba/simba.h>

#include <stdlib.h>

#define UNTOUCHED 4711

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct simba_error error = {0};
    int64_t again_ms = UNTOUCHED;
    int64_t ms = UNTOUCHED;
    char written[32];
    int code = simba_duration_parse(text, &ms, &error);

    if (code == SIMBA_OK) {
        simba_duration_format(ms, written, sizeof written);
        fuzz_demand(simba_duration_parse(written, &again_ms, NULL) == SIMBA_OK,
                    "what is written can be read");
        fuzz_demand(again_ms == ms, "what is written is the same");
    } else {
        fuzz_demand(ms == UNTOUCHED, "a refusal leaves the result alone");
        fuzz_demand(error.code == code && error.text[0] != '\0', "a refusal says why");
    }
    free(text);
    return 0;
}
