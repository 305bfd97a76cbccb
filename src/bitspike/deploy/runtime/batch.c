/* Runs samples of a batch with the runtime, one after the other; c_engine.py calls it from several threads. */
#include "runtime.h"

#include <string.h>

#include "native/compiler.h"

enum { WRONG_INPUT = 1, NOT_FINITE = 2 };
enum { IMAGES, FRAMES, BYTES }; /* float32 [B, inputs]; float32 [T, B, inputs]; uint8 [T, B, inputs] */

/* Shared with `CBatch` of c_structures.py, field by field. */
typedef struct {
    const bs_model *model;
    void *state;
    void *map; /* NULL, or what bs_map fills */
    const void *input;
    int64_t form; /* of the input: see above */
    int64_t steps, batch, inputs;
    int64_t first, last; /* samples */
    int64_t glances;
    const int32_t *places;   /* [glances, 2]: down, right */
    float *const *spikes;    /* for each layer [T, B, channels, rows, columns] or NULL */
    float *const *membrane;  /* likewise */
    const uint8_t *watched;  /* [layers]: whether a membrane may leave float32, so that it must be looked at */
    float *scores;           /* [B, classes], neurons channels-last */
    uint32_t *counts;        /* likewise */
} Batch;

static float to_float(bs_number u)
{
#ifdef BS_FIXED
    return (float)u / 65536.0f;
#else
    return u;
#endif
}

/* What a layer did in one step, channels-first. */
static void write_layer(const Batch *b, uint32_t l, const uint32_t *z, const bs_number *u, int64_t t, int64_t sample)
{
    const bs_layer *layer = &b->model->layer[l];
    const uint32_t pixels = layer->rows * layer->columns, channels = layer->channels;
    const int64_t at = (t * b->batch + sample) * pixels * channels;
    for (uint32_t pixel = 0, i = 0; pixel < pixels; pixel++)
        for (uint32_t channel = 0; channel < channels; channel++, i++) {
            const int64_t to = at + (int64_t)channel * pixels + pixel;
            if (b->spikes[l])
                b->spikes[l][to] = (float)(z[i / 32] >> i % 32 & 1);
            if (b->membrane[l])
                b->membrane[l][to] = to_float(u[i]);
        }
}

/* Where the last layer's spikes and membrane are: it is recorded in every step. */
typedef struct {
    const uint32_t *z;
    const bs_number *u;
} Last;

static int is_finite(const bs_layer *layer, const bs_number *u)
{
    for (uint32_t i = 0; i < layer->channels * layer->rows * layer->columns; i++)
        if (u[i] - u[i] != 0) /* of NaN and infinity it is NaN */
            return 0;
    return 1;
}

/* 0, WRONG_INPUT, or NOT_FINITE. */
static int one_step(const Batch *b, Last last, int64_t t, int64_t sample)
{
    const int64_t at = (t * b->batch + sample) * b->inputs;
    const uint32_t layers = b->model->layers;
    int failed;
    if (b->form == IMAGES)
        failed = bs_step(b->model, b->state, NULL);
    else if (b->form == FRAMES)
        failed = bs_step(b->model, b->state, (const float *)b->input + at);
    else
        failed = bs_step_bytes(b->model, b->state, (const uint8_t *)b->input + at);
    if (failed)
        return WRONG_INPUT;
    for (uint32_t l = 0; l < layers; l++) {
        const int is_last = l + 1 == layers;
        const bs_number *u;
        if (!is_last && !b->watched[l] && !b->spikes[l] && !b->membrane[l])
            continue;
        u = is_last ? last.u : bs_membrane(b->model, b->state, l);
        if (b->watched[l] && !is_finite(&b->model->layer[l], u))
            return NOT_FINITE;
        if (b->spikes[l] || b->membrane[l])
            write_layer(b, l, is_last ? last.z : bs_spikes(b->model, b->state, l), u, t, sample);
    }
    return 0;
}

/* 0; WRONG_INPUT if a sample's input is not what the model is fed with; NOT_FINITE if a watched membrane no longer is. */
EXPORT int64_t bitspike_run_batch(const Batch *b)
{
    const bs_layer *last = &b->model->layer[b->model->layers - 1];
    const uint32_t classes = last->channels * last->rows * last->columns;
    const int64_t each = b->steps / b->glances;
    const Last answers = {bs_spikes(b->model, b->state, b->model->layers - 1),
                          bs_membrane(b->model, b->state, b->model->layers - 1)};
    int ended;
    for (int64_t sample = b->first; sample < b->last; sample++) {
        const float *image = (const float *)b->input + sample * b->inputs; /* if it is one */
        bs_reset(b->model, b->state);
        if (b->map)
            bs_map(b->model, image, b->map);
        for (int64_t t = 0; t < b->steps; t++) {
            if (b->form == IMAGES && t % each == 0) {
                const int32_t *place = b->places + 2 * (t / each);
                bs_rest(b->model, b->state);
                bs_show_map(b->model, b->state, image, b->map, place[0], place[1]);
            }
            if ((ended = one_step(b, answers, t, sample)) != 0)
                return ended;
        }
        bs_scores(b->model, b->state, b->scores + sample * classes);
        memcpy(b->counts + sample * classes, bs_counts(b->model, b->state), classes * sizeof *b->counts);
    }
    return 0;
}
