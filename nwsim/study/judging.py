"""The rules that come with the package: how points become verdicts and curves."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.study.points import CurvePoint, Points

if TYPE_CHECKING:
    from nwsim.inference import Verdict


def judge_rate(points: Points, theory: float, margin: float) -> Verdict:
    """Judge the slope of log quantity against log level."""
    from nwsim.inference import equivalence, fit_rate

    if not points.has_slope:
        return equivalence(math.nan, math.nan, theory, margin)
    with warnings.catch_warnings():
        # One replicate gives no standard error; the run says so once.
        warnings.simplefilter("ignore", PrecisionWarning)
        return fit_rate(points.levels, points.estimates, points.mcse).compare(theory, margin)


def judge_rate_of_log(points: Points, theory: float, margin: float) -> Verdict:
    """Judge the slope, against log level, of a quantity that is a mean of logs itself.

    The log of a mean of values over orders of magnitude is that of the largest of them.
    """
    import numpy as np

    # A constant changes no slope, and keeps the exponentials within range.
    logs = points.estimates - np.mean(points.estimates)
    with np.errstate(over="ignore", under="ignore"):
        values = np.exp(logs)
        made = dataclasses.replace(points, estimates=values, mcse=points.mcse * values)
    return judge_rate(made, theory, margin)


def judge_falls_as(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether the log-log slope is at most the theory: at least as steep a fall."""
    from nwsim.inference import fit_rate, not_above

    # Without errors of all points the slope has none that is known.
    if not points.has_slope or not all(math.isfinite(mcse) for mcse in points.mcse):
        return not_above(math.nan, math.nan, theory, margin)
    fit = fit_rate(points.levels, points.estimates, points.mcse)
    return not_above(fit.slope, fit.slope_se, theory, margin)


