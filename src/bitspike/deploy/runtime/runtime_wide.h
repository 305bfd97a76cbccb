/* A part of runtime.c: layers whose weights lie a second time in memory, so that vectors take more of them at once.
 *
 * A convolution has a row of bits for each (kernel row, input column, input channel), with a bit for each (output
 * column, channel): then an input that fires is one row for each output row that it reaches, as in a dense layer. Where
 * an output column does not reach the input column the bit is 0, so the number to subtract (see runtime_sums.h) is
 * counted for each output column by itself. A dense layer of few neurons has a row of inputs for each neuron.
 */
#ifndef BITSPIKE_RUNTIME_WIDE_H
#define BITSPIKE_RUNTIME_WIDE_H

#include "runtime_sums.h"

size_t bs_wide_bytes(const bs_layer *layer)
{
    const uint64_t columns = conv_places(layer->in_columns, layer), rows = conv_places(layer->in_rows, layer);
    uint64_t bytes = (uint64_t)layer->channels * words_of(inputs_of(layer)) * 4;
    if (layer->kind == BS_DENSE)
        return layer->channels <= 64 && inputs_of(layer) >= 64 && bytes <= WIDEST ? (size_t)bytes : 0;
    bytes = (uint64_t)layer->kernel * layer->in_columns * layer->in_channels * 4;
    if (columns * layer->channels > 1u << 20 || bytes > WIDEST ||
        rows * padded((size_t)(columns * layer->channels)) > WIDEST_SUMS)
        return 0;
    bytes *= words_of((uint32_t)columns * layer->channels);
    return bytes <= WIDEST ? (size_t)bytes : 0;
}

/* Set bit `to` of a row if bit `from` of another is set. */
static void copy_bit(uint32_t *row, uint32_t to, const uint32_t *weight, uint32_t from)
{
    row[to / 32] |= (weight[from / 32] >> from % 32 & 1) << to % 32;
}

static void widen_dense(const bs_layer *layer, uint32_t *wide)
{
    const uint32_t inputs = inputs_of(layer), words = words_of(inputs), narrow = words_of(layer->channels);
    for (uint32_t i = 0; i < layer->channels; i++)
        for (uint32_t j = 0; j < inputs; j++)
            copy_bit(wide + (size_t)i * words, j, layer->weight + (size_t)j * narrow, i);
}

void bs_widen(const bs_layer *layer, uint32_t *wide)
{
    const uint32_t columns = conv_places(layer->in_columns, layer), taps = layer->kernel * layer->in_channels;
    const uint32_t words = words_of(columns * layer->channels), narrow = words_of(layer->channels);
    memset(wide, 0, bs_wide_bytes(layer));
    if (layer->kind == BS_DENSE) {
        widen_dense(layer, wide);
        return;
    }
    for (uint32_t row = 0; row < layer->kernel * layer->in_columns * layer->in_channels; row++) {
        const uint32_t channel = row % layer->in_channels, x = row / layer->in_channels % layer->in_columns;
        const uint32_t ky = row / layer->in_channels / layer->in_columns;
        for (uint32_t column = 0; column < columns; column++) {
            const int64_t kx = (int64_t)x - start_of(layer, column);
            if (kx < 0 || kx >= (int64_t)layer->kernel)
                continue;
            for (uint32_t i = 0; i < layer->channels; i++)
                copy_bit(wide + (size_t)row * words, column * layer->channels + i,
                         layer->weight + (size_t)(ky * taps + (uint32_t)kx * layer->in_channels + channel) * narrow, i);
        }
    }
}

/* What dense_counts gives, from a row of inputs for each neuron. */
static int32_t shared_counts(const Kernels *k, const bs_layer *layer, Planes in, int32_t *counts)
{
    int32_t total = 0;
    if (!in.planes)
        memset(counts, 0, layer->channels * sizeof *counts);
    for (uint32_t p = 0; p < in.planes; p++) {
        const int32_t times = (int32_t)1 << p;
        total += times * (int32_t)k->count_shared(layer->wide, in.words, layer->channels, in.bits + (size_t)p * in.words,
                                                  times, p == 0, counts);
    }
    return total;
}

/* Rows of a convolution that one row of sums is made of: those of a first average pool's window. */
static bs_pool first_pool(const bs_layer *layer)
{
    const bs_pool one = {BS_AVERAGE, 1, 1};
    return layer->pools && layer->pool[0].kind == BS_AVERAGE ? layer->pool[0] : one;
}

/* What belongs to one convolution while it runs. */
typedef struct {
    const bs_layer *layer;
    bs_pool pool;           /* the first, if it is an average */
    uint32_t rows, columns; /* of sums, behind this pool */
    size_t stride;          /* of a row of sums */
    int32_t *sums;
    uint32_t *events, *starts; /* of each input row: where in it something fired */
    int32_t *pixels;           /* how much fired, for each place of the input */
    int32_t *reached;          /* for each input column: of that, what reaches the row of sums */
} Wide;

static Wide wide_of(const bs_layer *layer, const Shared *s)
{
    Wide w;
    w.layer = layer;
    w.pool = first_pool(layer);
    w.rows = places(conv_places(layer->in_rows, layer), w.pool.size, w.pool.stride);
    w.columns = places(conv_places(layer->in_columns, layer), w.pool.size, w.pool.stride);
    w.stride = padded((size_t)conv_places(layer->in_columns, layer) * layer->channels);
    w.sums = s->sums;
    w.events = s->extra;
    w.starts = w.events + inputs_of(layer) + LIST;
    w.pixels = (int32_t *)(w.starts + layer->in_rows + 1);
    w.reached = w.pixels + layer->in_rows * layer->in_columns;
    return w;
}

