/* Delays of spikes by whole steps or by a sum over taps, and their gradients (the definition is delay/reference.py).
 *
 * A step is a row of columns: sample, neuron, site. Rows of a large batch lie so far apart that a few of them push each
 * other out of the cache. So a chunk of columns is copied into strips, [rows, WIDE] each, changed there in place and
 * copied out again.
 */
#include <stdlib.h>
#include <string.h>

#include "native/vector.h"

enum {
    VECTORS = 2,
    AT_ONCE = 4,        /* rows or taps whose sums run side by side */
    WIDE = 8 * VECTORS, /* columns of a strip */
    STRIPS = 32,        /* of a chunk, at most: 2 kB of each step are read at once */
    ROOM = 4096,        /* rows of all strips of a chunk: 256 kB, for the second cache */
};

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

/* How many columns a chunk has, if each strip has so many rows. */
INLINE int64_t chunk(int64_t rows)
{
    const int64_t strips = ROOM / rows;
    return WIDE * (strips < 1 ? 1 : strips > STRIPS ? STRIPS : strips);
}

INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Copy n columns of `count` steps into strips of so many rows, from row `at` on; NULL stands for zeros. */
INLINE void fill(float *strips, int64_t rows, int64_t at, const float *from, int64_t count, int64_t stride, int64_t n)
{
    for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < n; i += WIDE) {
            float *to = strips + i * rows + (at + t) * WIDE;
            if (!from || n - i < WIDE)
                memset(to, 0, WIDE * sizeof *to);
            if (from && n - i < WIDE)
                memcpy(to, from + t * stride + i, (size_t)(n - i) * sizeof *to);
            else if (from)
                memcpy(to, from + t * stride + i, WIDE * sizeof *to);
        }
}

/* The way back; nothing where there is no place to go. */
INLINE void drain(const float *strips, int64_t rows, int64_t at, float *to, int64_t count, int64_t stride, int64_t n)
{
    for (int64_t t = 0; to && t < count; t++)
        for (int64_t i = 0; i < n; i += WIDE) {
            const float *from = strips + i * rows + (at + t) * WIDE;
            if (n - i < WIDE)
                memcpy(to + t * stride + i, from, (size_t)(n - i) * sizeof *to);
            else
                memcpy(to + t * stride + i, from, WIDE * sizeof *to);
        }
}

/* In place: row[t] = row[t + offset of the column], for `count` rows from the last to the first (way -1) or the other
 * way round (way 1), so that no row is read after it is written. */
INLINE void pick(float *row, const int64_t *offset, int64_t count, const int64_t way)
{
    row += way < 0 ? (count - 1) * WIDE : 0;
    for (int64_t t = 0; t < count; t++, row += way * WIDE)
        for (int64_t i = 0; i < WIDE; i++)
            row[i] = row[offset[i] + i];
}

/* `many` rows (1 or AT_ONCE): row[t] = sum over k, from 0 on, of taps[k] * row[t + k * way]. */
INLINE void sum_rows(float *row, const float *taps, int64_t reach, const int64_t way, const int many)
{
    Vector sum[AT_ONCE][VECTORS];
    const float *from = row;
    for (int m = 0; m < many; m++)
        for (int v = 0; v < VECTORS; v++)
            sum[m][v] = load(taps + 8 * v) * load(from + m * WIDE + 8 * v);
    for (int64_t k = 1; k <= reach; k++) {
        taps += WIDE;
        from += way * WIDE;
        for (int v = 0; v < VECTORS; v++) {
            const Vector tap = load(taps + 8 * v);
            for (int m = 0; m < many; m++)
                sum[m][v] += tap * load(from + m * WIDE + 8 * v);
        }
    }
    for (int m = 0; m < many; m++)
        for (int v = 0; v < VECTORS; v++)
            store(row + m * WIDE + 8 * v, sum[m][v]);
}

/* In place, in the order of `pick`. */
INLINE void sum_taps(float *rows, const float *taps, int64_t reach, int64_t count, const int64_t way)
{
    int64_t t = 0;
    for (; t + AT_ONCE <= count; t += AT_ONCE)
        sum_rows(rows + (way < 0 ? count - AT_ONCE - t : t) * WIDE, taps, reach, way, AT_ONCE);
    for (; t < count; t++)
        sum_rows(rows + (way < 0 ? count - 1 - t : t) * WIDE, taps, reach, way, 1);
}

