/* The runtime of runtime.h: its steps. Inputs, delays, gains, sums, neurons and memory are in the parts it includes. */
#include "runtime.h"

#include "runtime_delays.h"
#include "runtime_gains.h"
#include "runtime_inputs.h"
#include "runtime_sums.h"
#ifndef BS_ONLY_COUNTS
#include "runtime_reals.h"
#endif
#ifndef BS_SMALL
#include "runtime_wide.h"
#endif

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

void bs_rest(const bs_model *model, void *state)
{
    Walk walk = {state, 0};
    const Shared s = shared_of(model, &walk);
    forget_pending(model, &s);
    zero((char *)state + walk.at, bs_state_bytes(model) - walk.at);
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
    f.theta_step = layer->theta && layer->thetas > 1;
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
    f.bias = layer->bias;
    f.scale = layer->scale;
    f.offset = layer->offset;
    if (k->fire_rows && !(layer->wide && k->count_shared)) {
        enum { FEW = 255 };
        Counter c;
        Rows rows;
        begin(&c, k, layer->weight, layer->channels, s->sums);
        if (list_all(&c, in, inputs_of(layer), FEW, &rows)) {
            f.less = (int32_t)rows.total;
            k->fire_rows(&rows, &f);
            return;
        }
    }
    f.less = counts_of(k, layer, in, s);
    f.counts = s->sums;
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
        in = delayed(k, layer, p, in, model->planes);
        run_layer(k, layer, gained(layer, in, s), p, s);
        forget_slot(layer, p, in);
    } else {
        run_layer(k, layer, gained(layer, in, s), p, s);
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
        real_current(k, model->layer, &image, NULL, s->current);
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
            in = delayed(k, layer, &p, in, 1);
        run_layer(k, layer, gained(layer, in, &s), &p, &s);
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
static void show(const bs_model *model, void *state, const Image *image, const Map *map)
{
    Walk walk = {state, 0};
    const Shared s = shared_of(model, &walk);
    real_current(kernels(), model->layer, image, map, s.shown);
    s.head->shown = 1;
}

void bs_show(const bs_model *model, void *state, const float *image, int down, int right)
{
    const Image shown = {image, model->in_channels, model->in_rows, model->in_columns, down, right};
    show(model, state, &shown, NULL);
}

#ifndef BS_SMALL
void bs_show_map(const bs_model *model, void *state, const float *image, const void *map, int down, int right)
{
    const Image shown = {image, model->in_channels, model->in_rows, model->in_columns, down, right};
    const Map sums = map_of(model->layer, map);
    const int near = down >= -1 && down <= 1 && right >= -1 && right <= 1;
    show(model, state, &shown, map && near ? &sums : NULL);
}
#endif
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
