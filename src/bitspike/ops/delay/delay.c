/* Delays of spikes by whole steps or by a sum over taps, and their gradients (the definition is delay/reference.py).
 *
 * A step is one row of columns: sample, neuron, site. WIDE columns are copied for all steps into memory side by side
 * (rows of a large batch are so far apart that they would push each other out of the cache) and then worked on there.
 */
#include <stdlib.h>
#include <string.h>

#include "native/vector.h"

enum { VECTORS = 4, WIDE = 8 * VECTORS /* columns at once */ };

/* Shared with `_CSeries` of delay/c.py, field by field. Before the first of `steps` there are `reach` earlier ones. */
typedef struct {
    int64_t steps, reach, batch, neurons, sites;
} Series;

INLINE int64_t columns(const Series *s)
{
    return s->batch * s->neurons * s->sites;
}

INLINE int64_t neuron(const Series *s, int64_t column)
{
    return column / s->sites % s->neurons;
}

/* Copy `count` rows of n columns; the columns that are missing are 0. From NULL come rows of zeros. */
INLINE void gather_rows(float *restrict rows, const float *from, int64_t count, int64_t stride, int64_t n)
{
    for (int64_t t = 0; t < count; t++, rows += WIDE) {
        if (from && n == WIDE) {
            memcpy(rows, from + t * stride, WIDE * sizeof *rows);
            continue;
        }
        for (int64_t i = 0; i < WIDE; i++)
            rows[i] = from && i < n ? from[t * stride + i] : 0.0f;
    }
}

INLINE void write_row(float *restrict to, const float *restrict row, int64_t n)
{
    if (n == WIDE)
        memcpy(to, row, WIDE * sizeof *to);
    else
        memcpy(to, row, (size_t)n * sizeof *to);
}

/* out[t] = rows[t + offset of each column]; offsets count floats. */
INLINE void pick(const float *restrict rows, const int64_t *restrict offset, int64_t count, int64_t stride, int64_t n,
                 float *restrict out)
{
    for (int64_t t = 0; t < count; t++, rows += WIDE, out += stride)
        for (int64_t i = 0; i < n; i++)
            out[i] = rows[offset[i]];
}

/* `many` steps (1 or 2) of: out[t] = sum over k, from 0 on, of taps[k] * rows[t + k * way]. */
INLINE void sum_steps(const float *rows, const float *taps, int64_t reach, const int64_t way, float *out,
                      int64_t stride, int64_t n, const int many)
{
    Vector sum[2][VECTORS];
    for (int m = 0; m < many; m++)
        for (int v = 0; v < VECTORS; v++)
            sum[m][v] = load(taps + 8 * v) * load(rows + m * WIDE + 8 * v);
    for (int64_t k = 1; k <= reach; k++) {
        taps += WIDE;
        rows += way * WIDE;
        for (int v = 0; v < VECTORS; v++) {
            const Vector tap = load(taps + 8 * v);
            for (int m = 0; m < many; m++)
                sum[m][v] += tap * load(rows + m * WIDE + 8 * v);
        }
    }
    for (int m = 0; m < many; m++) {
        float row[WIDE];
        for (int v = 0; v < VECTORS; v++)
            store(row + 8 * v, sum[m][v]);
        write_row(out + m * stride, row, n);
    }
}

INLINE void sum_taps(const float *rows, const float *taps, int64_t reach, const int64_t way, float *out, int64_t count,
                     int64_t stride, int64_t n)
{
    int64_t t = 0;
    for (; t + 2 <= count; t += 2)
        sum_steps(rows + t * WIDE, taps, reach, way, out + t * stride, stride, n, 2);
    if (t < count)
        sum_steps(rows + t * WIDE, taps, reach, way, out + t * stride, stride, n, 1);
}