/* Of `many` taps (1 or AT_ONCE) from k on: the sum over t of grad[t] * x[t - k]. */
INLINE void sum_products(const float *grad, const float *x, int64_t steps, int64_t k, float *out, const int many)
{
    Vector sum[AT_ONCE][VECTORS] = {0};
    for (int64_t t = 0; t < steps; t++)
        for (int v = 0; v < VECTORS; v++) {
            const Vector g = load(grad + t * WIDE + 8 * v);
            for (int m = 0; m < many; m++)
                sum[m][v] += g * load(x + (t - k - m) * WIDE + 8 * v);
        }
    for (int m = 0; m < many; m++)
        for (int v = 0; v < VECTORS; v++)
            store(out + m * WIDE + 8 * v, sum[m][v]);
}

/* offset [WIDE]: how many floats away the row is that a column takes. */
INLINE void spread_delays(const Series *s, const int64_t *delays, int64_t first, int64_t n, int64_t way, int64_t *offset)
{
    for (int64_t i = 0; i < WIDE; i++)
        offset[i] = i < n ? way * delays[neuron(s, first + i)] * WIDE : 0;
}

/* taps [reach + 1, WIDE]: each column's weights, of weights [N, reach + 1]. */
INLINE void spread_taps(const Series *s, const float *weights, int64_t first, int64_t n, float *taps)
{
    for (int64_t i = 0; i < WIDE; i++) {
        const float *of_neuron = weights + neuron(s, first + (i < n ? i : 0)) * (s->reach + 1);
        for (int64_t k = 0; k <= s->reach; k++)
            taps[k * WIDE + i] = of_neuron[k];
    }
}

static FOR_EACH_CPU void shift(const Series *s, const float *x, const float *past, const int64_t *delays, int64_t first,
                               int64_t n, float *strips, float *out)
{
    const int64_t stride = columns(s), rows = s->reach + s->steps;
    int64_t offset[WIDE];
    fill(strips, rows, 0, past ? past + first : NULL, s->reach, stride, n);
    fill(strips, rows, s->reach, x + first, s->steps, stride, n);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_delays(s, delays, first + i, n - i, -1, offset);
        pick(strips + i * rows + s->reach * WIDE, offset, s->steps, -1);
    }
    drain(strips, rows, s->reach, out + first, s->steps, stride, n);
}

static FOR_EACH_CPU void shift_backward(const Series *s, const float *grad, const int64_t *delays, int64_t first,
                                        int64_t n, float *strips, float *grad_x, float *grad_past)
{
    const int64_t stride = columns(s), rows = 2 * s->reach + s->steps, start = grad_past ? 0 : s->reach;
    int64_t offset[WIDE];
    fill(strips, rows, 0, NULL, s->reach, stride, n);
    fill(strips, rows, s->reach, grad + first, s->steps, stride, n);
    fill(strips, rows, s->reach + s->steps, NULL, s->reach, stride, n);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_delays(s, delays, first + i, n - i, 1, offset);
        pick(strips + i * rows + start * WIDE, offset, s->reach + s->steps - start, 1);
    }
    drain(strips, rows, 0, grad_past ? grad_past + first : NULL, s->reach, stride, n);
    drain(strips, rows, s->reach, grad_x ? grad_x + first : NULL, s->steps, stride, n);
}

static FOR_EACH_CPU void filter(const Series *s, const float *x, const float *past, const float *weights, int64_t first,
                                int64_t n, float *strips, float *taps, float *out)
{
    const int64_t stride = columns(s), rows = s->reach + s->steps;
    fill(strips, rows, 0, past ? past + first : NULL, s->reach, stride, n);
    fill(strips, rows, s->reach, x + first, s->steps, stride, n);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_taps(s, weights, first + i, n - i, taps);
        sum_taps(strips + i * rows + s->reach * WIDE, taps, s->reach, s->steps, -1);
    }
    drain(strips, rows, s->reach, out + first, s->steps, stride, n);
}

