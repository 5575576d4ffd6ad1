"""Rate of convergence of kernel regression in the sample size.

Aims
    Does the integrated mean squared error of the Nadaraya-Watson estimate fall like
    n^(-2 alpha / (2 alpha + d)) over a Hölder class (claim R1)? Where does a nonnegative
    kernel stop gaining, and does a kernel of order 4 go on (claim R2)? What does the
    boundary cost? Are the constants of bias and variance those of the textbooks?

Data-generating mechanisms
    A replicate draws one regression function: a lacunary sum, rough at every point
    (``lacunary``), a function with bounded second derivative (``c2``), or a sum of a few
    sinusoids (``analytic``). Inputs are uniform or beta(2, 2) on the unit cube, noise is
    standard normal, and the function's standard deviation is 1. Queries fill the region:
    ``interior`` = [1/4, 3/4]^d, which no window leaves, or ``whole`` = [0, 1]^d.

Estimands
    Squared bias, variance and mean squared error of the estimate, averaged over the region
    with Lebesgue weight.

Methods of estimation
    ``rate``: h = c n^(-1 / (2 alpha + d)). ``oracle``: the h that minimises the conditional
    mean squared error for this function on two designs of its own. ``loo``: leave-one-out
    cross-validation on the noisy responses.

Performance measures
    Each replicate holds two designs; for ``rate`` and ``oracle`` the conditional route is
    exact given the designs, for ``loo`` the plain route is the only one. Averages over
    replicates with their Monte Carlo standard errors, tail slopes over the three largest n.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import qmc

from nwsim.dgp import make_design, make_noise, make_world
from nwsim.inference import (
    asymptotic_bias,
    asymptotic_variance,
    conditional_moments,
    decompose,
    rate_exponent,
    rate_exponents,
)
from nwsim.smoothing import NadarayaWatson, get_kernel
from nwsim.study import (
    Claim,
    Contrast,
    Curve,
    Figure,
    Grid,
    Measure,
    Method,
    Profile,
    Study,
)

N_DESIGNS = 2
N_QUERIES = 256
N_SELECTION_QUERIES = 64
NOISE = make_noise("gaussian", scale=1.0)
NOISE_VARIANCE = 1.0
REGION = {"interior": (0.25, 0.75), "whole": (0.0, 1.0)}
SATURATED = 3.0  # the alpha beyond every kernel of order 2
WIDEST = 0.25  # a window of an interior query stays inside the cube
ENGINE = "cells"
# What no window can reach is no part of the region's risk: policies hardly matter here,
# and n_empty says how often one was needed.
EMPTY_WINDOW = "nearest"


class Sample(NamedTuple):
    """What one replicate draws."""

    function: object
    queries: np.ndarray  # (m, d)
    truth: np.ndarray  # (m,)
    designs: list  # of (X (n, d), f(X) (n,))


# Constants c of h = c n^(-1/(2 alpha + d)). Wide enough that the smallest windows hold some
# fifty points, so that corrections in 1/(n h^d) are small; narrow enough that bias and
# variance are of one size.
ROUGH_CONSTANT = {0.25: 2.0, 0.5: 2.0, 0.75: 1.0, 1.0: 1.0, 1.5: 1.0}
SMOOTH_CONSTANT = {1: 0.11, 2: 0.6, 3: 0.8}
SATURATION_CONSTANT = {2: 0.09, 4: 0.2}  # by order of the kernel
ANALYTIC_CONSTANT = 0.5
# A smooth function varies on one scale only. Its waves must be short enough for the region
# to hold several, or the error would differ too much from function to function, and long
# enough for windows to be a small part of one, or the bias would not yet go like h^2.
SMOOTH_FREQUENCY = {1: 6.0, 2: 1.0, 3: 0.75}
SMOOTH_WAVES = {1: 1, 2: 6, 3: 6}
SMOOTH_AMPLITUDE = {1: 1.0, 2: 0.5, 3: 0.5}
SATURATION_LOWEST = 4.0
SATURATION_AMPLITUDE = 0.8


def rate_bandwidth(condition):
    """Return the bandwidth that the theorem names."""
    alpha, dim = condition["alpha"], condition["dim"]
    if condition["world"] == "c2":
        constant = SMOOTH_CONSTANT[dim]
    elif condition["world"] == "analytic":
        constant = ANALYTIC_CONSTANT
    elif alpha == SATURATED:
        constant = SATURATION_CONSTANT[get_kernel(condition["kernel"]).order]
    else:
        constant = ROUGH_CONSTANT[alpha]
    return constant * condition["n_obs"] ** (-1.0 / (2.0 * alpha + dim))


def world_of(condition):
    """Return the law of the regression function."""
    name, alpha, dim = condition["world"], condition["alpha"], condition["dim"]
    if name == "c2":
        frequency = SMOOTH_FREQUENCY[dim]
        options = {
            "n_terms": SMOOTH_WAVES[dim],
            "lowest": frequency,
            "highest": 1.05 * frequency,
            "amplitude": SMOOTH_AMPLITUDE[dim],
        }
    elif has_constants(condition):
        # A small amplitude keeps the spread of f within a window out of the variance.
        options = {"lowest": 0.5, "highest": 1.0, "amplitude": 0.25}
    elif name == "analytic":
        # Long waves: steep at the edges and nearly straight inside, so that the boundary shows.
        options = {"lowest": 0.25, "highest": 0.5, "amplitude": 2.0}
    elif alpha == SATURATED:
        options = {"lowest": SATURATION_LOWEST, "amplitude": SATURATION_AMPLITUDE}
    else:
        # Frequencies below one wave a unit, else the slope is off; and far above the
        # smallest bandwidth, which at alpha = 1/4 takes more than the default.
        options = {"lowest": 0.25, "highest": 2.0**26 if alpha < 0.5 else None}
    return make_world(name, alpha=alpha, dim=dim, **options)


def design_of(condition):
    """Return the design."""
    return make_design(condition["design"], dim=condition["dim"])


def draw(condition, rng):
    """Draw a function, queries in the region, and the inner designs."""
    world_rng, query_rng, *design_rngs = rng.spawn(2 + N_DESIGNS)
    function = world_of(condition).draw(world_rng)
    low, high = REGION[condition["region"]]
    unit = qmc.LatinHypercube(condition["dim"], rng=query_rng).random(N_QUERIES)
    queries = low + (high - low) * unit
    return Sample(
        function, queries, function(queries), draw_designs(condition, function, design_rngs)
    )


def draw_designs(condition, function, rngs):
    """Draw one design for each generator."""
    samples = [design_of(condition).draw(rng, condition["n_obs"]) for rng in rngs]
    return [(X, function(X)) for X in samples]


def smoother(condition, bandwidth):
    """Return the estimator of this condition, unfitted."""
    return NadarayaWatson(bandwidth, condition["kernel"], empty_window=EMPTY_WINDOW, engine=ENGINE)


def moments(model, data, function_values):
    """Return conditional moments of a fitted model at the queries."""
    return conditional_moments(model, data.queries, function_values, data.truth, NOISE_VARIANCE)


def parts(data, per_design):
    """Return error, its parts and empty windows from the designs' conditional moments."""
    decomposition = decompose(
        np.stack([m.mean[:, 0] for m in per_design]),
        data.truth,
        noise_covariance=np.stack([m.noise_covariance[:, 0, 0] for m in per_design]),
    )
    return {
        "mse": decomposition.mse,
        "bias2": decomposition.bias2,
        "variance": decomposition.variance,
        "n_empty": sum(m.n_empty for m in per_design),
    }


