/* The workloads themselves, as fast as plain C with AVX2 does them on one core. */
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

/* Gaussian smoother over all pairs. x: dim rows of n; q: m rows of dim; n a multiple of 16. */
static inline __attribute__((always_inline)) void
gaussian(int dim, const double *x, const double *y, long n, const double *q, long m, double h, double *out) {
    const double factor = -0.5 * LOG2_E / (h * h);
    const __m256d c = _mm256_set1_pd(factor), limit = _mm256_set1_pd(-1020.0 / factor);
    for (long j = 0; j < m; j++) {
        __m256d sum[CHAINS], dot[CHAINS];
        UNROLLED sum[u] = dot[u] = _mm256_setzero_pd();
        for (long i = 0; i < n; i += 4 * CHAINS) {
            __m256d d[CHAINS];
            UNROLLED d[u] = _mm256_setzero_pd();
            for (int k = 0; k < dim; k++) {
                const __m256d own = _mm256_set1_pd(q[dim * j + k]);
                UNROLLED {
                    const __m256d e = _mm256_sub_pd(own, _mm256_loadu_pd(x + k * n + i + 4 * u));
                    d[u] = _mm256_fmadd_pd(e, e, d[u]);
                }
            }
            powers_f64(d, c, limit);
            UNROLLED sum[u] = _mm256_add_pd(sum[u], d[u]);
            UNROLLED dot[u] = _mm256_fmadd_pd(d[u], _mm256_loadu_pd(y + i + 4 * u), dot[u]);
        }
        double s = 0.0, t = 0.0;
        ALL { s += total_f64(sum[u]); t += total_f64(dot[u]); }
        out[j] = t / s;
    }
}

void gaussian_1d(const double *x, const double *y, long n, const double *q, long m, double h, double *out) {
    gaussian(1, x, y, n, q, m, h, out);
}

void gaussian_3d(const double *x, const double *y, long n, const double *q, long m, double h, double *out) {
    gaussian(3, x, y, n, q, m, h, out);
}

/* Eight heads in four dimensions: bias and covariance of their weights.
 * keys: 32 rows of n, those of a head together; queries: m rows of 32; n a multiple of TILE;
 * out: m rows of 9 x 8, the bias and then the covariance. */
#define N_HEADS 8
#define HEAD_DIM 4
#define TILE 256

static void weigh(const double *keys, const double *query, long n, long start, __m256d c, __m256d limit, double *weights) {
    for (int head = 0; head < N_HEADS; head++)
        for (long i = 0; i < TILE; i += 4 * CHAINS) {
            __m256d d[CHAINS];
            UNROLLED d[u] = _mm256_setzero_pd();
            _Pragma("GCC unroll 4") for (int k = 0; k < HEAD_DIM; k++) {
                const int row = HEAD_DIM * head + k;
                const __m256d own = _mm256_set1_pd(query[row]);
                UNROLLED {
                    const __m256d e = _mm256_sub_pd(own, _mm256_loadu_pd(keys + row * n + start + i + 4 * u));
                    d[u] = _mm256_fmadd_pd(e, e, d[u]);
                }
            }
            powers_f64(d, c, limit);
            UNROLLED _mm256_storeu_pd(weights + head * TILE + i + 4 * u, d[u]);
        }
}

/* Add the products of rows a, a + 1 with rows b .. b + 3, four partial sums each. */
static inline __attribute__((always_inline)) void
multiply(const double *weights, int a, int b, __m256d *sums) {
    __m256d own[8];
    _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) own[k] = sums[k];
    for (long i = 0; i < TILE; i += 4) {
        const __m256d first = _mm256_loadu_pd(weights + a * TILE + i);
        const __m256d second = _mm256_loadu_pd(weights + (a + 1) * TILE + i);
        _Pragma("GCC unroll 4") for (int k = 0; k < 4; k++) {
            const __m256d other = _mm256_loadu_pd(weights + (b + k) * TILE + i);
            own[k] = _mm256_fmadd_pd(first, other, own[k]);
            own[4 + k] = _mm256_fmadd_pd(second, other, own[4 + k]);
        }
    }
    _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) sums[k] = own[k];
}

