/* The basilar membrane (the definition is cochlea/membrane.py). The logarithm of p / xi is smooth over frequency: it is
 * computed at knots once, and interpolated between them for the spectrum of each sound. */
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "native/compiler.h"

typedef double complex Number;

enum { TERMS = 16, POINTS = 25 /* of cochlea/hankel.py */, NEAR = 8 /* knots around a frequency */ };

/* Shared with `c.py`, field by field: `Membrane` of the definition. */
typedef struct {
    double stiffness, softening, slack, resistance, height, mass, density;
} Constants;

/* H0(z) / exp(i z): the factor is left out because it may be too small for a double. */
static Number hankel(Number z, const double *gauss)
{
    if (cabs(z) < 2) {
        const Number quarter = -0.25 * z * z;
        Number term = 1, j = 1, tail = 0;
        double harmonic = 0;
        for (int k = 1; k <= TERMS; k++) {
            term = term * quarter / (double)(k * k);
            harmonic += 1.0 / k;
            j += term;
            tail += harmonic * term;
        }
        const Number y = M_2_PI * ((clog(0.5 * z) + 0.57721566490153286) * j - tail);
        return (j + I * y) * cexp(-I * z);
    }
    const Number half = 0.5 * I / z;
    const double a = creal(half), b = cimag(half);
    double real = 0.5, imag = 0;
    for (int k = 1; k < POINTS; k++) { /* gauss / sqrt(x + i y), whose root is in the right half plane */
        const double s2 = 0.0625 * k * k, x = 1 + s2 * a, y = s2 * b, size = sqrt(x * x + y * y);
        const double root = sqrt(0.5 * (size + x)), scale = gauss[k] / size;
        real += scale * root;
        imag -= scale * y / (2 * root);
    }
    return 0.5 / sqrt(M_PI) * (real + I * imag) * cexp(-0.25 * I * M_PI) * csqrt(2 / (M_PI * z));
}

typedef struct {
    Number xi, g, primitive;
} Place;

static Place at(const Constants *m, double omega, double soft)
{
    const double k = sqrt(m->slack + m->mass * omega * omega);
    const double real = m->stiffness * soft * soft - k * k;
    const Number xi = real - I * (omega * m->resistance * soft);
    return (Place){
        .xi = xi,
        .g = omega * csqrt(m->density / (m->height * xi)),
        .primitive = (2 * I * k * csqrt(xi) - I * (omega * m->resistance * soft) - 2 * k * k) / soft,
    };
}

static Number pressure(Number phase, Number g, const double *gauss)
{
    return csqrt(phase / g) * hankel(phase, gauss);
}

/* out [units, knots]: log(p(x) / p(0) / xi(x)) at the angular frequencies `omega`, without jumps of 2 pi. From where the
 * unit moves `negligible` times less than at its best frequency on, the last value is repeated. Returns 1 without memory. */
EXPORT int cochlea_knots(const Constants *m, const double *place, int64_t units, const double *omega, int64_t knots,
                         double negligible, int threads, Number *out)
{
    double gauss[POINTS];
    for (int k = 0; k < POINTS; k++)
        gauss[k] = exp(-0.0625 * k * k);
    struct {
        Number primitive, start, pressure;
        double size;
    } *zero = malloc((size_t)knots * sizeof *zero);
    if (zero == NULL)
        return 1;
    for (int64_t i = 0; i < knots; i++) {
        const Place first = at(m, omega[i], 1);
        const double k = sqrt(m->slack + m->mass * omega[i] * omega[i]);
        zero[i].primitive = first.primitive;
        zero[i].start = 2 * first.g / m->softening;
        zero[i].pressure = pressure(zero[i].start, first.g, gauss);
        zero[i].size = 2 * omega[i] * sqrt(m->density / m->height) / (m->softening * k);
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t unit = 0; unit < units; unit++) {
        const double soft = exp(-0.5 * m->softening * place[unit]);
        Number *row = out + unit * knots;
        double turns = 0, before = 0, best = -INFINITY;
        for (int64_t i = 0; i < knots; i++) {
            if (i > 0 && creal(row[i - 1]) + log(omega[i - 1]) < best + log(negligible)) {
                row[i] = row[i - 1];
                continue;
            }
            const Place here = at(m, omega[i], soft);
            const Number passed = I * zero[i].size * clog(zero[i].primitive / here.primitive);
            const Number p = pressure(zero[i].start + passed, here.g, gauss) / zero[i].pressure;
            const Number value = clog(p / here.xi) + I * passed;
            const double angle = cimag(value);
            turns = i == 0 ? 0 : turns - rint((angle + turns - before) / (2 * M_PI)) * (2 * M_PI);
            before = angle + turns;
            row[i] = creal(value) + I * before;
            best = fmax(best, creal(value) + log(omega[i]));
        }
    }
    free(zero);
    return 0;
}

/* The spectrum [samples // 2 + 1] of each unit's velocity, which is real: Y[k] = (X[k] + conj(X[samples - k])) / 2.
 * X[k] is sound[k] exp(the interpolated knots), where the weights of frequency k are those of the knots from first[k]
 * on; frequencies from last[unit] on do not move the unit. */
EXPORT void cochlea_spectrum(const Number *knots, int64_t units, int64_t many, const Number *sound, int64_t samples,
                             const int32_t *first, const double *weights, const int64_t *last, int threads, Number *out)
{
    const int64_t half = samples / 2 + 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t unit = 0; unit < units; unit++) {
        Number *y = out + unit * half;
        memset(y, 0, (size_t)half * sizeof *y);
        for (int64_t k = 0; k < last[unit]; k++) {
            const double *near = (const double *)(knots + unit * many + first[k]), *w = weights + NEAR * k;
            double size = 0, angle = 0;
            for (int j = 0; j < NEAR; j++) {
                size += w[j] * near[2 * j];
                angle += w[j] * near[2 * j + 1];
            }
            const double scale = 0.5 * exp(size), c = scale * cos(angle), s = scale * sin(angle);
            const double a = creal(sound[k]), b = cimag(sound[k]);
            const double real = c * a - s * b, imag = c * b + s * a;
            if (k < half)
                y[k] += real + I * imag;
            if (k == 0)
                y[k] += real - I * imag;
            else if (samples - k < half)
                y[samples - k] += real - I * imag;
        }
    }
}
