/* Runs samples of a batch with the runtime, one after the other; c_engine.py calls it from several threads. */
#include "runtime.h"

#include <string.h>

#include "native/compiler.h"

enum { IMAGES, FRAMES, BYTES }; /* float32 [B, inputs]; float32 [T, B, inputs]; uint8 [T, B, inputs] */

/* Shared with `CBatch` of c_engine.py, field by field. */
typedef struct {
    const bs_model *model;
    void *state;
    const void *input;
    int64_t form; /* of the input: see above */
    int64_t steps, batch, inputs;
    int64_t first, last; /* samples */
    int64_t glances;
    const int32_t *places;         /* [glances, 2]: down, right */
    float *const *spikes;          /* for each layer [T, B, channels, rows, columns] or NULL */
    float *const *membrane;        /* likewise */
    float *scores;                 /* [B, classes], neurons channels-last */
    uint32_t *counts;              /* likewise */
} Batch;

static float to_float(bs_number u)
{
#ifdef BS_FIXED
    return (float)u / 65536.0f;
#else
    return u;
#endif
}

static void write_layer(const Batch *b, uint32_t l, int64_t t, int64_t sample)
{
    const bs_layer *layer = &b->model->layer[l];
    const uint32_t pixels = layer->rows * layer->columns, n = pixels * layer->channels;
    const int64_t at = (t * b->batch + sample) * n;
    if (b->spikes[l]) {
        const uint32_t *z = bs_spikes(b->model, b->state, l);
        for (uint32_t i = 0; i < n; i++)
            b->spikes[l][at + i % layer->channels * pixels + i / layer->channels] = (float)(z[i / 32] >> i % 32 & 1);
    }
    if (b->membrane[l]) {
        const bs_number *u = bs_membrane(b->model, b->state, l);
        for (uint32_t i = 0; i < n; i++)
            b->membrane[l][at + i % layer->channels * pixels + i / layer->channels] = to_float(u[i]);
    }
}

static int one_step(const Batch *b, int64_t t, int64_t sample)
{
    const int64_t at = (t * b->batch + sample) * b->inputs;
    int failed;
    if (b->form == IMAGES)
        failed = bs_step(b->model, b->state, NULL);
    else if (b->form == FRAMES)
        failed = bs_step(b->model, b->state, (const float *)b->input + at);
    else
        failed = bs_step_bytes(b->model, b->state, (const uint8_t *)b->input + at);
    for (uint32_t l = 0; !failed && l < b->model->layers; l++)
        if (b->spikes[l] || b->membrane[l])
            write_layer(b, l, t, sample);
    return failed;
}

/* 0, or 1 + the first sample whose input is not what the model is fed with. */
EXPORT int64_t bitspike_run_batch(const Batch *b)
{
    const bs_layer *last = &b->model->layer[b->model->layers - 1];
    const uint32_t classes = last->channels * last->rows * last->columns;
    const int64_t each = b->steps / b->glances;
    for (int64_t sample = b->first; sample < b->last; sample++) {
        bs_reset(b->model, b->state);
        for (int64_t t = 0; t < b->steps; t++) {
            if (b->form == IMAGES && t % each == 0) {
                const int32_t *place = b->places + 2 * (t / each);
                bs_rest(b->model, b->state);
                bs_show(b->model, b->state, (const float *)b->input + sample * b->inputs, place[0], place[1]);
            }
            if (one_step(b, t, sample))
                return sample + 1;
        }
        bs_scores(b->model, b->state, b->scores + sample * classes);
        memcpy(b->counts + sample * classes, bs_counts(b->model, b->state), classes * sizeof *b->counts);
    }
    return 0;
}
