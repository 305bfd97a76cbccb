/* Dropout of a whole current, and its mask as bytes (the definition is ops/dropout/reference.py). */
#include <stddef.h>

#include "dropout/draw.h"

enum { PLACES = 1024 /* that are drawn at once */ };

static FOR_EACH_CPU void draw_block(const Draw *d, int64_t first, int64_t n, int64_t block, uint8_t *kept)
{
    draw(d, first, n, block, kept);
}

static FOR_EACH_CPU void spread(const uint8_t *restrict four, int bit, int64_t n, uint8_t *restrict kept)
{
    for (int64_t i = 0; i < n; i++)
        kept[i] = (four[i] >> bit) & 1;
}

static FOR_EACH_CPU void scale_kept(const uint8_t *restrict four, int bit, int64_t n, float scale,
                                    const float *restrict x, float *restrict out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (four[i] >> bit) & 1 ? x[i] * scale : 0.0f;
}

/* Each block of four steps and each part of the places has a draw: into `kept` as bytes, or where that is NULL, of x into
 * `out`. */
static void for_all(const Draw *d, int64_t steps, int64_t places, int threads, uint8_t *kept, float scale,
                    const float *x, float *out)
{
    const int64_t chunks = (places + PLACES - 1) / PLACES, blocks = (steps + 3) / 4;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t task = 0; task < chunks * blocks; task++) {
        const int64_t block = task / chunks, start = task % chunks * PLACES;
        const int64_t n = places - start < PLACES ? places - start : PLACES;
        uint8_t four[PLACES];
        draw_block(d, start, n, block, four);
        for (int64_t t = 4 * block; t < steps && t < 4 * block + 4; t++) {
            const int64_t at = t * places + start;
            if (kept)
                spread(four, (int)(t % 4), n, kept + at);
            else
                scale_kept(four, (int)(t % 4), n, scale, x + at, out + at);
        }
    }
}

/* kept [steps, places]: 1 where the draw keeps. */
EXPORT void dropout_mask(const Draw *d, int64_t steps, int64_t places, int threads, uint8_t *kept)
{
    for_all(d, steps, places, threads, kept, 0, NULL, NULL);
}

/* out [steps, places]: x * scale where the draw keeps, else 0. */
EXPORT void dropout_scale(const Draw *d, int64_t steps, int64_t places, float scale, int threads, const float *x,
                          float *out)
{
    for_all(d, steps, places, threads, NULL, scale, x, out);
}
