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

INLINE void sums(const Norm *n, const float *x, int64_t channels, const float *mean, double *sum, const int wide)
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

/* Of one step: mean, the sum of squares around it, and 1 / sqrt(variance + eps), rounded where PyTorch rounds. */
static FOR_EACH_CPU void statistics(const Norm *n, int64_t t, float *mean, float *squares, float *inverse)
{
    const int64_t count = n->batch * n->sites;
    const float *x = n->x + t * n->channels * count;
    for (int64_t c = 0; c < n->channels; c += CHANNELS) {
        const int64_t some = n->channels - c < CHANNELS ? n->channels - c : CHANNELS;
        double sum[CHANNELS];
        if (some == CHANNELS)
            sums(n, x + c * n->sites, some, NULL, sum, 1);
        else
            sums(n, x + c * n->sites, some, NULL, sum, 0);
        for (int64_t k = 0; k < some; k++)
            mean[c + k] = (float)(sum[k] / (double)count);
        if (some == CHANNELS)
            sums(n, x + c * n->sites, some, mean + c, sum, 1);
        else
            sums(n, x + c * n->sites, some, mean + c, sum, 0);
        for (int64_t k = 0; k < some; k++) {
            squares[c + k] = (float)sum[k];
            inverse[c + k] = (float)(1.0 / sqrt((double)(squares[c + k] / (float)count) + n->eps));
        }
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

/* out [T, B, C, S]; mean, squares, inverse [T, C]; the running averages [C] (or NULL) move T times. */
EXPORT void norm_forward(const Norm *n, int threads, float *out, float *mean, float *squares, float *inverse,
                         float *running_mean, float *running_var)
{
    const int64_t channels = n->channels;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++) {
        statistics(n, t, mean + t * channels, squares + t * channels, inverse + t * channels);
        normalize(n, t, mean + t * channels, inverse + t * channels, out);
    }
    /* As PyTorch does it: the mean's average in float, the variance's in double from float products. */
    const float degrees = (float)(n->batch * n->sites - 1), share = (float)n->momentum, kept = 1.0f - share;
    for (int64_t i = 0; running_mean && i < n->steps * channels; i++) {
        const int64_t c = i % channels;
        running_mean[c] = share * mean[i] + kept * running_mean[c];
        running_var[c] = (float)((double)share * (squares[i] / degrees) + (double)(kept * running_var[c]));
    }
}

static FOR_EACH_CPU void backward_step(const Norm *n, int64_t t, const float *grad, const float *mean,
                                       const float *inverse, float *out, double *weight, double *bias)
{
    const int64_t size = n->channels * n->sites, count = n->batch * n->sites;
    for (int64_t c = 0; c < n->channels; c++)
        weight[c] = bias[c] = 0.0;
    for (int64_t b = t * n->batch; b < (t + 1) * n->batch; b++)
        for (int64_t c = 0; c < n->channels; c++) {
            const float *restrict x = n->x + b * size + c * n->sites, *restrict g = grad + b * size + c * n->sites;
            double sum = 0.0, dot = 0.0;
#pragma omp simd reduction(+ : sum, dot)
            for (int64_t i = 0; i < n->sites; i++) {
                sum += g[i];
                dot += (double)(x[i] - mean[c]) * g[i];
            }
            bias[c] += sum;
            weight[c] += dot;
        }
    for (int64_t b = t * n->batch; b < (t + 1) * n->batch; b++)
        for (int64_t c = 0; c < n->channels; c++) {
            const float *restrict x = n->x + b * size + c * n->sites, *restrict g = grad + b * size + c * n->sites;
            float *restrict to = out + b * size + c * n->sites;
            const float slope = (float)(weight[c] * inverse[c] * inverse[c] / (double)count);
            const float level = (float)(bias[c] / (double)count), scale = inverse[c] * n->weight[c];
            for (int64_t i = 0; i < n->sites; i++)
                to[i] = (g[i] - level - (x[i] - mean[c]) * slope) * scale;
        }
    for (int64_t c = 0; c < n->channels; c++)
        weight[c] *= inverse[c];
}

/* grad and out [T, B, C, S]; weight and bias [T, C] in double: each step's share. */
EXPORT void norm_backward(const Norm *n, int threads, const float *grad, const float *mean, const float *inverse,
                          float *out, double *weight, double *bias)
{
    const int64_t channels = n->channels;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t t = 0; t < n->steps; t++)
        backward_step(n, t, grad, mean + t * channels, inverse + t * channels, out, weight + t * channels,
                      bias + t * channels);
}
