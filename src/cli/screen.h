/*
 * screen.h - the terminal of `simba top`: its modes, its size, keys, and lines that are drawn
 * together. Plain ANSI sequences. For the main thread; the program has one screen.
 */
#ifndef CLI_SCREEN_H
#define CLI_SCREEN_H

#include <simba/simba.h>

#include <stdbool.h>
#include <stddef.h>

/* Whether standard input and output are terminals that can move their cursor. */
bool cli_screen_is_there(void);

/* Takes the terminal: the alternate screen, keys without an echo. Also after a stop: the modes that
 * cli_screen_close restores are those before the first call. Returns false, with errno, if it
 * cannot. A process in the background stops until it is in the foreground. */
bool cli_screen_open(void);

/* Gives the terminal back as it was. Does nothing where it is not taken. */
void cli_screen_close(void);

/* Of standard output; 80x24 where it is not known. */
void cli_screen_size(size_t *ret_columns, size_t *ret_rows);

enum cli_key {
    CLI_KEY_NONE,      /* nothing was typed */
    CLI_KEY_GONE = -1, /* the terminal is */
    CLI_KEY_UP = -2,
    CLI_KEY_DOWN = -3,
    CLI_KEY_PAGE_UP = -4,
    CLI_KEY_PAGE_DOWN = -5,
    CLI_KEY_HOME = -6,
    CLI_KEY_END = -7,
    CLI_KEY_OTHER = -8 /* one that has no name here */
};

#define CLI_KEY_ENTER '\r'
#define CLI_KEY_ESCAPE '\033'
#define CLI_KEY_BACKSPACE '\177'

/* The next key that was typed: a byte of a character, or one of the names above. */
int cli_screen_key(void);

enum cli_style {
    CLI_STYLE_PLAIN,
    CLI_STYLE_BOLD,
    CLI_STYLE_DIM,
    CLI_STYLE_WARNING,
    CLI_STYLE_ALARM,
    CLI_STYLE_SELECTED
};

/* Adds a line to the picture, cut at the right edge. What is not printable in it becomes '?'. */
void cli_screen_line(enum cli_style style, const char *text);

/* Adds empty lines up to that row, from 0. */
void cli_screen_skip_to(size_t row);

/* Draws the picture in place of the last one, in one write, and begins the next. A terminal that
 * takes nothing now is left as it is. */
void cli_screen_draw(void);

#endif
