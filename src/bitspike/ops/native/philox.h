/* Philox-4x32: four random numbers from a counter and a key. The definition is `philox` of dropout/reference.py. */
#ifndef BITSPIKE_PHILOX_H
#define BITSPIKE_PHILOX_H

#include <stdint.h>

#include "native/compiler.h"

enum { ROUNDS = 7 /* of dropout/reference.py */ };

/* Replace the counter (c0, c1, c2, c3) by its four numbers. */
INLINE void philox(uint64_t key, uint32_t *c0, uint32_t *c1, uint32_t *c2, uint32_t *c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * *c0, p1 = (uint64_t)0xCD9E8D57u * *c2;
        *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ k0;
        *c1 = (uint32_t)p1;
        *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ k1;
        *c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

#endif
