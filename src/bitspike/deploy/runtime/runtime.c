/* The runtime of runtime.h: inputs, delays and steps. The sums, the neurons and the memory are in the parts it includes. */
#include "runtime.h"

#include "runtime_sums.h"
#ifndef BS_ONLY_COUNTS
#include "runtime_reals.h"
#endif
#ifndef BS_SMALL
#include "runtime_wide.h"
#endif

static void zero(void *from, size_t bytes)
{
    memset(from, 0, bytes);
}

size_t bs_state_bytes(const bs_model *model)
{
    Walk walk = {NULL, 0};
    (void)shared_of(model, &walk);
    for (uint32_t l = 0; l < model->layers; l++)
        (void)parts_of(model, &model->layer[l], &walk);
    return walk.at;
}

void bs_reset(const bs_model *model, void *state)
{
    zero(state, bs_state_bytes(model));
}

/* ---- inputs ---- */

/* Where an input lies among the bits of the first layer: convolutions take them channels-last. */
static uint32_t place_of(const bs_model *model, uint32_t index)
{
    const uint32_t pixels = model->in_rows * model->in_columns;
    if (model->layer->kind == BS_DENSE || model->in_channels == 1)
        return index;
    return index % pixels * model->in_channels + index / pixels;
}

static Planes pending_of(const bs_model *model, const Shared *s)
{
    const Planes planes = {s->pending, s->head->used, words_of(inputs_of(model->layer))};
    return planes;
}

int bs_event(const bs_model *model, void *state, uint32_t index, uint32_t count)
{
    Walk walk = {state, 0};
    const Shared s = shared_of(model, &walk);
    const uint32_t words = words_of(inputs_of(model->layer)), most = (1u << model->planes) - 1;
    uint32_t at, now = 0;
    if (index >= inputs_of(model->layer) || delays_reals(model) || count > most)
        return -1;
    at = place_of(model, index);
    for (uint32_t p = 0; p < model->planes; p++)
        now |= (s.pending[(size_t)p * words + at / 32] >> at % 32 & 1) << p;
    if (now + count > most)
        return -1;
    for (uint32_t p = 0; p < model->planes; p++)
        s.pending[(size_t)p * words + at / 32] ^= ((now ^ (now + count)) >> p & 1) << at % 32;
    if (s.head->used < (uint32_t)digits_of(now + count))
        s.head->used = (uint32_t)digits_of(now + count);
    return 0;
}

static void forget_pending(const bs_model *model, const Shared *s)
{
    zero(s->pending, (size_t)s->head->used * words_of(inputs_of(model->layer)) * sizeof *s->pending);
    s->head->used = 0;
}

void bs_rest(const bs_model *model, void *state)
{
    Walk walk = {state, 0};
    const Shared s = shared_of(model, &walk);
    forget_pending(model, &s);
    zero((char *)state + walk.at, bs_state_bytes(model) - walk.at);
}

/* Turn a frame of floats or bytes into the planes of `pending`. Whether it can be: only if all values are counts. */
static int plane_frame(const bs_model *model, const Kernels *k, const Shared *s, const float *frame, const uint8_t *bytes)
{
    const uint32_t inputs = inputs_of(model->layer);
    const Target to = {s->pending, words_of(inputs), model->planes};
    int used = 0;
    s->head->used = model->planes; /* all of them may be written */
    if (place_of(model, 1) == 1 || inputs == 1) {
        used = bytes ? k->plane_bytes(bytes, inputs, to) : k->plane_floats(frame, inputs, to);
    } else {
        for (uint32_t i = 0; i < inputs; i++) {
            const int32_t count = count_of(bytes ? (float)bytes[i] : frame[i], model->planes);
            if (count < 0)
                return 0;
            set_count(to, place_of(model, i), (uint32_t)count);
            used = digits_of((uint32_t)count) > used ? digits_of((uint32_t)count) : used;
        }
    }
    if (used < 0)
        return 0;
    s->head->used = (uint32_t)used;
    return 1;
}

/* ---- delays: what comes in now is written where it is read later ---- */

static uint32_t delay_of(const bs_layer *layer, uint32_t input)
{
    return layer->delays[layer->kind == BS_CONV ? input % layer->in_channels : input];
}

/* The slot of the line that is `later` steps ahead. */
static size_t slot_at(const bs_layer *layer, const Parts *p, uint32_t later)
{
    const size_t slot = (size_t)*p->slot + later;
    return slot > layer->longest ? slot - layer->longest - 1 : slot;
}

