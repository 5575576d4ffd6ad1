/* What one core can do: multiply-adds, exponentials, reading, binning.
 * Functions that return a value do so for the work not to be optimised away. */
#include "vectors.h"

#define ACCUMULATORS 12

double multiply_adds_f64(long rounds) {
    /* 12 independent chains of 4 lanes: 48 fused multiply-adds a round, from registers. */
    __m256d a[ACCUMULATORS];
    const __m256d m = _mm256_set1_pd(0.999999), b = _mm256_set1_pd(1e-6);
    for (int k = 0; k < ACCUMULATORS; k++) a[k] = _mm256_set1_pd(1.0 + k);
    for (long i = 0; i < rounds; i++)
        _Pragma("GCC unroll 12") for (int k = 0; k < ACCUMULATORS; k++) a[k] = _mm256_fmadd_pd(a[k], m, b);
    double sum = 0.0;
    for (int k = 0; k < ACCUMULATORS; k++) sum += total_f64(a[k]);
    return sum;
}

double multiply_adds_f32(long rounds) {
    /* 96 fused multiply-adds a round. */
    __m256 a[ACCUMULATORS];
    const __m256 m = _mm256_set1_ps(0.9999f), b = _mm256_set1_ps(1e-4f);
    for (int k = 0; k < ACCUMULATORS; k++) a[k] = _mm256_set1_ps(1.0f + k);
    for (long i = 0; i < rounds; i++)
        _Pragma("GCC unroll 12") for (int k = 0; k < ACCUMULATORS; k++) a[k] = _mm256_fmadd_ps(a[k], m, b);
    double sum = 0.0;
    for (int k = 0; k < ACCUMULATORS; k++) {
        float part[8];
        _mm256_storeu_ps(part, a[k]);
        for (int l = 0; l < 8; l++) sum += part[l];
    }
    return sum;
}

void exponentials_f64(const double *x, double *out, long n, long rounds) {
    /* exp(x) for x <= 0; n a multiple of 16, so small that both arrays stay in the first cache. */
    const __m256d c = _mm256_set1_pd(-LOG2_E), limit = _mm256_set1_pd(1020.0 / LOG2_E);
    const __m256d zero = _mm256_setzero_pd();
    for (long round = 0; round < rounds; round++) {
        for (long i = 0; i < n; i += 4 * CHAINS) {
            __m256d d[CHAINS];
            UNROLLED d[u] = _mm256_sub_pd(zero, _mm256_loadu_pd(x + i + 4 * u));
            powers_f64(d, c, limit);
            UNROLLED _mm256_storeu_pd(out + i + 4 * u, d[u]);
        }
        __asm__ volatile("" ::: "memory"); /* every round counts */
    }
}

void exponentials_f32(const float *x, float *out, long n, long rounds) {
    const __m256 c = _mm256_set1_ps((float)-LOG2_E), limit = _mm256_set1_ps((float)(125.0 / LOG2_E));
    const __m256 zero = _mm256_setzero_ps();
    for (long round = 0; round < rounds; round++) {
        for (long i = 0; i < n; i += 8 * CHAINS) {
            __m256 d[CHAINS];
            UNROLLED d[u] = _mm256_sub_ps(zero, _mm256_loadu_ps(x + i + 8 * u));
            powers_f32(d, c, limit);
            UNROLLED _mm256_storeu_ps(out + i + 8 * u, d[u]);
        }
        __asm__ volatile("" ::: "memory");
    }
}

double read_all(const double *x, long n) {
    __m256d a[CHAINS];
    UNROLLED a[u] = _mm256_setzero_pd();
    for (long i = 0; i + 4 * CHAINS <= n; i += 4 * CHAINS)
        UNROLLED a[u] = _mm256_add_pd(a[u], _mm256_loadu_pd(x + i + 4 * u));
    return total_f64(a[0]) + total_f64(a[1]) + total_f64(a[2]) + total_f64(a[3]);
}

void bin_linearly(const double *x, const double *y, long n, double cells, double *out) {
    /* Cell of x in [0, 1) gets (1, f, y, f y), f its place in the cell: all that linear
     * binning needs. out: 4 doubles a cell. */
    for (long i = 0; i < n; i++) {
        const double place = x[i] * cells;
        const long cell = (long)place;
        const __m128d own = _mm_set_pd(place - (double)cell, 1.0);
        const __m256d four = _mm256_set_m128d(_mm_mul_pd(own, _mm_set1_pd(y[i])), own);
        double *at = out + 4 * cell;
        _mm256_storeu_pd(at, _mm256_add_pd(_mm256_loadu_pd(at), four));
    }
}
