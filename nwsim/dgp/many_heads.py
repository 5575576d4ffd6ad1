"""The six worlds in which claim H2 about head diversity is tested."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nwsim._validation import check_choice, check_integer, check_real
from nwsim.dgp.designs import Design, make_design
from nwsim.dgp.functions.base import World
from nwsim.dgp.mechanism import Mechanism
from nwsim.dgp.noise import make_noise
from nwsim.dgp.registry import make_world
from nwsim.exceptions import ParameterError
from nwsim.heads import DiversityPath

HEAD_WORLDS = (
    *("isotropic", "additive", "index_shared", "index_private"),
    *("correlated", "nongaussian"),
)
"""Names that :func:`head_mechanism` knows."""

CORRELATION = 0.8
"""Common correlation of the inputs in the world "correlated"."""

DEGREES_OF_FREEDOM = 5.0
"""Of the multivariate t inputs in the world "nongaussian"."""


def head_mechanism(
    name: str,
    dim: int,
    path: DiversityPath | None = None,
    *,
    noise: float = 1.0,
    alpha: float = 1.5,
) -> Mechanism:
    """Return a mechanism in which heads of different diversity are compared.

    Parameters
    ----------
    name : {"isotropic", "additive", "index_shared", "index_private", "correlated", \
"nongaussian"}
        "isotropic": a Matérn field of standard normal inputs. "additive": a sum of
        independent fields, one a coordinate. "index_shared": a field of one variable, the
        index, along the first direction of the path's shared frame; "index_private": the
        index is the mean of the first directions of all private frames. "correlated" and
        "nongaussian": the isotropic field of normal inputs with a common correlation, and of
        multivariate t inputs with covariance I.
    dim : int
        Dimension d of the inputs.
    path : DiversityPath, optional
        Needed by the two index worlds alone.
    noise : float, default 1
        Standard deviation of normal noise, > 0.
    alpha : float, default 1.5
        Smoothness of the fields.

    Returns
    -------
    Mechanism
        Functions have standard deviation 1 over their own draw. Fields of d variables have
        length scale sqrt(d), those of one variable 1: either way a typical wave turns by one
        radian over one standard deviation of the inputs.

    Raises
    ------
    ParameterError
        For an unknown name, or an index world without a path of this dimension.

    Notes
    -----
    The bias of an ensemble whose weights sum to one does not change when a constant is added
    to f, so fields are not centred.
    """
    check_choice("name", name, HEAD_WORLDS)
    dim = check_integer("dim", dim, minimum=2)
    scale = check_real("noise", noise, above=0.0)
    return Mechanism(
        _world(name, dim, path, alpha), _design(name, dim), make_noise("gaussian", scale=scale)
    )


def _design(name: str, dim: int) -> Design:
    if name == "correlated":
        return make_design("correlated_gaussian", dim=dim, correlation=CORRELATION)
    if name == "nongaussian":
        return make_design("isotropic", dim=dim, law="student", df=DEGREES_OF_FREEDOM)
    return make_design("gaussian", dim=dim)


def _world(name: str, dim: int, path: DiversityPath | None, alpha: float) -> World:
    if name == "additive":
        options = _field(1, amplitude=1.0 / math.sqrt(dim))
        return make_world("additive", alpha=alpha, dim=dim, inner="matern", inner_options=options)
    if name.startswith("index"):
        if path is None or path.shared.shape[0] != dim:
            raise ParameterError(f"path must be a DiversityPath in {dim} dimensions for {name!r}")
        firsts = path.shared[:, 0] if name == "index_shared" else path.private[:, :, 0].sum(axis=0)
        return make_world(
            "single_index",
            alpha=alpha,
            dim=dim,
            inner="matern",
            inner_options=_field(1),
            direction=tuple((firsts / np.linalg.norm(firsts)).tolist()),
        )
    return make_world("matern", alpha=alpha, dim=dim, **_field(dim))


def _field(dim: int, amplitude: float = 1.0) -> dict[str, Any]:
    """Return the options of a field; waves above thirty radians a length carry next to nothing."""
    length = math.sqrt(dim)
    return {
        "length_scale": length,
        "highest": 30.0 / (2.0 * math.pi * length),
        "n_features": 256 if dim > 1 else 64,
        "amplitude": amplitude,
    }
