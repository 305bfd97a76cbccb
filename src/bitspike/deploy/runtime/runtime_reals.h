/* A part of runtime.c: the current of a first layer whose inputs are real numbers. These times their gains are float32.
 * Sums are float64, in ascending order of (channel, kernel row, kernel column), and pools add or compare these. */
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
    uint32_t words, first, lanes;
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

/* What an input is multiplied by: one of a dense layer, or a channel of a convolution. */
static float gain_of(const bs_layer *layer, uint32_t input)
{
    uint32_t gain = 0;
    if (!layer->gains)
        return 1.0f;
    for (uint32_t d = 0; layer->largest_gain >> d; d++)
        gain |= (layer->gains[(size_t)d * layer->gain_words + input / 32] >> input % 32 & 1) << d;
    return (float)gain;
}

static void dense_reals(Adder *a, const bs_layer *layer, const Image *image)
{
    uint32_t row = 0;
    for (uint32_t channel = 0; channel < image->channels; channel++)
        for (uint32_t y = 0; y < image->rows; y++)
            for (uint32_t x = 0; x < image->columns; x++, row++)
                add_value(a, row, pixel_of(image, channel, y, x) * gain_of(layer, row));
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
    for (uint32_t channel = 0; channel < channels; channel++) {
        const float gain = gain_of(layer, channel);
        for (uint32_t ky = 0; ky < side; ky++) {
            const float *from = image->values + ((size_t)channel * image->rows + (size_t)top + ky) * image->columns + left;
            for (uint32_t kx = 0; kx < side; kx++)
                *to++ = from[kx] * gain;
        }
    }
    a->n = side * side * channels;
    return 1;
}

/* The sums of one kernel, whose first row and column these are. */
static void conv_reals(Adder *a, const bs_layer *layer, const Image *image, int64_t top, int64_t left)
{
    const Span rows = inside(top, layer->kernel, layer->in_rows);
    const Span columns = inside(left, layer->kernel, layer->in_columns);
    if (whole_kernel(a, layer, image, top, left))
        return;
    for (uint32_t channel = 0; channel < layer->in_channels; channel++) {
        const float gain = gain_of(layer, channel);
        for (uint32_t ky = rows.from; ky < rows.from + rows.many; ky++)
            for (uint32_t kx = columns.from; kx < columns.from + columns.many; kx++)
                add_value(a, (ky * layer->kernel + kx) * layer->in_channels + channel,
                          pixel_of(image, channel, top + ky, left + kx) * gain);
    }
}

static void clear_sums(Sum *sums)
{
    for (uint32_t j = 0; j < BLOCK; j++)
        sums[j] = 0;
}

static Adder adder_of(const Kernels *kernels, const bs_layer *layer)
{
    Adder a;
    a.kernels = kernels;
    a.words = words_of(layer->channels);
    a.n = 0;
    a.whole = 0;
    return a;
}

/* Take the block of channels from `first` on. */
static void choose_block(Adder *a, const bs_layer *layer, uint32_t first)
{
    const uint32_t left = layer->channels - first;
    a->first = first;
    a->rows = layer->weight + first / 32;
    a->lanes = left < BLOCK ? left : BLOCK;
}

/* ---- an image at several places: its sums once ---- */

/* The sums of a convolution wherever its kernel may lie on an image that is moved by up to one pixel: [rows, columns,
 * channels], from one pixel above and left of the image on. */
typedef struct {
    const Sum *sums;
    size_t row, place; /* from one row, and from one place, to the next */
} Map;

#ifndef BS_SMALL
static Map map_of(const bs_layer *layer, const void *sums)
{
    const size_t columns = (size_t)layer->in_columns + 3 - layer->kernel;
    const Map map = {sums, columns * layer->channels, layer->channels};
    return map;
}

/* Where the kernels of `size` x `size` neighbours lie in the map, if each of them lies on the image that is shown as a
 * whole; else NULL: behind the edge the image has lost pixels that the map has. */
