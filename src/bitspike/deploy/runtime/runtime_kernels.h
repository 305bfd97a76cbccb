/* A part of runtime.c: the loops that take the time, as a table: runtime_portable.h fills it in portable C, and on
 * x86-64 runtime_x86.h for two kinds of vectors. */
#ifndef BITSPIKE_RUNTIME_KERNELS_H
#define BITSPIKE_RUNTIME_KERNELS_H

#include <string.h>

#include "runtime_numbers.h"
#include "runtime_state.h"

/* A layer's neurons in one step. Of beta and theta, a step of 0 repeats one value. `theta` is NULL for a leaky readout,
 * `feedback` (what the recurrent sum is), `a` where there is none. The current is NULL for a dense layer whose sums are
 * 2 * counts - less: then it is computed on the way. */
typedef struct {
    uint32_t n;
    const bs_number *current;
    const int32_t *counts;
    int32_t less;
    const bs_number *bias, *offset;
    const bs_factor *scale;
    const bs_number *feedback;
    const bs_factor *beta;
    const bs_number *theta;
    uint32_t beta_step, theta_step;
    bs_number *u, *a;
    uint32_t *z; /* bits: the spikes of the step before, then those of this step */
    bs_factor rho, rest, strength;
} Firing;

enum { MOST_PLANES = BS_PLANES + GAIN_DIGITS };

/* Rows of bits that are worth 1, 2, 4 and so on: `list` names many[p] of 2^p, those of the highest p first. */
typedef struct {
    const uint32_t *rows;
    uint32_t words; /* of a row */
    const uint32_t *list;
    uint32_t planes, many[MOST_PLANES];
    uint32_t total; /* what all are worth together */
} Rows;

/* Counts as planes of bits: each plane has `words` words, which are 0 before. */
typedef struct {
    uint32_t *bits;
    uint32_t words, planes;
} Target;

typedef struct {
    /* The binary digits of n counts, as planes; returns how many planes they need, or -1 if one is no count. */
    int (*plane_floats)(const float *frame, uint32_t n, Target to);
    int (*plane_bytes)(const uint8_t *frame, uint32_t n, Target to);
    /* For each of n rows of bits: counts = how many bits of `bits` it shares, * times, added unless `fresh`; returns
     * the set bits of `bits`. May be NULL. */
    uint32_t (*count_shared)(const uint32_t *rows, uint32_t words, uint32_t n, const uint32_t *bits, int32_t times,
                             int fresh, int32_t *counts);
    void (*add_rows)(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, int32_t times, int fresh,
                     int32_t *counts);
    /* counts[i] = what the rows with bit i are worth: LIST of them, and WORTH, at most. */
    void (*add_planes)(const Rows *rows, int32_t *counts);
    /* The places of all set bits in bits[from .. from + many), the first of them being `base`; returns how many. */
    uint32_t (*list_bits)(const uint32_t *bits, uint32_t from, uint32_t many, uint32_t base, uint32_t *list);
    void (*count_pixels)(const uint32_t *bits, uint32_t pixels, uint32_t channels, int32_t times, int fresh,
                         int32_t *counts);
    void (*move_list)(const uint32_t *from, size_t n, uint32_t base, uint32_t *to);
    void (*pool_columns)(const int32_t *counts, uint32_t size, size_t channels, int32_t less, int32_t *sums);
    void (*add_reals)(const uint32_t *rows, uint32_t words, const uint32_t *list, const float *values, uint32_t n,
                      uint32_t lanes, Sum *sums);
    void (*pool_sums)(const Sum *map, size_t row, size_t place, uint32_t size, size_t lanes, Sum *sums);
    void (*reals_to_current)(const bs_layer *layer, size_t first, size_t lanes, const Sum *sums, uint32_t divisor,
                             bs_number *current);
    void (*to_current)(const bs_layer *layer, const int32_t *sums, int32_t times, int32_t less, uint32_t divisor,
                       bs_number *current);
    void (*fire)(const Firing *f);
    /* The same for a dense layer whose counts are those of rows that are worth at most 255. May be NULL. */
    void (*fire_rows)(const Rows *rows, const Firing *f);
} Kernels;

static inline uint32_t lowest(uint32_t bits)
{
#ifdef __GNUC__
    return (uint32_t)__builtin_ctz(bits);
#else
    uint32_t i = 0;
    while (!(bits >> i & 1))
        i++;
    return i;
#endif
}

/* The set bits of a word. */
static inline uint32_t ones_of(uint32_t word)
{
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    return ((word + (word >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24;
}

/* `many` <= 32 bits from `from` on. */
static inline uint32_t bits_at(const uint32_t *bits, uint32_t from, uint32_t many)
{
    const uint32_t shift = from % 32;
    uint32_t word = bits[from / 32] >> shift;
    if (shift + many > 32)
        word |= bits[from / 32 + 1] << (32 - shift);
    return many < 32 ? word & ((1u << many) - 1) : word;
}

/* Input i has this count. */
static inline void set_count(Target to, uint32_t i, uint32_t count)
{
    for (uint32_t *word = to.bits + i / 32; count; count >>= 1, word += to.words)
        *word |= (count & 1) << i % 32;
}

/* A value as a count, or -1. */
static inline int32_t count_of(float value, uint32_t planes)
{
    if (!(value >= 0.0f && value < (float)(1u << planes)) || (float)(int32_t)value != value)
        return -1;
    return (int32_t)value;
}

#endif
