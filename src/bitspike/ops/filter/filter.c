/* What spikes pass before a synapse: dropout, delays by whole steps or by a sum over taps, gains; and their gradients.
 * The definition is filter/reference.py.
 *
 * A step is a row of columns: sample, neuron, site. Rows of a large batch lie so far apart that a few of them push each
 * other out of the cache. So a chunk of columns is copied into strips, [rows, WIDE] each, changed there in place and
 * copied out again.
 */
#include <stdlib.h>
#include <string.h>

#include "dropout/draw.h"
#include "native/compiler.h"

enum {
    WIDE = 16,     /* columns of a strip */
    AT_ONCE = 4,   /* rows or taps whose sums run side by side */
    STRIPS = 32,   /* of a chunk, at most: 2 kB of each step are read at once */
    ROOM = 4096,   /* rows of all strips of a chunk: 256 kB, for the second cache */
    PER_BLOCK = 4, /* steps that share a draw of dropout */
};

typedef float Row __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t Words __attribute__((vector_size(WIDE * sizeof(int32_t))));
typedef uint8_t Bytes __attribute__((vector_size(WIDE)));

/* Shared with `_CFilter` of filter/c.py, field by field. Before the first of `steps` there are `reach` earlier ones,
 * past [reach, B, N, S]: silence if it is NULL. weights [N, reach + 1]; gains [N] or NULL.
 * kept [(steps + 3) / 4, B, N, S]: bits 0 to 3 say what dropout keeps of four steps, times `scale`; NULL without it. */
typedef struct {
    int64_t steps, reach, batch, neurons, sites;
    const float *past, *weights, *gains;
    uint8_t *kept;
    float scale;
} Filter;

INLINE int64_t columns(const Filter *f)
{
    return f->batch * f->neurons * f->sites;
}

