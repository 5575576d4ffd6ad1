"""From replicates to statements: moments, decompositions, precision, rates, verdicts.

Arrays go in and frozen records come out. Nothing here draws a number, and estimators are known
only by what `LinearSmoother` asks of them.
"""

from nwsim.inference.conditional import (
    ConditionalMoments,
    LinearSmoother,
    conditional_moments,
    decompose_conditional,
)
from nwsim.inference.constants import (
    RateExponents,
    asymptotic_bias,
    asymptotic_variance,
    optimal_bandwidth,
    rate_exponent,
    rate_exponents,
)
from nwsim.inference.decomposition import Decomposition, decompose
from nwsim.inference.jackknife import jackknife, jackknife_se
from nwsim.inference.performance import (
    difference,
    empirical_se,
    mean,
    performance,
    performance_measures,
    proportion,
    ratio,
    rmse,
)
from nwsim.inference.rates import LocalSlope, RateFit, fit_rate, local_slopes
from nwsim.inference.records import Estimate
from nwsim.inference.verdicts import Verdict, combine, equivalence

__all__ = [
    "ConditionalMoments",
    "Decomposition",
    "Estimate",
    "LinearSmoother",
    "LocalSlope",
    "RateExponents",
    "RateFit",
    "Verdict",
    "asymptotic_bias",
    "asymptotic_variance",
    "combine",
    "conditional_moments",
    "decompose",
    "decompose_conditional",
    "difference",
    "empirical_se",
    "equivalence",
    "fit_rate",
    "jackknife",
    "jackknife_se",
    "local_slopes",
    "mean",
    "optimal_bandwidth",
    "performance",
    "performance_measures",
    "proportion",
    "rate_exponent",
    "rate_exponents",
    "ratio",
    "rmse",
]
