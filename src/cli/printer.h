/*
 * printer.h - writes lines to standard error without ever holding up the caller.
 *
 * Standard error may be a pipe that nobody reads, or a terminal that was stopped. What guards a lease
 * must not wait for it: from cli_printer_start on, lines go into a queue that a thread of its own empties,
 * in order. Most programs have nothing to say, so that the thread starts with the first line. A line that finds the queue full is dropped, and counted where it would have stood.
 */
#ifndef CLI_PRINTER_H
#define CLI_PRINTER_H

#define CLI_PRINTER_LINE_MAX 1152 /* bytes, with the NUL; what is longer is cut */
#define CLI_PRINTER_LINES 256     /* in the queue */

/* From here on there is something to guard. Before, and where the thread cannot be started, cli_printer_put writes
 * by itself. */
void cli_printer_start(void);

/* Prints a line, which ends in a newline, in one write. Any thread. */
void cli_printer_put(const char *line);

/* Shows a text without a newline at the end of a terminal. The next line, or the next text, stands in its
 * place; an empty text wipes it out. Dropped where there is no thread for it, or it has other things to write. */
void cli_printer_show(const char *text);

/* Waits until all is written, but at most `limit_ms`: a reader that is stuck must not keep the program. */
void cli_printer_finish(int limit_ms);

#endif
