/* An input that is drawn from a seed, and what the network must answer. Only main.c needs it: leave it out of your own
 * program. The generator is described in `draw` of main.c. */
#ifndef TEST_VECTOR_H
#define TEST_VECTOR_H

#include <stdint.h>

typedef struct {
    uint32_t seed;
    uint32_t density;       /* of 256 values so many are not 0, on average */
    uint32_t steps;
    const uint32_t *spikes; /* bits of the last layer, each step in whole words; NULL if it never fires */
    const float *membrane;  /* of the last layer, after the last step */
    const float *scores;
} test_vector;

extern const test_vector vector;

#endif
