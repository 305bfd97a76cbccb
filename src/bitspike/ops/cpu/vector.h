/* Eight floats, or sixteen small whole numbers, at once, wherever they lie. */
#ifndef BITSPIKE_VECTOR_H
#define BITSPIKE_VECTOR_H

#include <stdint.h>
#include <string.h>

typedef float Vector __attribute__((vector_size(32)));
typedef int16_t Shorts __attribute__((vector_size(32)));
typedef int8_t Bytes __attribute__((vector_size(16)));

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

static inline __attribute__((always_inline)) Shorts load_signs(const int8_t *from)
{
    Bytes v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, Shorts);
}

#endif
