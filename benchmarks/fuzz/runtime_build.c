/* One build of the runtime, under the name RUN: it makes a network of a plan, and does what the plan says.
 *
 * Arrays lie in blocks of exactly their size, so that AddressSanitizer sees every byte that is read beside them. They
 * hold what the Python side lets pass: finite numbers, decays from 0 to 1, thresholds above 0, delays up to `longest`.
 * Sizes are only what bs_check lets pass. Inputs are anything.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime.c"

#include "runtime_plan.h"

enum { MOST_BLOCKS = 64, BIG = 20000 };

typedef struct {
    void *all[MOST_BLOCKS];
    int n;
} Blocks;

static void *block(Blocks *b, size_t bytes)
{
    void *made = malloc(bytes ? bytes : 1);
    if (b->n == MOST_BLOCKS || !made)
        abort();
    memset(made, 0xA5, bytes);
    return b->all[b->n++] = made;
}

static void *bits_block(Blocks *b, uint32_t rows, uint32_t lanes, uint32_t *s)
{
    uint32_t *bits = block(b, (size_t)rows * words_of(lanes) * 4);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t w = 0; w < words_of(lanes); w++) {
            const uint32_t left = lanes - 32 * w;
            bits[(size_t)r * words_of(lanes) + w] = draw(s) & (left < 32 ? (1u << left) - 1 : ~0u);
        }
    return bits;
}

/* The digits of random gains, behind the last input too, and other ones for each pixel of a convolution. */
static void *gains_block(Blocks *b, const bs_layer *layer, uint32_t *s)
{
    const uint32_t words = layer->gain_words, digits = (uint32_t)digits_of(layer->largest_gain);
    uint32_t *bits = block(b, (size_t)digits * words * 4);
    memset(bits, 0, (size_t)digits * words * 4);
    for (uint32_t i = 0; i < 32 * words; i++) {
        const uint32_t gain = draw(s) % (layer->largest_gain + 1);
        for (uint32_t d = 0; d < digits; d++)
            bits[(size_t)d * words + i / 32] |= (gain >> d & 1) << i % 32;
    }
    return bits;
}

static float special(uint32_t *s)
{
    static const float known[] = {0.0f, -0.0f, 1.0f, -1.0f, 2.0f, 3.0f, 127.0f, 255.0f, 256.0f, 0.5f, 1e-45f, -1e-40f,
                                  16777216.0f, 2147483648.0f, -2147483904.0f, 3.4e38f, -3.4e38f, 32768.0f, 2048.0f};
    const uint32_t at = draw(s) % (sizeof known / sizeof *known);
    return known[at];
}

/* A finite number of the size that networks have, or of any. */
static double number(uint32_t *s, uint32_t loud)
{
    return loud && draw(s) % 4 == 0 ? special(s) : ((double)(draw(s) & 65535) - 32768) / 8192;
}

static void put(void *to, size_t i, double value, int behind)
{
#ifdef BS_FIXED
    const double most = 2147483647.0, scaled = rint(ldexp(value, behind));
    ((int32_t *)to)[i] = (int32_t)(scaled > most ? most : scaled < -most ? -most : scaled);
#else
    (void)behind;
    ((float *)to)[i] = (float)value;
#endif
}

enum { ANY, SHARE, POSITIVE };

static void *numbers(Blocks *b, uint32_t n, int rule, int behind, uint32_t loud, uint32_t *s)
{
    void *made = block(b, (size_t)n * 4);
    for (uint32_t i = 0; i < n; i++) {
        double value = number(s, loud);
        if (rule == SHARE)
            value = (draw(s) & 255) / 255.0;
        if (rule == POSITIVE)
            value = fabs(value) + 1e-3;
        put(made, i, value > 3.4e38 ? 3.4e38 : value, behind);
    }
    return made;
}

static bs_factor factor_of(double value)
{
    bs_factor made;
    put(&made, 0, value, 24);
    return made;
}

static void sizes(const LayerPlan *p, bs_layer *to)
{
    memset(to, 0, sizeof *to);
    memcpy(to, p, 11 * sizeof(uint32_t)); /* the sizes are the first of both */
    memcpy(to->pool, p->pool, sizeof to->pool);
    to->longest = p->longest;
    to->gain_words = p->gain_words;
    to->largest_gain = p->largest_gain;
    to->betas = p->betas;
    to->thetas = p->thetas;
    to->adaptive = p->adaptive && p->fires;
}

