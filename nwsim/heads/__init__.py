"""Heads: what each looks at, how alike they are, and how much each one counts.

Nothing here smooths. Projections, principal angles and weights are arrays; what is random takes
a Generator, and the head diversity index comes with its law for random subspaces.
"""

from nwsim.heads.angles import (
    canonical_correlations,
    cross_gram,
    orthonormal_bases,
    overlap_matrix,
    pairwise_angles,
    principal_angles,
)
from nwsim.heads.directions import pca_frames, sir_frames
from nwsim.heads.diversity import (
    head_diversity_index,
    minimum_overlap,
    null_mean,
    null_quantiles,
    null_sample,
    null_variance,
)
from nwsim.heads.optimal import (
    OptimalWeights,
    WeightScore,
    error_moments,
    optimal_weights,
    score_weights,
)
from nwsim.heads.projections import (
    DiversityPath,
    Frames,
    check_projections,
    coordinate_frames,
    diversity_path,
    head_dimensions,
    random_frames,
)
from nwsim.heads.stacking import (
    HeldOutStacking,
    half_split,
    held_out_stacking,
    stacking_weights,
)
from nwsim.heads.weights import (
    FIBONACCI_FLOOR,
    check_head_weights,
    fibonacci_weights,
    geometric_floor,
    geometric_weights,
    inverse_variance_weights,
    order_weights,
    sum_of_squares,
    uniform_weights,
)

__all__ = [
    "FIBONACCI_FLOOR",
    "DiversityPath",
    "Frames",
    "HeldOutStacking",
    "OptimalWeights",
    "WeightScore",
    "canonical_correlations",
    "check_head_weights",
    "check_projections",
    "coordinate_frames",
    "cross_gram",
    "diversity_path",
    "error_moments",
    "fibonacci_weights",
    "geometric_floor",
    "geometric_weights",
    "half_split",
    "head_dimensions",
    "head_diversity_index",
    "held_out_stacking",
    "inverse_variance_weights",
    "minimum_overlap",
    "null_mean",
    "null_quantiles",
    "null_sample",
    "null_variance",
    "optimal_weights",
    "order_weights",
    "orthonormal_bases",
    "overlap_matrix",
    "pairwise_angles",
    "pca_frames",
    "principal_angles",
    "random_frames",
    "score_weights",
    "sir_frames",
    "stacking_weights",
    "sum_of_squares",
    "uniform_weights",
]
