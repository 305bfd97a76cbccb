/* Delays by whole steps, and their gradients. The definition is `shifted` of delay/reference.py. */
#include "filter/strips.h"

/* In place: row[t] = row[t + offset of the column], for `count` rows from the last to the first (way -1) or the
 * other way round (way 1), so that no row is read after it is written. */
INLINE void pick(float *row, const int64_t *offset, int64_t count, const int64_t way)
{
    row += way < 0 ? (count - 1) * WIDE : 0;
    for (int64_t t = 0; t < count; t++, row += way * WIDE)
        for (int64_t i = 0; i < WIDE; i++)
            row[i] = row[offset[i] + i];
}

/* offset [WIDE]: how many floats away the row is that a column takes. */
INLINE void spread_delays(const Filter *f, const int64_t *delays, int64_t first, int64_t n, int64_t way, int64_t *offset)
{
    for (int64_t i = 0; i < WIDE; i++)
        offset[i] = i < n ? way * delays[neuron(f, first + i)] * WIDE : 0;
}

static FOR_EACH_CPU void shift(const Filter *f, const float *x, const int64_t *delays, int64_t first, int64_t n,
                               float *strips, float *out)
{
    const int64_t rows = f->reach + f->steps;
    int64_t offset[WIDE];
    fill_input(f, x, first, n, strips, rows);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_delays(f, delays, first + i, n - i, -1, offset);
        pick(strips + i * rows + f->reach * WIDE, offset, f->steps, -1);
    }
    drain(strips, rows, f->reach, out + first, f->steps, columns(f), n);
}

static FOR_EACH_CPU void shift_backward(const Filter *f, const float *grad, const int64_t *delays, int64_t first,
                                        int64_t n, float *strips, float *grad_x, float *grad_past)
{
    const int64_t rows = 2 * f->reach + f->steps, start = grad_past ? 0 : f->reach;
    int64_t offset[WIDE];
    fill_gradient(f, grad, first, n, strips, rows);
    for (int64_t i = 0; i < n; i += WIDE) {
        spread_delays(f, delays, first + i, n - i, 1, offset);
        pick(strips + i * rows + start * WIDE, offset, f->reach + f->steps - start, 1);
    }
    drain_gradient(f, strips, rows, first, n, grad_x, grad_past);
}

/* out [T, B, N, S] of x: each neuron's steps, delays[N] later. */
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
