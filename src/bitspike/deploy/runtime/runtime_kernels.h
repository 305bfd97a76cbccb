/* A part of runtime.c: the loops that take the time, in portable C and, on x86-64, for two kinds of vectors. */
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
    uint32_t (*list_bits)(const uint32_t *bits, uint32_t from, uint32_t many, uint32_t *list);
    void (*count_pixels)(const uint32_t *bits, uint32_t pixels, uint32_t channels, int32_t times, int fresh,
                         int32_t *counts);
    void (*move_list)(const uint32_t *from, size_t n, uint32_t base, uint32_t *to);
    void (*pool_columns)(const int32_t *counts, uint32_t size, size_t channels, int32_t less, int32_t *sums);
    void (*add_reals)(const uint32_t *rows, uint32_t words, const uint32_t *list, const float *values, uint32_t n,
                      uint32_t lanes, Sum *sums);
    void (*to_current)(const bs_layer *layer, const int32_t *sums, int32_t times, int32_t less, uint32_t divisor,
                       bs_number *current);
    void (*fire)(const Firing *f);
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

/* `many` <= 32 bits from `from` on. */
static inline uint32_t bits_at(const uint32_t *bits, uint32_t from, uint32_t many)
{
    const uint32_t shift = from % 32;
    uint32_t word = bits[from / 32] >> shift;
    if (shift + many > 32)
        word |= bits[from / 32 + 1] << (32 - shift);
    return many < 32 ? word & ((1u << many) - 1) : word;
}

/* ---- portable: 32 lanes at a time ---- */

/* Input i has this count. */
static inline void set_count(Target to, uint32_t i, uint32_t count)
{
    for (uint32_t *word = to.bits + i / 32; count; count >>= 1, word += to.words)
        *word |= (count & 1) << i % 32;
}

static inline int digits_of(uint32_t number)
{
    int digits = 0;
    for (; number; number >>= 1)
        digits++;
    return digits;
}

/* A value as a count, or -1. */
static inline int32_t count_of(float value, uint32_t planes)
{
    if (!(value >= 0.0f && value < (float)(1u << planes)) || (float)(int32_t)value != value)
        return -1;
    return (int32_t)value;
}

static int plane_floats_portable(const float *frame, uint32_t n, Target to)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t count = frame[i] == 0.0f ? 0 : count_of(frame[i], to.planes);
        if (count < 0)
            return -1;
        set_count(to, i, (uint32_t)count);
        all |= (uint32_t)count;
    }
    return digits_of(all);
}

static int plane_bytes_portable(const uint8_t *frame, uint32_t n, Target to)
{
    uint32_t all = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (frame[i] >> to.planes)
            return -1;
        set_count(to, i, frame[i]);
        all |= frame[i];
    }
    return digits_of(all);
}

/* The places of all set bits in bits[from .. from + many), counted from `from`; returns how many. */
static uint32_t list_bits_portable(const uint32_t *bits, uint32_t from, uint32_t many, uint32_t *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < many; i += 32)
        for (uint32_t word = bits_at(bits, from + i, many - i < 32 ? many - i : 32); word; word &= word - 1)
            list[n++] = i + lowest(word);
    return n;
}

static inline uint32_t ones_portable(uint32_t word)
{
    word -= word >> 1 & 0x55555555u;
    word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
    return ((word + (word >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24;
}

static void expand_portable(const uint32_t *digits, uint32_t used, uint32_t words, int32_t times, int fresh,
                            int32_t *counts)
{
    (void)words;
    for (uint32_t i = 0; i < 32; i++) {
        uint32_t count = 0;
        for (uint32_t k = 0; k < used; k++)
            count |= (digits[k] >> i & 1) << k;
        counts[i] = (fresh ? 0 : counts[i]) + times * (int32_t)count;
    }
}

#define NAME(x) x##_portable
#define TARGET
#define WORDS 1
#define ZERO 0u
#define LOAD(from, words) ((void)(words), *(from))
#define SUM(a, b, c) ((a) ^ (b) ^ (c))
#define CARRY(a, b, c) (((a) & (b)) | ((c) & ((a) ^ (b))))
#define Vector uint32_t
#define ONES(word) ones_portable(word)
#include "runtime_rows.h"
#include "runtime_undef.h"

static void add_reals_portable(const uint32_t *rows, uint32_t words, const uint32_t *list, const float *values,
                               uint32_t n, uint32_t lanes, Sum *sums)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *row = rows + (size_t)list[i] * words;
        const Sum value = sum_of(values[i]);
        for (uint32_t j = 0; j < lanes; j++)
            sums[j] += row[j / 32] >> j % 32 & 1 ? value : -value;
    }
}

static inline bs_number current_of(const Firing *f, uint32_t i)
{
    bs_number c;
    if (f->current)
        return f->current[i];
    c = mean_of(2 * f->counts[i] - f->less, 1);
    if (f->bias)
        c = plus(c, f->bias[i]);
    return f->scale ? plus(times(f->scale[i], c), f->offset[i]) : c;
}

/* One neuron: the new membrane; `z` is the spike before and becomes the spike now. Every operation is rounded. */
static inline bs_number step_of(const Firing *f, uint32_t i, uint32_t *z)
{
    bs_number threshold, u = plus(times(f->beta[f->beta_step * (size_t)i], f->u[i]), current_of(f, i));
    if (!f->theta)
        return u;
    threshold = f->theta[f->theta_step * (size_t)i];
    if (f->feedback)
        u = plus(u, f->feedback[i]);
    if (!f->a) {
        u = *z ? minus(u, threshold) : u;
    } else {
        const bs_number theta = threshold;
        u = *z ? minus(u, plus(theta, times(f->strength, f->a[i]))) : u;
        f->a[i] = plus(times(f->rho, f->a[i]), *z ? number_of(f->rest) : 0);
        threshold = plus(theta, times(f->strength, f->a[i]));
    }
    *z = u >= threshold;
    return u;
}

/* Neurons from `first`, a multiple of 32, to the last. */
static void fire_from(const Firing *f, uint32_t first)
{
    for (uint32_t w = first; w < f->n; w += 32) {
        const uint32_t many = f->n - w < 32 ? f->n - w : 32, before = f->z[w / 32];
        uint32_t now = 0;
        for (uint32_t i = 0; i < many; i++) {
            uint32_t z = before >> i & 1;
            f->u[w + i] = step_of(f, w + i, &z);
            now |= z << i;
        }
        f->z[w / 32] = now;
    }
}

static void fire_portable(const Firing *f)
{
    fire_from(f, 0);
}

static const Kernels portable = {
    plane_floats_portable, plane_bytes_portable, NULL,
    add_rows_portable,     list_bits_portable,   count_pixels_portable,
    move_list_portable,    pool_columns_portable, add_reals_portable,
    to_current_portable,   fire_portable};

#if BS_VECTORS
#include "runtime_x86.h"
#else
static const Kernels *kernels(void)
{
    return &portable;
}
#endif

#endif
