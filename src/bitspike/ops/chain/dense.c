/* A dense layer on spikes: current = sum of the weights' rows that fired, + bias, dropout, LIF scan; nothing of size
 * [T, B, N] but the output is written. The plain definition is nn/block.py on nn/synapses.py, dropout/reference.py and
 * lif/reference.py; sums of whole numbers are exact in any order, so spikes are equal bit for bit.
 *
 * backward() makes the currents again, block by block, walks back through them, and adds each gradient to the rows that
 * fired.
 */
#include "dropout/draw.h"
#include "product/pack.h"
#include "lif/scan.h"
#include "native/vector.h"

enum { CACHE = 1 << 19 /* bytes of weights, and of scratch, that stay in a second-level cache */ };

/* Shared with `_CDense` of chain/c.py, field by field. */
typedef struct {
    Scan scan; /* of batch * outputs neurons; its current is not used */
    int64_t batch, inputs, outputs;
    int64_t columns; /* at least outputs rounded up to 16: the length of a row of weights */
    const uint64_t *bits; /* [2, T, B, words] (pack.h) */
    const float *values;  /* [T, B, inputs], or NULL where all are 0 or 1: the second plane is not read then */
    const int16_t *weight; /* [inputs, columns]: -1 or 1, and 0 behind `outputs` */
    const float *bias;    /* [columns] or NULL */
    const uint8_t *kept;  /* [T, B, outputs], the mask of dropout; NULL: from `draw`, or all if its `below` is 0 */
    Draw draw;
    float scale; /* of what is kept */
} Dense;

/* Sums of signs over 16 * vectors columns; at most 2^15 - 1 of them, or a short would not hold it. */
INLINE void sum_signs(const int16_t *weight, int64_t stride, const Events *e, float *restrict out, const int vectors)
{
    Shorts sum[8];
    int16_t flat[128];
    for (int v = 0; v < vectors; v++)
        sum[v] = (Shorts){0};
    for (int64_t k = 0; k < e->ones; k++)
        for (int v = 0; v < vectors; v++)
            sum[v] += load_shorts(weight + e->list[k] * stride + 16 * v);
    for (int v = 0; v < vectors; v++)
        memcpy(flat + 16 * v, &sum[v], sizeof sum[v]);
    for (int i = 0; i < 16 * vectors; i++)
        out[i] = (float)flat[i];
    for (int64_t k = 0; k < e->others; k++) {
        const float x = e->values[e->more[k] * e->apart];
        for (int i = 0; i < 16 * vectors; i++)
            out[i] += x * (float)weight[e->more[k] * stride + i];
    }
}

/* The sum of the rows of floats, each times its value, over 8 * vectors columns. */
INLINE void sum_rows(const float *rows, int64_t stride, const Events *e, float *restrict out, const int vectors)
{
    Vector sum[8];
    for (int v = 0; v < vectors; v++)
        sum[v] = (Vector){0};
    for (int64_t k = 0; k < e->ones; k++)
        for (int v = 0; v < vectors; v++)
            sum[v] += load(rows + e->list[k] * stride + 8 * v);
    for (int64_t k = 0; k < e->others; k++) {
        const float x = e->values[e->more[k] * e->apart];
        for (int v = 0; v < vectors; v++)
            sum[v] += x * load(rows + e->more[k] * stride + 8 * v);
    }
    for (int v = 0; v < vectors; v++)
        store(out + 8 * v, sum[v]);
}

INLINE void sum_all_rows(const float *rows, int64_t stride, const Events *e, float *restrict out, int64_t n)
{
    int64_t i = 0;
    for (; i + 64 <= n; i += 64)
        sum_rows(rows + i, stride, e, out + i, 8);
    for (; i < n; i += 16)
        sum_rows(rows + i, stride, e, out + i, 2);
}

