"""Attention as transport: row softmax against Sinkhorn weights, whose keys share the load.

Aims
    Row softmax solves a transport problem in which only the queries' masses are fixed
    (claim O1_identity). Printed is that attention, so read, matches queries and keys globally:
    do keys then have equal loads (O1_printed)? What does it cost to make them so, by fixing the
    keys' loads too or by a penalty (O1_balanced, O1_soft)? Does a query's output still depend
    on that query alone (O1_alone), and on the lengths of keys (O1_lengths)?

Data-generating mechanisms
    f is a sum of six sinusoids of random frequencies, directions and phases, of standard
    deviation 1 on average; noise N(0, 1). Keys X_i are ``uniform`` on [0, 1]^d or
    ``clustered`` about five centres. Queries are ``matched``, drawn from the law of the keys,
    or lie in the half with x_1 < 1/2, spread evenly (``half``).

Estimands
    Mean squared error of the weighted averages of Y at the queries and its parts; integrated
    over the law of the queries.

Methods of estimation
    Cost |q - k|^2 / 2 and temperature h^2 throughout. ``nw``: row softmax, which is
    Nadaraya-Watson regression with a Gaussian kernel of bandwidth h. ``soft``: a penalty of
    h^2 on the divergence of the loads from equal ones. ``balanced``: equal loads. Level 0 of
    ``bandwidth`` stands for a bandwidth that is chosen for each method and replicate, the best
    of a grid for this function on two designs and queries of their own.

Performance measures
    Weights do not depend on Y: moments are exact given keys and queries. Averages over
    replicates of two designs; ratios are those of averages, paired, since methods share all
    draws. Loads are the columns' means over 1/n: their coefficient of variation
    and their largest. ``others`` is the mean total variation distance of a query's weights from
    those it has when half of the queries are taken away. ``n_at_edge`` counts choices at the
    narrow end of the grid; ``n_flat`` those at the wide end, WIDEST, which is no limit: the
    output there is all but the mean of the values, and wider windows would give the same.
"""

from functools import partial
from typing import Any

import numpy as np
from scipy.special import rel_entr

from nwsim.attention.transport import sinkhorn_attention, transport_objective
from nwsim.dgp import Mechanism, Region, make_design, make_noise, make_world
from nwsim.inference import ConditionalMoments, decompose_conditional
from nwsim.study import Claim, Contrast, Figure, Grid, Measure, Method, Profile, Study

N_DESIGNS = 2
TUNED = 0.0  # the level of bandwidth that stands for a chosen one
CHECKED = 0.1  # the bandwidth at which identities are tried
BANDWIDTHS = (0.05, 0.1, 0.2, 0.4)
WIDEST = 10.0  # exponents differ by 0.005 d at most over [0, 1]^d
CHOICES = {
    1: (0.018, 0.027, 0.04, 0.06, 0.09, 0.14, 0.22, 0.35, 0.6, WIDEST),
    3: (0.06, 0.085, 0.12, 0.17, 0.24, 0.34, 0.48, 0.7, 1.2, WIDEST),
}
NARROWEST = {1: 0.04, 3: 0.06}  # with equal loads, whose iterations grow like 1/h^2
PENALTIES = {"nw": 0.0, "soft": 1.0, "balanced": np.inf}  # over the temperature
# Loads are exact to this; errors then are to about as many digits, far below their MCSE.
TOLERANCE, MAX_ITER = 1e-5, 20_000
TIGHT = 1e-11


def mechanism(condition):
    """Return the laws of function, keys and noise."""
    dim = condition["dim"]
    return Mechanism(
        make_world("analytic", dim=dim, lowest=0.25, highest=1.0),
        make_design(condition["design"], dim=dim),
        make_noise("gaussian", scale=1.0),
    )


def draw(condition, rng):
    """Draw a function with queries and designs to choose on, and others to score on."""
    scoring, choosing = rng.spawn(2)
    law, n_obs, n_queries = mechanism(condition), condition["n_obs"], number(condition)
    data = law.draw(scoring, n_obs, N_DESIGNS, n_queries, None)
    few = law.draw(choosing, n_obs, N_DESIGNS, n_queries, None, function=data.function)
    return [place_queries(condition, part, rng) for part in (data, few)]


