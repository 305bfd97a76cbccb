/* Batch norm of every step by its own statistics (its definition is norm/reference.py): one call in place of T of
 * PyTorch's, with the same bits.
 *
 * PyTorch's CPU code sums a channel in double from the first image to the last, squares in float, and normalises as
 * x * alpha + beta, fused or not as its build for this CPU has it; norm/c.py finds out which.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "native/compiler.h"

/* Shared with `_CNorm` of norm/c.py, field by field. */
typedef struct {
    int64_t steps, batch, channels, sites;
    double eps, momentum;
    const float *x;             /* [T, B, C, S] */
    const float *weight, *bias; /* [C] */
    int fused;
} Norm;

enum { CHANNELS = 8 /* whose sums run side by side: each is one long chain of additions */ };

INLINE void some_sums(const Norm *n, const float *x, int64_t channels, const float *mean, double *sum, const int wide)
{
    const int64_t side = wide ? CHANNELS : channels;
    for (int64_t k = 0; k < side; k++)
        sum[k] = 0.0;
    for (int64_t b = 0; b < n->batch; b++)
        for (int64_t i = 0; i < n->sites; i++)
            for (int64_t k = 0; k < side; k++) {
                const float v = x[(b * n->channels + k) * n->sites + i];
                if (mean) {
                    const float away = v - mean[k];
                    sum[k] += away * away;
                } else {
                    sum[k] += v;
                }
            }
}

/* Of one step: the sum of each channel, or with `mean` that of the squares around it; sum [C]. */
INLINE void sums(const Norm *n, int64_t t, const float *mean, double *sum)
{
    const float *x = n->x + t * n->channels * n->batch * n->sites;
    for (int64_t c = 0; c < n->channels; c += CHANNELS) {
        const int64_t some = n->channels - c < CHANNELS ? n->channels - c : CHANNELS;
        double found[CHANNELS];
        if (some == CHANNELS)
            some_sums(n, x + c * n->sites, some, mean ? mean + c : NULL, found, 1);
        else
            some_sums(n, x + c * n->sites, some, mean ? mean + c : NULL, found, 0);
        for (int64_t k = 0; k < some; k++)
            sum[c + k] = found[k];
    }
}

/* From sums of `count` values to the mean, and from those of squares to 1 / sqrt(variance + eps), as PyTorch rounds. */
INLINE float mean_of(double sum, int64_t count) { return (float)(sum / (double)count); }

INLINE float inverse_of(float squares, int64_t count, double eps)
{
    return (float)(1.0 / sqrt((double)(squares / (float)count) + eps));
}

static FOR_EACH_CPU void one_sum(const Norm *n, int64_t t, const float *mean, double *sum) { sums(n, t, mean, sum); }

/* The running averages [C] (or NULL) move T times by statistics [T, C] of `count` values each, as PyTorch does it: the
 * mean's average in float, the variance's in double from float products. */
static void move_averages(const Norm *n, int64_t count, const float *mean, const float *squares, float *running_mean,
                          float *running_var)
{
    const int64_t channels = n->channels;
    const float degrees = (float)(count - 1), share = (float)n->momentum, kept = 1.0f - share;
    for (int64_t i = 0; running_mean && i < n->steps * channels; i++) {
        const int64_t c = i % channels;
        running_mean[c] = share * mean[i] + kept * running_mean[c];
        running_var[c] = (float)((double)share * (squares[i] / degrees) + (double)(kept * running_var[c]));
    }
}

static FOR_EACH_CPU void normalize(const Norm *n, int64_t t, const float *mean, const float *inverse, float *out)
{
    const int64_t size = n->channels * n->sites;
    for (int64_t b = t * n->batch; b < (t + 1) * n->batch; b++)
        for (int64_t c = 0; c < n->channels; c++) {
            const float alpha = inverse[c] * n->weight[c];
            const float *restrict from = n->x + b * size + c * n->sites;
            float *restrict to = out + b * size + c * n->sites;
            if (n->fused) {
                const float beta = fmaf(-mean[c], alpha, n->bias[c]);
                for (int64_t i = 0; i < n->sites; i++)
                    to[i] = fmaf(from[i], alpha, beta);
            } else {
                const float beta = n->bias[c] - mean[c] * alpha;
                for (int64_t i = 0; i < n->sites; i++)
                    to[i] = from[i] * alpha + beta;
            }
        }
}