/* What dropout keeps of four steps, as the bits 0 to 3. */
INLINE void keep_four(const Dense *d, int64_t block, int64_t first, int64_t n, uint8_t *restrict four)
{
    if (!d->kept) {
        draw(&d->draw, first, n, block, four);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        four[i] = 0;
    for (int64_t t = 4 * block; t < d->scan.steps && t < 4 * block + 4; t++)
        for (int64_t i = 0; i < n; i++)
            four[i] |= (uint8_t)(d->kept[t * d->scan.neurons + first + i] << t % 4);
}

INLINE void drop(const uint8_t *restrict four, int64_t t, float scale, float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = four[i] & 1 << t % 4 ? x[i] * scale : 0.0f;
}

INLINE int drops(const Dense *d)
{
    return d->kept || d->draw.below;
}

/* The current of neurons `n0` to `n0 + n` of row (t, b), before dropout. */
INLINE void make_current(const Dense *d, int64_t t, int64_t b, int64_t n0, int64_t n, int32_t *list, float *out)
{
    const int64_t row = t * d->batch + b, words = WORDS(d->inputs);
    const uint64_t *bits = d->bits + row * words, *more = bits + d->scan.steps * d->batch * words;
    const float *values = d->values ? d->values + row * d->inputs : NULL;
    const Events e = list_events(list, d->inputs, bits, more, values, 1);
    int64_t i = 0;
    for (; i + 128 <= n; i += 128)
        sum_signs(d->weight + n0 + i, d->columns, &e, out + i, 8);
    for (; i < n; i += 16)
        sum_signs(d->weight + n0 + i, d->columns, &e, out + i, 1);
    if (d->bias)
        add(out, d->bias + n0, n);
}

static FOR_EACH_CPU void forward_block(const Dense *d, int64_t b, int64_t n0, int64_t n, int32_t *list, float *spikes,
                                       float *membrane, float *u_last)
{
    const int64_t first = b * d->outputs + n0, neurons = d->scan.neurons;
    Block block;
    float current[BLOCK];
    uint8_t four[BLOCK];
    load_block(&d->scan, first, n, &block);
    for (int64_t t = 0; t < d->scan.steps; t++) {
        make_current(d, t, b, n0, n, list, current);
        if (drops(d)) {
            if (t % 4 == 0)
                keep_four(d, t / 4, first, n, four);
            drop(four, t, d->scale, current, n);
        }
        advance(&block, current, n);
        copy(spikes + t * neurons + first, block.z, n);
        if (membrane)
            copy(membrane + t * neurons + first, block.u, n);
    }
    copy(u_last + first, block.u, n);
}

/* Neurons a block takes, so that `bytes` for each of them stay in cache. */
static int64_t block_width(int64_t bytes, int64_t outputs)
{
    int64_t width = CACHE / bytes;
    width = width >= 128 ? width / 128 * 128 : width / 16 * 16;
    width = width > BLOCK ? BLOCK : width < 16 ? 16 : width;
    return width < outputs ? width : (outputs + 15) / 16 * 16;
}

/* spikes [T, B, N]; membrane [T, B, N] or NULL; u_last [B, N]. Returns how many threads found no memory. */
EXPORT int dense_forward(const Dense *d, int threads, float *spikes, float *membrane, float *u_last)
{
    const int64_t width = block_width(d->inputs * (int64_t)sizeof(int16_t), d->outputs);
    const int64_t blocks = (d->outputs + width - 1) / width;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        int32_t *list = malloc((size_t)LIST_ROOM(d->inputs) * sizeof(int32_t));
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

static FOR_EACH_CPU void backward_block(const Dense *d, int64_t b, int64_t n0, int64_t n, const Gradients *grad,
                                        const uint64_t *times, float *weight, float *bias, int32_t *list,
                                        float *scratch, uint8_t *four, int64_t apart)
{
    const int64_t first = b * d->outputs + n0, steps = d->scan.steps;
    Block block;
    float sum[BLOCK + 16] = {0};
    load_block(&d->scan, first, n, &block);
    for (int64_t t = 0; t < steps; t++) {
        float *row = scratch + t * apart;
        make_current(d, t, b, n0, n, list, row);
        if (drops(d)) {
            if (t % 4 == 0)
                keep_four(d, t / 4, first, n, four + t / 4 * apart);
            drop(four + t / 4 * apart, t, d->scale, row, n);
        }
        advance(&block, row, n);
        copy(row, block.u, n);
    }
    walk_back(&d->scan, first, n, grad, block.beta, scratch, apart, scratch, apart);
    for (int64_t t = 0; t < steps; t++) {
        float *g = scratch + t * apart;
        if (drops(d))
            drop(four + t / 4 * apart, t, d->scale, g, n);
        add(sum, g, n);
        if (grad->current)
            copy(grad->current + t * d->scan.neurons + first, g, n);
    }
    add(bias + n0, sum, n);
    for (int64_t i = 0; i < d->inputs; i++) {
        const int64_t rows = d->batch * d->inputs, row = b * d->inputs + i;
        const uint64_t *bits = times + row * WORDS(steps), *more = bits + rows * WORDS(steps);
        const Events e = list_events(list, steps, bits, more, d->values ? d->values + row : NULL, rows);
        if (e.ones + e.others == 0)
            continue;
        fetch(weight + i * d->columns + n0, n);
        sum_all_rows(scratch, apart, &e, sum, n);
        add(weight + i * d->columns + n0, sum, n);
    }
}

/* Of each plane, bits [T, B, words of inputs] to times [B, inputs, words of steps]: when each input fired. */
static void turn(const Dense *d, int threads, int64_t planes, uint64_t *times)
{
    const int64_t words = WORDS(d->inputs), each = WORDS(d->scan.steps);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t task = 0; task < planes * d->batch; task++) {
        uint64_t *mine = times + task * d->inputs * each;
        memset(mine, 0, (size_t)(d->inputs * each) * sizeof(uint64_t));
        for (int64_t t = 0; t < d->scan.steps; t++) {
            const int64_t plane = task / d->batch, b = task % d->batch;
            const uint64_t *row = d->bits + ((plane * d->scan.steps + t) * d->batch + b) * words;
            for (int64_t w = 0; w < words; w++)
                for (uint64_t rest = row[w]; rest; rest &= rest - 1)
                    mine[(64 * w + __builtin_ctzll(rest)) * each + t / 64] |= (uint64_t)1 << t % 64;
        }
    }
}

/* weight [groups, inputs, columns] and bias [groups, columns], zero before, each group's share of the batch;
 * grad->current may be NULL. Returns how many threads found no memory. */
EXPORT int dense_backward(const Dense *d, int threads, const Gradients *grad, int64_t groups, float *weight,
                          float *bias)
{
    const int64_t steps = d->scan.steps, longest = d->inputs > steps ? d->inputs : steps;
    const int64_t width = block_width(longest * (int64_t)sizeof(float), d->outputs), apart = width + 16;
    const int64_t blocks = (d->outputs + width - 1) / width;
    const int64_t planes = d->values ? 2 : 1;
    uint64_t *times = malloc((size_t)(planes * d->batch * d->inputs * WORDS(steps)) * sizeof(uint64_t));
    if (!times)
        return threads;
    turn(d, threads, planes, times);
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        int32_t *list = malloc((size_t)LIST_ROOM(longest) * sizeof(int32_t));
        float *scratch = malloc((size_t)steps * (size_t)apart * sizeof(float));
        uint8_t *four = malloc((size_t)((steps + 3) / 4) * (size_t)apart);
        failed += list == NULL || scratch == NULL || four == NULL;
#pragma omp for schedule(dynamic)
        for (int64_t task = 0; task < blocks * groups; task++) {
            const int64_t n0 = task / groups * width, rest = d->outputs - n0, group = task % groups;
            const int64_t end = (group + 1) * d->batch / groups;
            for (int64_t b = group * d->batch / groups; list && scratch && four && b < end; b++)
                backward_block(d, b, n0, rest < width ? rest : width, grad, times,
                               weight + group * d->inputs * d->columns, bias + group * d->columns, list, scratch, four,
                               apart);
        }
        free(four);
        free(scratch);
        free(list);
    }
    free(times);
    return failed;
}