def at_rate(condition, data, rng):
    """Smooth with the bandwidth that the theorem names."""
    h = rate_bandwidth(condition)
    per_design = [moments(smoother(condition, h).fit(X, f), data, f) for X, f in data.designs]
    row = parts(data, per_design)
    if has_constants(condition):
        row.update(constant_ratios(condition, data, per_design, h, row["variance"]))
    return row


def constant_ratios(condition, data, per_design, h, variance):
    """Return bias and variance over their textbook values."""
    design, kernel, dim = design_of(condition), get_kernel(condition["kernel"]), condition["dim"]
    Q = data.queries
    bias = np.mean([m.bias[:, 0] for m in per_design], axis=0)
    expected_bias = asymptotic_bias(
        h,
        kernel.mu2(dim),
        data.function.laplacian(Q),
        data.function.gradient(Q),
        design.score(Q),
    )
    expected_variance = asymptotic_variance(
        NOISE_VARIANCE, kernel.roughness(dim), condition["n_obs"], h, dim, design.density(Q)
    )
    return {
        # Least squares through the origin: unbiased in the bias, which has both signs.
        "bias_ratio": float(bias @ expected_bias / (expected_bias @ expected_bias)),
        "variance_ratio": float(variance / expected_variance.mean()),
    }


def at_oracle(condition, data, rng):
    """Choose h for this function on designs of its own, then score it on the data's."""
    chosen_on = draw_designs(condition, data.function, rng.spawn(N_DESIGNS))
    h = oracle_bandwidth(condition, data, chosen_on)
    per_design = [moments(smoother(condition, h).fit(X, f), data, f) for X, f in data.designs]
    return {**parts(data, per_design), "bandwidth": h}


