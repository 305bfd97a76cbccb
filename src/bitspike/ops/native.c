/* The C twin of the LIF scan (lif_reference.py): float32, no recurrence, no adaptation.
 *
 * Time runs inside a block of neurons, so the state stays in registers and first-level cache and every byte of
 * [T, M] is touched once. One order of operations, each rounded: beta*u, + I, - theta*z; compile with
 * -ffp-contract=off, a fused multiply-add would differ in the last bit and flip spikes.
 *
 * backward() keeps nothing from forward(): it runs a block forward again into scratch, then walks back through it.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

/* One copy a generation of x86-64, chosen when loaded; needs glibc's loader and a recent GCC. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && __GNUC__ >= 12
#define FOR_EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_CPU
#endif

enum { BLOCK = 1024, SCRATCH = 1 << 17 /* floats: half a megabyte, within a second-level cache */ };

/* What lif_c.py was written for: raise both when a structure or signature changes. */
EXPORT int lif_interface(void)
{
    return 1;
}

/* Shared with lif_c.py, field by field. A step of 0 repeats one value; 1 gives each neuron its own. */
typedef struct {
    int64_t steps, neurons;
    int64_t current_step; /* `neurons`, or 0 for a current that is constant in time */
    int64_t beta_step, theta_step, center_step;
    const float *current, *beta, *theta, *center;
    const float *u0, *z0;
    float slope;
} Scan;

typedef struct {
    float u[BLOCK], z[BLOCK], beta[BLOCK], theta[BLOCK];
} Block;

static void load_block(const Scan *s, int64_t first, int64_t n, Block *b)
{
    for (int64_t i = 0; i < n; i++) {
        b->u[i] = s->u0[first + i];
        b->z[i] = s->z0[first + i];
        b->beta[i] = s->beta[s->beta_step * (first + i)];
        b->theta[i] = s->theta[s->theta_step * (first + i)];
    }
}

static inline __attribute__((always_inline)) void advance(Block *restrict b, const float *restrict current, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float u = b->beta[i] * b->u[i];
        u = u + current[i];
        u = u - b->theta[i] * b->z[i];
        b->u[i] = u;
        b->z[i] = u >= b->theta[i] ? 1.0f : 0.0f;
    }
}

static inline __attribute__((always_inline)) void copy(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
}

static inline __attribute__((always_inline)) void add(float *restrict to, const float *restrict what, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += what[i];
}

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

/* What a backward pass reads (NULL where a gradient is zero) and writes. Shared with lif_c.py, field by field. */
typedef struct {
    const float *spikes, *membrane; /* [T, M] */
    const float *u_last;            /* [M] */
    float *current;                 /* [T, M], or [M] if the current is constant in time */
    float *u0;                      /* [M] */
    float *beta;                    /* [M] or NULL */
} Gradients;

/* `us` is scratch for `steps` rows of `width` floats; n <= width <= BLOCK. */
static FOR_EACH_CPU void backward_block(const Scan *s, int64_t first, int64_t n, const Gradients *grad,
                                        float *restrict us, int64_t width)
{
    Block b;
    float g[BLOCK], center[BLOCK], sum[BLOCK], beta[BLOCK];
    load_block(s, first, n, &b);
    for (int64_t t = 0; t < s->steps; t++) {
        advance(&b, s->current + t * s->current_step + first, n);
        copy(us + t * width, b.u, n);
    }
    for (int64_t i = 0; i < n; i++) {
        center[i] = s->center[s->center_step * (first + i)];
        g[i] = grad->u_last ? grad->u_last[first + i] : 0.0f;
        sum[i] = beta[i] = 0.0f;
    }
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        const float *restrict u = us + t * width;
        const float *restrict before = t > 0 ? u - width : s->u0 + first;
        if (grad->spikes) {
            const float *restrict gz = grad->spikes + t * s->neurons + first;
            for (int64_t i = 0; i < n; i++) {
                float d = 1.0f + s->slope * fabsf(center[i] - u[i]);
                g[i] += gz[i] / (d * d);
            }
        }
        if (grad->membrane)
            add(g, grad->membrane + t * s->neurons + first, n);
        if (s->current_step)
            copy(grad->current + t * s->neurons + first, g, n);
        else
            add(sum, g, n);
        if (grad->beta)
            for (int64_t i = 0; i < n; i++)
                beta[i] += g[i] * before[i];
        for (int64_t i = 0; i < n; i++)
            g[i] = b.beta[i] * g[i];
    }
    copy(grad->u0 + first, g, n);
    if (!s->current_step)
        copy(grad->current + first, sum, n);
    if (grad->beta)
        copy(grad->beta + first, beta, n);
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
