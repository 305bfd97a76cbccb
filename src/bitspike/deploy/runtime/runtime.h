/* bitspike's runtime: it runs a trained 1-bit spiking network, one time step after the other. C99, no allocation.
 *
 * A model is const data (`bs_model`), so it can stay in flash. All memory that changes is one block of
 * `bs_state_bytes(model)` bytes from the caller, aligned to BS_ALIGN. A network that runs:
 *
 *     static uint64_t state[STATE_WORDS];
 *     bs_reset(&model, state);
 *     for (each step) { bs_event(&model, state, index, count) ...; bs_step(&model, state, NULL); }
 *     bs_scores(&model, state, scores);
 *
 * What every step computes is written down in plain_engine.py, and the same bits come out here: compile with
 * -ffp-contract=off (a fused multiply-add rounds otherwise). On little-endian x86-64 with GCC or Clang, vector code is
 * chosen when it runs. Switches for small machines: -DBS_PORTABLE leaves vector code out, -DBS_SMALL also wide weights
 * (`wide` must be NULL), -DBS_ONLY_COUNTS also real inputs and bs_show, which need float64. -DBS_FIXED computes
 * membranes in whole numbers of 2^-16.
 */
#ifndef BITSPIKE_RUNTIME_H
#define BITSPIKE_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BS_ALIGN 8      /* bytes, of the state; 64 is faster on a desktop */
#define BS_POOLS 4      /* pools behind one convolution, at most */
#define BS_PLANES 8     /* binary digits of an event count, at most */

/* A number is a float32; with BS_FIXED a whole number of 2^-16 (`bs_number`) or 2^-24 (`bs_factor`). */
#ifdef BS_FIXED
typedef int32_t bs_number;
typedef int32_t bs_factor;
#else
typedef float bs_number;
typedef float bs_factor;
#endif

enum bs_kind { BS_DENSE = 0, BS_CONV = 1 };
enum bs_pooling { BS_AVERAGE = 0, BS_MAX = 1 };

/* What a network is fed with. Counts are whole numbers from 0 to 2^planes - 1: a step of them costs what its events
 * cost, and a delay line holds `planes` bits for each input. Reals are float32. */
enum bs_input { BS_COUNTS = 0, BS_REALS = 1 };

typedef struct {
    uint32_t kind; /* enum bs_pooling */
    uint32_t size, stride;
} bs_pool;

/* One layer: delay -> gain -> product with weights of -1/+1 -> pools -> bias -> scale, offset -> neurons.
 *
 * Neurons lie channels-last: neuron ((row * columns) + column) * channels + channel; so do the spikes that a layer
 * gives to the next one, and all arrays with one number for each neuron. The network's own input is channels-first, as
 * images are.
 *
 * Bits lie in words of 32, the lowest first; 1 is a weight of +1, 0 one of -1. `weight` has one row of `channels` bits
 * for each thing that a neuron listens to, each row filled up to whole words: of a dense layer for each input, of a
 * convolution for each (kernel row, kernel column, input channel).
 *
 * `gains` has one row of `gain_words` words for each binary digit of `largest_gain`, the lowest first: bit i of it is
 * this digit of the gain of input i. A row of a convolution's gains, which are the same for all pixels, may end where
 * the pixels' bits come again in the same places of a word: then it begins anew there.
 */
