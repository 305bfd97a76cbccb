/* A part of runtime.c: gains: what arrives is multiplied by a whole number for each input. */
#ifndef BITSPIKE_RUNTIME_GAINS_H
#define BITSPIKE_RUNTIME_GAINS_H

#include "runtime_inputs.h"

/* Add bits to the counters of 32 inputs, in binary, from digit k on. */
static void add_bits(uint32_t *sum, uint32_t k, uint32_t bits)
{
    for (; bits; k++) {
        const uint32_t carry = sum[k] & bits;
        sum[k] ^= bits;
        bits = carry;
    }
}

/* The planes of gain * input. Binary digit d of the gains, where input plane p has a bit, is worth 2^(p + d). */
static Planes gained(const bs_layer *layer, Planes in, const Shared *s)
{
    const uint32_t digits = (uint32_t)digits_of(layer->largest_gain), step = layer->gain_words;
    const Planes out = {s->gained, gained_planes(layer, in.planes), in.words};
    if (!layer->gains || !in.planes)
        return in;
    for (uint32_t w = 0, at = 0; w < in.words; w++, at = at + 1 < step ? at + 1 : 0) {
        const uint32_t *gains = layer->gains + at, *bits = in.bits + w;
        uint32_t *to = s->gained + w;
        uint32_t sum[BS_PLANES + GAIN_DIGITS];
        if (in.planes == 1) { /* spikes: there is nothing to carry */
            for (uint32_t d = 0; d < digits; d++)
                to[(size_t)d * in.words] = *bits & gains[(size_t)d * step];
            continue;
        }
        memset(sum, 0, sizeof sum);
        for (uint32_t p = 0; p < in.planes; p++)
            for (uint32_t d = 0; d < digits; d++)
                add_bits(sum, p + d, bits[(size_t)p * in.words] & gains[(size_t)d * step]);
        for (uint32_t k = 0; k < out.planes; k++)
            to[(size_t)k * in.words] = sum[k];
    }
    return out;
}

#endif
