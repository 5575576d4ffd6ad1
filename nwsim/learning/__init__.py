"""Learning: projections of heads that are fitted, by descent on an exact risk."""

from nwsim.learning.descent import (
    Descent,
    descend,
    least_overlap_frames,
    mean_overlap,
    orthonormal_pullback,
)
from nwsim.learning.fits import (
    FrameFit,
    best_bandwidth,
    curvatures,
    distinct_optima,
    fit_frames,
    shaken,
    starting_frames,
)
from nwsim.learning.objective import FrameRisk, QueriedSample

__all__ = [
    "Descent",
    "FrameFit",
    "FrameRisk",
    "QueriedSample",
    "best_bandwidth",
    "curvatures",
    "descend",
    "distinct_optima",
    "fit_frames",
    "least_overlap_frames",
    "mean_overlap",
    "orthonormal_pullback",
    "shaken",
    "starting_frames",
]
