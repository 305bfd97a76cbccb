/* A part of runtime.c: the current of a first layer whose inputs are real numbers. Sums are float64, in ascending order
 * of (channel, kernel row, kernel column), and pools add or compare these. */
#ifndef BITSPIKE_RUNTIME_REALS_H
#define BITSPIKE_RUNTIME_REALS_H

#include "runtime_sums.h"

enum { BLOCK = 32 /* channels at a time, so that no memory is needed */ };

/* An input [channels, rows, columns] that is shown (down, right) pixels away. */
typedef struct {
    const float *values;
    uint32_t channels, rows, columns;
    int down, right;
} Image;

static float pixel_of(const Image *image, uint32_t channel, int64_t y, int64_t x)
{
    y -= image->down;
    x -= image->right;
    if (y < 0 || x < 0 || y >= (int64_t)image->rows || x >= (int64_t)image->columns)
        return 0.0f;
    return image->values[((size_t)channel * image->rows + (size_t)y) * image->columns + (size_t)x];
}

/* A list of rows of the weights and the values that they are worth, added to the sums of a block of channels. */
typedef struct {
    const Kernels *kernels;
    const uint32_t *rows; /* from the block's first word on */
    uint32_t words, lanes;
    Sum *sums;
    uint32_t n;
    uint32_t list[LIST];
    float values[LIST];
    int whole; /* whether `list` holds all rows of a kernel, in their order */
} Adder;

static void add_list(Adder *a)
{
    a->kernels->add_reals(a->rows, a->words, a->list, a->values, a->n, a->lanes, a->sums);
    a->n = 0;
}

static void add_value(Adder *a, uint32_t row, float value)
{
    if (value == 0.0f)
        return;
    a->whole = 0;
    if (a->n == LIST)
        add_list(a);
    a->list[a->n] = row;
    a->values[a->n++] = value;
}

static void dense_reals(Adder *a, const Image *image)
{
    uint32_t row = 0;
    for (uint32_t channel = 0; channel < image->channels; channel++)
        for (uint32_t y = 0; y < image->rows; y++)
            for (uint32_t x = 0; x < image->columns; x++)
                add_value(a, row++, pixel_of(image, channel, y, x));
}

/* The same for a kernel that lies on the image as a whole, whose rows are the same everywhere: only values are read. */
static int whole_kernel(Adder *a, const bs_layer *layer, const Image *image, int64_t top, int64_t left)
{
    const uint32_t side = layer->kernel, channels = layer->in_channels;
    float *to = a->values;
    if (top < 0 || left < 0 || top + side > image->rows || left + side > image->columns)
        return 0; /* on what is shown, and, below, on what the image has */
    top -= image->down;
    left -= image->right;
    if (top < 0 || left < 0 || top + side > image->rows || left + side > image->columns ||
        (uint64_t)side * side * channels > LIST)
        return 0;
    for (uint32_t i = 0; !a->whole && i < side * side * channels; i++)
        a->list[i] = i % (side * side) * channels + i / (side * side);
    a->whole = 1;
    for (uint32_t channel = 0; channel < channels; channel++)
        for (uint32_t ky = 0; ky < side; ky++) {
            const float *from = image->values + ((size_t)channel * image->rows + (size_t)top + ky) * image->columns + left;
            for (uint32_t kx = 0; kx < side; kx++)
                *to++ = from[kx];
        }
    a->n = side * side * channels;
    return 1;
}

static void conv_reals(Adder *a, const bs_layer *layer, const Image *image, uint32_t y, uint32_t x)
{
    const int64_t top = start_of(layer, y), left = start_of(layer, x);
    const Span rows = inside(top, layer->kernel, layer->in_rows), columns = inside(left, layer->kernel, layer->in_columns);
    if (whole_kernel(a, layer, image, top, left))
        return;
    for (uint32_t channel = 0; channel < layer->in_channels; channel++)
        for (uint32_t ky = rows.from; ky < rows.from + rows.many; ky++)
            for (uint32_t kx = columns.from; kx < columns.from + columns.many; kx++)
                add_value(a, (ky * layer->kernel + kx) * layer->in_channels + channel,
                          pixel_of(image, channel, top + ky, left + kx));
}

/* The sums of a block of channels at a place behind `pools` pools. */
static void real_sums(Adder *a, const bs_layer *layer, const Image *image, uint32_t pools, uint32_t y, uint32_t x,
                      Sum *out)
{
    const bs_pool *pool = pools ? &layer->pool[pools - 1] : NULL;
    Sum part[BLOCK];
    for (uint32_t j = 0; j < BLOCK; j++)
        out[j] = 0;
    if (!pool) {
        a->sums = out;
        if (layer->kind == BS_DENSE)
            dense_reals(a, image);
        else
            conv_reals(a, layer, image, y, x);
        add_list(a);
        return;
    }
    for (uint32_t i = 0; i < pool->size * pool->size; i++) {
        real_sums(a, layer, image, pools - 1, y * pool->stride + i / pool->size, x * pool->stride + i % pool->size, part);
        for (uint32_t j = 0; j < a->lanes; j++)
            if (pool->kind == BS_AVERAGE)
                out[j] += part[j];
            else if (!i || part[j] > out[j])
                out[j] = part[j];
    }
}

/* The current of all neurons of the first layer. */
static void real_current(const Kernels *kernels, const bs_layer *layer, const Image *image, bs_number *current)
{
    const uint32_t divisor = divisor_of(layer);
    Sum sums[BLOCK];
    Adder a;
    a.kernels = kernels;
    a.words = words_of(layer->channels);
    a.n = 0;
    a.whole = 0;
    for (uint32_t place = 0; place < layer->rows * layer->columns; place++)
        for (uint32_t first = 0; first < layer->channels; first += BLOCK) {
            const uint32_t left = layer->channels - first;
            bs_number *to = current + (size_t)place * layer->channels + first;
            a.rows = layer->weight + first / 32;
            a.lanes = left < BLOCK ? left : BLOCK;
            real_sums(&a, layer, image, layer->pools, place / layer->columns, place % layer->columns, sums);
            for (uint32_t j = 0; j < a.lanes; j++) {
                bs_number c = real_mean_of(sums[j], divisor);
                if (layer->bias)
                    c = plus(c, layer->bias[first + j]);
                if (layer->scale)
                    c = plus(times(layer->scale[first + j], c), layer->offset[first + j]);
                to[j] = c;
            }
        }
}

#endif