def number(condition):
    """Return the number of queries."""
    return round(condition["per_key"] * condition["n_obs"])


def place_queries(condition, data, rng):
    """Return samples, queries and truth; queries of ``half`` are spread over one half."""
    if condition["queries"] == "matched":
        return data.samples, data.queries, data.truth
    law = mechanism(condition)
    queries = law.draw_queries(rng, number(condition), Region(0.0, 1.0))
    queries = queries * np.array([0.5] + [1.0] * (condition["dim"] - 1))
    return data.samples, queries, data.function(queries)


def solve(queries, keys, values, bandwidth, ratio, cost="squared_distance", tol=TOLERANCE):
    """Return the transport attention with a penalty that is a multiple of the temperature."""
    t = bandwidth**2
    return sinkhorn_attention(
        *(queries, keys, values, t, None, ratio * t),
        **{"max_iter": MAX_ITER, "tol": tol, "cost": cost},
    )


def smooth(part, bandwidth, ratio):
    """Return the decomposition of the error and the weights on each design."""
    samples, queries, truth = part
    moments, found = [], []
    for sample in samples:
        one = solve(queries, sample.X, sample.f[:, np.newaxis], bandwidth, ratio)
        noise = one.weights**2 @ sample.noise_variance
        moments.append(
            ConditionalMoments(
                mean=one.output,
                bias=one.output - truth[:, np.newaxis],
                noise_covariance=noise[:, np.newaxis, np.newaxis],
                n_empty=0,
            )
        )
        found.append(one)
    return decompose_conditional(moments, truth), found


def choices_of(method, dim):
    """Return the bandwidths that a method chooses among."""
    lowest = NARROWEST[dim] if method == "balanced" else 0.0
    return [h for h in CHOICES[dim] if h >= lowest]


def attend(condition, data, rng, method):
    """Return the error of a method with its parts, its loads, and what identities say."""
    scored, chosen_on = data
    ratio, bandwidth = PENALTIES[method], condition["bandwidth"]
    row = {}
    if is_tuned(condition):
        choices = choices_of(method, condition["dim"])
        errors = [smooth(chosen_on, h, ratio)[0].mse for h in choices]
        bandwidth = choices[int(np.argmin(errors))]
        row = {"log_chosen": float(np.log(bandwidth))}
        row |= {"n_at_edge": bandwidth == choices[0], "n_flat": bandwidth == WIDEST}
    parts, found = smooth(scored, bandwidth, ratio)
    loads = [one.load * one.load.size for one in found]
    row |= {
        "mse": parts.mse,
        "bias2": parts.bias2,
        "variance": parts.variance,
        "load_cv": float(np.mean([load.std() for load in loads])),
        "load_max": float(np.mean([load.max() for load in loads])),
        "effective": float(np.mean([1.0 / (one.weights**2).sum(axis=1) for one in found])),
        "iterations": float(np.mean([one.n_iter for one in found])),
    }
    if is_checked(condition):
        row |= checks(scored, bandwidth, ratio)
    return row


def checks(part, bandwidth, ratio):
    """Return by how much the variational identity fails, and what else weights depend on."""
    samples, queries, _ = part
    keys, half = samples[0].X, len(queries) // 2
    values = np.zeros((len(keys), 1))
    tight = partial(solve, queries, keys, values, bandwidth, ratio, tol=TIGHT)
    best, dot = tight().weights, tight(cost="dot").weights
    fewer = solve(queries[:half], keys, values, bandwidth, ratio, tol=TIGHT).weights
    cost = 0.5 * ((queries[:, np.newaxis] - keys) ** 2).sum(axis=2)
    t, balanced = bandwidth**2, np.isinf(ratio)
    penalty = 0.0 if balanced else ratio * t

    def objective(rows):
        return transport_objective(rows, cost, t, None, penalty)

    gaps = []
    # Rivals have the loads of the problem: equal ones if balanced, else any.
    for width in (2.0, 4.0, 100.0):
        rival = solve(queries, keys, values, width * bandwidth, ratio, tol=TIGHT).weights
        apart = t * rel_entr(rival, best).sum(axis=1).mean()
        apart += penalty * rel_entr(rival.mean(axis=0), best.mean(axis=0)).sum()
        gaps.append(abs(objective(rival) - objective(best) - apart) / apart)
    return {
        "identity_gap": float(max(gaps)),
        "others": float(0.5 * np.abs(best[:half] - fewer).sum(axis=1).mean()),
        "lengths": float(0.5 * np.abs(best - dot).sum(axis=1).mean()),
    }


