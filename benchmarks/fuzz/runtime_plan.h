/* A network and what is done to it, as the fuzzer draws them; every build of the runtime makes its own structures of it. */
#ifndef FUZZ_RUNTIME_PLAN_H
#define FUZZ_RUNTIME_PLAN_H

#include <stdint.h>

enum { MOST_LAYERS = 4, MOST_ACTS = 24, POOLS = 4 };
enum { EVENT, STEP, FRAME, BYTES, SHOW, REST, RESET, ASK, ACTS };

/* The sizes of a layer have the names and the order of `bs_layer`, so that one of them can be overwritten. */
typedef struct {
    uint32_t kind, in_channels, in_rows, in_columns, channels, rows, columns, kernel, stride, padding, pools;
    uint32_t pool[POOLS][3];
    uint32_t longest, gain_words, largest_gain, betas, thetas, adaptive;
    uint32_t bias, scale, delays, gains, recurrent, fires; /* whether there is such an array */
    uint32_t loud;                                  /* whether numbers may be as large as float32 has them */
    uint32_t seed;
} LayerPlan;

enum { LAYER_FIELDS = 11 + 3 * POOLS + 6 };

typedef struct {
    uint32_t act, seed, style;
    uint32_t index, count; /* of events; of an image how far it is moved */
} Act;

typedef struct {
    uint32_t layers, in_channels, in_rows, in_columns, input, planes, image;
    LayerPlan layer[MOST_LAYERS];
    uint32_t acts;
    Act act[MOST_ACTS];
    uint32_t shift; /* bytes that the state lies beside an address divisible by 16: 0 or 8 */
} Plan;

enum { MODEL_FIELDS = 7 };

/* Refused by bs_check, too large to be tried in no time, or run. */
enum { REFUSED, LARGE, RAN };

typedef struct {
    int end;
    uint64_t digest; /* of all that could be asked */
} Outcome;

/* The builds; `vectors` is bs_vectors of the first. */
Outcome run_float(const Plan *plan, int vectors);
Outcome run_float_small(const Plan *plan, int vectors);
Outcome run_float_counts(const Plan *plan, int vectors);
Outcome run_fixed(const Plan *plan, int vectors);
Outcome run_fixed_small(const Plan *plan, int vectors);

static inline uint32_t draw(uint32_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 17;
    *s ^= *s << 5;
    return *s;
}

#endif
