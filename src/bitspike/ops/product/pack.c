/* Spikes and event counts as bits: what comes before the products. */
#include "product/pack.h"
#include "native/compiler.h"

enum { SPIKES = 0, COUNTS = 1, OTHER = 2 };

static FOR_EACH_CPU int pack_row(const float *restrict x, int64_t inputs, uint64_t *restrict bits,
                                 uint64_t *restrict more, int64_t *events)
{
    uint64_t any = 0;
    int64_t count = 0;
    for (int64_t w = 0; w < WORDS(inputs); w++) {
        const int64_t n = inputs - 64 * w < 64 ? inputs - 64 * w : 64;
        const float *v = x + 64 * w;
        uint64_t one = 0, zero = 0;
        for (int64_t i = 0; i < n; i++) {
            one |= (uint64_t)(v[i] == 1.0f) << i;
            zero |= (uint64_t)(v[i] == 0.0f) << i;
        }
        bits[w] = one;
        more[w] = ~(one | zero) & (n < 64 ? ((uint64_t)1 << n) - 1 : ~(uint64_t)0);
        any |= more[w];
        count += __builtin_popcountll(bits[w] | more[w]);
    }
    *events = count;
    if (!any)
        return SPIKES;
    for (int64_t i = 0; i < inputs; i++)
        if (!(x[i] >= 0.0f && x[i] <= 255.0f && x[i] == (float)(int)x[i]))
            return OTHER;
    return COUNTS;
}

/* x [rows, inputs] to bits [2, rows, words]: where a 1 is, and where more; `events` counts both.
 * Returns what x holds: spikes, whole numbers up to 255, or something else. */
EXPORT int pack_rows(const float *x, int64_t rows, int64_t inputs, int threads, uint64_t *bits, int64_t *events)
{
    const int64_t words = WORDS(inputs);
    int kind = SPIKES;
    int64_t total = 0;
#pragma omp parallel for num_threads(threads) schedule(static) reduction(max : kind) reduction(+ : total)
    for (int64_t r = 0; r < rows; r++) {
        int64_t count;
        const int here = pack_row(x + r * inputs, inputs, bits + r * words, bits + (rows + r) * words, &count);
        kind = here > kind ? here : kind;
        total += count;
    }
    *events = total;
    return kind;
}
