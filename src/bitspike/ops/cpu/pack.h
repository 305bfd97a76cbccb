/* Spikes as bits: input i of a row is bit i % 64 of word i / 64. Counts take two planes: where a 1 is, where more. */
#ifndef BITSPIKE_PACK_H
#define BITSPIKE_PACK_H

#include <stdint.h>

#define WORDS(inputs) (((inputs) + 63) / 64)

/* Where a row holds something. `list` has room for all: first where a 1 is, ascending, and at its end where more is,
 * whose `values` lie `apart` from each other. */
typedef struct {
    int32_t *list;
    int64_t room, ones, others;
    const float *values;
    int64_t apart;
} Events;

/* `more` may be NULL. */
static inline void list_events(Events *e, const uint64_t *row, const uint64_t *more, int64_t words)
{
    e->ones = e->others = 0;
    for (int64_t w = 0; w < words; w++) {
        for (uint64_t rest = row[w]; rest; rest &= rest - 1)
            e->list[e->ones++] = (int32_t)(64 * w + __builtin_ctzll(rest));
        for (uint64_t rest = more ? more[w] : 0; rest; rest &= rest - 1)
            e->list[e->room - ++e->others] = (int32_t)(64 * w + __builtin_ctzll(rest));
    }
}

#endif
