/*
 * fuzz.h - what the targets share. A target takes any bytes and must neither crash, nor upset a
 * sanitizer, nor break what it demands of the answers.
 */
#ifndef SIMBA_FUZZ_H
#define SIMBA_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The target, by the name that libFuzzer gives it. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the process when `kept` is false. */
void fuzz_demand(bool kept, const char *rule);

/* A copy of the bytes with a NUL behind them, to be freed; it ends at the first NUL for readers of
 * it as a string. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Bytes that are used up from the front. What is not there counts as zero. */
struct fuzz_bytes {
    const uint8_t *data;
    size_t size;
};

uint8_t fuzz_byte(struct fuzz_bytes *bytes);
int64_t fuzz_number(struct fuzz_bytes *bytes);

/* The next `length` bytes, or as many as there are; *ret_length tells. */
const uint8_t *fuzz_take(struct fuzz_bytes *bytes, size_t length, size_t *ret_length);

#endif
