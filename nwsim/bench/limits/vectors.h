/* Vector exponentials: 2^(d c) of four chains at once, so that both pipes stay busy.
 *
 * d c <= 0 is split as k + r with |r| <= 1/2 in one fused operation; 2^r is a polynomial
 * (Chebyshev fit on [-1/2, 1/2], relative error 2e-16 in double and 8e-8 in single), and k is
 * added to the exponent bits. d is kept below `limit`, where 2^(d c) is still normal.
 */
#include <immintrin.h>

#define CHAINS 4
#define ALL for (int u = 0; u < CHAINS; u++)
#define UNROLLED _Pragma("GCC unroll 4") ALL
#define ROUND_F64 6755399441055744.0 /* 1.5 * 2^52: adding it leaves k in the low bits */
#define ROUND_F32 12582912.0f        /* 1.5 * 2^23 */
#define LOG2_E 1.4426950408889634

#define STEP_F64(coefficient) UNROLLED p[u] = _mm256_fmadd_pd(p[u], r[u], _mm256_set1_pd(coefficient));
#define STEP_F32(coefficient) UNROLLED p[u] = _mm256_fmadd_ps(p[u], r[u], _mm256_set1_ps(coefficient));

static inline __attribute__((always_inline)) void powers_f64(__m256d *d, __m256d c, __m256d limit) {
    const __m256d shift = _mm256_set1_pd(ROUND_F64);
    __m256d t[CHAINS], r[CHAINS], p[CHAINS];
    UNROLLED d[u] = _mm256_min_pd(d[u], limit);
    UNROLLED t[u] = _mm256_fmadd_pd(d[u], c, shift);
    UNROLLED r[u] = _mm256_fmsub_pd(d[u], c, _mm256_sub_pd(t[u], shift));
    UNROLLED p[u] = _mm256_fmadd_pd(_mm256_set1_pd(7.0725859492692237e-9), r[u],
                                    _mm256_set1_pd(1.0208690299958306e-7));
    STEP_F64(1.3215442587921690e-6)
    STEP_F64(1.5252657260200837e-5)
    STEP_F64(1.5403530441735605e-4)
    STEP_F64(1.3333558230164974e-3)
    STEP_F64(9.6181291076068885e-3)
    STEP_F64(5.5504108664447719e-2)
    STEP_F64(2.4022650695910098e-1)
    STEP_F64(6.9314718055994999e-1)
    STEP_F64(1.0)
    UNROLLED d[u] = _mm256_castsi256_pd(_mm256_add_epi64(
        _mm256_castpd_si256(p[u]), _mm256_slli_epi64(_mm256_castpd_si256(t[u]), 52)));
}

static inline __attribute__((always_inline)) void powers_f32(__m256 *d, __m256 c, __m256 limit) {
    const __m256 shift = _mm256_set1_ps(ROUND_F32);
    __m256 t[CHAINS], r[CHAINS], p[CHAINS];
    UNROLLED d[u] = _mm256_min_ps(d[u], limit);
    UNROLLED t[u] = _mm256_fmadd_ps(d[u], c, shift);
    UNROLLED r[u] = _mm256_fmsub_ps(d[u], c, _mm256_sub_ps(t[u], shift));
    UNROLLED p[u] = _mm256_fmadd_ps(_mm256_set1_ps(1.3390863e-3f), r[u], _mm256_set1_ps(9.6760319e-3f));
    STEP_F32(5.5503571e-2f)
    STEP_F32(2.4022107e-1f)
    STEP_F32(6.9314719e-1f)
    STEP_F32(1.0000001f)
    UNROLLED d[u] = _mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_castps_si256(p[u]), _mm256_slli_epi32(_mm256_castps_si256(t[u]), 23)));
}

static inline double total_f64(__m256d v) {
    double part[4];
    _mm256_storeu_pd(part, v);
    return (part[0] + part[1]) + (part[2] + part[3]);
}