def is_tuned(condition):
    """Say whether the bandwidth is chosen."""
    return condition["bandwidth"] == TUNED


def is_given(condition):
    """Say whether the bandwidth is the same for all methods."""
    return condition["bandwidth"] != TUNED


def is_checked(condition):
    """Say whether identities are tried."""
    return condition["bandwidth"] == CHECKED


def n_standard(condition):
    """Return the replicates of the standard profile: the most where claims are close."""
    if condition["n_obs"] > 256:
        return 32
    return 40 if is_given(condition) else 64


def at_most(name, statement, quantity, limit, margin, where=None):
    """Return a one-sided claim about a ratio of methods."""
    return Claim(name, statement, quantity, limit, margin, "not_above", where=where)


def always(name, statement, quantity, margin, method=None, where=None):
    """Return a claim that a measure, which is never negative, is 0 in every draw."""
    return Claim(name, statement, quantity, 0.0, margin, "never_above", where=where, method=method)


MAIN: dict[str, Any] = {
    "design": ("uniform", "clustered"),
    "queries": ("matched", "half"),
    "dim": (1,),
    "n_obs": (256,),
    "per_key": (0.0625, 1.0),
    "bandwidth": (TUNED, *BANDWIDTHS),
}
SIDE = {**MAIN, "design": ("uniform",), "queries": ("matched",), "bandwidth": (TUNED,)}
LABELS = {
    "nw": "row softmax (NW)",
    "soft": "penalty on loads",
    "balanced": "equal loads",
    "matched": "queries like keys",
    "half": "queries in one half",
    "bandwidth": "bandwidth $h$",
    "per_key": "queries per key $m/n$",
}
LINES, RATIOS = "nwsim.report.lines:lines", "nwsim.report.transport:ratios"
AT_256: dict[str, Any] = {
    "where": {"dim": 1, "n_obs": 256, "per_key": 1.0, "bandwidth": BANDWIDTHS},
    "x": "bandwidth",
    "x_log": False,
    "labels": LABELS,
}
RATIOS_OF = {"contrasts": ("to_nw_soft", "to_nw_balanced")}
TUNED_PAGE: dict[str, Any] = {
    **RATIOS_OF,
    "where": {"dim": 1, "design": "uniform", "queries": "matched", "bandwidth": TUNED},
    "labels": LABELS,
}
# Fixed before the results were seen: a fiftieth more error counts as none, since that is less
# than what a rule for the bandwidth costs; loads that differ by a twentieth count as equal.
ERROR_MARGIN, LOAD_MARGIN = 0.02, 0.05

