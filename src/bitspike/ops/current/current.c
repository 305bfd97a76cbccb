/* What surrounds the products of a layer at test time: are the inputs whole numbers, and the last steps of the
 * definition (reference.py), each rounded by itself. */
#include <string.h>

#include "native/compiler.h"

enum { CHUNK = 1 << 14 /* numbers that a thread looks at together */ };

/* The largest magnitude by its bits, which have the order of the numbers; NaN comes behind all. `whole` is set to 0 if
 * a number below 2^22 is not whole. */
static FOR_EACH_CPU uint32_t look(const float *restrict x, int64_t n, int *whole)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    uint32_t largest = 0, different = 0;
    for (int64_t i = 0; i < n; i++) {
        const float rounded = (x[i] + shift) - shift;
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        different |= (uint32_t)(rounded != x[i]);
    }
    *whole = !different;
    return largest;
}

/* Returns whether all of x are whole numbers, if `largest`, the largest magnitude, is below 2^22. */
EXPORT int current_whole(const float *x, int64_t n, int threads, float *largest)
{
    uint32_t most = 0;
    int all = 1;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : most) reduction(&& : all)
    for (int64_t at = 0; at < n; at += CHUNK) {
        int whole;
        const uint32_t here = look(x + at, n - at < CHUNK ? n - at : CHUNK, &whole);
        most = here > most ? here : most;
        all = all && whole;
    }
    memcpy(largest, &most, sizeof most);
    return all;
}

static FOR_EACH_CPU void finish_row(float *restrict c, int64_t n, const float *restrict bias,
                                    const float *restrict scale, const float *restrict offset)
{
    if (bias)
        for (int64_t i = 0; i < n; i++)
            c[i] = c[i] + bias[i];
    if (scale)
        for (int64_t i = 0; i < n; i++)
            c[i] = c[i] * scale[i] + offset[i]; /* two roundings: no contraction (setup.py) */
}

/* c [rows, n] in place: c + bias, then c * scale + offset; each of bias [n] and the pair scale, offset [n] may be NULL. */
EXPORT void current_finish(float *c, int64_t rows, int64_t n, int threads, const float *bias, const float *scale,
                           const float *offset)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++)
        finish_row(c + row * n, n, bias, scale, offset);
}
