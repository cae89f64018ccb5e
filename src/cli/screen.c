/*
 * screen.c - the terminal of `simba top`. Knows nothing of what is drawn.
 */
#include "cli/screen.h"

#include "base/text.h"
#include "cli/cli.h"
#include "cli/events.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l" /* the alternate screen, no cursor, no wrapping */
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

/* The bytes of a key may come one by one over a slow line. */
#define KEY_MS 50

#define LINE_MAX_BYTES 4096
#define PICTURE_MAX (256 * 1024)

static struct {
    bool taken;
    bool has_modes;
    struct termios modes; /* before this program */
    char picture[PICTURE_MAX];
    struct sb_text text; /* in it */
    size_t row;
    unsigned char keys[64];
    size_t keys_count;
    size_t keys_used;
} screen;

/* ---- The terminal ---------------------------------------------------------------------------- */

bool cli_screen_is_there(void)
{
    const char *terminal = getenv("TERM");

    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && terminal != NULL && terminal[0] != 0 &&
           strcmp(terminal, "dumb") != 0;
}

static void put(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, text, length);
        if (written <= 0) /* a terminal that is gone is noticed when a key is read */
            return;
        text += written;
        length -= (size_t)written;
    }
}

bool cli_screen_open(void)
{
    while (tcgetpgrp(STDIN_FILENO) != getpgrp() && cli_signals_stop())
        ;
    if (!screen.has_modes && tcgetattr(STDIN_FILENO, &screen.modes) != 0)
        return false;
    screen.has_modes = true;
    struct termios modes = screen.modes;
    modes.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    modes.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &modes) != 0)
        return false;
    put(ENTER, strlen(ENTER));
    screen.taken = true;
    return true;
}

void cli_screen_close(void)
{
    if (!screen.taken)
        return;
    screen.taken = false;
    put(LEAVE, strlen(LEAVE));
    tcsetattr(STDIN_FILENO, TCSADRAIN, &screen.modes);
}

void cli_screen_size(size_t *ret_columns, size_t *ret_rows)
{
    struct winsize size = {.ws_col = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
        size = (struct winsize){.ws_col = 80, .ws_row = 24};
    *ret_columns = size.ws_col;
    *ret_rows = size.ws_row;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* The next byte within that time. Negative: none has come, or CLI_KEY_GONE. */
static int next_byte(int limit_ms)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

    if (screen.keys_used == screen.keys_count) {
        if (poll(&input, 1, limit_ms) <= 0)
            return CLI_KEY_OTHER;
        ssize_t got = read(STDIN_FILENO, screen.keys, sizeof screen.keys);
        if (got <= 0)
            return CLI_KEY_GONE;
        screen.keys_used = 0;
        screen.keys_count = (size_t)got;
    }
    return screen.keys[screen.keys_used++];
}

/* Behind "ESC [" or "ESC O": digits and semicolons, and the byte that ends it. */
static int read_sequence(void)
{
    int number = 0;
    int byte;

    while ((byte = next_byte(KEY_MS)) >= '0' && byte <= ';')
        number = byte <= '9' ? (number * 10 + byte - '0') % 1000 : number;
    switch (byte) {
    case 'A':
        return CLI_KEY_UP;
    case 'B':
        return CLI_KEY_DOWN;
    case 'H':
        return CLI_KEY_HOME;
    case 'F':
        return CLI_KEY_END;
    case '~':
        return number == 5                  ? CLI_KEY_PAGE_UP
               : number == 6                ? CLI_KEY_PAGE_DOWN
               : number == 1 || number == 7 ? CLI_KEY_HOME
               : number == 4 || number == 8 ? CLI_KEY_END
                                            : CLI_KEY_OTHER;
    default:
        return CLI_KEY_OTHER;
    }
}

int cli_screen_key(void)
{
    int byte = next_byte(0);

    if (byte < 0)
        return byte == CLI_KEY_GONE ? CLI_KEY_GONE : CLI_KEY_NONE;
    if (byte == '\n')
        return CLI_KEY_ENTER;
    if (byte == '\b')
        return CLI_KEY_BACKSPACE;
    if (byte != CLI_KEY_ESCAPE)
        return byte != 0 ? byte : CLI_KEY_OTHER;
    byte = next_byte(KEY_MS);
    if (byte == '[' || byte == 'O')
        return read_sequence();
    return byte == CLI_KEY_OTHER ? CLI_KEY_ESCAPE : byte == CLI_KEY_GONE ? byte : CLI_KEY_OTHER;
}

/* ---- The picture ----------------------------------------------------------------------------- */

/* The line is cleared before it is written: behind its last column the cursor is still on it. */
static void begin_line(void)
{
    if (screen.row == 0)
        sb_text_init(&screen.text, screen.picture, sizeof screen.picture);
    sb_text_add(&screen.text, "%s\033[K", screen.row > 0 ? "\r\n" : "\033[H");
    screen.row++;
}

void cli_screen_line(enum cli_style style, const char *text)
{
    static const char *const begins[] = {[CLI_STYLE_BOLD] = "\033[1m",
                                         [CLI_STYLE_DIM] = "\033[2m",
                                         [CLI_STYLE_WARNING] = "\033[33m",
                                         [CLI_STYLE_ALARM] = "\033[1;31m",
                                         [CLI_STYLE_SELECTED] = "\033[7m"};
    bool coloured = style != CLI_STYLE_PLAIN && cli_text_in_colour(STDOUT_FILENO);
    char line[LINE_MAX_BYTES];
    size_t columns;
    size_t rows;

    cli_screen_size(&columns, &rows);
    cli_text_printable(text, line, sizeof line);
    cli_text_cut(line, columns);
    begin_line();
    int pad = coloured && style == CLI_STYLE_SELECTED ? (int)(columns - cli_text_width(line)) : 0;
    sb_text_add(&screen.text, "%s%s%*s%s", coloured ? begins[style] : "", line, pad, "",
                coloured ? "\033[0m" : "");
}

void cli_screen_skip_to(size_t row)
{
    while (screen.row < row)
        begin_line();
}

void cli_screen_draw(void)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};

    if (screen.taken && screen.row > 0 && poll(&output, 1, 0) > 0)
        put(screen.text.data, screen.text.length);
    screen.row = 0;
}
