"""Verdicts on claims: a test a setting, two-sided or one-sided; one word for all settings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from nwsim._typing import ArrayLike
from nwsim._validation import check_array, check_choice, check_real
from nwsim.exceptions import ParameterError

SUPPORTED = "supported"
CONDITIONAL = "supported-with-conditions"
REFUTED = "refuted"
INCONCLUSIVE = "inconclusive"
SETTING_VERDICTS = (SUPPORTED, REFUTED, INCONCLUSIVE)

Z90 = 1.6448536269514722
"""Normal quantile of 0.95: half-width of a two-sided 90% interval."""
Z95 = 1.959963984540054
"""Normal quantile of 0.975: half-width of a two-sided 95% interval."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a test with all that it rests on.

    Attributes
    ----------
    estimate, mcse : float
        The estimate and its standard error, in the unit of the quantity. A largest value has
        no standard error: NaN, and so are the ends of its interval.
    theory, margin : float
        The theoretical value and the largest departure from it that counts as agreement.
    ci_low, ci_high : float
        Two-sided 95% interval, normal unless the rule says otherwise (the decision uses the
        90% one, whose ends are one-sided 95% bounds).
    verdict : str
        "supported", "refuted" or "inconclusive".
    """

    estimate: float
    mcse: float
    theory: float
    margin: float
    ci_low: float
    ci_high: float
    verdict: str


def equivalence(estimate: float, se: float, theory: float, margin: float) -> Verdict:
    """Decide whether a quantity equals its theoretical value up to a margin.

    Parameters
    ----------
    estimate, se : float
        Estimate and standard error (>= 0). If either is NaN or infinite the verdict is
        "inconclusive".
    theory : float
        The theoretical value.
    margin : float
        > 0, fixed before the results are seen, below half the distance to the nearest rival.

    Returns
    -------
    Verdict
        "supported" iff the 90% interval lies inside ``theory ± margin``, "refuted" iff the
        two do not meet, else "inconclusive".

    Raises
    ------
    ParameterError
        If ``theory`` is not finite, ``margin`` not > 0 or ``se`` negative.

    Notes
    -----
    Two one-sided 5% tests: if the true value differs from ``theory`` by the margin or more,
    "supported" comes out at most 5% of the time; if it differs by less, so does "refuted".

    References
    ----------
    Schuirmann, D. J. (1987). A comparison of the two one-sided tests procedure and the power
    approach for assessing the equivalence of average bioavailability. Journal of
    Pharmacokinetics and Biopharmaceutics 15, 657-680.
    """
    theory = check_real("theory", theory)
    margin = check_real("margin", margin, above=0.0)
    estimate, se = _check_estimate(estimate, se)
    if not (math.isfinite(estimate) and math.isfinite(se)):
        return undecided(theory, margin, estimate, se)
    low, high = estimate - Z90 * se, estimate + Z90 * se
    if theory - margin <= low and high <= theory + margin:
        verdict = SUPPORTED
    elif high < theory - margin or low > theory + margin:
        verdict = REFUTED
    else:
        verdict = INCONCLUSIVE
    return Verdict(estimate, se, theory, margin, estimate - Z95 * se, estimate + Z95 * se, verdict)


def not_above(estimate: float, se: float, theory: float, margin: float) -> Verdict:
    """Decide whether a quantity is at most its theoretical value, up to a margin.

    Parameters
    ----------
    estimate, se : float
        Estimate and standard error (>= 0). If either is NaN or infinite the verdict is
        "inconclusive".
    theory : float
        The largest value that the claim allows.
    margin : float
        >= 0, fixed before the results are seen: what may be exceeded without consequence.

    Returns
    -------
    Verdict
        "supported" iff the upper one-sided 95% bound is at most ``theory + margin``,
        "refuted" iff the lower one exceeds it, else "inconclusive".

    Raises
    ------
    ParameterError
        If ``theory`` is not finite, or ``margin`` or ``se`` is negative.

    Notes
    -----
    If the true value is ``theory + margin`` or more, "supported" comes out at most 5% of the
    time; if it is that or less, so does "refuted". A quantity that equals the limit exactly
    stays "inconclusive" most of the time, however many replicates there are: give a margin
    where equality is part of the claim.

    References
    ----------
    Wellek, S. (2010). Testing Statistical Hypotheses of Equivalence and Noninferiority, 2nd
    ed., section 2.1. Chapman and Hall.
    """
    theory = check_real("theory", theory)
    margin = check_real("margin", margin, minimum=0.0)
    estimate, se = _check_estimate(estimate, se)
    if not (math.isfinite(estimate) and math.isfinite(se)):
        return undecided(theory, margin, estimate, se)
    limit = theory + margin
    if estimate + Z90 * se <= limit:
        verdict = SUPPORTED
    else:
        verdict = REFUTED if estimate - Z90 * se > limit else INCONCLUSIVE
    return Verdict(estimate, se, theory, margin, estimate - Z95 * se, estimate + Z95 * se, verdict)


def never_above(values: ArrayLike, theory: float, margin: float) -> Verdict:
    """Decide whether no value at all is above a limit: one counterexample refutes.

    Parameters
    ----------
    values : array_like, shape (R,)
        The quantity in each replicate, finite; at least one.
    theory : float
        The largest value that the claim allows.
    margin : float
        >= 0, fixed before the results are seen, such as what rounding may add.

    Returns
    -------
    Verdict
        Its estimate is the largest value: "supported" iff that is at most
        ``theory + margin``, else "refuted". A largest value has no standard error and no
        interval; these are NaN.

    Raises
    ------
    ParameterError
        If ``values`` is no vector of finite numbers, ``theory`` not finite, or ``margin``
        negative.

    Notes
    -----
    For what is claimed of every draw, such as an inequality or an identity, not of an average:
    a mean may lie within the limit while replicates lie beyond it. Refutation is certain.
    Support is by draws that did not contradict: if a share p of all draws does, R of them show
    none with probability (1 - p)^R, so that at 95% confidence p is below 1 - 0.05^(1/R), about
    3/R.

    References
    ----------
    Hanley, J. A. and Lippman-Hand, A. (1983). If nothing goes wrong, is everything all right?
    Journal of the American Medical Association 249, 1743-1745.
    """
    theory = check_real("theory", theory)
    margin = check_real("margin", margin, minimum=0.0)
    largest = float(check_array("values", values, ndim=1).max())
    verdict = SUPPORTED if largest <= theory + margin else REFUTED
    return Verdict(largest, math.nan, theory, margin, math.nan, math.nan, verdict)


def undecided(
    theory: float, margin: float, estimate: float = math.nan, se: float = math.nan
) -> Verdict:
    """Return an "inconclusive" verdict without an interval: something is not defined."""
    return Verdict(estimate, se, theory, margin, math.nan, math.nan, INCONCLUSIVE)


def combine(verdicts: Iterable[Verdict | str]) -> str:
    """Combine the verdicts of a claim's settings into the claim's own.

    Parameters
    ----------
    verdicts : iterable of Verdict or str
        "supported", "refuted" or "inconclusive" for each setting; at least one.

    Returns
    -------
    str
        * all supported: "supported";
        * some supported, and others refuted or inconclusive: "supported-with-conditions"
          (the settings are the conditions; an inconclusive setting is one where support is
          not shown, so the claim does not stand without naming it);
        * none supported and at least one refuted: "refuted";
        * all inconclusive: "inconclusive".

    Raises
    ------
    ParameterError
        If there is none, or one is unknown.
    """
    words = [item.verdict if isinstance(item, Verdict) else item for item in verdicts]
    if not words:
        raise ParameterError("verdicts must hold at least one verdict; got none")
    for word in words:
        check_choice("verdicts", word, SETTING_VERDICTS)
    if all(word == SUPPORTED for word in words):
        return SUPPORTED
    if SUPPORTED in words:
        return CONDITIONAL
    return REFUTED if REFUTED in words else INCONCLUSIVE


def _check_estimate(estimate: float, se: float) -> tuple[float, float]:
    estimate, se = _check_number("estimate", estimate), _check_number("se", se)
    if se < 0:
        raise ParameterError(f"se must be >= 0 (or NaN if unknown); got {se!r}")
    return estimate, se


def _check_number(name: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ParameterError(f"{name} must be a number, NaN if unknown; got {value!r}") from None
