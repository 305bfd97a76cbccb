/* Spikes as bits: input i of a row is bit i % 64 of word i / 64. */
#ifndef BITSPIKE_PACK_H
#define BITSPIKE_PACK_H

#include <stdint.h>

#define WORDS(inputs) (((inputs) + 63) / 64)

/* The inputs of a row that are not 0, ascending; `list` has room for all of them. */
static inline int64_t list_events(const uint64_t *row, int64_t words, int32_t *list)
{
    int64_t count = 0;
    for (int64_t w = 0; w < words; w++)
        for (uint64_t rest = row[w]; rest; rest &= rest - 1)
            list[count++] = (int32_t)(64 * w + __builtin_ctzll(rest));
    return count;
}

#endif
