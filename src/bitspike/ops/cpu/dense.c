/* A dense layer on spikes: current = sum of the weights' rows that fired, + bias, dropout, LIF scan; nothing of size
 * [T, B, N] but the output is written. The plain definition is nn/block.py on nn/synapses.py, ops/dropout.py and
 * lif_reference.py; sums of whole numbers are exact in any order, so spikes are equal bit for bit.
 *
 * backward() makes the currents again, block by block, walks back through them, and adds each gradient to the rows that
 * fired.
 */
#include "pack.h"
#include "scan.h"
#include "vector.h"

enum { CACHE = 1 << 17 /* floats of weights, and of scratch, that stay in a second-level cache */ };

/* Shared with dense.py, field by field. */
typedef struct {
    Scan scan; /* of batch * outputs neurons; its current is not used */
    int64_t batch, inputs, outputs;
    int64_t columns; /* outputs, rounded up to 16: the length of a row of weights */
    const uint64_t *bits; /* [T, B, words] */
    const float *values;  /* [T, B, inputs], or NULL where all are 0 or 1 */
    const float *weight;  /* [inputs, columns], what lies behind `outputs` is 0 */
    const float *bias;    /* [columns] or NULL */
    const uint8_t *kept;  /* [T, B, outputs] or NULL */
    float scale;          /* of what is kept */
} Dense;

INLINE void sum_rows(const float *weight, int64_t stride, const int32_t *list, int64_t count, const float *values,
                     float *out, const int vectors)
{
    Vector sum[8];
    for (int v = 0; v < vectors; v++)
        sum[v] = (Vector){0};
    for (int64_t e = 0; e < count; e++) {
        const float *row = weight + list[e] * stride;
        if (values)
            for (int v = 0; v < vectors; v++)
                sum[v] += values[list[e]] * load(row + 8 * v);
        else
            for (int v = 0; v < vectors; v++)
                sum[v] += load(row + 8 * v);
    }
    for (int v = 0; v < vectors; v++)
        store(out + 8 * v, sum[v]);
}

/* The current of neurons `n0` to `n0 + n` of row (t, b). */
INLINE void make_current(const Dense *d, int64_t t, int64_t b, int64_t n0, int64_t n, int32_t *list, float *out)
{
    const int64_t row = t * d->batch + b, words = WORDS(d->inputs);
    const int64_t count = list_events(d->bits + row * words, words, list);
    const float *values = d->values ? d->values + row * d->inputs : NULL;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        sum_rows(d->weight + n0 + i, d->columns, list, count, values, out + i, 8);
    for (; i < n; i += 16)
        sum_rows(d->weight + n0 + i, d->columns, list, count, values, out + i, 2);
    if (d->bias)
        add(out, d->bias + n0, n);
    if (d->kept) {
        const uint8_t *kept = d->kept + row * d->outputs + n0;
        for (i = 0; i < n; i++)
            out[i] = kept[i] ? out[i] * d->scale : 0.0f;
    }
}

static FOR_EACH_CPU void forward_block(const Dense *d, int64_t b, int64_t n0, int64_t n, int32_t *list, float *spikes,
                                       float *membrane, float *u_last)
{
    const int64_t first = b * d->outputs + n0, neurons = d->scan.neurons;
    Block block;
    float current[BLOCK + 16];
    load_block(&d->scan, first, n, &block);
    for (int64_t t = 0; t < d->scan.steps; t++) {
        make_current(d, t, b, n0, n, list, current);
        advance(&block, current, n);
        copy(spikes + t * neurons + first, block.z, n);
        if (membrane)
            copy(membrane + t * neurons + first, block.u, n);
    }
    copy(u_last + first, block.u, n);
}

/* Neurons a block takes, so that their weights (and `steps` rows of scratch) stay in cache. */
static int64_t block_width(int64_t inputs, int64_t steps, int64_t outputs)
{
    int64_t width = CACHE / (inputs > steps ? inputs : steps);
    width = width >= 64 ? width / 64 * 64 : width / 16 * 16;
    width = width > BLOCK ? BLOCK : width < 16 ? 16 : width;
    return width < outputs ? width : (outputs + 15) / 16 * 16;
}