/* The planes that arrive now; those that come in are kept. A slot holds `planes` of them. */
static Planes delayed(const bs_layer *layer, const Parts *p, Planes in, uint32_t planes)
{
    const size_t size = (size_t)planes * in.words;
    uint32_t *line = p->line;
    const Planes now = {line + *p->slot * size, planes, in.words};
    for (size_t w = 0; w < (size_t)in.planes * in.words; w++)
        for (uint32_t word = in.bits[w]; word; word &= word - 1) {
            const uint32_t bit = lowest(word), later = delay_of(layer, (uint32_t)(w % in.words) * 32 + bit);
            line[slot_at(layer, p, later) * size + w] |= 1u << bit;
        }
    return now;
}

static void forget_slot(const bs_layer *layer, const Parts *p, Planes now)
{
    const size_t size = (size_t)now.planes * now.words;
    zero((uint32_t *)p->line + *p->slot * size, size * sizeof(uint32_t));
    *p->slot = (uint32_t)slot_at(layer, p, 1);
}

static const float *delayed_frame(const bs_layer *layer, const Parts *p, const float *frame)
{
    const size_t inputs = inputs_of(layer), pixels = (size_t)layer->in_rows * layer->in_columns;
    float *line = p->line;
    const float *now = line + *p->slot * inputs;
    for (size_t i = 0; i < inputs; i++) { /* every input writes one slot a step, so none needs to be cleared */
        const uint32_t later = layer->delays[layer->kind == BS_CONV ? i / pixels : i];
        line[slot_at(layer, p, later) * inputs + i] = frame ? frame[i] : 0.0f;
    }
    *p->slot = (uint32_t)slot_at(layer, p, 1);
    return now;
}

/* ---- steps ---- */

/* What a dense layer counts; returns the number to subtract from twice the counts. */
static int32_t counts_of(const Kernels *k, const bs_layer *layer, Planes in, const Shared *s)
{
#ifndef BS_SMALL
    if (layer->wide && k->count_shared)
        return shared_counts(k, layer, in, s->sums);
#endif
    return dense_counts(k, layer->weight, inputs_of(layer), layer->channels, in, s->sums);
}

/* The current of all neurons of a layer whose inputs are bits. */
static void layer_current(const Kernels *k, const bs_layer *layer, Planes in, const Shared *s)
{
    const uint32_t divisor = divisor_of(layer);
    if (layer->kind == BS_DENSE) {
        const int32_t total = counts_of(k, layer, in, s);
        k->to_current(layer, s->sums, 2, total, divisor, s->current);
        return;
    }
#ifndef BS_SMALL
    if (layer->wide) {
        wide_current(k, layer, in, s, s->current);
        return;
    }
#endif
    for (uint32_t y = 0; y < layer->rows; y++)
        for (uint32_t x = 0; x < layer->columns; x++) {
            const size_t at = ((size_t)y * layer->columns + x) * layer->channels;
            place_sums(k, layer, in, layer->pools, y, x, s->window);
            k->to_current(layer, s->window + layer->pools * padded(layer->channels), 1, 0, divisor, s->current + at);
        }
}

static Firing firing_of(const bs_layer *layer, const Parts *p)
{
    Firing f;
    memset(&f, 0, sizeof f);
    f.n = neurons_of(layer);
    f.beta = layer->beta;
    f.theta = layer->theta;
    f.beta_step = layer->betas > 1;
    f.theta_step = layer->thetas > 1;
    f.u = p->u;
    f.a = layer->adaptive ? p->a : NULL;
    f.z = p->z;
    f.rho = layer->rho;
    f.rest = layer->rest;
    f.strength = layer->strength;
    return f;
}

static void fire(const Kernels *k, const bs_layer *layer, const Parts *p, const Shared *s, const bs_number *current)
{
    Firing f = firing_of(layer, p);
    f.current = current;
    if (layer->recurrent) {
        const Planes before = {p->z, 1, words_of(f.n)};
        const int32_t total = dense_counts(k, layer->recurrent, f.n, f.n, before, s->sums);
        for (uint32_t i = 0; i < f.n; i++)
            s->feedback[i] = sum_times(layer->recurrent_scale, 2 * s->sums[i] - total);
        f.feedback = s->feedback;
    }
    k->fire(&f);
}

/* One step of a layer whose inputs are bits. */
static void run_layer(const Kernels *k, const bs_layer *layer, Planes in, const Parts *p, const Shared *s)
{
    Firing f;
    if (layer->kind == BS_CONV || layer->recurrent) {
        layer_current(k, layer, in, s);
        fire(k, layer, p, s, s->current);
        return;
    }
    f = firing_of(layer, p);
    f.less = counts_of(k, layer, in, s);
    f.counts = s->sums;
    f.bias = layer->bias;
    f.scale = layer->scale;
    f.offset = layer->offset;
    k->fire(&f);
}