INLINE int64_t neuron(const Filter *f, int64_t column)
{
    return column / f->sites % f->neurons;
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

INLINE Row load(const float *from)
{
    Row row;
    memcpy(&row, from, sizeof row);
    return row;
}

INLINE void store(float *to, Row row)
{
    memcpy(to, &row, sizeof row);
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

/* row * scale where the bit of a column is set, else 0. */
INLINE Row dropped(Row row, const uint8_t *kept, int64_t n, int bit, float scale)
{
    Bytes bytes = {0};
    if (n < WIDE)
        memcpy(&bytes, kept, (size_t)n);
    else
        memcpy(&bytes, kept, sizeof bytes);
    const Words mask = -((__builtin_convertvector(bytes, Words) >> bit) & 1);
    return (Row)((Words)(row * scale) & mask);
}

/* In place, the rows of all steps from row `at` on: dropout, as the filter keeps it of the columns from `first` on. */
INLINE void drop(const Filter *f, float *strips, int64_t rows, int64_t at, int64_t first, int64_t n)
{
    for (int64_t t = 0; f->kept && t < f->steps; t++) {
        const uint8_t *kept = f->kept + t / PER_BLOCK * columns(f) + first;
        for (int64_t i = 0; i < n; i += WIDE) {
            float *row = strips + i * rows + (at + t) * WIDE;
            store(row, dropped(load(row), kept + i, n - i, (int)(t % PER_BLOCK), f->scale));
        }
    }
}

/* In place: row[t] = row[t + offset of the column] * gain, for `count` rows from the last to the first (way -1) or the
 * other way round (way 1), so that no row is read after it is written. */
INLINE void pick(float *row, const int64_t *offset, const float *gain, int64_t count, const int64_t way)
{
    row += way < 0 ? (count - 1) * WIDE : 0;
    for (int64_t t = 0; t < count; t++, row += way * WIDE)
        for (int64_t i = 0; i < WIDE; i++)
            row[i] = row[offset[i] + i] * gain[i];
}

/* `many` rows (1 or AT_ONCE): row[t] = gain * (sum over k, from 0 on, of taps[k] * row[t + k * way]). */
INLINE void sum_rows(float *row, const float *taps, Row gain, int64_t reach, const int64_t way, const int many)
{
    Row sum[AT_ONCE];
    const float *from = row;
    for (int m = 0; m < many; m++)
        sum[m] = load(taps) * load(from + m * WIDE);
    for (int64_t k = 1; k <= reach; k++) {
        const Row tap = load(taps + k * WIDE);
        from += way * WIDE;
        for (int m = 0; m < many; m++)
            sum[m] += tap * load(from + m * WIDE);
    }
    for (int m = 0; m < many; m++)
        store(row + m * WIDE, sum[m] * gain);
}

/* In place, in the order of `pick`. */
INLINE void sum_taps(float *rows, const float *taps, Row gain, int64_t reach, int64_t count, const int64_t way)
{
    int64_t t = 0;
    for (; t + AT_ONCE <= count; t += AT_ONCE)
        sum_rows(rows + (way < 0 ? count - AT_ONCE - t : t) * WIDE, taps, gain, reach, way, AT_ONCE);
    for (; t < count; t++)
        sum_rows(rows + (way < 0 ? count - 1 - t : t) * WIDE, taps, gain, reach, way, 1);
}

/* Of `many` taps (1 or AT_ONCE) from k on: the sum over t of grad[t] * x[t - k]. */
INLINE void sum_products(const float *grad, const float *x, int64_t steps, int64_t k, float *out, const int many)
{
    Row sum[AT_ONCE] = {0};
    for (int64_t t = 0; t < steps; t++) {
        const Row g = load(grad + t * WIDE);
        for (int m = 0; m < many; m++)
            sum[m] += g * load(x + (t - k - m) * WIDE);
    }
    for (int m = 0; m < many; m++)
        store(out + m * WIDE, sum[m]);
}

/* offset [WIDE]: how many floats away the row is that a column takes. */
INLINE void spread_delays(const Filter *f, const int64_t *delays, int64_t first, int64_t n, int64_t way, int64_t *offset)
{
    for (int64_t i = 0; i < WIDE; i++)
        offset[i] = i < n ? way * delays[neuron(f, first + i)] * WIDE : 0;
}

/* taps [reach + 1, WIDE]: each column's weights. */
INLINE void spread_taps(const Filter *f, int64_t first, int64_t n, float *taps)
{
    for (int64_t i = 0; i < WIDE; i++) {
        const float *of_neuron = f->weights + neuron(f, first + (i < n ? i : 0)) * (f->reach + 1);
        for (int64_t k = 0; k <= f->reach; k++)
            taps[k * WIDE + i] = of_neuron[k];
    }
}

/* gain [WIDE]: each column's gain. */
INLINE void spread_gains(const Filter *f, int64_t first, int64_t n, float *gain)
{
    for (int64_t i = 0; i < WIDE; i++)
        gain[i] = f->gains && i < n ? f->gains[neuron(f, first + i)] : 1.0f;
}

/* A chunk's strips: the steps before the first, then the input, after dropout. */
INLINE void fill_input(const Filter *f, const float *x, int64_t first, int64_t n, float *strips, int64_t rows)
{
    const int64_t stride = columns(f);
    fill(strips, rows, 0, f->past ? f->past + first : NULL, f->reach, stride, n);
    fill(strips, rows, f->reach, x + first, f->steps, stride, n);
    drop(f, strips, rows, f->reach, first, n);
}

/* A chunk's strips: the gradient of the output, with zeros before and after it. */
INLINE void fill_gradient(const Filter *f, const float *grad, int64_t first, int64_t n, float *strips, int64_t rows)
{
    const int64_t stride = columns(f);
    fill(strips, rows, 0, NULL, f->reach, stride, n);
    fill(strips, rows, f->reach, grad + first, f->steps, stride, n);
    fill(strips, rows, f->reach + f->steps, NULL, f->reach, stride, n);
}

/* Where a chunk's gradients go; either may be NULL. */
INLINE void drain_gradient(const Filter *f, float *strips, int64_t rows, int64_t first, int64_t n, float *grad_x,
                           float *grad_past)
{
    const int64_t stride = columns(f);
    drain(strips, rows, 0, grad_past ? grad_past + first : NULL, f->reach, stride, n);
    drop(f, strips, rows, f->reach, first, n);
    drain(strips, rows, f->reach, grad_x ? grad_x + first : NULL, f->steps, stride, n);
}

static FOR_EACH_CPU void shift(const Filter *f, const float *x, const int64_t *delays, int64_t first, int64_t n,
                               float *strips, float *out)
{
    const int64_t rows = f->reach + f->steps;
    int64_t offset[WIDE];
    float gain[WIDE];
    fill_input(f, x, first, n, strips, rows);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_delays(f, delays, first + i, n - i, -1, offset);
        spread_gains(f, first + i, n - i, gain);
        pick(strips + i * rows + f->reach * WIDE, offset, gain, f->steps, -1);
    }
    drain(strips, rows, f->reach, out + first, f->steps, columns(f), n);
}

static FOR_EACH_CPU void shift_backward(const Filter *f, const float *grad, const int64_t *delays, int64_t first,
                                        int64_t n, float *strips, float *grad_x, float *grad_past)
{
    const int64_t rows = 2 * f->reach + f->steps, start = grad_past ? 0 : f->reach;
    int64_t offset[WIDE];
    float gain[WIDE];
    fill_gradient(f, grad, first, n, strips, rows);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_delays(f, delays, first + i, n - i, 1, offset);
        spread_gains(f, first + i, n - i, gain);
        pick(strips + i * rows + start * WIDE, offset, gain, f->reach + f->steps - start, 1);
    }
    drain_gradient(f, strips, rows, first, n, grad_x, grad_past);
}