/* out [T, B, C, S]; mean, squares, inverse [T, C]; scratch [T, C]; the running averages [C] (or NULL) move T times. */
EXPORT void norm_forward(const Norm *n, int threads, float *out, float *mean, float *squares, float *inverse,
                         double *scratch, float *running_mean, float *running_var)
{
    const int64_t channels = n->channels, count = n->batch * n->sites;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++) {
        const int64_t first = t * channels;
        one_sum(n, t, NULL, scratch + first);
        for (int64_t i = first; i < first + channels; i++)
            mean[i] = mean_of(scratch[i], count);
        one_sum(n, t, mean + first, scratch + first);
        for (int64_t i = first; i < first + channels; i++) {
            squares[i] = (float)scratch[i];
            inverse[i] = inverse_of(squares[i], count, n->eps);
        }
        normalize(n, t, mean + first, inverse + first, out);
    }
    move_averages(n, count, mean, squares, running_mean, running_var);
}

/* Of one step: the sums of the gradient, and of the gradient times the centred x; [C] each. */
static FOR_EACH_CPU void grad_sums(const Norm *n, int64_t t, const float *grad, const float *mean, double *dots,
                                   double *totals)
{
    const int64_t size = n->channels * n->sites;
    for (int64_t c = 0; c < n->channels; c++)
        dots[c] = totals[c] = 0.0;
    for (int64_t b = t * n->batch; b < (t + 1) * n->batch; b++)
        for (int64_t c = 0; c < n->channels; c++) {
            const float *restrict x = n->x + b * size + c * n->sites, *restrict g = grad + b * size + c * n->sites;
            double sum = 0.0, dot = 0.0;
#pragma omp simd reduction(+ : sum, dot)
            for (int64_t i = 0; i < n->sites; i++) {
                sum += g[i];
                dot += (double)(x[i] - mean[c]) * g[i];
            }
            totals[c] += sum;
            dots[c] += dot;
        }
}

/* Of one step: the gradient of x, from the sums over all `count` values. */
static FOR_EACH_CPU void grad_apply(const Norm *n, int64_t t, int64_t count, const float *grad, const float *mean,
                                    const float *inverse, const double *dots, const double *totals, float *out)
{
    const int64_t size = n->channels * n->sites;
    for (int64_t b = t * n->batch; b < (t + 1) * n->batch; b++)
        for (int64_t c = 0; c < n->channels; c++) {
            const float *restrict x = n->x + b * size + c * n->sites, *restrict g = grad + b * size + c * n->sites;
            float *restrict to = out + b * size + c * n->sites;
            const float slope = (float)(dots[c] * inverse[c] * inverse[c] / (double)count);
            const float level = (float)(totals[c] / (double)count), scale = inverse[c] * n->weight[c];
            for (int64_t i = 0; i < n->sites; i++)
                to[i] = (g[i] - level - (x[i] - mean[c]) * slope) * scale;
        }
}

/* grad and out [T, B, C, S]; weight and bias [T, C] in double: each step's share. */
EXPORT void norm_backward(const Norm *n, int threads, const float *grad, const float *mean, const float *inverse,
                          float *out, double *weight, double *bias)
{
    const int64_t channels = n->channels, count = n->batch * n->sites;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++) {
        const int64_t first = t * channels;
        grad_sums(n, t, grad, mean + first, weight + first, bias + first);
        grad_apply(n, t, count, grad, mean + first, inverse + first, weight + first, bias + first, out);
        for (int64_t i = first; i < first + channels; i++)
            weight[i] *= inverse[i];
    }
}

/* The parts of the two functions above, for a batch that lies in several processes: they exchange the sums [T, C] in
 * between, and `count` values are in all of them. Sums of squares are around `mean`, if it is not NULL. */
EXPORT void norm_sums(const Norm *n, int threads, const float *mean, double *sum)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++)
        one_sum(n, t, mean ? mean + t * n->channels : NULL, sum + t * n->channels);
}

EXPORT void norm_means(const Norm *n, int64_t count, const double *sum, float *mean)
{
    for (int64_t i = 0; i < n->steps * n->channels; i++)
        mean[i] = mean_of(sum[i], count);
}

EXPORT void norm_apply(const Norm *n, int threads, int64_t count, const double *sum, const float *mean, float *out,
                       float *squares, float *inverse, float *running_mean, float *running_var)
{
    for (int64_t i = 0; i < n->steps * n->channels; i++) {
        squares[i] = (float)sum[i];
        inverse[i] = inverse_of(squares[i], count, n->eps);
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++)
        normalize(n, t, mean + t * n->channels, inverse + t * n->channels, out);
    move_averages(n, count, mean, squares, running_mean, running_var);
}

EXPORT void norm_grad_sums(const Norm *n, int threads, const float *grad, const float *mean, double *dots,
                           double *totals)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++)
        grad_sums(n, t, grad, mean + t * n->channels, dots + t * n->channels, totals + t * n->channels);
}

EXPORT void norm_grad_apply(const Norm *n, int threads, int64_t count, const float *grad, const float *mean,
                            const float *inverse, const double *dots, const double *totals, float *out)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++) {
        const int64_t first = t * n->channels;
        grad_apply(n, t, count, grad, mean + first, inverse + first, dots + first, totals + first, out);
    }
}
