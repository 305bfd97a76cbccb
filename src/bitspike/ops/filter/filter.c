/* What spikes pass before a synapse in training: dropout, delays by a sum over taps, gains; and their gradients. The
 * definition is filter/reference.py.
 */
#include "dropout/draw.h"
#include "filter/strips.h"

enum {
    AT_ONCE = 4, /* rows or taps whose sums run side by side */
    PART = 32,   /* steps that are added up by themselves, so that sums of thousands of steps stay exact to float32 */
};

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
    for (int64_t start = 0; start < steps; start += PART) {
        Row part[AT_ONCE] = {0};
        for (int64_t t = start; t < least(steps, start + PART); t++) {
            const Row g = load(grad + t * WIDE);
            for (int m = 0; m < many; m++)
                part[m] += g * load(x + (t - k - m) * WIDE);
        }
        for (int m = 0; m < many; m++)
            sum[m] += part[m];
    }
    for (int m = 0; m < many; m++)
        store(out + m * WIDE, sum[m]);
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
