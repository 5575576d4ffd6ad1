"""The slow and obvious version of attention: one dense array, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np


def dense_attention(
    q: Any, k: Any, v: Any, temperature: float | None = None, mask: Any = None
) -> np.ndarray[Any, Any]:
    q, k, v = (np.asarray(array, dtype=np.float64) for array in (q, k, v))
    h = np.sqrt(q.shape[-1]) if temperature is None else temperature
    scores = q @ np.swapaxes(k, -1, -2) / h
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ v
