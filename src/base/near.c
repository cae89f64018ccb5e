/*
 * near.c - how alike two names are: how many letters have to be added, left out, replaced or
 * swapped with their neighbour to make one from the other.
 */
#include "base/near.h"

#include <string.h>

/* A third of the letters may differ, but no more than so many: other names are meant otherwise. */
#define DISTANCE_MAX 3

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t limit_of(size_t length)
{
    size_t third = length / 3;

    return third < 1 ? 1 : least(third, DISTANCE_MAX);
}

/* Row i of the table has the distances of a's first i letters to each beginning of b. Only the last
 * three rows are kept. */
static size_t measure(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][SB_NEAR_MAX];

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *last = rows[(i - 1) % 3];
        const size_t *before = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]), 1 + least(last[j], row[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

void sb_near_offer_part(struct sb_near *near, const char *written, size_t length,
                        const char *candidate)
{
    size_t candidate_length = strlen(candidate);
    size_t distance;

    if (length >= SB_NEAR_MAX || candidate_length >= SB_NEAR_MAX)
        return;
    distance = measure(written, length, candidate, candidate_length);
    if (distance > limit_of(length) || (near->name[0] != '\0' && distance >= near->distance))
        return;
    memcpy(near->name, candidate, candidate_length + 1);
    near->distance = distance;
}

void sb_near_offer(struct sb_near *near, const char *written, const char *candidate)
{
    sb_near_offer_part(near, written, strlen(written), candidate);
}
