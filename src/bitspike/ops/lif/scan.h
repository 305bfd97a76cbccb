/* The LIF scan for a block of neurons (its definition is lif/reference.py), shared by every kernel that runs it.
 *
 * Time runs inside a block, so the state stays in registers and first-level cache and every byte of [T, M] is touched
 * once. One order of operations, each rounded: beta*u, + I, - theta*z; compile with -ffp-contract=off, a fused
 * multiply-add would differ in the last bit and flip spikes.
 */
#ifndef BITSPIKE_SCAN_H
#define BITSPIKE_SCAN_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "native/compiler.h"

enum { BLOCK = 1024, AHEAD = 3 /* steps */ };
/* In the order of GRADS in lif/surrogate.py; the last is their number. */
enum { FAST_SIGMOID, ARCTAN, TRIANGULAR, SIGMOID, SURROGATES };

/* Shared with `CScan` of lif/c.py, field by field. A step of 0 repeats one value; 1 gives each neuron its own. */
typedef struct {
    int64_t steps, neurons;
    int64_t current_step; /* `neurons`, or 0 for a current that is constant in time */
    int64_t beta_step, theta_step, center_step;
    const float *current, *beta, *theta, *center;
    const float *u0, *z0;
    float slope;
    int32_t surrogate;
} Scan;

/* What a backward pass reads (NULL where a gradient is zero) and writes. Shared with `CGradients` of lif/c.py, field
 * by field. */
typedef struct {
    const float *spikes, *membrane; /* [T, M] */
    const float *u_last;            /* [M] */
    float *current;                 /* [T, M], or [M] if the current is constant in time */
    float *u0;                      /* [M] */
    float *beta;                    /* [M] or NULL */
} Gradients;

typedef struct {
    float u[BLOCK], z[BLOCK], beta[BLOCK], theta[BLOCK];
} Block;

INLINE void load_block(const Scan *s, int64_t first, int64_t n, Block *b)
{
    for (int64_t i = 0; i < n; i++) {
        b->u[i] = s->u0[first + i];
        b->z[i] = s->z0[first + i];
        b->beta[i] = s->beta[s->beta_step * (first + i)];
        b->theta[i] = s->theta[s->theta_step * (first + i)];
    }
}

INLINE void advance(Block *restrict b, const float *restrict current, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float u = b->beta[i] * b->u[i];
        u = u + current[i];
        u = u - b->theta[i] * b->z[i];
        b->u[i] = u;
        b->z[i] = u >= b->theta[i] ? 1.0f : 0.0f;
    }
}

INLINE void copy(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

INLINE void add(float *restrict to, const float *restrict what, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += what[i];
}

/* Ask for memory that is about to be read: rows lie too far apart for the processor to guess. */
INLINE void fetch(const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 16)
        __builtin_prefetch(from + i);
}

typedef union {
    float number;
    int32_t bits;
} Float;

/* exp(-x) of x >= 0 to 3e-7 of itself, 0 where float32 runs out of exponents; in operations that compilers have
 * vectors for, which libm's expf is not. 2^-n * exp(r) with r = n ln 2 - x, |r| <= ln(2) / 2; n = 127 makes it 0.
 * The cap compares bits, which order as numbers >= 0 do: a branch on x itself would undo the vectors. */
INLINE float exp_of_minus(float x)
{
    const Float end = {88.0f}, given = {x};
    const Float near = {.bits = given.bits < end.bits ? given.bits : end.bits};
    const int32_t n = (int32_t)(near.number * 1.44269504f + 0.5f);
    const float r = ((float)n * 0.693359375f - near.number) - (float)n * 2.12194440e-4f; /* ln 2 in two parts */
    const float high = 1.0f / 24 + r * (1.0f / 120 + r * (1.0f / 720));
    const float p = 1.0f + r * (1.0f + r * (0.5f + r * (1.0f / 6 + r * high)));
    const Float scale = {.bits = (127 - n) << 23};
    return p * scale.number;
}