/* Of taps k and, if `many` is 2, k + 1: the sum over t of grad[t] * rows[t - k]; `rows` begins at step 0. */
INLINE void sum_products(const float *grad, const float *rows, int64_t steps, int64_t k, float *out, const int many)
{
    Vector sum[2][VECTORS];
    for (int m = 0; m < many; m++)
        for (int v = 0; v < VECTORS; v++)
            sum[m][v] = (Vector){0};
    for (int64_t t = 0; t < steps; t++)
        for (int v = 0; v < VECTORS; v++) {
            const Vector g = load(grad + t * WIDE + 8 * v);
            for (int m = 0; m < many; m++)
                sum[m][v] += g * load(rows + (t - k - m) * WIDE + 8 * v);
        }
    for (int m = 0; m < many; m++)
        for (int v = 0; v < VECTORS; v++)
            store(out + m * WIDE + 8 * v, sum[m][v]);
}

/* taps [reach + 1, WIDE]: each column's weights, of weights [N, reach + 1]. */
INLINE void spread_taps(const Series *s, const float *weights, int64_t first, int64_t n, float *taps)
{
    memset(taps, 0, (size_t)((s->reach + 1) * WIDE) * sizeof *taps);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= s->reach; k++)
            taps[k * WIDE + i] = weights[neuron(s, first + i) * (s->reach + 1) + k];
}

static FOR_EACH_CPU void shift_block(const Series *s, const float *x, const float *past, const int64_t *delays,
                                     int64_t first, int64_t n, float *rows, float *out)
{
    const int64_t stride = columns(s);
    int64_t offset[WIDE];
    gather_rows(rows, past ? past + first : NULL, s->reach, stride, n);
    gather_rows(rows + s->reach * WIDE, x + first, s->steps, stride, n);
    for (int64_t i = 0; i < n; i++)
        offset[i] = (s->reach - delays[neuron(s, first + i)]) * WIDE + i;
    pick(rows, offset, s->steps, stride, n, out + first);
}

static FOR_EACH_CPU void shift_back_block(const Series *s, const float *grad, const int64_t *delays, int64_t first,
                                          int64_t n, float *rows, float *grad_x, float *grad_past)
{
    const int64_t stride = columns(s);
    int64_t offset[WIDE];
    gather_rows(rows, NULL, s->reach, stride, n);
    gather_rows(rows + s->reach * WIDE, grad + first, s->steps, stride, n);
    gather_rows(rows + (s->reach + s->steps) * WIDE, NULL, s->reach, stride, n);
    for (int64_t i = 0; i < n; i++)
        offset[i] = delays[neuron(s, first + i)] * WIDE + i;
    if (grad_x)
        pick(rows + s->reach * WIDE, offset, s->steps, stride, n, grad_x + first);
    if (grad_past)
        pick(rows, offset, s->reach, stride, n, grad_past + first);
}

static FOR_EACH_CPU void filter_block(const Series *s, const float *x, const float *past, const float *weights,
                                      int64_t first, int64_t n, float *rows, float *out)
{
    const int64_t stride = columns(s);
    float *taps = rows + (s->reach + s->steps) * WIDE;
    gather_rows(rows, past ? past + first : NULL, s->reach, stride, n);
    gather_rows(rows + s->reach * WIDE, x + first, s->steps, stride, n);
    spread_taps(s, weights, first, n, taps);
    sum_taps(rows + s->reach * WIDE, taps, s->reach, -1, out + first, s->steps, stride, n);
}