/* bs_check does not read arrays, only whether they are there. */
static void pretend(const LayerPlan *p, bs_layer *to)
{
    static const uint32_t somewhere[1];
    const void *there = somewhere;
    to->weight = there;
    to->beta = there;
    to->theta = p->fires ? there : NULL;
    to->scale = to->offset = p->scale ? there : NULL;
    to->recurrent = p->recurrent && p->fires ? there : NULL;
    to->delays = p->delays ? there : NULL;
    to->gains = p->gains ? there : NULL;
}

/* Whether a layer takes little time and memory: how often a sum is begun, and how long it is. */
static int is_small(const bs_layer *layer)
{
    double sums = (double)neurons_of(layer), taps = layer->in_channels;
    for (uint32_t i = 0; i < layer->pools; i++)
        sums *= (double)layer->pool[i].size * layer->pool[i].size;
    taps *= (double)layer->kernel * layer->kernel;
    if (layer->kind == BS_CONV) {
        const double before = (double)conv_places(layer->in_rows, layer) * conv_places(layer->in_columns, layer);
        sums = sums > before * layer->channels ? sums : before * layer->channels;
    }
    return sums <= 4e4 && taps <= 4096 && sums * taps <= 1e6 && inputs_of(layer) <= BIG && layer->channels <= 2048 &&
           (!layer->recurrent || neurons_of(layer) <= 700) && (!layer->delays || layer->longest <= 600);
}

static void fill(const LayerPlan *p, bs_layer *to, Blocks *b)
{
    uint32_t s = p->seed | 1;
    const uint32_t n = neurons_of(to), taps = to->in_channels * to->kernel * to->kernel;
    const uint32_t delayed = to->kind == BS_CONV ? to->in_channels : inputs_of(to);
    to->weight = bits_block(b, taps, to->channels, &s);
    to->beta = numbers(b, to->betas, SHARE, 24, 0, &s);
    to->theta = p->fires ? numbers(b, to->thetas, POSITIVE, 16, p->loud, &s) : NULL;
    to->bias = p->bias ? numbers(b, to->channels, ANY, 16, p->loud, &s) : NULL;
    to->scale = p->scale ? numbers(b, to->channels, ANY, 24, p->loud, &s) : NULL;
    to->offset = p->scale ? numbers(b, to->channels, ANY, 16, p->loud, &s) : NULL;
    to->recurrent = p->recurrent && p->fires ? bits_block(b, n, n, &s) : NULL;
    to->recurrent_scale = factor_of(fabs(number(&s, p->loud)));
    to->rho = factor_of((draw(&s) & 255) / 255.0);
    to->rest = factor_of((draw(&s) & 255) / 255.0);
    to->strength = factor_of(fabs(number(&s, p->loud)));
    to->gains = p->gains ? gains_block(b, to, &s) : NULL;
    to->delays = NULL;
    if (p->delays) {
        uint16_t *delays = block(b, delayed * sizeof *delays);
        for (uint32_t i = 0; i < delayed; i++)
            delays[i] = (uint16_t)(draw(&s) % (to->longest + 1));
        to->delays = delays;
    }
#ifndef BS_SMALL
    if (bs_wide_bytes(to)) {
        uint32_t *wide = block(b, bs_wide_bytes(to));
        bs_widen(to, wide);
        to->wide = wide;
    }
#endif
}

/* Bytes into a digest (FNV-1a); all NaN are one, since their digits are the processor's choice. */
static void digest(uint64_t *d, const void *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        *d = (*d ^ ((const uint8_t *)from)[i]) * 1099511628211u;
}

static void digest_floats(uint64_t *d, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, (const char *)from + 4 * i, 4);
        digest(d, value == value ? (const void *)&value : "nan.", 4);
    }
}

static void ask(const bs_model *model, const void *state, uint64_t *d)
{
    const uint32_t steps = bs_steps(model, state), classes = neurons_of(&model->layer[model->layers - 1]);
    float *scores = malloc(classes * sizeof *scores);
    for (uint32_t l = 0; l < model->layers; l++) {
        const uint32_t n = neurons_of(&model->layer[l]);
        digest(d, bs_spikes(model, state, l), words_of(n) * 4);
#ifdef BS_FIXED
        digest(d, bs_membrane(model, state, l), (size_t)n * 4);
#else
        digest_floats(d, bs_membrane(model, state, l), n);
#endif
    }
    bs_scores(model, state, scores);
    digest_floats(d, scores, classes);
    digest(d, bs_counts(model, state), classes * 4);
    digest(d, &steps, sizeof steps);
    free(scores);
}