static FOR_EACH_CPU void draw_kept(const Filter *f, const Draw *draws, int64_t first, int64_t n)
{
    for (int64_t block = 0; block * PER_BLOCK < f->steps; block++)
        draw(draws, first, n, block, f->kept + block * columns(f) + first);
}

static FOR_EACH_CPU void soft(const Filter *f, const float *x, int64_t first, int64_t n, float *strips, float *taps,
                              float *held, float *out)
{
    const int64_t stride = columns(f), rows = f->reach + f->steps;
    float gain[WIDE];
    fill_input(f, x, first, n, strips, rows);
    drain(strips, rows, f->steps, held ? held + first : NULL, f->reach, stride, n);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_taps(f, first + i, n - i, taps);
        spread_gains(f, first + i, n - i, gain);
        sum_taps(strips + i * rows + f->reach * WIDE, taps, load(gain), f->reach, f->steps, -1);
    }
    drain(strips, rows, f->reach, out + first, f->steps, stride, n);
}

/* The gradients of a chunk. `sums` [N, reach + 1], if it is not NULL, gets the sums over time of the output's gradient
 * times the input k steps before it: what the gradients of weights and gains are made of. */
static FOR_EACH_CPU void soft_backward(const Filter *f, const float *x, const float *grad, int64_t first, int64_t n,
                                       float *strips, float *taps, float *grad_x, float *grad_past, double *sums)
{
    const int64_t reach = f->reach, rows = 2 * reach + f->steps, before = reach + f->steps;
    const int64_t start = grad_past ? 0 : reach; /* the first row whose gradient is needed */
    float *of_x = strips + (n + WIDE - 1) / WIDE * WIDE * rows, gain[WIDE];
    fill_gradient(f, grad, first, n, strips, rows);
    if (sums)
        fill_input(f, x, first, n, of_x, before);
    for (int64_t i = 0; i < n; i += WIDE) {
        const float *g = strips + i * rows + reach * WIDE, *v = of_x + i * before + reach * WIDE;
        int64_t k = 0;
        for (; sums && k + AT_ONCE <= reach + 1; k += AT_ONCE)
            sum_products(g, v, f->steps, k, taps + k * WIDE, AT_ONCE);
        for (; sums && k <= reach; k++)
            sum_products(g, v, f->steps, k, taps + k * WIDE, 1);
        for (int64_t c = 0; sums && c < least(n - i, WIDE); c++)
            for (k = 0; k <= reach; k++)
                sums[neuron(f, first + i + c) * (reach + 1) + k] += taps[k * WIDE + c];
        if (!grad_x && !grad_past)
            continue;
        spread_taps(f, first + i, n - i, taps);
        spread_gains(f, first + i, n - i, gain);
        sum_taps(strips + i * rows + start * WIDE, taps, load(gain), reach, before - start, 1);
    }
    drain_gradient(f, strips, rows, first, n, grad_x, grad_past);
}