/* g + gz * surrogate(u): the gradient of one step's current. `surrogate` is a constant wherever this is inlined. */
INLINE float through_spike(const Scan *s, const int surrogate, float g, float gz, float center, float u)
{
    const float away = s->slope * fabsf(center - u);
    if (surrogate == ARCTAN)
        return g + gz / (1.0f + away * away);
    if (surrogate == TRIANGULAR)
        return g + gz * (away < 1.0f ? 1.0f - away : 0.0f);
    if (surrogate == SIGMOID) {
        const float e = exp_of_minus(away);
        return g + gz * (4.0f * e / ((1.0f + e) * (1.0f + e)));
    }
    const float d = 1.0f + away;
    return g + gz / (d * d);
}

INLINE void add_products(const Scan *s, const int surrogate, float *restrict sum, const float *g, const float *gz,
                         const float *center, const float *u, const float *before, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] += (gz ? through_spike(s, surrogate, g[i], gz[i], center[i], u[i]) : g[i]) * before[i];
}

/* One step of the way back: the current's gradient to `out`, or added to `sum` where that is NULL; g moves on to the
 * step before. `out` may be `u`. */
INLINE void step_back(const Scan *s, const int surrogate, float *restrict g, const float *gz,
                      const float *restrict center, const float *u, const float *restrict beta, float *out,
                      float *restrict sum, int64_t n)
{
    if (gz && out) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; i++) {
            const float now = through_spike(s, surrogate, g[i], gz[i], center[i], u[i]);
            out[i] = now;
            g[i] = beta[i] * now;
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const float now = gz ? through_spike(s, surrogate, g[i], gz[i], center[i], u[i]) : g[i];
        if (out)
            out[i] = now;
        else
            sum[i] += now;
        g[i] = beta[i] * now;
    }
}

/* From the membranes `us` of `steps` rows of `width` floats to the current's gradients, row t at `out + t * stride`
 * (their sum at `out` if the current is constant in time); `out` may be `us`. Writes u0's and beta's as well. */
INLINE void walk_back_by(const Scan *s, const int surrogate, int64_t first, int64_t n, const Gradients *grad,
                         const float *beta_of, const float *us, int64_t width, float *out, int64_t stride)
{
    float g[BLOCK], center[BLOCK], sum[BLOCK], beta[BLOCK];
    for (int64_t i = 0; i < n; i++) {
        center[i] = s->center[s->center_step * (first + i)];
        g[i] = grad->u_last ? grad->u_last[first + i] : 0.0f;
        sum[i] = beta[i] = 0.0f;
    }
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        const float *u = us + t * width, *gz = grad->spikes ? grad->spikes + t * s->neurons + first : NULL;
        if (gz && t >= AHEAD)
            fetch(gz - AHEAD * s->neurons, n);
        if (grad->membrane)
            add(g, grad->membrane + t * s->neurons + first, n);
        if (grad->beta)
            add_products(s, surrogate, beta, g, gz, center, u, t > 0 ? u - width : s->u0 + first, n);
        step_back(s, surrogate, g, gz, center, u, beta_of, s->current_step ? out + t * stride : NULL, sum, n);
    }
    copy(grad->u0 + first, g, n);
    if (!s->current_step)
        copy(out, sum, n);
    if (grad->beta)
        copy(grad->beta + first, beta, n);
}

/* The surrogate is chosen here, outside of all loops. */
INLINE void walk_back(const Scan *s, int64_t first, int64_t n, const Gradients *grad, const float *beta_of,
                      const float *us, int64_t width, float *out, int64_t stride)
{
#define WALK_BACK_BY(surrogate) walk_back_by(s, surrogate, first, n, grad, beta_of, us, width, out, stride)
    switch (s->surrogate) {
    case ARCTAN:
        WALK_BACK_BY(ARCTAN);
        break;
    case TRIANGULAR:
        WALK_BACK_BY(TRIANGULAR);
        break;
    case SIGMOID:
        WALK_BACK_BY(SIGMOID);
        break;
    default:
        WALK_BACK_BY(FAST_SIGMOID);
    }
#undef WALK_BACK_BY
}

#endif