def judge_equivalence(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether the quantity itself equals the theory up to the margin."""
    from nwsim.inference import equivalence

    return equivalence(float(points.estimates[-1]), float(points.mcse[-1]), theory, margin)


def judge_not_above(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether the quantity itself is at most the theory, up to the margin."""
    from nwsim.inference import not_above

    return not_above(float(points.estimates[-1]), float(points.mcse[-1]), theory, margin)


def judge_refutes_above(points: Points, theory: float, margin: float) -> Verdict:
    """Judge as :func:`judge_not_above`, but support nothing.

    A rare event of great cost, of which the replicates hold none, leaves a mean with a standard
    error of nearly 0: "supported" would be as likely as the event is rare.
    """
    from nwsim.inference.verdicts import INCONCLUSIVE, REFUTED

    found = judge_not_above(points, theory, margin)
    return found if found.verdict == REFUTED else dataclasses.replace(found, verdict=INCONCLUSIVE)


def judge_share_at_most(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether a share of replicates is at most theory + margin, by exact bounds."""
    return _judge_share(points, theory, margin, of_those_without=False)


def judge_share_at_least(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether a share of replicates is at least theory - margin, by exact bounds."""
    found = _judge_share(points, 1.0 - theory, margin, of_those_without=True)
    return dataclasses.replace(
        found,
        estimate=1.0 - found.estimate,
        theory=theory,
        ci_low=1.0 - found.ci_high,
        ci_high=1.0 - found.ci_low,
    )


def _judge_share(
    points: Points, theory: float, margin: float, *, of_those_without: bool
) -> Verdict:
    """Judge whether the share of replicates with 1, or with 0, is at most theory + margin."""
    import numpy as np

    from nwsim.inference.shares import share_at_most
    from nwsim.inference.verdicts import undecided

    values = points.replicates()[-1]
    if not values.size:
        return undecided(theory, margin)
    if not np.isin(values, (0.0, 1.0)).all():
        odd = values[~np.isin(values, (0.0, 1.0))][0]
        raise ParameterError(f"shares are of measures that are 0 or 1; got {odd}")
    count = np.sum(values == (0.0 if of_those_without else 1.0))
    return share_at_most(int(count), values.size, theory, margin)


def judge_never_above(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether no replicate at any level is above the theory by more than the margin."""
    import numpy as np

    from nwsim.inference import never_above
    from nwsim.inference.verdicts import undecided

    values = np.concatenate(points.replicates())
    return never_above(values, theory, margin) if values.size else undecided(theory, margin)


def judge_never_rises(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether no step along the factor is a rise, relative to the first level's mean."""
    from nwsim.inference import never_rises

    _check_theory("never_rises", theory)
    return never_rises(points.matrix(), margin).verdict


def judge_no_rise_at_all(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether no later level is above an earlier one, relative to the first level's mean."""
    from nwsim.inference import never_rises

    _check_theory("no_rise_at_all", theory)
    return never_rises(points.matrix(), margin, between="all").verdict


def judge_straight_line(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether the quantity falls in a straight line along the factor."""
    from nwsim.inference import straight_line

    _check_theory("straight_line", theory)
    return straight_line(points.levels, points.matrix(), margin).verdict


def judge_ends(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether log(mean at the first level / mean at the last) is at most the theory."""
    from nwsim.inference import ends, not_above

    found = ends(points.matrix())
    return not_above(found.estimate, found.mcse, theory, margin)


def judge_falls_in_logs(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether the mean slope on the log of the level is at most the theory."""
    from nwsim.inference import not_above, paired_slope

    found = paired_slope(points.levels, points.matrix())
    return not_above(found.estimate, found.mcse, theory, margin)


def judge_interior_optimum(points: Points, theory: float, margin: float) -> Verdict:
    """Judge whether a level between the ends has a lower mean than both."""
    from nwsim.inference import interior_optimum

    _check_theory("interior_optimum", theory)
    return interior_optimum(points.levels, points.matrix(), margin)


def _check_theory(rule: str, theory: float) -> None:
    if theory != 0.0:
        raise ParameterError(f"theory must be 0 for rule {rule!r}; got {theory!r}")


def local_slope(points: Points) -> list[CurvePoint]:
    """Log-log slope between neighbouring levels, at their geometric mean."""
    from nwsim.inference import local_slopes

    found = []
    for low in range(points.levels.size - 1):
        pair = slice(low, low + 2)
        levels, estimates = points.levels[pair], points.estimates[pair]
        middle = math.sqrt(levels[0] * levels[1])
        if (estimates > 0).all():
            slope = local_slopes(levels, estimates, points.mcse[pair])[0]
            found.append(CurvePoint(middle, slope.slope, slope.slope_se))
        else:
            found.append(CurvePoint(middle, math.nan, math.nan))
    return found


def tail_slope(points: Points) -> list[CurvePoint]:
    """One log-log slope over all the levels given."""
    from nwsim.inference import fit_rate

    if not points.has_slope:
        return [CurvePoint(math.nan, math.nan, math.nan)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        fit = fit_rate(points.levels, points.estimates, points.mcse)
    return [CurvePoint(math.nan, fit.slope, fit.slope_se)]


def steps(points: Points) -> Sequence[CurvePoint]:
    """Differences of neighbouring means over the first mean, at the upper level."""
    from nwsim.inference import never_rises

    trend = never_rises(points.matrix(), 0.0)
    return [
        CurvePoint(x, step, mcse)
        for x, step, mcse in zip(points.levels[1:], trend.steps, trend.mcse, strict=True)
    ]


def departure(points: Points) -> Sequence[CurvePoint]:
    """Departures of the means from their straight line, in units of the measure."""
    from nwsim.inference import straight_line

    fit = straight_line(points.levels, points.matrix(), 1.0)
    return [
        CurvePoint(x, value, mcse)
        for x, value, mcse in zip(points.levels, fit.departures, fit.departures_mcse, strict=True)
    ]


def lack_of_fit(points: Points) -> Sequence[CurvePoint]:
    """Return the p value of the lack-of-fit test of a straight line; it has no standard error."""
    from nwsim.inference import straight_line

    fit = straight_line(points.levels, points.matrix(), 1.0)
    return [CurvePoint(math.nan, fit.p_value, math.nan)]


def log_log_slope(points: Points) -> Sequence[CurvePoint]:
    """Return the log-log slope of the means over all levels, which share replicates."""
    from nwsim.inference import log_log_slope as fit

    found = fit(points.levels, points.matrix())
    return [CurvePoint(math.nan, found.estimate, found.mcse)]


def crossing(points: Points) -> Sequence[CurvePoint]:
    """Return the level where means first fall to 0; undefined where that is beyond all levels."""
    from nwsim.inference import crossing as search

    found = search(points.levels, points.matrix(), points.rng())
    return [CurvePoint(math.nan, *_known(found.level, found.mcse, found.ci_low, found.ci_high))]


def _known(*values: float) -> Iterator[float]:
    """Yield values, NaN for those beyond all bounds."""
    yield from (value if math.isfinite(value) else math.nan for value in values)


def line_slope(points: Points) -> Sequence[CurvePoint]:
    """Return the slope of the straight line through the means, per unit of the factor."""
    from nwsim.inference import straight_line

    fit = straight_line(points.levels, points.matrix(), 1.0)
    return [CurvePoint(math.nan, fit.slope, fit.slope_se)]


def best_level(points: Points) -> Sequence[CurvePoint]:
    """Return the level of the least mean with its bootstrap standard error and interval."""
    from nwsim.inference import best_level as search

    best = search(points.levels, points.matrix(), points.rng())
    return [CurvePoint(math.nan, best.level, best.mcse, best.ci_low, best.ci_high)]


def best_share(points: Points) -> Sequence[CurvePoint]:
    """Return the share of bootstrap resamples in which a level has the least mean."""
    from nwsim.inference import best_level as search

    best = search(points.levels, points.matrix(), points.rng())
    return [
        CurvePoint(x, share, math.nan) for x, share in zip(points.levels, best.shares, strict=True)
    ]
