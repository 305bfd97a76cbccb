/* A convolution on spikes, with the average pool behind it folded in (product/c.py): for every event and every place
 * that it reaches, the kernel's row for that tap is added there. Geometry comes as a table: for each site of the input
 * plane, the pairs (place of the output, tap of the kernel) that it takes part in.
 *
 * Sums of whole numbers are exact in any order; only the gradients round.
 */
#include <stdlib.h>

#include "product/pack.h"
#include "native/compiler.h"
#include "native/vector.h"

/* Gradients may use fused multiply-adds: they are exact nowhere. */
#pragma GCC optimize("fp-contract=fast")

enum { TOGETHER = 6 /* images */, FLUSH = 64 /* images whose sum float32 holds well */ };

/* Shared with `_CConv` of product/c.py, field by field. */
typedef struct {
    int64_t images, channels, sites, outputs, places, taps;
    int64_t columns;       /* outputs, rounded up to 16 */
    const uint64_t *bits;  /* [2, images, words] of channels * sites inputs (pack.h) */
    const float *values;   /* [images, channels * sites], or NULL where all are 0 or 1 */
    const int32_t *starts; /* [sites + 1], into pairs */
    const int32_t *pairs;  /* [.., 2]: place, tap */
    float divisor;         /* of the pool */
} Conv;

INLINE void add_rows(float *to, const float *from, float x, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += 16) {
        store(to + j, load(to + j) + x * load(from + j));
        store(to + j + 8, load(to + j + 8) + x * load(from + j + 8));
    }
}

/* For each event of an image and each of its pairs: places[place] += weights[channel, tap], or the other way round. */
INLINE void meet(const Conv *c, int64_t image, float *places, float *weights, int backward, const int64_t columns)
{
    const int64_t inputs = c->channels * c->sites, words = WORDS(inputs);
    const uint64_t *bits = c->bits + image * words, *more = bits + c->images * words;
    const float *values = c->values ? c->values + image * inputs : NULL;
    int64_t channel = 0, next = c->sites;
    for (int64_t w = 0; w < words; w++)
        for (uint64_t rest = bits[w] | (values ? more[w] : 0); rest; rest &= rest - 1) {
            const int64_t input = 64 * w + __builtin_ctzll(rest);
            for (; input >= next; next += c->sites)
                channel++;
            const int64_t site = input - next + c->sites;
            const float x = values ? values[input] : 1.0f;
            for (int32_t p = c->starts[site]; p < c->starts[site + 1]; p++) {
                float *place = places + c->pairs[2 * p] * columns;
                float *weight = weights + (channel * c->taps + c->pairs[2 * p + 1]) * columns;
                if (backward)
                    add_rows(weight, place, x, columns);
                else
                    add_rows(place, weight, x, columns);
            }
        }
}

static FOR_EACH_CPU void forward_image(const Conv *c, int64_t image, float *weight, float *sums, float *current)
{
    for (int64_t i = 0; i < c->places * c->columns; i++)
        sums[i] = 0.0f;
    if (c->columns == 16)
        meet(c, image, sums, weight, 0, 16);
    else if (c->columns == 32)
        meet(c, image, sums, weight, 0, 32);
    else if (c->columns == 64)
        meet(c, image, sums, weight, 0, 64);
    else
        meet(c, image, sums, weight, 0, c->columns);
    for (int64_t o = 0; o < c->outputs; o++)
        for (int64_t p = 0; p < c->places; p++)
            current[(image * c->outputs + o) * c->places + p] = sums[p * c->columns + o] / c->divisor;
}

/* weight [channels, taps, columns] to current [images, outputs, places]. Returns how many threads found no memory. */
EXPORT int conv_forward(const Conv *c, int threads, float *weight, float *current)
{
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *sums = malloc((size_t)(c->places * c->columns) * sizeof(float));
        failed += sums == NULL;
#pragma omp for schedule(static)
        for (int64_t image = 0; image < c->images; image++)
            if (sums)
                forward_image(c, image, weight, sums, current);
        free(sums);
    }
    return failed;
}

static FOR_EACH_CPU void weight_of_image(const Conv *c, int64_t image, const float *grad, float *places, float *weight)
{
    for (int64_t p = 0; p < c->places; p++)
        for (int64_t o = 0; o < c->columns; o++)
            places[p * c->columns + o] =
                o < c->outputs ? grad[(image * c->outputs + o) * c->places + p] / c->divisor : 0.0f;
    if (c->columns == 16)
        meet(c, image, places, weight, 1, 16);
    else if (c->columns == 32)
        meet(c, image, places, weight, 1, 32);
    else if (c->columns == 64)
        meet(c, image, places, weight, 1, 64);
    else
        meet(c, image, places, weight, 1, c->columns);
}

