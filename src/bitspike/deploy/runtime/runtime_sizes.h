/* A part of runtime.c: the sizes of layers, and whether they fit. A model may come from a file: nothing is trusted. */
#ifndef BITSPIKE_RUNTIME_SIZES_H
#define BITSPIKE_RUNTIME_SIZES_H

#include "runtime.h"

#define MOST (1u << 24) /* whole numbers up to here are exact in float32 */

enum { GAIN_DIGITS = 8 /* of a gain, in binary, at most */ };

static uint32_t words_of(uint32_t bits)
{
    return (bits + 31) / 32;
}

static inline int digits_of(uint32_t number)
{
    int digits = 0;
    for (; number; number >>= 1)
        digits++;
    return digits;
}

static uint32_t neurons_of(const bs_layer *layer)
{
    return layer->channels * layer->rows * layer->columns;
}

static uint32_t inputs_of(const bs_layer *layer)
{
    return layer->in_channels * layer->in_rows * layer->in_columns;
}

static int product_fits(uint32_t a, uint32_t b, uint32_t c)
{
    return a && b && c && a <= MOST && b <= MOST && c <= MOST && (uint64_t)a * b <= MOST && (uint64_t)a * b * c <= MOST;
}

/* The places that windows of `size` have every `stride` places; 0 if there is none. */
static uint32_t places(uint32_t extent, uint32_t size, uint32_t stride)
{
    return size && stride && extent >= size ? (extent - size) / stride + 1 : 0;
}

static uint32_t conv_places(uint32_t extent, const bs_layer *layer)
{
    return places(extent + 2 * layer->padding, layer->kernel, layer->stride);
}

static uint32_t divisor_of(const bs_layer *layer)
{
    uint32_t divisor = 1;
    for (uint32_t i = 0; i < layer->pools; i++)
        if (layer->pool[i].kind == BS_AVERAGE)
            divisor *= layer->pool[i].size * layer->pool[i].size;
    return divisor;
}

/* Whether the layer's output has the size that its input, kernel and pools give. */
static int sizes_fit(const bs_layer *layer)
{
    uint32_t rows, columns, divisor = 1;
    if (layer->kind == BS_DENSE)
        return layer->in_rows == 1 && layer->in_columns == 1 && layer->rows == 1 && layer->columns == 1 &&
               layer->kernel == 1 && layer->stride == 1 && !layer->padding && !layer->pools;
    if (layer->kind != BS_CONV || layer->pools > BS_POOLS || !layer->kernel || layer->kernel > 4096 ||
        layer->stride > 4096 || layer->padding > 4096)
        return 0;
    rows = conv_places(layer->in_rows, layer);
    columns = conv_places(layer->in_columns, layer);
    if (!product_fits(rows, columns, layer->channels))
        return 0;
    for (uint32_t i = 0; i < layer->pools; i++) {
        const bs_pool *pool = &layer->pool[i];
        if (pool->kind > BS_MAX || pool->size > 64)
            return 0;
        rows = places(rows, pool->size, pool->stride);
        columns = places(columns, pool->size, pool->stride);
        if (pool->kind == BS_AVERAGE)
            divisor *= pool->size * pool->size;
        if (!rows || !columns || divisor > MOST)
            return 0;
    }
    return rows == layer->rows && columns == layer->columns;
}

/* Whether all sums stay whole numbers that float32 holds, if inputs are at most `largest`. */
static int sums_fit(const bs_layer *layer, uint32_t largest)
{
    uint64_t taps = layer->in_channels, most = (uint64_t)largest * (layer->gains ? layer->largest_gain : 1);
    if (layer->kind == BS_CONV)
        taps *= (uint64_t)layer->kernel * layer->kernel;
    return taps <= MOST && taps * divisor_of(layer) <= MOST && taps * divisor_of(layer) * most <= MOST;
}

/* Whether a row of gains has a bit for each input, or begins anew with a pixel. */
static int gains_fit(const bs_layer *layer)
{
    const uint32_t words = layer->gain_words;
    if (!layer->gains)
        return 1;
    if (!layer->largest_gain || layer->largest_gain >> GAIN_DIGITS || !words || words > words_of(inputs_of(layer)))
        return 0;
    return words == words_of(inputs_of(layer)) || (layer->kind == BS_CONV && 32 * words % layer->in_channels == 0);
}

/* What arrives at a layer: of the network's input or the layer before. */
typedef struct {
    uint32_t channels, rows, columns;
} Extent;

/* A dense layer takes all values in a row, a convolution these channels, rows and columns and no others. */
static int takes(const bs_layer *layer, Extent in)
{
    if (layer->kind == BS_CONV)
        return layer->in_channels == in.channels && layer->in_rows == in.rows && layer->in_columns == in.columns;
    return inputs_of(layer) == in.channels * in.rows * in.columns;
}

static int layer_fits(const bs_layer *layer, Extent in, uint32_t largest)
{
    if (!product_fits(layer->in_channels, layer->in_rows, layer->in_columns) || !takes(layer, in) ||
        !product_fits(layer->channels, layer->rows, layer->columns))
        return 0;
    if (!sizes_fit(layer) || !sums_fit(layer, largest) || !layer->weight || !layer->beta || layer->longest > 65535)
        return 0;
    if ((layer->recurrent && neurons_of(layer) > 65536) || !gains_fit(layer))
        return 0;
    if ((layer->betas != 1 && layer->betas != neurons_of(layer)) || (layer->scale && !layer->offset))
        return 0;
    return !layer->theta || layer->thetas == 1 || layer->thetas == neurons_of(layer);
}

int bs_check(const bs_model *model)
{
    Extent in = {model->in_channels, model->in_rows, model->in_columns};
    uint32_t largest;
    if (!model->layers || model->layers > 1000 || model->input > BS_REALS || !model->planes ||
        model->planes > BS_PLANES || !product_fits(in.channels, in.rows, in.columns))
        return -1;
#ifdef BS_ONLY_COUNTS
    if (model->input == BS_REALS || model->image)
        return -1;
#endif
    largest = (1u << model->planes) - 1;
    for (uint32_t l = 0; l < model->layers; l++) {
        const bs_layer *layer = &model->layer[l];
        if (!layer_fits(layer, in, largest) || (!layer->theta && l + 1 < model->layers))
            return (int)l + 1;
        in.channels = layer->channels;
        in.rows = layer->rows;
        in.columns = layer->columns;
        largest = 1;
    }
    return 0;
}

#endif
