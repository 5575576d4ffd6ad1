"""Gaussian weights with one free number, which is a bandwidth or scales one."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice, check_real
from nwsim.attention.bandwidths import abramson_scales, check_spread, knn_bandwidths
from nwsim.attention.weights import _unit, gaussian_weights
from nwsim.exceptions import ParameterError
from nwsim.smoothing import get_kernel
from nwsim.smoothing.bandwidths import rule_of_thumb

WEIGHT_FAMILIES = ("fixed", "neighbors", "abramson", "abramson_density", "unit_norm")
"""What the bandwidth of a family depends on: see :func:`weight_family`."""


class WeightFamily(NamedTuple):
    """Weights at given queries and keys, up to one number c > 0.

    Attributes
    ----------
    middle : float
        A number to search about: it makes bandwidths of the size of the rule of thumb.
    weights : callable
        ``weights(c)`` are those of the number, (m, n) ndarray; rows sum to 1.
    """

    middle: float
    weights: Callable[[float], FloatArray]


def weight_family(kind: str, q: ArrayLike, k: ArrayLike) -> WeightFamily:
    """Return Gaussian weights as a function of the one number that is left to choose.

    Parameters
    ----------
    kind : {"fixed", "neighbors", "abramson", "abramson_density", "unit_norm"}
        With c the number: one bandwidth c; c times the distance of each query to its
        n^(1/2)-th nearest key (rounded up); c s_j at key j, with the scales of
        :func:`~nwsim.attention.abramson_scales` by a pilot density at the rule of thumb; the
        same with the factor s_j^(-d) of a density estimate; one bandwidth c between queries and
        keys that are scaled to length 1.
    q : (m, d) array_like
        Queries, finite.
    k : (n, d) array_like
        Keys, finite; at least 2, over a range between 1e-100 and 1e100.

    Returns
    -------
    WeightFamily

    Raises
    ------
    ParameterError
        If an argument is not as described, or as
        :func:`~nwsim.attention.gaussian_weights` says.

    Notes
    -----
    No weight looks at values, so the error of each number is a sum of exact conditional
    moments. Distances to neighbours: Mack and Rosenblatt (1979). Scales by key: Abramson (1982).
    The rule of thumb is that of :class:`~nwsim.NadarayaWatson`.

    Examples
    --------
    >>> import numpy as np
    >>> from nwsim.attention import weight_family
    >>> x = np.array([[0.0], [1.0], [3.0]])
    >>> weight_family("fixed", x[:1], x).weights(0.5).round(3)
    array([[0.881, 0.119, 0.   ]])
    """
    check_choice("kind", kind, WEIGHT_FAMILIES)
    queries, keys = check_array("q", q, ndim=2), check_array("k", k, ndim=2, minimum_rows=2)
    if queries.shape[1] != keys.shape[1]:
        raise ParameterError(
            f"k must have as many columns as q, {queries.shape[1]}; got shape {keys.shape}"
        )
    if kind == "unit_norm":
        queries, keys = _unit("q", queries), _unit("k", keys)
    check_spread("k", keys)
    pilot = rule_of_thumb(keys, np.ones(len(keys)), get_kernel("gaussian"))
    known = partial(_weights, queries, keys)
    if kind in ("fixed", "unit_norm"):
        return WeightFamily(pilot, known)
    if kind == "neighbors":
        distance = knn_bandwidths(queries, keys, math.ceil(math.sqrt(len(keys))))
        return WeightFamily(
            pilot / math.exp(np.log(distance).mean()), partial(known, unit=distance)
        )
    scales = abramson_scales(keys, pilot)
    prior = -keys.shape[1] * np.log(scales) if kind == "abramson_density" else None
    return WeightFamily(pilot, partial(known, log_prior=prior, key_scale=scales))


def _weights(
    q: FloatArray,
    k: FloatArray,
    number: float,
    unit: ArrayLike = 1.0,
    log_prior: FloatArray | None = None,
    key_scale: FloatArray | None = None,
) -> FloatArray:
    """Return the weights with bandwidths that are the number times a unit, one or (m,)."""
    c = check_real("number", number, above=0.0)
    with np.errstate(over="ignore", under="ignore"):
        bandwidth = c * np.asarray(unit)
    if not (np.isfinite(bandwidth) & (bandwidth > 0.0)).all():
        raise ParameterError(f"number must keep bandwidths within range of float64; got {c!r}")
    return gaussian_weights(q, k, bandwidth, log_prior=log_prior, key_scale=key_scale)