enum { TILE = 32 /* rows and columns turned at once, within a first-level cache */ };

static FOR_EACH_CPU void turn_signs(const float *restrict signs, int64_t outputs, int64_t inputs, int64_t columns,
                                    int64_t k0, int64_t k1, int16_t *restrict out)
{
    for (int64_t n0 = 0; n0 < columns; n0 += TILE)
        for (int64_t k = k0; k < k1; k++)
            for (int64_t n = n0; n < n0 + TILE && n < columns; n++)
                out[k * columns + n] = n < outputs ? (int16_t)signs[n * inputs + k] : 0;
}

/* signs [outputs, inputs] to what `Dense` has as weight, [inputs, columns]. */
EXPORT int dense_weight(const float *signs, int64_t outputs, int64_t inputs, int64_t columns, int threads, int16_t *out)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t k = 0; k < inputs; k += TILE)
        turn_signs(signs, outputs, inputs, columns, k, k + TILE < inputs ? k + TILE : inputs, out);
    return 0;
}

static FOR_EACH_CPU void turn_sums(const float *restrict parts, int64_t groups, int64_t inputs, int64_t columns,
                                   int64_t n0, int64_t n1, float *restrict out)
{
    for (int64_t k0 = 0; k0 < inputs; k0 += TILE)
        for (int64_t n = n0; n < n1; n++)
            for (int64_t k = k0; k < k0 + TILE && k < inputs; k++) {
                float sum = 0.0f;
                for (int64_t g = 0; g < groups; g++)
                    sum += parts[(g * inputs + k) * columns + n];
                out[n * inputs + k] = sum;
            }
}

/* parts [groups, inputs, columns], added up, to the gradient [outputs, inputs]. */
EXPORT int dense_gradient(const float *parts, int64_t groups, int64_t outputs, int64_t inputs, int64_t columns,
                          int threads, float *out)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t n = 0; n < outputs; n += TILE)
        turn_sums(parts, groups, inputs, columns, n, n + TILE < outputs ? n + TILE : outputs, out);
    return 0;
}