/* The gradients of a chunk: `sums` [N, reach + 1] gets that of the weights, if it is not NULL. */
static FOR_EACH_CPU void filter_backward(const Series *s, const float *x, const float *past, const float *weights,
                                         const float *grad, int64_t first, int64_t n, float *strips, float *taps,
                                         float *grad_x, float *grad_past, double *sums)
{
    const int64_t stride = columns(s), reach = s->reach, rows = 2 * reach + s->steps, before = reach + s->steps;
    const int64_t start = grad_past ? 0 : reach; /* the first row whose gradient is needed */
    float *of_x = strips + (n + WIDE - 1) / WIDE * WIDE * rows;
    fill(strips, rows, 0, NULL, reach, stride, n);
    fill(strips, rows, reach, grad + first, s->steps, stride, n);
    fill(strips, rows, before, NULL, reach, stride, n);
    if (sums) {
        fill(of_x, before, 0, past ? past + first : NULL, reach, stride, n);
        fill(of_x, before, reach, x + first, s->steps, stride, n);
    }
    for (int64_t i = 0; i < n; i += WIDE) {
        const float *g = strips + i * rows + reach * WIDE, *v = of_x + i * before + reach * WIDE;
        int64_t k = 0;
        for (; sums && k + AT_ONCE <= reach + 1; k += AT_ONCE)
            sum_products(g, v, s->steps, k, taps + k * WIDE, AT_ONCE);
        for (; sums && k <= reach; k++)
            sum_products(g, v, s->steps, k, taps + k * WIDE, 1);
        for (int64_t c = 0; sums && c < least(n - i, WIDE); c++)
            for (k = 0; k <= reach; k++)
                sums[neuron(s, first + i + c) * (reach + 1) + k] += taps[k * WIDE + c];
        if (!grad_x && !grad_past)
            continue;
        spread_taps(s, weights, first + i, n - i, taps);
        sum_taps(strips + i * rows + start * WIDE, taps, reach, before - start, 1);
    }
    drain(strips, rows, 0, grad_past ? grad_past + first : NULL, reach, stride, n);
    drain(strips, rows, reach, grad_x ? grad_x + first : NULL, s->steps, stride, n);
}

INLINE float *room(int64_t rows, int64_t wide)
{
    return malloc((size_t)(rows * wide) * sizeof(float));
}

/* out [T, B, N, S] of x: each neuron's steps, delays[N] later; past [reach, B, N, S] or NULL (silence). */
EXPORT int delay_shift(const Series *s, const float *x, const float *past, const int64_t *delays, int threads,
                       float *out)
{
    const int64_t rows = s->reach + s->steps, wide = chunk(rows), all = columns(s);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide);
        failed += strips == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < all; first += wide)
            if (strips)
                shift(s, x, past, delays, first, least(wide, all - first), strips, out);
        free(strips);
    }
    return failed;
}

/* The gradients of x and of past (either may be NULL) from that of `out`. */
EXPORT int delay_shift_backward(const Series *s, const float *grad, const int64_t *delays, int threads, float *grad_x,
                                float *grad_past)
{
    const int64_t rows = 2 * s->reach + s->steps, wide = chunk(rows), all = columns(s);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide);
        failed += strips == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < all; first += wide)
            if (strips)
                shift_backward(s, grad, delays, first, least(wide, all - first), strips, grad_x, grad_past);
        free(strips);
    }
    return failed;
}

/* out [T, B, N, S] of x: the sum over k of weights[N, k] * x[t - k]. */
EXPORT int delay_filter(const Series *s, const float *x, const float *past, const float *weights, int threads,
                        float *out)
{
    const int64_t rows = s->reach + s->steps, wide = chunk(rows), all = columns(s);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide), *taps = room(s->reach + 1, WIDE);
        failed += strips == NULL || taps == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < all; first += wide)
            if (strips && taps)
                filter(s, x, past, weights, first, least(wide, all - first), strips, taps, out);
        free(strips);
        free(taps);
    }
    return failed;
}

/* The gradients of x, past and weights (each may be NULL) from that of `out`.
 * grad_weights [parts, N, reach + 1] starts at 0: each part of the batch has sums of its own, so that the number of
 * threads changes no bit. */
EXPORT int delay_filter_backward(const Series *s, const float *x, const float *past, const float *weights,
                                 const float *grad, int64_t parts, int threads, float *grad_x, float *grad_past,
                                 double *grad_weights)
{
    const int64_t rows = 3 * s->reach + 2 * s->steps, wide = chunk(rows), sample = s->neurons * s->sites;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide), *taps = room(s->reach + 1, WIDE);
        failed += strips == NULL || taps == NULL;
#pragma omp for schedule(static)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t last = s->batch * (part + 1) / parts * sample;
            double *sums = grad_weights ? grad_weights + part * s->neurons * (s->reach + 1) : NULL;
            for (int64_t first = s->batch * part / parts * sample; strips && taps && first < last; first += wide)
                filter_backward(s, x, past, weights, grad, first, least(wide, last - first), strips, taps, grad_x,
                                grad_past, sums);
        }
        free(strips);
        free(taps);
    }
    return failed;
}