static const Sum *in_map(const bs_layer *layer, const Image *image, const Map *map, uint32_t y, uint32_t x,
                         uint32_t size)
{
    const int64_t top = start_of(layer, y), left = start_of(layer, x);
    const int64_t bottom = start_of(layer, y + size - 1) + layer->kernel;
    const int64_t right = start_of(layer, x + size - 1) + layer->kernel;
    if (top < 0 || left < 0 || bottom > (int64_t)layer->in_rows || right > (int64_t)layer->in_columns)
        return NULL;
    return map->sums + (size_t)(top - image->down + 1) * map->row + (size_t)(left - image->right + 1) * map->place;
}

size_t bs_map_bytes(const bs_model *model)
{
    const bs_layer *layer = model->layer;
    if (layer->kind != BS_CONV || layer->stride > 2 || layer->kernel > layer->in_rows ||
        layer->kernel > layer->in_columns)
        return 0;
    return (size_t)(layer->in_rows + 3 - layer->kernel) * map_of(layer, NULL).row * sizeof(Sum);
}

void bs_map(const bs_model *model, const float *image, void *map)
{
    const bs_layer *layer = model->layer;
    const Image shown = {image, model->in_channels, model->in_rows, model->in_columns, 0, 0};
    const int64_t rows = (int64_t)layer->in_rows + 3 - layer->kernel;
    const int64_t columns = (int64_t)layer->in_columns + 3 - layer->kernel;
    Adder a = adder_of(kernels(), layer);
    Sum *to = map, sums[BLOCK];
    for (int64_t place = 0; place < rows * columns; place++)
        for (uint32_t first = 0; first < layer->channels; first += BLOCK) {
            choose_block(&a, layer, first);
            clear_sums(sums);
            a.sums = sums;
            conv_reals(&a, layer, &shown, place / columns - 1, place % columns - 1);
            add_list(&a);
            memcpy(to, sums, a.lanes * sizeof *to);
            to += a.lanes;
        }
}
#endif

/* ---- the current ---- */

/* The sums of a block of channels at a place behind `pools` pools. */
static void real_sums(Adder *a, const bs_layer *layer, const Image *image, const Map *map, uint32_t pools, uint32_t y,
                      uint32_t x, Sum *out)
{
    const bs_pool *pool = pools ? &layer->pool[pools - 1] : NULL;
    Sum part[BLOCK];
#ifndef BS_SMALL
    if (!pool || (pools == 1 && pool->kind == BS_AVERAGE)) {
        const uint32_t size = pool ? pool->size : 1, stride = pool ? pool->stride : 1;
        const Sum *found = map ? in_map(layer, image, map, y * stride, x * stride, size) : NULL;
        if (found) {
            const size_t down = layer->stride * map->row, right = layer->stride * map->place;
            a->kernels->pool_sums(found + a->first, down, right, size, a->lanes, out);
            return;
        }
    }
#endif
    clear_sums(out);
    if (!pool) {
        a->sums = out;
        if (layer->kind == BS_DENSE)
            dense_reals(a, layer, image);
        else
            conv_reals(a, layer, image, start_of(layer, y), start_of(layer, x));
        add_list(a);
        return;
    }
    for (uint32_t i = 0; i < pool->size * pool->size; i++) {
        real_sums(a, layer, image, map, pools - 1, y * pool->stride + i / pool->size, x * pool->stride + i % pool->size,
                  part);
        for (uint32_t j = 0; j < a->lanes; j++)
            if (pool->kind == BS_AVERAGE)
                out[j] += part[j];
            else if (!i || part[j] > out[j])
                out[j] = part[j];
    }
}

/* The current of all neurons of the first layer; `map` may be NULL. */
static void real_current(const Kernels *kernels, const bs_layer *layer, const Image *image, const Map *map,
                         bs_number *current)
{
    const uint32_t divisor = divisor_of(layer);
    Adder a = adder_of(kernels, layer);
    Sum sums[BLOCK];
    for (uint32_t y = 0; y < layer->rows; y++)
        for (uint32_t x = 0; x < layer->columns; x++)
            for (uint32_t first = 0; first < layer->channels; first += BLOCK) {
                const size_t at = ((size_t)y * layer->columns + x) * layer->channels + first;
                choose_block(&a, layer, first);
                real_sums(&a, layer, image, map, layer->pools, y, x, sums);
                kernels->reals_to_current(layer, first, a.lanes, sums, divisor, current + at);
            }
}

#endif