def oracle_bandwidth(condition, data, designs):
    """Minimise the conditional mean squared error over h.

    Part of the queries decide, and to a tenth in log h: the error is flat about its minimum.
    """
    few = data._replace(
        queries=data.queries[:N_SELECTION_QUERIES], truth=data.truth[:N_SELECTION_QUERIES]
    )
    start = rate_bandwidth(condition)
    models = [smoother(condition, start).fit(X, f) for X, f in designs]

    def risk(log_h):
        per_design = [
            moments(model.at_bandwidth(np.exp(log_h)), few, f)
            for model, (_, f) in zip(models, designs, strict=True)
        ]
        return parts(few, per_design)["mse"]

    found = minimize_scalar(
        risk,
        bounds=(np.log(start / 4.0), np.log(min(4.0 * start, WIDEST))),
        method="bounded",
        options={"xatol": 0.1},
    )
    return float(np.exp(found.x))


def at_leave_one_out(condition, data, rng):
    """Choose h by leave-one-out on noisy responses and predict."""
    estimates, chosen, n_empty = [], [], 0
    for (X, f), noise_rng in zip(data.designs, rng.spawn(N_DESIGNS), strict=True):
        y = f + NOISE.draw(noise_rng, X)
        model = smoother(condition, "loo").fit(X, y)
        estimates.append(model.predict(data.queries))
        chosen.append(model.bandwidth_)
        n_empty += model.summary(data.queries).n_empty
    decomposition = decompose(np.stack(estimates), data.truth)
    return {
        "mse": decomposition.mse,
        "bias2": decomposition.bias2,
        "variance": decomposition.variance,
        "bandwidth": float(np.mean(chosen)),
        "n_empty": n_empty,
    }


def has_constants(condition):
    """Compare constants where the density has a slope, so that all of the bias shows."""
    return condition["design"] == "beta"


def has_oracle(condition):
    """Leave the oracle out where its path of bandwidths costs most."""
    return condition["n_obs"] <= 2**16 and condition["world"] != "analytic"


def has_leave_one_out(condition):
    """Keep the quadratic search to moderate samples and a few settings."""
    return (
        condition["n_obs"] <= 2**12
        and condition["dim"] == 1
        and condition["region"] == "interior"
        and (condition["world"], condition["alpha"])
        in {("lacunary", 0.5), ("lacunary", 1.0), ("c2", 2.0)}
    )


def is_tested(condition):
    """Claim R1 as printed speaks of every alpha, of the whole domain, of any kernel."""
    return condition["design"] == "uniform" and condition["kernel"] == "epanechnikov"


def theory(setting):
    """Return the exponent of claim R1."""
    return rate_exponent(setting["alpha"], setting["dim"])


def margin(setting):
    """Stay below half the distance to the next exponent in this dimension."""
    return 0.02 if setting["dim"] == 1 else 0.03


def saturated(setting):
    """Return the exponent of squared bias at the bandwidth that the theorem names."""
    order = get_kernel(setting["kernel"]).order
    return rate_exponents(setting["alpha"], setting["dim"], order=order).bias2


def best_exponent(setting):
    """Return the exponent at each kernel's own best bandwidth: that of min(alpha, order)."""
    order = get_kernel(setting["kernel"]).order
    return rate_exponent(min(setting["alpha"], order), setting["dim"])


def cells(world, alpha, dim, n_obs, kernel="epanechnikov", design="uniform", region="interior"):
    """Return the crossing of the given levels."""
    return Grid(
        {
            "world": (world,),
            "alpha": alpha,
            "dim": (dim,),
            "n_obs": n_obs,
            "kernel": (kernel,),
            "design": (design,),
            "region": (region,),
        }
    )


SIZES = {
    1: tuple(4**k for k in range(5, 10)),
    2: tuple(4**k for k in range(5, 9)),
    3: tuple(4**k for k in range(6, 9)),
}
ROUGH = (0.25, 0.5, 0.75, 1.0, 1.5)
INTERIOR = {"region": "interior", "design": "uniform", "world": ("lacunary", "c2")}
BOUNDARY = {"world": "analytic", "design": "uniform"}
ORDER_TWO = {"kernel": "epanechnikov"}


