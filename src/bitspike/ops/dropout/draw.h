/* The random numbers of dropout: a function of key, layer and place, drawn where they are needed. The definition is
 * dropout/reference.py. */
#ifndef BITSPIKE_DRAW_H
#define BITSPIKE_DRAW_H

#include <stdint.h>

#include "native/compiler.h"
#include "native/philox.h"

/* Shared with `Draw` of dropout/c.py, field by field. */
typedef struct {
    uint64_t key;
    int64_t layer, first; /* `first` is the counter of place 0 */
    uint32_t below;       /* numbers below drop */
} Draw;

/* Philox-4x32 with counter (place, block, layer, 0): bits 0 to 3 are "kept" at the block's four steps. */
INLINE void draw(const Draw *d, int64_t place, int64_t n, int64_t block, uint8_t *restrict kept)
{
    const uint32_t start = (uint32_t)(d->first + place), below = d->below;
    for (int64_t i = 0; i < n; i++) {
        uint32_t c0 = start + (uint32_t)i, c1 = (uint32_t)block, c2 = (uint32_t)d->layer, c3 = 0;
        philox(d->key, &c0, &c1, &c2, &c3);
        kept[i] = (uint8_t)((c0 >= below) | (c1 >= below) << 1 | (c2 >= below) << 2 | (c3 >= below) << 3);
    }
}

#endif
