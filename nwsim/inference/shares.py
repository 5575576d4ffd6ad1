"""Verdicts on shares: none of 45 is no standard error of 0 but a bound."""

from __future__ import annotations

import math

from scipy.special import betaincinv

from nwsim._validation import check_integer, check_real
from nwsim.inference.verdicts import INCONCLUSIVE, REFUTED, SUPPORTED, Verdict


def share_bounds(count: int, n_sim: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact one-sided lower and upper confidence bounds of a share.

    Parameters
    ----------
    count, n_sim : int
        How many of how many, 0 <= count <= n_sim, n_sim at least 1.
    level : float, default 0.95
        Of each bound alone, above 0 and at most 1.

    Returns
    -------
    (float, float)
        Within [0, 1]. None of n has the upper bound ``1 - (1 - level)^(1/n)``, about 3/n at
        95%: the rule of three.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    References
    ----------
    Clopper, C. J. and Pearson, E. S. (1934). The use of confidence or fiducial limits
    illustrated in the case of the binomial. Biometrika 26, 404-413.
    """
    n = check_integer("n_sim", n_sim, minimum=1)
    k = check_integer("count", count, minimum=0, maximum=n)
    level = check_real("level", level, above=0.0, maximum=1.0)
    low = betaincinv(k, n - k + 1, 1.0 - level) if k > 0 else 0.0
    high = betaincinv(k + 1, n - k, level) if k < n else 1.0
    return float(low), float(high)


def share_at_most(count: int, n_sim: int, theory: float, margin: float) -> Verdict:
    """Decide whether a share is at most its theoretical value, up to a margin.

    Parameters
    ----------
    count, n_sim : int
        As in :func:`share_bounds`.
    theory : float
    margin : float
        >= 0, fixed before the results are seen.

    Returns
    -------
    Verdict
        "supported" iff the exact upper 95% bound is at most ``theory + margin``, "refuted" iff
        the lower one is above it, else "inconclusive". The 95% interval is the exact one.

    Raises
    ------
    ParameterError
        If an argument is not as described.

    Notes
    -----
    The normal interval of a share of 0 has no width and would support any limit.
    """
    limit = check_real("theory", theory) + check_real("margin", margin, minimum=0.0)
    low, high = share_bounds(count, n_sim)
    share = count / n_sim
    mcse = math.sqrt(share * (1.0 - share) / (n_sim - 1)) if n_sim > 1 else math.nan
    verdict = SUPPORTED if high <= limit else REFUTED if low > limit else INCONCLUSIVE
    return Verdict(share, mcse, theory, margin, *share_bounds(count, n_sim, 0.975), verdict)