STUDY = Study(
    name="rate",
    label="Rates of convergence of Nadaraya-Watson regression",
    seed=20261129,
    factors=(
        *(cells("lacunary", ROUGH, dim, SIZES[dim]) for dim in SIZES),
        *(cells("c2", (2.0,), dim, SIZES[dim]) for dim in SIZES),
        *(cells("analytic", (2.0,), 1, SIZES[1], region=region) for region in REGION),
        cells("lacunary", (SATURATED,), 1, SIZES[1]),
        cells("lacunary", (SATURATED,), 1, SIZES[1], kernel="epanechnikov4"),
        *(cells("analytic", (2.0,), dim, SIZES[dim], design="beta") for dim in (1, 2)),
    ),
    shared_streams=("kernel", "region"),
    draw=draw,
    methods=(
        Method("rate", at_rate),
        Method("oracle", at_oracle, where=has_oracle),
        Method("loo", at_leave_one_out, where=has_leave_one_out),
    ),
    measures=(
        Measure("mse", "mean squared error"),
        Measure("bias2", "squared bias"),
        Measure("variance", "variance"),
        Measure("bandwidth", "chosen bandwidth", methods=("oracle", "loo")),
        Measure(
            "bias_ratio",
            "bias over its textbook value",
            where=has_constants,
            methods=("rate",),
        ),
        Measure(
            "variance_ratio",
            "variance over its textbook value",
            where=has_constants,
            methods=("rate",),
        ),
        Measure("n_empty", "empty windows", kind="count"),
    ),
    claims=(
        Claim(
            "R1",
            "E|m(x) - f(x)|^2 = O(n^(-2 alpha/(2 alpha + d))) over a Hölder class.",
            "mse",
            theory=theory,
            margin=margin,
            rule="rate",
            tail=3,
            where=is_tested,
            method="rate",
        ),
        Claim(
            "R1",
            "Squared bias alone has that exponent at the bandwidth the theorem names.",
            "bias2",
            theory=theory,
            margin=0.05,
            rule="rate",
            tail=3,
            where=is_tested,
            method="rate",
        ),
        Claim(
            "R2",
            "Order 2: squared bias stops at h^4; order 4 keeps the rate beyond alpha = 2.",
            "bias2",
            theory=saturated,
            margin=0.05,
            rule="rate",
            tail=3,
            where=lambda condition: condition["alpha"] == SATURATED,
            method="rate",
        ),
        Claim(
            "R2",
            "At its own best bandwidth each kernel has the rate of min(alpha, order).",
            "mse",
            theory=best_exponent,
            margin=0.02,
            rule="rate",
            tail=3,
            where=lambda condition: condition["alpha"] == SATURATED,
            method="oracle",
        ),
        Claim(
            "R2",
            "The constant of the bias is that of the textbooks.",
            "bias_ratio",
            theory=1.0,
            margin=0.05,
            rule="equivalence",
        ),
        Claim(
            "R2",
            "The constant of the variance is that of the textbooks.",
            "variance_ratio",
            theory=1.0,
            margin=0.05,
            rule="equivalence",
        ),
    ),
    curves=(
        Curve("local_slope", "mse", "local_slope"),
        Curve("tail_slope", "mse", "tail_slope", tail=3),
        Curve("tail_slope", "bias2", "tail_slope", tail=3, where=lambda c: c["method"] != "loo"),
        Curve("tail_slope", "variance", "tail_slope", tail=3, where=lambda c: c["method"] != "loo"),
    ),
    contrasts=(
        Contrast("cost_of_constant", "mse", "method", "rate", "oracle", kind="ratio"),
        Contrast("regret", "mse", "method", "loo", "oracle", kind="ratio"),
        Contrast("boundary", "mse", "region", "whole", "interior", kind="ratio"),
        Contrast("order", "mse", "kernel", "epanechnikov4", "epanechnikov", kind="ratio"),
    ),
    figures=(
        Figure("risk", "nwsim.report.rates:risk", {"where": {**INTERIOR, **ORDER_TWO}}),
        Figure("parts", "nwsim.report.rates:parts", {"where": {**INTERIOR, **ORDER_TWO}}),
        Figure(
            "local_slopes", "nwsim.report.rates:local_slopes", {"where": {**INTERIOR, **ORDER_TWO}}
        ),
        Figure(
            "boundary",
            "nwsim.report.rates:boundary",
            {"where": {"world": "analytic", "design": "uniform"}},
        ),
        Figure("saturation", "nwsim.report.rates:saturation", {"where": {"alpha": SATURATED}}),
        Figure("constants", "nwsim.report.rates:constants", {"where": {"design": "beta"}}),
    ),
    profiles={
        "quick": Profile(
            4,
            keep=lambda condition: condition["n_obs"] <= 2**14,
            rule="enough to fill every table",
        ),
        "standard": Profile(
            200, rule="standard error of a tail slope of the error below 0.005 in d = 1"
        ),
        "full": Profile(2000, rule="standard error of a tail slope below 0.002"),
    },
)
