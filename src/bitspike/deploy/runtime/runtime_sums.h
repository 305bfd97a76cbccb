/* A part of runtime.c: the sums of a layer's inputs, each taken with the sign of its weight.
 *
 * Inputs are bits, in one or more planes: plane p holds the binary digit of 2^p of all event counts, and spikes are one
 * plane. Where a weight is +1 a row of `weight` has a bit, so with n inputs that fire, of which c have a bit,
 * the sum is c - (n - c) = 2c - n. A `Counter` gathers the rows of the inputs that fire and counts their bits.
 */
#ifndef BITSPIKE_RUNTIME_SUMS_H
#define BITSPIKE_RUNTIME_SUMS_H

#include "runtime_kernels.h"
#include "runtime_portable.h"
#if BS_VECTORS
#include "runtime_x86.h"
#else
static const Kernels *kernels(void)
{
    return &portable;
}
#endif

typedef struct {
    const Kernels *kernels;
    const uint32_t *rows;
    uint32_t words;   /* of a row */
    int32_t times;    /* what one input is worth: 2^plane */
    int32_t *counts;  /* [lanes]: the sum of `times` over rows with this lane's bit */
    int32_t total;    /* the sum of `times` over all rows */
    int fresh;        /* whether `counts` holds nothing yet */
    uint32_t n;
    uint32_t list[LIST + 16]; /* vector code writes behind the last */
} Counter;

enum { PIECE = 128 /* bits that are looked at at a time */ };

static void begin(Counter *c, const Kernels *kernels, const uint32_t *rows, uint32_t lanes, int32_t *counts)
{
    c->kernels = kernels;
    c->rows = rows;
    c->words = words_of(lanes);
    c->times = 1;
    c->counts = counts;
    c->total = 0;
    c->fresh = 1;
    c->n = 0;
}

static void flush(Counter *c)
{
    if (!c->n)
        return;
    c->kernels->add_rows(c->rows, c->words, c->list, c->n, c->times, c->fresh, c->counts);
    c->total += c->times * (int32_t)c->n;
    c->fresh = 0;
    c->n = 0;
}

static void finish(Counter *c)
{
    flush(c);
    if (c->fresh)
        for (uint32_t i = 0; i < 32 * c->words; i++)
            c->counts[i] = 0;
}

/* For each set bit of bits[from .. from + many): the row `row` + its place in this range. */
static void gather(Counter *c, const uint32_t *bits, uint32_t from, uint32_t many, uint32_t row)
{
    for (uint32_t done = 0; done < many; done += PIECE) {
        const uint32_t now = many - done < PIECE ? many - done : PIECE;
        if (c->n + now > LIST)
            flush(c);
        c->n += c->kernels->list_bits(bits, from + done, now, row + done, c->list + c->n);
    }
}

/* The bits that come into a layer: `planes` planes of `words` words. */
typedef struct {
    const uint32_t *bits;
    uint32_t planes, words;
} Planes;

/* List the rows of all events in the counter's list. Whether there is room, and they are worth `most` at most. */
static int list_all(Counter *c, Planes in, uint32_t inputs, uint32_t most, Rows *all)
{
    const Rows rows = {c->rows, c->words, c->list, in.planes, {0}, 0};
    uint32_t n = 0;
    *all = rows;
    for (uint32_t p = 0; p < in.planes; p++) {
        for (uint32_t w = 0; w < in.words; w++)
            all->many[p] += ones_of(in.bits[(size_t)p * in.words + w]);
        if (all->many[p] > (most - all->total) >> p)
            return 0;
        all->total += all->many[p] << p;
        n += all->many[p];
    }
    if (n > LIST)
        return 0;
    for (uint32_t p = in.planes; p-- > 0;)
        c->n += c->kernels->list_bits(in.bits + (size_t)p * in.words, 0, inputs, 0, c->list + c->n);
    return 1;
}

