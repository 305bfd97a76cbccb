/* Spikes as bits: input i of a row is bit i % 64 of word i / 64. Counts take two planes: where a 1 is, where more. */
#ifndef BITSPIKE_PACK_H
#define BITSPIKE_PACK_H

#include <stdint.h>

#define WORDS(inputs) (((inputs) + 63) / 64)

/* Where a row holds something: `ones` entries of `list` where a 1 is, and `others` entries of `more` where more is,
 * both ascending; their `values` lie `apart` from each other. */
typedef struct {
    int32_t *list, *more;
    int64_t ones, others;
    const float *values;
    int64_t apart;
} Events;

enum { AT_ONCE = 4 /* entries, written whether they are there or not: guessing how many costs more */ };
#define LIST_ROOM(inputs) (2 * ((inputs) + AT_ONCE)) /* of both lists */

static inline int64_t list_bits(uint64_t word, int32_t first, int32_t *list)
{
    const int64_t count = __builtin_popcountll(word);
    for (int64_t k = 0; k < count; k += AT_ONCE)
        for (int j = 0; j < AT_ONCE; j++, word &= word - 1)
            list[k + j] = first + __builtin_ctzll(word | (uint64_t)1 << 63);
    return count;
}

/* `list` has LIST_ROOM; `bits` and `more` are rows of `words` for `inputs`; without `values`, `more` is not read. */
static inline Events list_events(int32_t *list, int64_t inputs, const uint64_t *bits, const uint64_t *more,
                                 const float *values, int64_t apart)
{
    Events e = {.list = list, .more = list + inputs + AT_ONCE, .values = values, .apart = apart};
    for (int64_t w = 0; w < WORDS(inputs); w++)
        e.ones += list_bits(bits[w], (int32_t)(64 * w), e.list + e.ones);
    for (int64_t w = 0; values && w < WORDS(inputs); w++)
        e.others += list_bits(more[w], (int32_t)(64 * w), e.more + e.others);
    for (int64_t k = 0; k < e.others; k++)
        __builtin_prefetch(values + e.more[k] * apart);
    return e;
}

#endif