/* Rows begin where a cache line does, since a vector that lies in two of them is loaded twice. */
INLINE float *room(int64_t rows, int64_t wide)
{
    return aligned_alloc(sizeof(Row), (size_t)(rows * wide) * sizeof(float));
}

/* out [T, B, N, S] of x: each neuron's steps, delays[N] later, times its gain. */
EXPORT int filter_shift(const Filter *f, const float *x, const int64_t *delays, int threads, float *out)
{
    const int64_t rows = f->reach + f->steps, wide = chunk(rows), all = columns(f);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide);
        failed += strips == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < all; first += wide)
            if (strips)
                shift(f, x, delays, first, least(wide, all - first), strips, out);
        free(strips);
    }
    return failed;
}

/* The gradients of x and of past (either may be NULL) from that of `out`. */
EXPORT int filter_shift_backward(const Filter *f, const float *grad, const int64_t *delays, int threads, float *grad_x,
                                 float *grad_past)
{
    const int64_t rows = 2 * f->reach + f->steps, wide = chunk(rows), all = columns(f);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide);
        failed += strips == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < all; first += wide)
            if (strips)
                shift_backward(f, grad, delays, first, least(wide, all - first), strips, grad_x, grad_past);
        free(strips);
    }
    return failed;
}

/* out [T, B, N, S] of x: the sum over k of weights[N, k] * x[t - k] after dropout, times the gain. With `draws`, what
 * dropout keeps is drawn into `kept`. held [reach, B, N, S], if it is not NULL, gets the last steps after dropout. */
EXPORT int filter_soft(const Filter *f, const float *x, const Draw *draws, int threads, float *held, float *out)
{
    const int64_t rows = f->reach + f->steps, wide = chunk(rows), all = columns(f);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide), *taps = room(f->reach + 1, WIDE);
        failed += strips == NULL || taps == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < all; first += wide) {
            if (draws)
                draw_kept(f, draws, first, least(wide, all - first));
            if (strips && taps)
                soft(f, x, first, least(wide, all - first), strips, taps, held, out);
        }
        free(strips);
        free(taps);
    }
    return failed;
}

/* The gradients of x and past (each may be NULL) from that of `out`, and the sums of `soft_backward`.
 * sums [parts, N, reach + 1] starts at 0: each part of the batch has sums of its own, so that the number of threads
 * changes no bit. */
EXPORT int filter_soft_backward(const Filter *f, const float *x, const float *grad, int64_t parts, int threads,
                                float *grad_x, float *grad_past, double *sums)
{
    const int64_t rows = 3 * f->reach + 2 * f->steps, wide = chunk(rows), sample = f->neurons * f->sites;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *strips = room(rows, wide), *taps = room(f->reach + 1, WIDE);
        failed += strips == NULL || taps == NULL;
#pragma omp for schedule(static)
        for (int64_t part = 0; part < parts; part++) {
            const int64_t last = f->batch * (part + 1) / parts * sample;
            double *own = sums ? sums + part * f->neurons * (f->reach + 1) : NULL;
            for (int64_t first = f->batch * part / parts * sample; strips && taps && first < last; first += wide)
                soft_backward(f, x, grad, first, least(wide, last - first), strips, taps, grad_x, grad_past, own);
        }
        free(strips);
        free(taps);
    }
    return failed;
}