STUDY = Study(
    name="transport",
    label="Attention as transport: loads of keys",
    seed=20261215,
    factors=(
        Grid(MAIN),
        Grid({**SIDE, "n_obs": (64, 128, 512), "per_key": (1.0,)}),
        Grid({**SIDE, "per_key": (0.25,)}),
        Grid({**SIDE, "dim": (3,), "per_key": (1.0,)}),
    ),
    shared_streams=("bandwidth", "per_key"),
    draw=draw,
    methods=tuple(Method(name, partial(attend, method=name)) for name in PENALTIES),
    measures=(
        Measure("mse", "integrated mean squared error", unit="y²"),
        Measure("bias2", "integrated squared bias", unit="y²"),
        Measure("variance", "integrated variance", unit="y²"),
        Measure("load_cv", "coefficient of variation of loads"),
        Measure("load_max", "largest load over the mean load"),
        Measure("effective", "effective number of keys a query"),
        Measure("iterations", "Sinkhorn iterations"),
        Measure("log_chosen", "log of the chosen bandwidth", where=is_tuned),
        Measure("n_at_edge", "choices at the narrow end", kind="count", where=is_tuned),
        Measure("n_flat", "choices of the mean of all values", kind="count", where=is_tuned),
        Measure("identity_gap", "error of the variational identity", where=is_checked),
        Measure("others", "effect of the other queries on weights", where=is_checked),
        Measure("lengths", "weights by dot product against by distance", where=is_checked),
    ),
    claims=(
        always(
            "O1_identity",
            "Weights minimise <w, cost> + t sum w log w and the penalty of the loads: what other "
            "weights have more is their divergence.",
            "identity_gap",
            1e-7,
        ),
        always(
            "O1_printed",
            "Read as fixing what keys get too, row softmax gives all keys one load.",
            "load_cv",
            LOAD_MARGIN,
            "nw",
            is_given,
        ),
        always(
            "O1_load",
            "Sinkhorn weights give all keys one load.",
            "load_cv",
            LOAD_MARGIN,
            "balanced",
        ),
        at_most(
            "O1_load_soft",
            "A penalty makes loads differ less than in row softmax at the same bandwidth.",
            "load_soft",
            1.0,
            0.0,
            is_given,
        ),
        at_most(
            "O1_balanced",
            "Equal loads do not raise the error, each method at the best bandwidth of its grid.",
            "to_nw_balanced",
            1.0,
            ERROR_MARGIN,
            is_tuned,
        ),
        at_most(
            "O1_balanced_same",
            "Equal loads do not raise the error at the same bandwidth.",
            "to_nw_balanced",
            1.0,
            ERROR_MARGIN,
            is_given,
        ),
        at_most(
            "O1_soft",
            "A penalty on loads does not raise the error, each method at the best bandwidth of "
            "its grid.",
            "to_nw_soft",
            1.0,
            ERROR_MARGIN,
            is_tuned,
        ),
        always(
            "O1_alone",
            "The weights of a query do not depend on the other queries.",
            "others",
            0.01,
        ),
        always(
            "O1_lengths",
            "Weights by dot products are those by distances: lengths of keys do not count.",
            "lengths",
            0.01,
        ),
    ),
    contrasts=(
        *(
            Contrast(f"to_nw_{method}", "mse", "method", method, "nw", "ratio")
            for method in ("soft", "balanced")
        ),
        *(
            Contrast(f"{part}_{method}", part, "method", method, "nw")
            for part in ("bias2", "variance")
            for method in ("soft", "balanced")
        ),
        Contrast("load_soft", "load_cv", "method", "soft", "nw", "ratio"),
    ),
    figures=(
        Figure("errors", LINES, {**AT_256, "row": "design", "panel": "queries"}),
        Figure(
            "same_bandwidth",
            RATIOS,
            {**AT_256, **RATIOS_OF, "row": "design", "panel": "queries"},
        ),
        Figure(
            "parts",
            LINES,
            {**AT_256, "measures": ("bias2", "variance"), "panel": "design"}
            | {"where": {**AT_256["where"], "queries": "matched"}},
        ),
        Figure(
            "loads",
            LINES,
            {**AT_256, "measures": ("load_cv", "load_max"), "panel": "queries", "log": False}
            | {"where": {**AT_256["where"], "design": "uniform"}},
        ),
        Figure(
            "queries",
            RATIOS,
            {**TUNED_PAGE, "x": "per_key"} | {"where": {**TUNED_PAGE["where"], "n_obs": 256}},
        ),
        Figure(
            "sizes",
            RATIOS,
            {**TUNED_PAGE, "x": "n_obs"} | {"where": {**TUNED_PAGE["where"], "per_key": 1.0}},
        ),
    ),
    profiles={
        "quick": Profile(
            2,
            keep=lambda condition: (
                number(condition) <= 64 and condition["bandwidth"] in (TUNED, CHECKED, 0.4)
            ),
            rule="enough to fill every table",
        ),
        "standard": Profile(
            n_standard,
            rule="standard error of O1_soft below 0.025; 40 where the bandwidth is given",
        ),
        "full": Profile(1000, rule="the same below 0.005; 1000 everywhere"),
    },
)
