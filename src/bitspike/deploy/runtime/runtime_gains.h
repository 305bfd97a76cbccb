/* A part of runtime.c: gains: what arrives is multiplied by a whole number for each input. */
#ifndef BITSPIKE_RUNTIME_GAINS_H
#define BITSPIKE_RUNTIME_GAINS_H

#include "runtime_inputs.h"

/* The planes of gain * input. Binary digit d of the gains, where input plane p has a bit, is worth 2^(p + d). */
static Planes gained(const bs_layer *layer, Planes in, const Shared *s)
{
    const uint32_t digits = (uint32_t)digits_of(layer->largest_gain), planes = gained_planes(layer, in.planes);
    const Planes out = {s->gained, planes, in.words};
    if (!layer->gains || !in.planes)
        return in;
    for (uint32_t w = 0, at = 0; w < in.words; w++, at = at + 1 < layer->gain_words ? at + 1 : 0) {
        uint32_t sum[BS_PLANES + GAIN_DIGITS] = {0};
        for (uint32_t p = 0; p < in.planes; p++) {
            const uint32_t bits = in.bits[(size_t)p * in.words + w];
            for (uint32_t d = 0; bits && d < digits; d++)
                for (uint32_t k = p + d, carry = bits & layer->gains[d * layer->gain_words + at]; carry; k++) {
                    const uint32_t next = sum[k] & carry;
                    sum[k] ^= carry;
                    carry = next;
                }
        }
        for (uint32_t k = 0; k < planes; k++)
            s->gained[(size_t)k * in.words + w] = sum[k];
    }
    return out;
}

#endif