/* spikes [T, B, N]; membrane [T, B, N] or NULL; u_last [B, N]. Returns how many threads found no memory. */
EXPORT int dense_forward(const Dense *d, int threads, float *spikes, float *membrane, float *u_last)
{
    const int64_t width = block_width(d->inputs, 1, d->outputs), blocks = (d->outputs + width - 1) / width;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        int32_t *list = malloc((size_t)d->inputs * sizeof(int32_t) + 1);
        failed += list == NULL;
#pragma omp for schedule(static)
        for (int64_t task = 0; task < blocks * d->batch; task++) {
            const int64_t n0 = task / d->batch * width, rest = d->outputs - n0;
            if (list)
                forward_block(d, task % d->batch, n0, rest < width ? rest : width, list, spikes, membrane, u_last);
        }
        free(list);
    }
    return failed;
}

INLINE void add_to_rows(const float *g, float *weight, int64_t stride, const int32_t *list, int64_t count,
                        const float *values, const int vectors)
{
    Vector from[8];
    for (int v = 0; v < vectors; v++)
        from[v] = load(g + 8 * v);
    for (int64_t e = 0; e < count; e++) {
        float *row = weight + list[e] * stride;
        const float x = values ? values[list[e]] : 1.0f;
        for (int v = 0; v < vectors; v++)
            store(row + 8 * v, load(row + 8 * v) + x * from[v]);
    }
}

static FOR_EACH_CPU void backward_block(const Dense *d, int64_t b, int64_t n0, int64_t n, const Gradients *grad,
                                        float *weight, float *bias, int32_t *list, float *scratch, int64_t width)
{
    const int64_t first = b * d->outputs + n0, words = WORDS(d->inputs), steps = d->scan.steps;
    Block block;
    float sum[BLOCK] = {0};
    load_block(&d->scan, first, n, &block);
    for (int64_t t = 0; t < steps; t++) {
        float *row = scratch + t * width;
        make_current(d, t, b, n0, n, list, row);
        advance(&block, row, n);
        copy(row, block.u, n);
    }
    walk_back(&d->scan, first, n, grad, block.beta, scratch, width, scratch, width);
    for (int64_t t = 0; t < steps; t++) {
        const int64_t at = t * d->batch + b;
        float *g = scratch + t * width;
        if (d->kept)
            for (int64_t i = 0; i < n; i++)
                g[i] = d->kept[at * d->outputs + n0 + i] ? g[i] * d->scale : 0.0f;
        for (int64_t i = n; i % 16; i++)
            g[i] = 0.0f;
        add(sum, g, n);
        if (grad->current)
            copy(grad->current + t * d->scan.neurons + first, g, n);
        const int64_t count = list_events(d->bits + at * words, words, list);
        const float *values = d->values ? d->values + at * d->inputs : NULL;
        int64_t i = 0;
        for (; i + 64 <= n; i += 64)
            add_to_rows(g + i, weight + n0 + i, d->columns, list, count, values, 8);
        for (; i < n; i += 16)
            add_to_rows(g + i, weight + n0 + i, d->columns, list, count, values, 2);
    }
    add(bias + n0, sum, n);
}

/* weight [groups, inputs, columns] and bias [groups, columns], zero before, each group's share of the batch;
 * grad->current may be NULL. Returns how many threads found no memory. */
EXPORT int dense_backward(const Dense *d, int threads, const Gradients *grad, int64_t groups, float *weight,
                          float *bias)
{
    const int64_t width = block_width(d->inputs, d->scan.steps, d->outputs);
    const int64_t blocks = (d->outputs + width - 1) / width;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        int32_t *list = malloc((size_t)d->inputs * sizeof(int32_t) + 1);
        float *scratch = malloc((size_t)d->scan.steps * (size_t)width * sizeof(float));
        failed += list == NULL || scratch == NULL;
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < blocks * groups; task++) {
            const int64_t n0 = task / groups * width, rest = d->outputs - n0, group = task % groups;
            for (int64_t b = group * d->batch / groups; list && scratch && b < (group + 1) * d->batch / groups; b++)
                backward_block(d, b, n0, rest < width ? rest : width, grad, weight + group * d->inputs * d->columns,
                               bias + group * d->columns, list, scratch, width);
        }
        free(scratch);
        free(list);
    }
    return failed;
}