void head_parts(const double *keys, const double *queries, const double *f, const double *f_query,
                long n, long m, double h, double *out) {
    static const int blocks[6][2] = {{0, 0}, {2, 0}, {0, 4}, {2, 4}, {4, 4}, {6, 4}};
    const double factor = -0.5 * LOG2_E / (h * h);
    const __m256d c = _mm256_set1_pd(factor), limit = _mm256_set1_pd(-1020.0 / factor);
    double weights[N_HEADS * TILE] __attribute__((aligned(64)));
    for (long j = 0; j < m; j++) {
        __m256d sum[N_HEADS], dot[N_HEADS], products[6][8];
        for (int head = 0; head < N_HEADS; head++) sum[head] = dot[head] = _mm256_setzero_pd();
        memset(products, 0, sizeof products);
        for (long start = 0; start < n; start += TILE) {
            weigh(keys, queries + N_HEADS * HEAD_DIM * j, n, start, c, limit, weights);
            for (int head = 0; head < N_HEADS; head++) {
                __m256d s[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()}, t[2] = {s[0], s[0]};
                for (long i = 0; i < TILE; i += 8)
                    _Pragma("GCC unroll 2") for (int u = 0; u < 2; u++) {
                        const __m256d w = _mm256_load_pd(weights + head * TILE + i + 4 * u);
                        s[u] = _mm256_add_pd(s[u], w);
                        t[u] = _mm256_fmadd_pd(w, _mm256_loadu_pd(f + start + i + 4 * u), t[u]);
                    }
                sum[head] = _mm256_add_pd(sum[head], _mm256_add_pd(s[0], s[1]));
                dot[head] = _mm256_add_pd(dot[head], _mm256_add_pd(t[0], t[1]));
            }
            for (int block = 0; block < 6; block++)
                multiply(weights, blocks[block][0], blocks[block][1], products[block]);
        }
        double *bias = out + j * (1 + N_HEADS) * N_HEADS, *covariance = bias + N_HEADS, s[N_HEADS];
        for (int head = 0; head < N_HEADS; head++) {
            s[head] = total_f64(sum[head]);
            bias[head] = total_f64(dot[head]) / s[head] - f_query[j];
        }
        for (int block = 0; block < 6; block++)
            for (int k = 0; k < 8; k++) {
                const int a = blocks[block][0] + k / 4, b = blocks[block][1] + k % 4;
                const double value = total_f64(products[block][k]) / (s[a] * s[b]);
                covariance[a * N_HEADS + b] = covariance[b * N_HEADS + a] = value;
            }
    }
}

/* Epanechnikov smoother in one dimension: sort into buckets, then one sweep with moving sums.
 * x and q in [0, 1); the sums are about an origin that follows the queries, or they cancel. */
typedef struct {
    double at, value;
} Point;

static Point *sorted(const double *at, const double *value, long n) {
    const long buckets = n / 4 + 1;
    Point *points = malloc(n * sizeof *points);
    int *ends = calloc(buckets + 1, sizeof *ends);
    for (long i = 0; i < n; i++) ends[(long)(at[i] * buckets) + 1]++;
    for (long b = 0; b < buckets; b++) ends[b + 1] += ends[b];
    for (long i = 0; i < n; i++) {
        const Point own = {at[i], value ? value[i] : (double)i};
        points[ends[(long)(at[i] * buckets)]++] = own;
    }
    for (long i = 1; i < n; i++) {
        const Point own = points[i];
        long k = i;
        for (; k > 0 && points[k - 1].at > own.at; k--) points[k] = points[k - 1];
        points[k] = own;
    }
    free(ends);
    return points;
}

typedef struct {
    double s0, s1, s2, t0, t1, t2;
} Moments;

static inline void add(Moments *now, Point p, double origin, double sign) {
    const double u = p.at - origin, su = sign * u, sv = sign * p.value;
    now->s0 += sign, now->s1 += su, now->s2 += su * u;
    now->t0 += sv, now->t1 += sv * u, now->t2 += sv * u * u;
}

void epanechnikov_1d(const double *x, const double *y, long n, const double *q, long m, double h, double *out) {
    Point *points = sorted(x, y, n), *queries = sorted(q, NULL, m);
    const double scale = 1.0 / (h * h);
    double origin = 0.0;
    Moments now = {0};
    long first = 0, last = 0;
    for (long j = 0; j < m; j++) {
        const double at = queries[j].at;
        if (at - origin > h) {
            const double d = at - origin;
            now.s2 += d * (d * now.s0 - 2.0 * now.s1), now.s1 -= d * now.s0;
            now.t2 += d * (d * now.t0 - 2.0 * now.t1), now.t1 -= d * now.t0;
            origin = at;
        }
        for (; last < n && points[last].at <= at + h; last++) add(&now, points[last], origin, 1.0);
        for (; first < last && points[first].at < at - h; first++) add(&now, points[first], origin, -1.0);
        const double c = at - origin;
        const double below = now.s0 - scale * (c * (c * now.s0 - 2.0 * now.s1) + now.s2);
        const double above = now.t0 - scale * (c * (c * now.t0 - 2.0 * now.t1) + now.t2);
        out[(long)queries[j].value] = above / below;
    }
    free(points), free(queries);
}
