/* A part of runtime.c: the state, whose parts lie one after the other in the caller's memory. */
#ifndef BITSPIKE_RUNTIME_STATE_H
#define BITSPIKE_RUNTIME_STATE_H

#include "runtime.h"
#include "runtime_numbers.h"
#include "runtime_sizes.h"

/* Lanes that vector code may write behind the last one; bytes that parts of the state are aligned to; binary digits of a
 * counter: with more of them a longer list of rows is counted at once, and the list lies on the stack; the same of a
 * counter of rows that are worth more than 1. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(BS_PORTABLE) && !defined(BS_SMALL) && \
    !defined(BS_ONLY_COUNTS) && !defined(BS_FIXED)
#define BS_VECTORS 1
enum { LANES = 512, PART = 64, DIGITS = 10, WORTH_DIGITS = 10 };
#else
#define BS_VECTORS 0
enum { LANES = 32, PART = 8, DIGITS = 8, WORTH_DIGITS = 12 };
#endif

#if defined(BS_ONLY_COUNTS) && !defined(BS_SMALL)
#define BS_SMALL
#endif

enum { LIST = (1 << DIGITS) - 1 /* rows that counters of so many binary digits can count */,
       WORTH = (1 << WORTH_DIGITS) - 1 /* what rows may be worth */ };
#define WIDEST_SUMS (1u << 22) /* sums of a convolution with wide weights, at most: each row of them is padded */
#define WIDEST (1u << 20) /* bytes of wide weights, at most: more of them leave the second cache */

typedef struct {
    uint32_t steps; /* since the reset */
    uint32_t shown; /* whether an image is */
    uint32_t used;  /* planes of `pending` that may hold something */
} Head;

/* What all layers share. */
typedef struct {
    Head *head;
    uint32_t *counts;    /* [classes] */
    Total *totals;       /* [classes]: sums of the last membrane, where it is the answer */
    uint32_t *pending;   /* [planes, words of the input]: events of the step that comes */
    bs_number *shown;    /* [neurons of the first layer]: the current of an image */
    int32_t *sums;       /* [neurons], of the layer that runs, or of its map */
    bs_number *current;  /* [neurons] */
    bs_number *feedback; /* [neurons], of a recurrent layer */
    int32_t *window;     /* [pools + 1, channels], of a convolution */
    uint32_t *gained;    /* [planes, words of the inputs]: what arrives, times its gains */
    uint32_t *extra;     /* of a convolution with wide weights: see runtime_wide.h */
} Shared;

/* What one layer keeps. */
typedef struct {
    bs_number *u, *a; /* [neurons]; `a` only where thresholds adapt */
    uint32_t *z;      /* bits [neurons] */
    uint32_t *slot;   /* the delay line's slot of this step */
    void *line;       /* [longest + 1, planes, words]; of reals [longest + 1, inputs] */
} Parts;

/* A walk through the state; without a base it only measures. */
typedef struct {
    char *base;
    size_t at;
} Walk;

static void *take(Walk *walk, size_t bytes)
{
    void *here = walk->base ? walk->base + walk->at : NULL;
    walk->at += (bytes + PART - 1) / PART * PART;
    return here;
}

static size_t padded(size_t lanes)
{
    return (lanes + LANES - 1) / LANES * LANES;
}

static int delays_reals(const bs_model *model)
{
    return model->input == BS_REALS && model->layer[0].delays;
}

/* The whole numbers that hold a layer's sums; of a convolution with wide weights all sums before the pools. */
static size_t sums_of(const bs_layer *layer)
{
    if (layer->wide && layer->kind == BS_CONV)
        return (size_t)conv_places(layer->in_rows, layer) * padded(conv_places(layer->in_columns, layer) * layer->channels);
    return layer->kind == BS_DENSE ? padded(layer->channels) : 0;
}

