/*
 * transcript.h - replays the transcripts of machines.
 *
 * A transcript is a text of sections. A section begins with a title and the machine, then come
 * events with their time; what the machine answers stands indented below each. Lines that begin
 * with '#' are prose.
 *
 *     == An owner renews when its ttl is over
 *     contender me ttl=10s transition=6s
 *     0 start
 *         send #1 ACQUIRE timeout 8000
 *         STARTING; next never
 *     5 reply #1 mine revision=7
 *         ...
 *
 * Machines: contender ID | observer, with ttl=, transition=, jitter=MIN..MAX, turn=,
 * initial-delay=, stop-timeout=, poll=
 *
 * Times: in milliseconds; +N is N later than the event before. The line `due` is a tick at the
 * deadline that the machine has named, so that a story stays whole when a back-off changes; its
 * time is told.
 *
 * Events: start, stop, tick, wake, session-lost, returned [COUNT], and
 *         reply #N mine | other ID | nobody | failed CODE | unknown, with ttl=, transition=,
 *         revision=, fence=, counts=, place=, sent= where they are not those of a fresh lease and
 *         of request N
 */
#ifndef SIMBA_TRANSCRIPT_H
#define SIMBA_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* Replays one section. Returns its text with the answers as they are now, for the caller to free;
 * NULL with a sentence in `error` when the section cannot be read. */
char *transcript_replay(const char *section, size_t length, char *error, size_t error_size);

/* The length of the section that `text` begins with: up to the next title, or to the end. */
size_t transcript_section_length(const char *text);

#endif