static FOR_EACH_CPU void flush(float *from, double *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        to[i] += from[i];
        from[i] = 0.0f;
    }
}

/* grad [images, outputs, places] to weight [parts, channels, taps, columns], zero before: the sum over each part of
 * the images. Returns how many parts found no memory. */
EXPORT int conv_weight_gradient(const Conv *c, int threads, const float *grad, int64_t parts, double *weight)
{
    const int64_t size = c->channels * c->taps * c->columns;
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(+ : failed)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t begin = part * c->images / parts, end = (part + 1) * c->images / parts;
        float *places = malloc((size_t)(c->places * c->columns) * sizeof(float));
        float *sum = calloc((size_t)size, sizeof(float));
        failed += places == NULL || sum == NULL;
        for (int64_t image = begin; places && sum && image < end; image++) {
            weight_of_image(c, image, grad, places, sum);
            if ((image - begin) % FLUSH == FLUSH - 1 || image == end - 1)
                flush(sum, weight + part * size, size);
        }
        free(sum);
        free(places);
    }
    return failed;
}

/* Sixteen channels of one site of six images: out[m] = sum over pairs and outputs of places[m, place, o] * weight. */
INLINE void one_site(const Conv *c, int64_t site, const float *places, const float *weight, int64_t padded, Vector *out)
{
    const int64_t apart = c->places * c->outputs;
    Vector a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, a4 = {0}, a5 = {0};
    Vector b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0}, b4 = {0}, b5 = {0};
    for (int32_t p = c->starts[site]; p < c->starts[site + 1]; p++) {
        const float *g = places + c->pairs[2 * p] * c->outputs;
        const float *w = weight + c->pairs[2 * p + 1] * c->outputs * padded;
        for (int64_t o = 0; o < c->outputs; o++, w += padded) {
            const Vector low = load(w), high = load(w + 8);
            a0 += g[o] * low, b0 += g[o] * high;
            a1 += g[o + apart] * low, b1 += g[o + apart] * high;
            a2 += g[o + 2 * apart] * low, b2 += g[o + 2 * apart] * high;
            a3 += g[o + 3 * apart] * low, b3 += g[o + 3 * apart] * high;
            a4 += g[o + 4 * apart] * low, b4 += g[o + 4 * apart] * high;
            a5 += g[o + 5 * apart] * low, b5 += g[o + 5 * apart] * high;
        }
    }
    out[0] = a0, out[2] = a1, out[4] = a2, out[6] = a3, out[8] = a4, out[10] = a5;
    out[1] = b0, out[3] = b1, out[5] = b2, out[7] = b3, out[9] = b4, out[11] = b5;
}

static FOR_EACH_CPU void input_of_images(const Conv *c, int64_t first, int64_t n, const float *grad,
                                         const float *weight, float *places, float *out)
{
    const int64_t padded = (c->channels + 15) / 16 * 16, apart = c->places * c->outputs;
    for (int64_t m = 0; m < TOGETHER; m++)
        for (int64_t p = 0; p < c->places; p++)
            for (int64_t o = 0; o < c->outputs; o++)
                places[m * apart + p * c->outputs + o] =
                    m < n ? grad[((first + m) * c->outputs + o) * c->places + p] / c->divisor : 0.0f;
    for (int64_t channel = 0; channel < c->channels; channel += 16)
        for (int64_t site = 0; site < c->sites; site++) {
            Vector sums[2 * TOGETHER];
            float flat[16 * TOGETHER];
            one_site(c, site, places, weight + channel, padded, sums);
            memcpy(flat, sums, sizeof flat);
            for (int64_t m = 0; m < n; m++)
                for (int64_t i = 0; i < 16 && channel + i < c->channels; i++)
                    out[((first + m) * c->channels + channel + i) * c->sites + site] = flat[16 * m + i];
        }
}

/* grad [images, outputs, places] and weight [taps, outputs, channels rounded up to 16] to out [images, channels,
 * sites]. Returns how many threads found no memory. */
EXPORT int conv_input_gradient(const Conv *c, int threads, const float *grad, const float *weight, float *out)
{
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *places = malloc((size_t)(TOGETHER * c->places * c->outputs) * sizeof(float));
        failed += places == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < c->images; first += TOGETHER) {
            const int64_t rest = c->images - first;
            if (places)
                input_of_images(c, first, rest < TOGETHER ? rest : TOGETHER, grad, weight, places, out);
        }
        free(places);
    }
    return failed;
}