static void list_events(const Kernels *k, const Wide *w, const uint32_t *bits, int32_t times, int fresh)
{
    const bs_layer *layer = w->layer;
    const uint32_t many = layer->in_columns * layer->in_channels;
    uint32_t n = 0;
    for (uint32_t y = 0; y < layer->in_rows; y++) {
        w->starts[y] = n;
        n += k->list_bits(bits, y * many, many, 0, w->events + n);
    }
    w->starts[layer->in_rows] = n;
    k->count_pixels(bits, layer->in_rows * layer->in_columns, layer->in_channels, times, fresh, w->pixels);
}

/* Add the rows of all events of one input row that reach a row of sums by kernel row ky. */
static void gather_row(Counter *c, const Wide *w, uint32_t y, uint32_t ky)
{
    const uint32_t base = ky * w->layer->in_columns * w->layer->in_channels;
    uint32_t from = w->starts[y], many = w->starts[y + 1] - from;
    while (many) {
        const uint32_t room = LIST - c->n, now = many < room ? many : room;
        c->kernels->move_list(w->events + from, now, base, c->list + c->n);
        c->n += now;
        from += now;
        many -= now;
        if (c->n == LIST)
            flush(c);
    }
}

/* Do something for each input row that reaches a row of sums: all rows of the pool's window, all of the kernel. */
#define FOR_EACH_ROW(w, row, y, ky) \
    for (uint32_t i_ = 0; i_ < (w)->pool.size * (w)->layer->kernel; i_++) \
        for (int64_t ky = i_ % (w)->layer->kernel, \
                     y = start_of((w)->layer, (row) * (w)->pool.stride + i_ / (w)->layer->kernel) + ky, once_ = 1; \
             once_ && y >= 0 && y < (int64_t)(w)->layer->in_rows; once_ = 0)

static void count_row(Counter *c, const Wide *w, uint32_t row, int32_t times, int fresh)
{
    c->times = times;
    c->fresh = fresh;
    c->counts = w->sums + row * w->stride;
    FOR_EACH_ROW(w, row, y, ky)
    gather_row(c, w, (uint32_t)y, (uint32_t)ky);
    if (fresh)
        finish(c);
    else
        flush(c);
}

static void add_ints(const int32_t *restrict from, size_t n, int32_t *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* 2 * counts - what fired: a row of sums, its columns pooled. */
static void finish_row(const Kernels *k, const Wide *w, uint32_t row)
{
    const bs_layer *layer = w->layer;
    int32_t *sums = w->sums + row * w->stride;
    memset(w->reached, 0, layer->in_columns * sizeof *w->reached);
    FOR_EACH_ROW(w, row, y, ky)
    add_ints(w->pixels + (size_t)y * layer->in_columns, layer->in_columns, w->reached);
    for (uint32_t column = 0; column < w->columns; column++) {
        const uint32_t first = column * w->pool.stride;
        int32_t total = 0;
        for (uint32_t i = 0; i < w->pool.size; i++) {
            const int64_t left = start_of(layer, first + i);
            const Span span = inside(left, layer->kernel, layer->in_columns);
            for (uint32_t kx = span.from; kx < span.from + span.many; kx++)
                total += w->reached[left + kx];
        }
        k->pool_columns(sums + (size_t)first * layer->channels, w->pool.size, layer->channels, total,
                        sums + (size_t)column * layer->channels);
    }
}

/* A pool of the map of sums, in place: what is written is never read again. */
static void pool_map(Wide *w, const bs_pool *pool)
{
    const uint32_t n = w->layer->channels;
    w->rows = places(w->rows, pool->size, pool->stride);
    w->columns = places(w->columns, pool->size, pool->stride);
    for (uint32_t y = 0; y < w->rows; y++)
        for (uint32_t x = 0; x < w->columns; x++)
            for (uint32_t j = 0; j < n; j++) {
                int32_t value = 0;
                for (uint32_t i = 0; i < pool->size * pool->size; i++) {
                    const size_t row = y * pool->stride + i / pool->size, column = x * pool->stride + i % pool->size;
                    const int32_t part = w->sums[row * w->stride + column * n + j];
                    if (pool->kind == BS_AVERAGE)
                        value += part;
                    else if (!i || part > value)
                        value = part;
                }
                w->sums[y * w->stride + (size_t)x * n + j] = value;
            }
}

/* The current of all neurons of a convolution with wide weights. */
static void wide_current(const Kernels *k, const bs_layer *layer, Planes in, const Shared *s, bs_number *current)
{
    const uint32_t divisor = divisor_of(layer);
    Wide w = wide_of(layer, s);
    Counter c;
    begin(&c, k, layer->wide, conv_places(layer->in_columns, layer) * layer->channels, w.sums);
    if (!in.planes)
        in.planes = 1; /* of zeros: nothing fired, and nothing is left in `pending` */
    for (uint32_t p = 0; p < in.planes; p++) {
        list_events(k, &w, in.bits + (size_t)p * in.words, (int32_t)1 << p, p == 0);
        for (uint32_t row = 0; row < w.rows; row++)
            count_row(&c, &w, row, (int32_t)1 << p, p == 0);
    }
    for (uint32_t row = 0; row < w.rows; row++)
        finish_row(k, &w, row);
    for (uint32_t i = w.pool.size > 1 || w.pool.stride > 1; i < layer->pools; i++)
        pool_map(&w, &layer->pool[i]);
    for (uint32_t y = 0; y < w.rows; y++)
        for (uint32_t x = 0; x < w.columns; x++)
            k->to_current(layer, w.sums + y * w.stride + (size_t)x * layer->channels, 1, 0, divisor,
                          current + ((size_t)y * w.columns + x) * layer->channels);
}

#endif
