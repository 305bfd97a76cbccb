/* What comes before the products: spikes and event counts as bits, and the mask of dropout (ops/dropout.py). */
#include "pack.h"
#include "scan.h"

enum { SPIKES = 0, COUNTS = 1, OTHER = 2 };

/* What all kernels of this library were written for: raise it with library.py's when a structure changes. */
EXPORT int cpu_interface(void)
{
    return 1;
}

static FOR_EACH_CPU int pack_row(const float *restrict x, int64_t inputs, uint64_t *restrict bits)
{
    int unlike = 0;
    for (int64_t w = 0; w < WORDS(inputs); w++) {
        const int64_t n = inputs - 64 * w < 64 ? inputs - 64 * w : 64;
        const float *v = x + 64 * w;
        uint64_t word = 0;
        int odd = 0;
        for (int64_t i = 0; i < n; i++) {
            word |= (uint64_t)(v[i] != 0.0f) << i;
            odd |= (v[i] != 0.0f) & (v[i] != 1.0f);
        }
        bits[w] = word;
        unlike |= odd;
    }
    if (!unlike)
        return SPIKES;
    for (int64_t i = 0; i < inputs; i++)
        if (!(x[i] >= 0.0f && x[i] <= 255.0f && x[i] == (float)(int)x[i]))
            return OTHER;
    return COUNTS;
}

/* x [rows, inputs] to bits [rows, words]; returns what x holds: spikes, whole numbers up to 255, or something else. */
EXPORT int pack_rows(const float *x, int64_t rows, int64_t inputs, int threads, uint64_t *bits)
{
    int kind = SPIKES;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : kind)
    for (int64_t r = 0; r < rows; r++) {
        const int here = pack_row(x + r * inputs, inputs, bits + r * WORDS(inputs));
        kind = here > kind ? here : kind;
    }
    return kind;
}

/* Philox-4x32-10 with counter (place, block, layer, 0): bits 0 to 3 are "kept" at the block's four steps. */
static FOR_EACH_CPU void draw(int64_t first, int64_t n, uint32_t block, uint32_t layer, uint64_t key, uint32_t below,
                              uint8_t *restrict kept)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t c0 = (uint32_t)(first + i), c1 = block, c2 = layer, c3 = 0;
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int round = 0; round < 10; round++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
            c1 = (uint32_t)p1;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c3 = (uint32_t)p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        kept[i] = (uint8_t)((c0 >= below) | (c1 >= below) << 1 | (c2 >= below) << 2 | (c3 >= below) << 3);
    }
}

static FOR_EACH_CPU void spread(const uint8_t *restrict four, int bit, int64_t n, uint8_t *restrict kept)
{
    for (int64_t i = 0; i < n; i++)
        kept[i] = (four[i] >> bit) & 1;
}

/* kept [steps, places]: 1 where the draw is not below `below`; place 0 has the counter `first`. */
EXPORT void dropout_mask(int64_t steps, int64_t places, int64_t first, int64_t layer, uint64_t key, uint32_t below,
                         int threads, uint8_t *kept)
{
    const int64_t chunks = (places + BLOCK - 1) / BLOCK, blocks = (steps + 3) / 4;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t task = 0; task < chunks * blocks; task++) {
        const int64_t block = task / chunks, start = task % chunks * BLOCK;
        const int64_t n = places - start < BLOCK ? places - start : BLOCK;
        uint8_t four[BLOCK];
        draw(first + start, n, (uint32_t)block, (uint32_t)layer, key, below, four);
        for (int64_t t = 4 * block; t < steps && t < 4 * block + 4; t++)
            spread(four, (int)(t % 4), n, kept + t * places + start);
    }
}
