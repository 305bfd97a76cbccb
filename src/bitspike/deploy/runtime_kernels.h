/* A part of runtime.c: the loops that take the time, in portable C and, on x86-64, for two kinds of vectors. */
#ifndef BITSPIKE_RUNTIME_KERNELS_H
#define BITSPIKE_RUNTIME_KERNELS_H

#include <string.h>

#include "runtime.h"
#include "runtime_state.h"

enum { DIGITS = 8, LIST = 255 /* rows that counters of so many digits can count */ };

/* A layer's neurons in one step. Of beta and theta, a step of 0 repeats one value. `theta` is NULL for a leaky readout,
 * `feedback` (what the recurrent sum is), `a` where there is none. */
typedef struct {
    uint32_t n;
    const bs_number *current;
    const bs_number *feedback;
    const bs_factor *beta;
    const bs_number *theta;
    uint32_t beta_step, theta_step;
    bs_number *u, *a;
    uint32_t *z; /* bits: the spikes of the step before, then those of this step */
    bs_factor rho, rest, strength;
} Firing;

typedef struct {
    void (*add_rows)(const uint32_t *rows, uint32_t words, const uint32_t *list, uint32_t n, int32_t times, int fresh,
                     int32_t *counts);
    void (*add_reals)(const uint32_t *rows, uint32_t words, const uint32_t *list, const float *values, uint32_t n,
                      uint32_t lanes, double *sums);
    void (*to_current)(const bs_layer *layer, const int32_t *sums, int32_t times, int32_t less, uint32_t divisor,
                       bs_number *current);
    void (*fire)(const Firing *f);
} Kernels;

/* ---- portable: 32 lanes at a time ---- */

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
#include "runtime_rows.h"
#include "runtime_undef.h"

static void add_reals_portable(const uint32_t *rows, uint32_t words, const uint32_t *list, const float *values,
                               uint32_t n, uint32_t lanes, double *sums)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t *row = rows + (size_t)list[i] * words;
        const double value = (double)values[i];
        for (uint32_t j = 0; j < lanes; j++)
            sums[j] += row[j / 32] >> j % 32 & 1 ? value : -value;
    }
}

/* One neuron: the new membrane; `z` is the spike before and becomes the spike now. Every operation is rounded. */
static inline bs_number step_of(const Firing *f, uint32_t i, uint32_t *z)
{
    bs_number threshold, u = f->beta[f->beta_step * (size_t)i] * f->u[i] + f->current[i];
    if (!f->theta)
        return u;
    threshold = f->theta[f->theta_step * (size_t)i];
    if (f->feedback)
        u = u + f->feedback[i];
    if (!f->a) {
        u = *z ? u - threshold : u;
    } else {
        const bs_number theta = threshold;
        u = *z ? u - (theta + f->strength * f->a[i]) : u;
        f->a[i] = f->rho * f->a[i] + (*z ? f->rest : 0.0f);
        threshold = theta + f->strength * f->a[i];
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

static const Kernels portable = {add_rows_portable, add_reals_portable, to_current_portable, fire_portable};

#if BS_VECTORS
#include "runtime_x86.h"
#else
static const Kernels *kernels(void)
{
    return &portable;
}
#endif

#endif