static FOR_EACH_CPU void filter_back_block(const Series *s, const float *x, const float *past, const float *weights,
                                           const float *grad, int64_t first, int64_t n, float *grads, float *grad_x,
                                           float *grad_past, double *grad_weights)
{
    const int64_t stride = columns(s), reach = s->reach;
    float *rows = grads + (2 * reach + s->steps) * WIDE, *taps = rows + (reach + s->steps) * WIDE;
    gather_rows(grads, NULL, reach, stride, n);
    gather_rows(grads + reach * WIDE, grad + first, s->steps, stride, n);
    gather_rows(grads + (reach + s->steps) * WIDE, NULL, reach, stride, n);
    if (grad_x || grad_past)
        spread_taps(s, weights, first, n, taps);
    if (grad_x)
        sum_taps(grads + reach * WIDE, taps, reach, 1, grad_x + first, s->steps, stride, n);
    if (grad_past)
        sum_taps(grads, taps, reach, 1, grad_past + first, reach, stride, n);
    if (!grad_weights)
        return;
    gather_rows(rows, past ? past + first : NULL, reach, stride, n);
    gather_rows(rows + reach * WIDE, x + first, s->steps, stride, n);
    for (int64_t k = 0; k <= reach; k += 2) {
        if (k < reach)
            sum_products(grads + reach * WIDE, rows + reach * WIDE, s->steps, k, taps + k * WIDE, 2);
        else
            sum_products(grads + reach * WIDE, rows + reach * WIDE, s->steps, k, taps + k * WIDE, 1);
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= reach; k++)
            grad_weights[neuron(s, first + i) * (reach + 1) + k] += taps[k * WIDE + i];
}

/* out [T, B, N, S] of x: each neuron's steps, delays[N] later; past [reach, B, N, S] or NULL (silence). */
EXPORT int delay_shift(const Series *s, const float *x, const float *past, const int64_t *delays, int threads,
                       float *out)
{
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *rows = malloc((size_t)((s->reach + s->steps) * WIDE) * sizeof *rows);
        failed = !rows;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < columns(s); first += WIDE)
            if (rows)
                shift_block(s, x, past, delays, first, columns(s) - first < WIDE ? columns(s) - first : WIDE, rows, out);
        free(rows);
    }
    return failed;
}

/* The gradients of x and of past (either may be NULL) from that of `out`. */
EXPORT int delay_shift_backward(const Series *s, const float *grad, const int64_t *delays, int threads, float *grad_x,
                                float *grad_past)
{
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *rows = malloc((size_t)((2 * s->reach + s->steps) * WIDE) * sizeof *rows);
        failed = !rows;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < columns(s); first += WIDE)
            if (rows)
                shift_back_block(s, grad, delays, first, columns(s) - first < WIDE ? columns(s) - first : WIDE, rows,
                                 grad_x, grad_past);
        free(rows);
    }
    return failed;
}

/* out [T, B, N, S] of x: the sum over k of weights[N, k] * x[t - k]. */
EXPORT int delay_filter(const Series *s, const float *x, const float *past, const float *weights, int threads,
                        float *out)
{
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *rows = malloc((size_t)((2 * s->reach + s->steps + 1) * WIDE) * sizeof *rows);
        failed = !rows;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < columns(s); first += WIDE)
            if (rows)
                filter_block(s, x, past, weights, first, columns(s) - first < WIDE ? columns(s) - first : WIDE, rows,
                             out);
        free(rows);
    }
    return failed;
}

/* The gradients of x, past and weights (each may be NULL) from that of `out`.
 * grad_weights [parts, N, reach + 1] starts at 0: each part of the batch has a sum of its own, so that the number of
 * threads changes no bit. */
EXPORT int delay_filter_backward(const Series *s, const float *x, const float *past, const float *weights,
                                 const float *grad, int64_t parts, int threads, float *grad_x, float *grad_past,
                                 double *grad_weights)
{
    const int64_t sample = s->neurons * s->sites;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *scratch = malloc((size_t)((4 * s->reach + 2 * s->steps + 1) * WIDE) * sizeof *scratch);
        failed = !scratch;
#pragma omp for schedule(static)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t last = s->batch * (part + 1) / parts * sample;
            double *sums = grad_weights ? grad_weights + part * s->neurons * (s->reach + 1) : NULL;
            for (int64_t first = s->batch * part / parts * sample; scratch && first < last; first += WIDE)
                filter_back_block(s, x, past, weights, grad, first, last - first < WIDE ? last - first : WIDE, scratch,
                                  grad_x, grad_past, sums);
        }
        free(scratch);
    }
    return failed;
}
