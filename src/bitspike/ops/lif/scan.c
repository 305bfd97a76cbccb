/* The C twin of the LIF scan (its definition is lif/reference.py): float32, no recurrence, no adaptation. The scan
 * itself is in scan.h.
 *
 * backward() keeps nothing from forward(): it runs a block forward again into scratch, then walks back through it.
 */
#include "lif/scan.h"

enum { SCRATCH = 1 << 17 /* floats: half a megabyte, within a second-level cache */ };

static FOR_EACH_CPU void forward_block(const Scan *s, int64_t first, int64_t n, float *spikes, float *membrane,
                                       float *u_last)
{
    Block b;
    load_block(s, first, n, &b);
    for (int64_t t = 0; t < s->steps; t++) {
        advance(&b, s->current + t * s->current_step + first, n);
        copy(spikes + t * s->neurons + first, b.z, n);
        if (membrane)
            copy(membrane + t * s->neurons + first, b.u, n);
    }
    copy(u_last + first, b.u, n);
}

/* spikes [T, M]; membrane [T, M] or NULL; u_last [M]. */
EXPORT void lif_forward(const Scan *s, int threads, float *spikes, float *membrane, float *u_last)
{
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t first = 0; first < s->neurons; first += BLOCK) {
        const int64_t rest = s->neurons - first;
        forward_block(s, first, rest < BLOCK ? rest : BLOCK, spikes, membrane, u_last);
    }
}

/* `us` is scratch for `steps` rows of `width` floats; n <= width <= BLOCK. */
static FOR_EACH_CPU void backward_block(const Scan *s, int64_t first, int64_t n, const Gradients *grad, float *us,
                                        int64_t width)
{
    Block b;
    load_block(s, first, n, &b);
    for (int64_t t = 0; t < s->steps; t++) {
        advance(&b, s->current + t * s->current_step + first, n);
        copy(us + t * width, b.u, n);
    }
    walk_back(s, first, n, grad, b.beta, us, width, grad->current + first, s->neurons);
}

/* Returns how many threads found no memory for their scratch: 0 is success. */
EXPORT int lif_backward(const Scan *s, int threads, const Gradients *grad)
{
    int64_t width = SCRATCH / s->steps / 16 * 16;
    width = width > BLOCK ? BLOCK : width < 16 ? 16 : width;
    int failed = 0;
#pragma omp parallel num_threads(threads) reduction(+ : failed)
    {
        float *us = malloc((size_t)s->steps * (size_t)width * sizeof(float));
        failed += us == NULL;
#pragma omp for schedule(static)
        for (int64_t first = 0; first < s->neurons; first += width) {
            const int64_t rest = s->neurons - first;
            if (us)
                backward_block(s, first, rest < width ? rest : width, grad, us, width);
        }
        free(us);
    }
    return failed;
}
