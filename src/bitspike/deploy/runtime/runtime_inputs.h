/* A part of runtime.c: the events and frames of the step that comes, as planes of bits. */
#ifndef BITSPIKE_RUNTIME_INPUTS_H
#define BITSPIKE_RUNTIME_INPUTS_H

#include "runtime_sums.h"

static void zero(void *from, size_t bytes)
{
    memset(from, 0, bytes);
}

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

#endif
