/*
 * text.h - strings on their way to a terminal or into JSON.
 *
 * Names and ids are any bytes that a store holds: other programs may have written them.
 */
#ifndef CLI_TEXT_H
#define CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Copies `text` with every byte that is not UTF-8 replaced by '?', and cut at `size`. So is every character that could
 * command the terminal or change how the text around it looks: control characters of seven and of eight bits, those that
 * turn the direction of writing, and those that are not seen. */
void cli_text_printable(const char *text, char *buffer, size_t size);

/* The columns that a printable text takes on a terminal. */
size_t cli_text_width(const char *text);

/* Cuts a printable text to that many columns. */
void cli_text_cut(char *text, size_t width);

/* A fencing token as it is shown: "-" for one that is not known. */
#define CLI_FENCE_MAX 24
void cli_text_fence(uint64_t fence, char *buffer, size_t size);

/* No colours from here on. To be called before there are threads. */
void cli_text_refuse_colour(void);

/* Whether to colour what goes to this descriptor: a terminal that can, and nobody who refused. */
bool cli_text_in_colour(int fd);

/* Prints a JSON string with its quotes. What is not UTF-8 becomes U+FFFD; the characters that cli_text_printable
 * replaces are escaped. */
void cli_json_string(FILE *stream, const char *text);

/* Prints a number, or null for the value that stands for "not known". */
void cli_json_number(FILE *stream, int64_t number, int64_t unknown);
void cli_json_fence(FILE *stream, uint64_t fence);

#endif
