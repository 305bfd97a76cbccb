/* The random numbers of dropout: a function of key, layer and place, drawn where they are needed. The definition is
 * dropout/reference.py. */
#ifndef BITSPIKE_DRAW_H
#define BITSPIKE_DRAW_H

#include <stdint.h>

#include "native/compiler.h"

/* Shared with `Draw` of dropout/c.py, field by field. */
typedef struct {
    uint64_t key;
    int64_t layer, first; /* `first` is the counter of place 0 */
    uint32_t below;       /* numbers below drop */
} Draw;

enum { ROUNDS = 7 /* of dropout/reference.py */ };

/* Philox-4x32 with counter (place, block, layer, 0): bits 0 to 3 are "kept" at the block's four steps. */
INLINE void draw(const Draw *d, int64_t place, int64_t n, int64_t block, uint8_t *restrict kept)
{
    const uint32_t start = (uint32_t)(d->first + place), below = d->below;
    for (int64_t i = 0; i < n; i++) {
        uint32_t c0 = start + (uint32_t)i, c1 = (uint32_t)block, c2 = (uint32_t)d->layer, c3 = 0;
        uint32_t k0 = (uint32_t)d->key, k1 = (uint32_t)(d->key >> 32);
        for (int round = 0; round < ROUNDS; round++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)p1;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        kept[i] = (uint8_t)((c0 >= below) | (c1 >= below) << 1 | (c2 >= below) << 2 | (c3 >= below) << 3);
    }
}

#endif
