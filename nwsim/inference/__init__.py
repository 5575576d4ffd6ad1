"""From replicates to statements: moments, decompositions, precision, rates, verdicts.

Arrays go in and frozen records come out. Numbers are drawn by the bootstrap alone, from a
generator handed in, and estimators are known only by what `LinearSmoother` asks of them.
"""

from nwsim.inference.conditional import (
    ConditionalMoments,
    InputSample,
    LinearSmoother,
    conditional_moments,
    decompose_conditional,
    design_moments,
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
from nwsim.inference.laws import LawComparison, LawScore, held_out_laws
from nwsim.inference.optima import BestLevel, best_level, interior_optimum
from nwsim.inference.paired import Crossing, crossing, log_log_slope, paired_slope
from nwsim.inference.performance import (
    difference,
    empirical_se,
    mean,
    performance,
    performance_measures,
    precision_gain,
    proportion,
    ratio,
    rmse,
)
from nwsim.inference.rates import LocalSlope, RateFit, fit_rate, local_slopes
from nwsim.inference.records import Estimate
from nwsim.inference.trends import LineFit, Trend, ends, never_rises, straight_line
from nwsim.inference.verdicts import Verdict, combine, equivalence, never_above, not_above

__all__ = [
    "BestLevel",
    "ConditionalMoments",
    "Crossing",
    "Decomposition",
    "Estimate",
    "InputSample",
    "LawComparison",
    "LawScore",
    "LineFit",
    "LinearSmoother",
    "LocalSlope",
    "RateExponents",
    "RateFit",
    "Trend",
    "Verdict",
    "asymptotic_bias",
    "asymptotic_variance",
    "best_level",
    "combine",
    "conditional_moments",
    "crossing",
    "decompose",
    "decompose_conditional",
    "design_moments",
    "difference",
    "empirical_se",
    "ends",
    "equivalence",
    "fit_rate",
    "held_out_laws",
    "interior_optimum",
    "jackknife",
    "jackknife_se",
    "local_slopes",
    "log_log_slope",
    "mean",
    "never_above",
    "never_rises",
    "not_above",
    "optimal_bandwidth",
    "paired_slope",
    "performance",
    "performance_measures",
    "precision_gain",
    "proportion",
    "rate_exponent",
    "rate_exponents",
    "ratio",
    "rmse",
    "straight_line",
]
