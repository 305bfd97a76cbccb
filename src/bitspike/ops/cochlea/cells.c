/* Hair cells and bushy cells (the definitions are cochlea/hair_cells.py and cochlea/bushy_cells.py, bit for bit). */
#include <stdlib.h>
#include <string.h>

#include "native/compiler.h"
#include "native/philox.h"

enum { ROWS = 8 /* units at once */, BLOCKS = 256 /* of four draws */ };

/* Shared with `c.py`, field by field: what `per_step` and `at_rest` of the definition return. */
typedef struct {
    double a, b, m, g, y, loss, r, x, h, q, c, w;
} Pools;

INLINE double at_least_0(double value)
{
    return value > 0 ? value : 0;
}

static FOR_EACH_CPU void release_rows(const Pools *p, int64_t rows, int64_t steps, const double *v, double *out)
{
    double q[ROWS], c[ROWS], w[ROWS];
    for (int i = 0; i < ROWS; i++) {
        q[i] = p->q;
        c[i] = p->c;
        w[i] = p->w;
    }
    for (int64_t t = 0; t < steps; t++) {
        double moved[ROWS] = {0};
        for (int64_t i = 0; i < rows; i++)
            moved[i] = v[i * steps + t] + p->a;
        for (int i = 0; i < ROWS; i++) {
            const double k = moved[i] > 0 ? p->g * moved[i] / (moved[i] + p->b) : 0;
            const double filled = q[i] < p->m ? p->y * p->m - p->y * q[i] : 0;
            const double ejected = k * q[i], reprocessed = p->x * w[i], before = c[i];
            q[i] = at_least_0(q[i] + filled - ejected + reprocessed);
            c[i] = at_least_0(before + ejected - p->loss * before);
            w[i] = at_least_0(w[i] + p->r * before - reprocessed);
        }
        for (int64_t i = 0; i < rows; i++)
            out[i * steps + t] = c[i] * p->h;
    }
}

/* out [units, steps]: the probability that a fibre fires, for a velocity [units, steps]. */
EXPORT void cochlea_hair_cells(const Pools *p, int64_t units, int64_t steps, int threads, const double *v, double *out)
{
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t first = 0; first < units; first += ROWS) {
        const int64_t rows = units - first < ROWS ? units - first : ROWS;
        release_rows(p, rows, steps, v + first * steps, out + first * steps);
    }
}

/* Philox-4x32: four numbers for each of n blocks of a unit. */
static FOR_EACH_CPU void draw_blocks(uint64_t key, uint32_t unit, uint32_t block, int64_t n, uint32_t *restrict out)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t c0 = unit, c1 = block + (uint32_t)i, c2 = 0, c3 = 0;
        philox(key, &c0, &c1, &c2, &c3);
        out[4 * i] = c0;
        out[4 * i + 1] = c1;
        out[4 * i + 2] = c2;
        out[4 * i + 3] = c3;
    }
}

INLINE double power(double base, int n)
{
    double result = 1;
    for (int bit = 0; bit < 6; bit++) {
        result = n >> bit & 1 ? result * base : result;
        base = base * base;
    }
    return result;
}

INLINE int binomial(double u, int n, double p)
{
    if (u < 1 - n * p - 1e-9) /* then u is below P(0) = (1 - p)^n, which is at least 1 - n p */
        return 0;
    if (!(p < 1))
        return n;
    const double odds = p / (1 - p);
    double chance = power(1 - p, n), below = chance;
    int count = 0;
    while (u >= below && count < n) {
        chance = chance * ((n - count) * odds) / (count + 1);
        below += chance;
        count++;
    }
    return count;
}

/* Shared with `c.py`, field by field. */
typedef struct {
    int64_t fibres, refractory;
    double decay, synapse, weight;
    uint64_t key;
} Bushy;

static void fire_row(const Bushy *b, uint32_t unit, int64_t steps, const double *p, uint8_t *fired, uint8_t *spikes)
{
    uint32_t draws[4 * BLOCKS];
    int free = (int)b->fibres;
    double u = 0, current = 0;
    int64_t until = 0, slot = 0;
    memset(fired, 0, (size_t)b->refractory);
    for (int64_t t = 0; t < steps; t++) {
        const int64_t at = t % (4 * BLOCKS);
        if (at == 0)
            draw_blocks(b->key, unit, (uint32_t)(t / 4), BLOCKS, draws);
        free += fired[slot];
        const int now = binomial((draws[at] + 0.5) / 4294967296.0, free, p[t]);
        fired[slot] = (uint8_t)now;
        free -= now;
        slot = slot + 1 == b->refractory ? 0 : slot + 1;
        current = current * b->synapse + now;
        u = until <= t ? u * b->decay + current * b->weight : 0;
        spikes[t] = u >= 1;
        if (u >= 1) {
            u = 0;
            until = t + 1 + b->refractory;
        }
    }
}

/* spikes [units, steps] of bushy cells whose fibres fire with probability p [units, steps]. Returns 1 without memory. */
EXPORT int cochlea_bushy_cells(const Bushy *b, int64_t first, int64_t units, int64_t steps, int threads,
                               const double *p, uint8_t *spikes)
{
    int failed = 0;
#pragma omp parallel for num_threads(threads) schedule(dynamic) reduction(+ : failed)
    for (int64_t i = 0; i < units; i++) {
        uint8_t *fired = malloc((size_t)b->refractory);
        if (fired == NULL)
            failed++;
        else
            fire_row(b, (uint32_t)(first + i), steps, p + i * steps, fired, spikes + i * steps);
        free(fired);
    }
    return failed;
}