static float input_value(uint32_t style, uint32_t *s)
{
    switch (style % 6) {
    case 0: return (float)(draw(s) % 8 == 0);
    case 1: return (float)(draw(s) % 4);
    case 2: return (float)(draw(s) & 255) / 255.0f;
    case 3: return (float)(draw(s) & 255);
    case 4: return special(s);
    default: break;
    }
    if (draw(s) % 8)
        return 0.0f;
    const uint32_t bits = draw(s);
    float value; /* any at all: NaN, infinite, denormal */
    memcpy(&value, &bits, sizeof value);
    return value;
}

#ifndef BS_ONLY_COUNTS
/* Small builds show an image as it is, the others by a map of its sums: all must agree. */
static void show_image(const bs_model *model, void *state, const float *image, int down, int right)
{
#ifdef BS_SMALL
    bs_show(model, state, image, down, right);
#else
    const size_t bytes = bs_map_bytes(model);
    void *map = bytes ? malloc(bytes) : NULL;
    if (map)
        bs_map(model, image, map);
    bs_show_map(model, state, image, map, down, right);
    free(map);
#endif
}
#endif

static int act_on(const bs_model *model, void *state, const Act *act)
{
    const uint32_t inputs = inputs_of(model->layer);
    uint32_t s = act->seed | 1;
    float *frame;
    uint8_t *bytes;
    int code = 0;
    switch (act->act) {
    case EVENT: return bs_event(model, state, act->index, act->count);
    case STEP: return bs_step(model, state, NULL);
    case REST: bs_rest(model, state); return 0;
    case RESET: bs_reset(model, state); return 0;
    case ASK: return 0;
    case BYTES:
        bytes = malloc(inputs);
        for (uint32_t i = 0; i < inputs; i++)
            bytes[i] = (uint8_t)(act->style & 1 ? draw(&s) : draw(&s) % 5 == 0);
        code = bs_step_bytes(model, state, bytes);
        free(bytes);
        return code;
    default: break;
    }
    frame = malloc(inputs * sizeof *frame);
    for (uint32_t i = 0; i < inputs; i++)
        frame[i] = input_value(act->style, &s);
    if (act->act == FRAME)
        code = bs_step(model, state, frame);
#ifndef BS_ONLY_COUNTS
    else if (model->image)
        show_image(model, state, frame, (int)act->index, (int)act->count);
#endif
    free(frame);
    return code;
}

Outcome RUN(const Plan *plan, int vectors)
{
    bs_layer layers[MOST_LAYERS];
    const bs_model model = {plan->layers,     layers,      plan->in_channels, plan->in_rows,
                            plan->in_columns, plan->input, plan->planes,      plan->image};
    Outcome outcome = {REFUSED, 14695981039346656037u};
    Blocks blocks = {{NULL}, 0};
    size_t bytes;
    char *memory;
#if BS_VECTORS
    bs_vectors = vectors;
#else
    (void)vectors;
#endif
    for (uint32_t l = 0; l < MOST_LAYERS; l++) {
        sizes(&plan->layer[l], &layers[l]);
        pretend(&plan->layer[l], &layers[l]);
    }
    if (plan->layers > MOST_LAYERS || bs_check(&model))
        return outcome;
    outcome.end = LARGE;
    for (uint32_t l = 0; l < model.layers; l++)
        if (!is_small(&layers[l]))
            return outcome;
    for (uint32_t l = 0; l < model.layers; l++)
        fill(&plan->layer[l], &layers[l], &blocks);
    bytes = bs_state_bytes(&model);
    memory = malloc(bytes + plan->shift);
    bs_reset(&model, memory + plan->shift);
    for (uint32_t i = 0; i < plan->acts; i++) {
        const int code = act_on(&model, memory + plan->shift, &plan->act[i]);
        digest(&outcome.digest, &code, sizeof code);
        ask(&model, memory + plan->shift, &outcome.digest);
    }
    free(memory);
    while (blocks.n)
        free(blocks.all[--blocks.n]);
    outcome.end = RAN;
    return outcome;
}
