"""Sorting numbers that are spread out: buckets first, then insertions."""

from __future__ import annotations

import numpy as np

from nwsim.numerics._compile import (
    FLAG,
    INTEGER,
    OUT_INDICES,
    OUT_VECTOR,
    REAL,
    STRICT,
    VECTOR,
    compiled,
)

# Points a bucket, on average and at most.
AVERAGE = 4
CROWDED = 48


@compiled(FLAG(VECTOR, REAL, REAL, INTEGER, OUT_VECTOR, OUT_INDICES), fastmath=STRICT)
def bucket_sort(x, low, high, n_buckets, out, order):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the numbers in ascending order, ``order`` with where they stood.

    Equal numbers keep their order. Returns False, with nothing of use in the results, if a
    bucket is crowded: the numbers are then not spread out enough.

    x : (n,) between low and high; out, order : (n,)
    """
    n = x.shape[0]
    scale = n_buckets / (high - low)
    first = np.zeros(n_buckets + 2, dtype=np.int64)
    bucket = np.empty(n, dtype=np.int32)
    for i in range(n):
        b = min(np.int64((x[i] - low) * scale), n_buckets - 1)
        bucket[i] = b
        first[b + 2] += 1
    for b in range(2, n_buckets + 2):
        if first[b] > CROWDED:
            return False
        first[b] += first[b - 1]
    for i in range(n):
        at = first[bucket[i] + 1]
        first[bucket[i] + 1] = at + 1
        out[at] = x[i]
        order[at] = i
    # Every point is at most a bucket away from its place.
    for i in range(1, n):
        value = out[i]
        if out[i - 1] <= value:
            continue
        place = order[i]
        j = i
        while j > 0 and out[j - 1] > value:
            out[j] = out[j - 1]
            order[j] = order[j - 1]
            j -= 1
        out[j] = value
        order[j] = place
    return True