/* Add what the last layer did to the answer. */
static void read_out(const bs_layer *last, const Parts *p, const Shared *s)
{
    const uint32_t n = neurons_of(last);
    if (last->theta)
        for (uint32_t i = 0; i < n; i++)
            s->counts[i] += p->z[i / 32] >> i % 32 & 1;
    else
        for (uint32_t i = 0; i < n; i++)
            s->totals[i] += (Total)p->u[i];
    s->head->steps++;
}

/* The first layer on the planes of `pending`. */
static void run_first(const bs_model *model, const Kernels *k, const Parts *p, const Shared *s)
{
    const bs_layer *layer = model->layer;
    Planes in = pending_of(model, s);
    if (layer->delays && !delays_reals(model)) {
        in = delayed(layer, p, in, model->planes);
        run_layer(k, layer, in, p, s);
        forget_slot(layer, p, in);
    } else {
        run_layer(k, layer, in, p, s);
    }
    forget_pending(model, s);
}

/* The first layer on a frame. Whether it could be: a network on counts takes only counts. */
static int run_frame(const bs_model *model, const Kernels *k, const Parts *p, const Shared *s, const float *frame,
                     const uint8_t *bytes)
{
    forget_pending(model, s);
    if (plane_frame(model, k, s, frame, bytes)) {
        run_first(model, k, p, s);
        return 1;
    }
    forget_pending(model, s);
#ifndef BS_ONLY_COUNTS
    if (model->input == BS_REALS && frame) {
        const Image image = {frame, model->in_channels, model->in_rows, model->in_columns, 0, 0};
        real_current(k, model->layer, &image, s->current);
        fire(k, model->layer, p, s, s->current);
        return 1;
    }
#endif
    return 0;
}

static int step(const bs_model *model, void *state, const float *frame, const uint8_t *bytes)
{
    Walk walk = {state, 0};
    const Kernels *k = kernels();
    const Shared s = shared_of(model, &walk);
    Parts p = parts_of(model, model->layer, &walk);
    if (delays_reals(model) && bytes)
        return -1; /* this delay line holds floats */
    if (delays_reals(model) && !s.head->shown)
        frame = delayed_frame(model->layer, &p, frame);
    if (frame || bytes) {
        if (!run_frame(model, k, &p, &s, frame, bytes))
            return -1;
    } else if (s.head->shown) {
        fire(k, model->layer, &p, &s, s.shown);
    } else {
        run_first(model, k, &p, &s);
    }
    for (uint32_t l = 1; l < model->layers; l++) {
        const bs_layer *layer = &model->layer[l];
        Planes in = {p.z, 1, words_of(inputs_of(layer))};
        p = parts_of(model, layer, &walk);
        if (layer->delays)
            in = delayed(layer, &p, in, 1);
        run_layer(k, layer, in, &p, &s);
        if (layer->delays)
            forget_slot(layer, &p, in);
    }
    read_out(&model->layer[model->layers - 1], &p, &s);
    return 0;
}

int bs_step(const bs_model *model, void *state, const float *frame)
{
    return step(model, state, frame, NULL);
}

int bs_step_bytes(const bs_model *model, void *state, const uint8_t *frame)
{
    return step(model, state, NULL, frame);
}

#ifndef BS_ONLY_COUNTS
void bs_show(const bs_model *model, void *state, const float *image, int down, int right)
{
    Walk walk = {state, 0};
    const Shared s = shared_of(model, &walk);
    const Image shown = {image, model->in_channels, model->in_rows, model->in_columns, down, right};
    real_current(kernels(), model->layer, &shown, s.shown);
    s.head->shown = 1;
}
#endif

/* ---- questions ---- */

uint32_t bs_steps(const bs_model *model, const void *state)
{
    Walk walk = {(char *)state, 0};
    return shared_of(model, &walk).head->steps;
}

const uint32_t *bs_spikes(const bs_model *model, const void *state, uint32_t layer)
{
    return find(model, state, layer).z;
}

const bs_number *bs_membrane(const bs_model *model, const void *state, uint32_t layer)
{
    return find(model, state, layer).u;
}

const uint32_t *bs_counts(const bs_model *model, const void *state)
{
    Walk walk = {(char *)state, 0};
    return shared_of(model, &walk).counts;
}

void bs_scores(const bs_model *model, const void *state, float *scores)
{
    Walk walk = {(char *)state, 0};
    const Shared s = shared_of(model, &walk);
    const bs_layer *last = &model->layer[model->layers - 1];
    const uint32_t steps = s.head->steps ? s.head->steps : 1;
    for (uint32_t i = 0; i < neurons_of(last); i++)
        if (last->theta)
            scores[i] = count_score(s.counts[i], steps);
        else
            scores[i] = membrane_score(s.totals[i], steps, last->beta[last->betas > 1 ? i : 0]);
}
