/* Columns of steps in the cache: what the kernels of filter.c and shift.c share.
 *
 * A step is a row of columns: sample, neuron, site. Rows of a large batch lie so far apart that a few of them push each
 * other out of the cache. So a chunk of columns is copied into strips, [rows, WIDE] each, changed there in place and
 * copied out again.
 */
#ifndef FILTER_STRIPS_H
#define FILTER_STRIPS_H

#include <stdlib.h>
#include <string.h>

#include "native/compiler.h"

enum {
    WIDE = 16,     /* columns of a strip */
    STRIPS = 32,   /* of a chunk, at most: 2 kB of each step are read at once */
    ROOM = 4096,   /* rows of all strips of a chunk: 256 kB, for the second cache */
    PER_BLOCK = 4, /* steps that share a draw of dropout */
};

typedef float Row __attribute__((vector_size(WIDE * sizeof(float))));
typedef int32_t Words __attribute__((vector_size(WIDE * sizeof(int32_t))));
typedef uint8_t Bytes __attribute__((vector_size(WIDE)));

/* Shared with `_CFilter` of filter/c.py, field by field. Before the first of `steps` there are `reach` earlier ones,
 * past [reach, B, N, S]: silence if it is NULL. weights [N, reach + 1]; gains [N] or NULL.
 * kept [(steps + 3) / 4, B, N, S]: bits 0 to 3 say what dropout keeps of four steps, times `scale`; NULL without it. */
typedef struct {
    int64_t steps, reach, batch, neurons, sites;
    const float *past, *weights, *gains;
    uint8_t *kept;
    float scale;
} Filter;

INLINE int64_t columns(const Filter *f)
{
    return f->batch * f->neurons * f->sites;
}

INLINE int64_t neuron(const Filter *f, int64_t column)
{
    return column / f->sites % f->neurons;
}

/* How many columns a chunk has, if each strip has so many rows. */
INLINE int64_t chunk(int64_t rows)
{
    const int64_t strips = ROOM / rows;
    return WIDE * (strips < 1 ? 1 : strips > STRIPS ? STRIPS : strips);
}

INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

INLINE Row load(const float *from)
{
    Row row;
    memcpy(&row, from, sizeof row);
    return row;
}

INLINE void store(float *to, Row row)
{
    memcpy(to, &row, sizeof row);
}

/* Copy n columns of `count` steps into strips of so many rows, from row `at` on; NULL stands for zeros. */
INLINE void fill(float *strips, int64_t rows, int64_t at, const float *from, int64_t count, int64_t stride, int64_t n)
{
    for (int64_t t = 0; t < count; t++)
        for (int64_t i = 0; i < n; i += WIDE) {
            float *to = strips + i * rows + (at + t) * WIDE;
            if (!from || n - i < WIDE)
                memset(to, 0, WIDE * sizeof *to);
            if (from && n - i < WIDE)
                memcpy(to, from + t * stride + i, (size_t)(n - i) * sizeof *to);
            else if (from)
                memcpy(to, from + t * stride + i, WIDE * sizeof *to);
        }
}

/* The way back; nothing where there is no place to go. */
INLINE void drain(const float *strips, int64_t rows, int64_t at, float *to, int64_t count, int64_t stride, int64_t n)
{
    for (int64_t t = 0; to && t < count; t++)
        for (int64_t i = 0; i < n; i += WIDE) {
            const float *from = strips + i * rows + (at + t) * WIDE;
            if (n - i < WIDE)
                memcpy(to + t * stride + i, from, (size_t)(n - i) * sizeof *to);
            else
                memcpy(to + t * stride + i, from, WIDE * sizeof *to);
        }
}

/* row * scale where the bit of a column is set, else 0. */
INLINE Row dropped(Row row, const uint8_t *kept, int64_t n, int bit, float scale)
{
    Bytes bytes = {0};
    if (n < WIDE)
        memcpy(&bytes, kept, (size_t)n);
    else
        memcpy(&bytes, kept, sizeof bytes);
    const Words mask = -((__builtin_convertvector(bytes, Words) >> bit) & 1);
    return (Row)((Words)(row * scale) & mask);
}

/* In place, the rows of all steps from row `at` on: dropout, as the filter keeps it of the columns from `first` on. */
INLINE void drop(const Filter *f, float *strips, int64_t rows, int64_t at, int64_t first, int64_t n)
{
    for (int64_t t = 0; f->kept && t < f->steps; t++) {
        const uint8_t *kept = f->kept + t / PER_BLOCK * columns(f) + first;
        for (int64_t i = 0; i < n; i += WIDE) {
            float *row = strips + i * rows + (at + t) * WIDE;
            store(row, dropped(load(row), kept + i, n - i, (int)(t % PER_BLOCK), f->scale));
        }
    }
}

/* A chunk's strips: the steps before the first, then the input, after dropout. */
INLINE void fill_input(const Filter *f, const float *x, int64_t first, int64_t n, float *strips, int64_t rows)
{
    const int64_t stride = columns(f);
    fill(strips, rows, 0, f->past ? f->past + first : NULL, f->reach, stride, n);
    fill(strips, rows, f->reach, x + first, f->steps, stride, n);
    drop(f, strips, rows, f->reach, first, n);
}

/* A chunk's strips: the gradient of the output, with zeros before and after it. */
INLINE void fill_gradient(const Filter *f, const float *grad, int64_t first, int64_t n, float *strips, int64_t rows)
{
    const int64_t stride = columns(f);
    fill(strips, rows, 0, NULL, f->reach, stride, n);
    fill(strips, rows, f->reach, grad + first, f->steps, stride, n);
    fill(strips, rows, f->reach + f->steps, NULL, f->reach, stride, n);
}

/* Where a chunk's gradients go; either may be NULL. */
INLINE void drain_gradient(const Filter *f, float *strips, int64_t rows, int64_t first, int64_t n, float *grad_x,
                           float *grad_past)
{
    const int64_t stride = columns(f);
    drain(strips, rows, 0, grad_past ? grad_past + first : NULL, f->reach, stride, n);
    drop(f, strips, rows, f->reach, first, n);
    drain(strips, rows, f->reach, grad_x ? grad_x + first : NULL, f->steps, stride, n);
}

/* Rows begin where a cache line does, since a vector that lies in two of them is loaded twice. */
INLINE float *room(int64_t rows, int64_t wide)
{
    return aligned_alloc(sizeof(Row), (size_t)(rows * wide) * sizeof(float));
}

#endif
