/* Eight floats, or sixteen small whole numbers, at once, wherever they lie. */
#ifndef BITSPIKE_VECTOR_H
#define BITSPIKE_VECTOR_H

#include <stdint.h>
#include <string.h>

typedef float Vector __attribute__((vector_size(32)));
typedef int16_t Shorts __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) Vector load(const float *from)
{
    Vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline __attribute__((always_inline)) void store(float *to, Vector v)
{
    memcpy(to, &v, sizeof v);
}

static inline __attribute__((always_inline)) Shorts load_shorts(const int16_t *from)
{
    Shorts v;
    memcpy(&v, from, sizeof v);
    return v;
}

#endif