/* counts -> sums of a dense layer (in place of a convolution's position); returns the number to subtract. */
static int32_t dense_counts(const Kernels *kernels, const uint32_t *rows, uint32_t inputs, uint32_t lanes, Planes in,
                            int32_t *counts)
{
    Counter c;
    Rows all;
    begin(&c, kernels, rows, lanes, counts);
    if (list_all(&c, in, inputs, WORTH, &all)) {
        kernels->add_planes(&all, counts);
        return (int32_t)all.total;
    }
    for (uint32_t p = 0; p < in.planes; p++) {
        c.times = (int32_t)1 << p;
        gather(&c, in.bits + (size_t)p * in.words, 0, inputs, 0);
        flush(&c);
    }
    finish(&c);
    return c.total;
}

/* The part [from, from + many) of a kernel's side that lies on the input, if it begins `start` places in (< 0: in the
 * padding). */
typedef struct {
    uint32_t from, many;
} Span;

static Span inside(int64_t start, uint32_t kernel, uint32_t extent)
{
    const int64_t first = start < 0 ? -start : 0;
    const int64_t last = (int64_t)extent - start < (int64_t)kernel ? (int64_t)extent - start : (int64_t)kernel;
    Span span = {(uint32_t)first, last > first ? (uint32_t)(last - first) : 0};
    return span;
}

static int64_t start_of(const bs_layer *layer, uint32_t place)
{
    return (int64_t)place * layer->stride - layer->padding;
}

/* Gather all rows of the weights that the place (y, x) before the pools gets from one plane. */
static void gather_place(Counter *c, const bs_layer *layer, const uint32_t *bits, uint32_t y, uint32_t x)
{
    const int64_t top = start_of(layer, y), left = start_of(layer, x);
    const uint32_t many = layer->in_channels;
    const Span rows = inside(top, layer->kernel, layer->in_rows), columns = inside(left, layer->kernel, layer->in_columns);
    for (uint32_t ky = rows.from; ky < rows.from + rows.many; ky++) {
        const uint32_t pixel = (uint32_t)(top + ky) * layer->in_columns + (uint32_t)(left + columns.from);
        gather(c, bits, pixel * many, columns.many * many, (ky * layer->kernel + columns.from) * many);
    }
}

/* A function of its own, so that the list of a Counter is on the stack once, not for every pool behind another. */
#ifdef __GNUC__
#define NOT_INLINE __attribute__((noinline))
#else
#define NOT_INLINE
#endif

/* The sums of all channels at a place, or over the places of a first average pool. */
NOT_INLINE static void counted_sums(const Kernels *kernels, const bs_layer *layer, Planes in, const bs_pool *pool,
                                    uint32_t y, uint32_t x, int32_t *out)
{
    Counter c;
    begin(&c, kernels, layer->weight, layer->channels, out);
    for (uint32_t p = 0; p < in.planes; p++) {
        c.times = (int32_t)1 << p;
        for (uint32_t i = 0; i < pool->size * pool->size; i++)
            gather_place(&c, layer, in.bits + (size_t)p * in.words, y * pool->stride + i / pool->size,
                         x * pool->stride + i % pool->size);
        flush(&c);
    }
    finish(&c);
    for (uint32_t i = 0; i < layer->channels; i++)
        out[i] = 2 * out[i] - c.total;
}

/* The sums of all channels at a place behind `pools` of the layer's pools, into window[pools]. The sums of a first
 * average pool are counted all at once. */
static void place_sums(const Kernels *kernels, const bs_layer *layer, Planes in, uint32_t pools, uint32_t y, uint32_t x,
                       int32_t *window)
{
    const size_t lanes = padded(layer->channels);
    int32_t *out = window + pools * lanes, *part = window + (pools ? pools - 1 : 0) * lanes;
    const bs_pool one = {BS_AVERAGE, 1, 1}, *pool = pools ? &layer->pool[pools - 1] : &one;
    if (pools == 0 || (pools == 1 && pool->kind == BS_AVERAGE)) {
        counted_sums(kernels, layer, in, pool, y, x, out);
        return;
    }
    for (uint32_t i = 0; i < pool->size * pool->size; i++) {
        place_sums(kernels, layer, in, pools - 1, y * pool->stride + i / pool->size, x * pool->stride + i % pool->size,
                   window);
        for (uint32_t j = 0; j < layer->channels; j++)
            if (!i || (pool->kind == BS_MAX && part[j] > out[j]))
                out[j] = part[j];
            else if (pool->kind == BS_AVERAGE)
                out[j] += part[j];
    }
}

#endif
