"""Where points live: the cube, the torus, the whole space."""

from __future__ import annotations

import numpy as np

from nwsim._typing import ArrayLike, FloatArray
from nwsim._validation import check_array, check_choice
from nwsim.exceptions import ParameterError

FUNCTION_DOMAINS = ("cube", "torus")
"""Regression functions: not periodic, or of period 1 in each coordinate."""

DESIGN_DOMAINS = ("cube", "torus", "space")
"""Designs: [0, 1]^d with edges, [0, 1)^d without, R^d."""


def as_points(points: ArrayLike, dim: int, name: str = "X") -> FloatArray:
    """Return points as a contiguous (n, dim) float64 array.

    ``(n,)`` is one column when ``dim`` is 1; no rows are allowed.
    """
    array = check_array(name, points, ndim=(1, 2), minimum_rows=0)
    if array.ndim == 1:
        array = array[:, np.newaxis]
    if array.shape[1] != dim:
        raise ParameterError(
            f"{name} must have {dim} columns, the dimension here; got shape {array.shape}"
        )
    return array


def to_domain(X: ArrayLike, domain: str) -> FloatArray:
    """Bring points into [0, 1]^d.

    Parameters
    ----------
    X : (n, d) or (n,) array
        Finite coordinates.
    domain : {"cube", "torus"}
        "torus" wraps each coordinate to [0, 1); "cube" clips it to [0, 1].

    Returns
    -------
    array of the shape of X
        A new array.

    Raises
    ------
    ParameterError
        If the domain is unknown or X is not finite.
    """
    check_choice("domain", domain, FUNCTION_DOMAINS)
    array = check_array("X", X, ndim=(1, 2), minimum_rows=0)
    if domain == "cube":
        return np.clip(array, 0.0, 1.0)
    wrapped = array - np.floor(array)
    # A tiny negative coordinate rounds up to exactly 1, which is 0 on the torus.
    wrapped[wrapped >= 1.0] = 0.0
    return wrapped