/* Events, their rows, pixels and columns of a convolution with wide weights. */
static size_t extra_of(const bs_layer *layer)
{
    return (size_t)inputs_of(layer) + LIST + layer->in_rows + 1 + (size_t)layer->in_rows * layer->in_columns +
           layer->in_columns;
}

/* The planes that hold gain * input, for inputs of so many planes. */
static uint32_t gained_planes(const bs_layer *layer, uint32_t planes)
{
    const uint32_t digits = (uint32_t)digits_of(layer->largest_gain);
    return planes == 1 ? digits : planes + digits;
}

/* The words that hold what arrives at a layer, times its gains. */
static size_t gained_words(const bs_model *model, const bs_layer *layer)
{
    const uint32_t planes = layer == model->layer ? model->planes : 1;
    return layer->gains ? (size_t)gained_planes(layer, planes) * words_of(inputs_of(layer)) : 0;
}

static Shared shared_of(const bs_model *model, Walk *walk)
{
    const bs_layer *first = &model->layer[0], *last = &model->layer[model->layers - 1];
    size_t sums = 0, neurons = 0, feedback = 0, window = 0, gains = 0, extra = 0;
    Shared s;
    for (const bs_layer *layer = first; layer <= last; layer++) {
        const size_t n = neurons_of(layer), w = (size_t)(layer->pools + 1) * padded(layer->channels);
        sums = sums_of(layer) > sums ? sums_of(layer) : sums;
        sums = layer->recurrent && padded(n) > sums ? padded(n) : sums;
        neurons = n > neurons ? n : neurons;
        feedback = layer->recurrent && n > feedback ? n : feedback;
        window = layer->kind == BS_CONV && w > window ? w : window;
        gains = gained_words(model, layer) > gains ? gained_words(model, layer) : gains;
        extra = layer->kind == BS_CONV && layer->wide && extra_of(layer) > extra ? extra_of(layer) : extra;
    }
    s.head = take(walk, sizeof *s.head);
    s.counts = take(walk, neurons_of(last) * sizeof *s.counts);
    s.totals = take(walk, last->theta ? 0 : neurons_of(last) * sizeof *s.totals);
    s.pending = take(walk, (size_t)model->planes * words_of(inputs_of(first)) * sizeof *s.pending);
    s.shown = take(walk, model->image ? neurons_of(first) * sizeof *s.shown : 0);
    s.sums = take(walk, sums * sizeof *s.sums);
    s.current = take(walk, neurons * sizeof *s.current);
    s.feedback = take(walk, feedback * sizeof *s.feedback);
    s.window = take(walk, window * sizeof *s.window);
    s.gained = take(walk, gains * sizeof *s.gained);
    s.extra = take(walk, extra * sizeof *s.extra);
    return s;
}

static Parts parts_of(const bs_model *model, const bs_layer *layer, Walk *walk)
{
    const size_t n = neurons_of(layer), slots = (size_t)layer->longest + 1;
    const uint32_t planes = layer == model->layer ? model->planes : 1;
    Parts p;
    size_t line = slots * planes * words_of(inputs_of(layer)) * sizeof(uint32_t);
    if (layer == model->layer && delays_reals(model))
        line = slots * inputs_of(layer) * sizeof(float);
    p.u = take(walk, n * sizeof *p.u);
    p.a = take(walk, layer->adaptive ? n * sizeof *p.a : 0);
    p.z = take(walk, words_of((uint32_t)n) * sizeof *p.z);
    p.slot = take(walk, layer->delays ? sizeof *p.slot : 0);
    p.line = take(walk, layer->delays ? line : 0);
    return p;
}

static Parts find(const bs_model *model, const void *state, uint32_t index)
{
    Walk walk = {(char *)state, 0};
    Parts parts;
    (void)shared_of(model, &walk);
    for (uint32_t l = 0; l <= index; l++)
        parts = parts_of(model, &model->layer[l], &walk);
    return parts;
}

#endif