typedef struct {
    uint32_t kind;                                /* enum bs_kind */
    uint32_t in_channels, in_rows, in_columns;    /* of a dense layer: its inputs, 1, 1 */
    uint32_t channels, rows, columns;             /* the neurons, behind the pools; of a dense layer: N, 1, 1 */
    uint32_t kernel, stride, padding;             /* of a dense layer: 1, 1, 0 */
    uint32_t pools;                               /* how many of `pool` */
    bs_pool pool[BS_POOLS];
    const uint32_t *weight;
    const uint32_t *wide;                         /* NULL, or what bs_widen made of `weight`: the same, faster */
    const bs_number *bias;                        /* [channels] or NULL */
    const bs_factor *scale;                       /* [channels] or NULL, with `offset` */
    const bs_number *offset;
    const uint16_t *delays;                       /* in steps: [inputs], or of a convolution [in_channels]; or NULL */
    uint32_t longest;                             /* of these delays */
    const uint32_t *gains;                        /* whole numbers that inputs are multiplied by, in binary; or NULL */
    uint32_t gain_words, largest_gain;            /* 1 to 255 */
    const uint32_t *recurrent;                    /* [neurons] rows of `neurons` bits: the targets of each; or NULL */
    bs_factor recurrent_scale;
    const bs_factor *beta;                        /* [betas] */
    const bs_number *theta;                       /* [thetas]; NULL for neurons that never fire */
    uint32_t betas, thetas;                       /* 1, or one for each neuron */
    uint32_t adaptive;                            /* whether thresholds rise with spikes: */
    bs_factor rho, rest, strength;                /* a = rho*a + rest*z, threshold = theta + strength*a */
} bs_layer;

typedef struct {
    uint32_t layers;
    const bs_layer *layer;
    uint32_t in_channels, in_rows, in_columns;    /* of the network's input: of a row of N values N, 1, 1 */
    uint32_t input;                               /* enum bs_input */
    uint32_t planes;                              /* of counts: 1 to BS_PLANES */
    uint32_t image;                               /* whether bs_show is used: then the state holds a constant current */
} bs_model;

/* 0 if the sizes of the model fit each other and are within bounds; else the number of the first layer that does not
 * (from 1), or -1 if it is the model itself. It does not read the arrays. */
int bs_check(const bs_model *model);

/* How many bytes of memory the network needs, and all neurons at rest in them. */
size_t bs_state_bytes(const bs_model *model);
void bs_reset(const bs_model *model, void *state);

/* Show an image [channels, rows, columns] from now on: the first layer's current is computed here, once. The image is
 * moved down and right by (down, right) pixels, and 0 where nothing is left of it. Neurons keep their state. */
void bs_show(const bs_model *model, void *state, const float *image, int down, int right);

/* Add `count` events of an input to the step that comes. 0, or -1 if it would have more than 2^planes - 1 of them, or
 * there is no such input, or the network delays reals. */
int bs_event(const bs_model *model, void *state, uint32_t index, uint32_t count);

/* One time step. `frame` holds all inputs, channels-first; NULL takes the events since the last step, or, after
 * bs_show, the image. 0, or -1 if a network on counts gets a frame that is none: then nothing has happened. */
int bs_step(const bs_model *model, void *state, const float *frame);
int bs_step_bytes(const bs_model *model, void *state, const uint8_t *frame); /* not for delayed reals */

/* What may be asked after any step. Layers count from 0. */
uint32_t bs_steps(const bs_model *model, const void *state);                                  /* since the reset */
const uint32_t *bs_spikes(const bs_model *model, const void *state, uint32_t layer);          /* bits, of this step */
const bs_number *bs_membrane(const bs_model *model, const void *state, uint32_t layer);       /* of this step */
const uint32_t *bs_counts(const bs_model *model, const void *state);                          /* of the last layer */
void bs_scores(const bs_model *model, const void *state, float *scores);                      /* [neurons of the last] */

/* Put the neurons to rest and keep counts, scores and steps: for one glance after the other. */
void bs_rest(const bs_model *model, void *state);

/* ---- for desktops, not with BS_SMALL ---- */

/* The weights of a convolution, a row for each (kernel row, input column, input channel) and the bits of all (output
 * column, channel). 0 bytes where it brings nothing. */
size_t bs_wide_bytes(const bs_layer *layer);
void bs_widen(const bs_layer *layer, uint32_t *wide);

/* For an image that is shown at several places: bs_map adds up all that its pixels are worth to the first layer, into
 * memory of bs_map_bytes (aligned to BS_ALIGN; 0 where there is nothing to gain), and bs_show_map is bs_show, faster if
 * the image is moved by up to one pixel. */
size_t bs_map_bytes(const bs_model *model);
void bs_map(const bs_model *model, const float *image, void *map);
void bs_show_map(const bs_model *model, void *state, const float *image, const void *map, int down, int right);

#ifdef __cplusplus
}
#endif

#endif
