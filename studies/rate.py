"""Rate of convergence of kernel regression in the sample size.

Aims
    Does the integrated mean squared error of the Nadaraya-Watson estimate fall like
    n^(-2 alpha / (2 alpha + d)) over a Hölder class (claim R1)? Where does a nonnegative
    kernel stop gaining, and does a kernel of order 4 go on (claim R2)? What does the
    boundary cost? Are the constants of bias and variance those of the textbooks?

Data-generating mechanisms
    A replicate draws one regression function from its world: a lacunary sum, rough at every
    point (``rough``) or smoother than order 2 can use (``saturating``); a function whose
    second derivative is bounded (``smooth``); a few sinusoids, of little amplitude
    (``gentle``) or steep at the edges (``steep``). Inputs are uniform or beta(2, 2) on the
    unit cube, noise is standard normal. Queries fill the region: ``interior`` =
    [1/4, 3/4]^d, which no window leaves, or ``whole`` = [0, 1]^d.

Estimands
    Squared bias, variance and mean squared error of the estimate, averaged over the region
    with Lebesgue weight.

Methods of estimation
    ``rate``: h = c n^(-1 / (2 alpha + d)). ``oracle``: the h that minimises the conditional
    mean squared error for this function on two designs and queries of their own. ``loo``:
    leave-one-out cross-validation on the noisy responses.

Performance measures
    Each replicate holds two designs; for ``rate`` and ``oracle`` the conditional route is
    exact given the designs, for ``loo`` the plain route is the only one. Averages over
    replicates with their Monte Carlo standard errors; tail slopes over the three largest n of
    a method (up to 2^18 for ``rate`` in d = 1, to 2^16 for ``oracle``).
"""

from typing import Any

import numpy as np

from nwsim.dgp import Mechanism, Region, make_design, make_noise, make_world
from nwsim.inference import (
    asymptotic_bias,
    asymptotic_variance,
    conditional_moments,
    decompose,
    decompose_conditional,
    design_moments,
    rate_exponent,
    rate_exponents,
)
from nwsim.smoothing import NadarayaWatson, get_kernel, oracle_bandwidth
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

N_DESIGNS, N_QUERIES = 2, 256
NOISE = make_noise("gaussian", scale=1.0)
REGIONS = {"interior": Region(0.25, 0.75), "whole": Region(0.0, 1.0)}
WIDEST = 0.25  # a window of an interior query stays inside the cube
SATURATED = 3.0  # the alpha beyond every kernel of order 2


def world_options(condition):
    """Return the options that make a family of regression functions a condition's world."""
    world, alpha, dim = condition["world"], condition["alpha"], condition["dim"]
    if world == "rough":
        # Frequencies below one wave a unit, else the slope is off, and far above the
        # smallest bandwidth, which at alpha = 1/4 takes more than the default.
        # Where windows are wide, half the amplitude: f's spread there adds to the variance.
        amplitude = 0.5 if alpha <= 0.5 and dim > 1 else 1.0
        highest = 2.0**26 if alpha < 0.5 else None
        return {"lowest": 0.25, "highest": highest, "amplitude": amplitude}
    if world == "saturating":
        return {"lowest": 3.0, "amplitude": 0.4}
    if world == "smooth":
        # Waves short enough for the region to hold several, or the error would differ too
        # much from function to function; long enough for windows to be a small part of one,
        # or the bias would not yet go like h^2.
        lowest = {1: 6.0, 2: 1.0, 3: 0.75}[dim]
        waves = {"n_terms": 1, "amplitude": 1.0} if dim == 1 else {"amplitude": 0.5}
        return {"lowest": lowest, "highest": 1.05 * lowest, **waves}
    if world == "gentle":
        # So small an amplitude that the spread of f in a window adds nothing to the variance.
        return {"lowest": 0.5, "highest": 1.0, "amplitude": 0.25}
    # Steep at the edges and nearly straight inside.
    return {"lowest": 0.25, "highest": 0.5, "amplitude": 2.0}


def rate_bandwidth(condition):
    """Return the bandwidth that the theorem names, c n^(-1/(2 alpha + d)).

    c is wide enough that the smallest windows hold some fifty points, so that corrections in
    1/(n h^d) are small, and narrow enough that bias and variance are of one size.
    """
    world, alpha, dim = condition["world"], condition["alpha"], condition["dim"]
    if world == "rough":
        constant = 2.0 if alpha <= 0.5 else 1.0
    elif world == "saturating":
        constant = {2: 0.09, 4: 0.2}[get_kernel(condition["kernel"]).order]
    elif world == "smooth":
        constant = {1: 0.11, 2: 0.6, 3: 0.8}[dim]
    else:
        constant = 0.5
    return constant * condition["n_obs"] ** (-1.0 / (2.0 * alpha + dim))


def mechanism(condition):
    """Return the laws of function, inputs and noise."""
    family = {"rough": "lacunary", "saturating": "lacunary", "smooth": "c2"}
    dim = condition["dim"]
    world = make_world(
        family.get(condition["world"], "analytic"),
        alpha=condition["alpha"],
        dim=dim,
        **world_options(condition),
    )
    return Mechanism(world, make_design(condition["design"], dim=dim), NOISE)


def draw(condition, rng):
    """Draw a function, queries in the region, and the inner designs."""
    return mechanism(condition).draw(
        rng, condition["n_obs"], N_DESIGNS, N_QUERIES, REGIONS[condition["region"]]
    )


def smoother(condition, bandwidth):
    """Return the estimator of this condition, unfitted.

    The policy for empty windows hardly matters here: n_empty says how often one was met.
    """
    return NadarayaWatson(bandwidth, condition["kernel"], empty_window="nearest", engine="cells")


def moments(model, data, sample):
    """Return the conditional moments at the queries of a model fitted to the sample."""
    return conditional_moments(model, data.queries, sample.f, data.truth, sample.noise_variance)


def parts(decomposition, n_empty):
    """Return the error and its parts as measures."""
    d = decomposition
    return {"mse": d.mse, "bias2": d.bias2, "variance": d.variance, "n_empty": n_empty}


def conditional_parts(condition, data, bandwidth):
    """Return the parts on the conditional route, and the moments behind them."""
    fit = smoother(condition, bandwidth).fit
    per_design = design_moments(fit, data.samples, data.queries, data.truth)
    decomposition = decompose_conditional(per_design, data.truth)
    return parts(decomposition, sum(m.n_empty for m in per_design)), per_design


def at_rate(condition, data, rng):
    """Smooth with the bandwidth that the theorem names."""
    h = rate_bandwidth(condition)
    row, per_design = conditional_parts(condition, data, h)
    if has_constants(condition):
        row.update(constant_ratios(condition, data, per_design, h, row["variance"]))
    return row


def constant_ratios(condition, data, per_design, h, variance):
    """Return bias and variance over their textbook values."""
    kernel, dim, Q = get_kernel(condition["kernel"]), condition["dim"], data.queries
    design = make_design(condition["design"], dim=dim)
    bias = np.mean([m.bias[:, 0] for m in per_design], axis=0)
    expected_bias = asymptotic_bias(
        h,
        kernel.mu2(dim),
        data.function.laplacian(Q),
        data.function.gradient(Q),
        design.score(Q),
    )
    roughness, density = kernel.roughness(dim), design.density(Q)
    expected_variance = asymptotic_variance(
        data.noise.variance(Q), roughness, condition["n_obs"], h, dim, density
    )
    return {
        # Least squares through the origin: unbiased in the bias, which has both signs.
        "bias_ratio": float(bias @ expected_bias / (expected_bias @ expected_bias)),
        "variance_ratio": float(variance / expected_variance.mean()),
    }


def at_oracle(condition, data, rng):
    """Choose h for this function on designs and queries of its own, then score it."""
    n_obs, region = condition["n_obs"], REGIONS[condition["region"]]
    few = mechanism(condition).draw(
        rng, n_obs, N_DESIGNS, N_QUERIES // 4, region, function=data.function
    )
    start = rate_bandwidth(condition)
    models = [smoother(condition, start).fit(sample.X, sample.f) for sample in few.samples]

    def risk(h):
        per_design = [
            moments(model.at_bandwidth(h), few, sample)
            for model, sample in zip(models, few.samples, strict=True)
        ]
        return decompose_conditional(per_design, few.truth).mse

    best = oracle_bandwidth(risk, start / 6.0, min(6.0 * start, WIDEST))
    row, _ = conditional_parts(condition, data, best.bandwidth)
    return {**row, "bandwidth": best.bandwidth, "n_at_edge": best.at_edge}


def at_leave_one_out(condition, data, rng):
    """Choose h by leave-one-out on noisy responses and predict."""
    estimates, chosen, n_empty = [], [], 0
    for j, sample in enumerate(data.samples):
        model = smoother(condition, "loo").fit(sample.X, data.responses(j))
        estimates.append(model.predict(data.queries))
        chosen.append(model.bandwidth_)
        n_empty += model.summary(data.queries).n_empty
    row = parts(decompose(np.stack(estimates), data.truth), n_empty)
    return {**row, "bandwidth": float(np.mean(chosen))}


def has_constants(condition):
    """Compare constants where the density has a slope, so that all of the bias shows."""
    return condition["design"] == "beta"


def has_oracle(condition):
    """Search where the best window stays inside the cube, and costs allow the path."""
    alpha, dim = condition["alpha"], condition["dim"]
    return (
        condition["world"] in ("rough", "saturating", "smooth")
        and condition["n_obs"] <= 2**16
        and (dim == 1 or alpha <= {2: 0.75, 3: 0.5}[dim])
    )


def has_leave_one_out(condition):
    """Keep the search on noisy responses, the costliest part, to a few settings."""
    largest = {0.5: 2**10, 1.0: 2**12}.get(condition["alpha"], 0)
    return condition["dim"] == 1 and condition["n_obs"] <= largest


def is_tested(condition):
    """Claim R1 as printed: order 2, any alpha, any region.

    Inside, the steep world is nearly straight: with so little bias its slope shows nothing.
    """
    shows = condition["world"] != "steep" or condition["region"] == "whole"
    return shows and (condition["design"], condition["kernel"]) == ("uniform", "epanechnikov")


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


def cells(world, alpha, dim, kernel="epanechnikov", design="uniform", region="interior"):
    """Return the crossing of the given levels with the sample sizes of this dimension."""
    return Grid(
        {
            "world": (world,),
            "alpha": alpha,
            "dim": (dim,),
            "n_obs": SIZES[dim],
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
TAIL: dict[str, Any] = {"rule": "rate", "tail": 3}
ROUGH = (0.25, 0.5, 0.75, 1.0, 1.5)
# Builders and selections of the figures.
PAGES = "nwsim.report.rates"
PLAIN = {"world": ("rough", "smooth")}
KERNEL_LABELS = {
    name: f"order {get_kernel(name).order} ({get_kernel(name).label.partition(',')[0]})"
    for name in ("epanechnikov", "epanechnikov4")
}

STUDY = Study(
    name="rate",
    label="Rates of convergence of Nadaraya-Watson regression",
    seed=20261129,
    factors=(
        *(cells("rough", ROUGH, dim) for dim in SIZES),
        *(cells("smooth", (2.0,), dim) for dim in SIZES),
        *(cells("saturating", (SATURATED,), 1, kernel=kernel) for kernel in KERNEL_LABELS),
        *(cells("steep", (2.0,), 1, region=region) for region in REGIONS),
        *(cells("gentle", (2.0,), dim, design="beta") for dim in (1, 2)),
    ),
    shared_streams=("kernel", "region"),
    draw=draw,
    methods=(
        Method("rate", at_rate),
        Method("oracle", at_oracle, where=has_oracle),
        Method("loo", at_leave_one_out, where=has_leave_one_out),
    ),
    measures=(
        Measure("mse", "integrated mean squared error", unit="y²"),
        Measure("bias2", "integrated squared bias", unit="y²"),
        Measure("variance", "integrated variance", unit="y²"),
        Measure("bandwidth", "chosen bandwidth", methods=("oracle", "loo")),
        Measure("n_at_edge", "searches that ended at an edge", kind="count", methods=("oracle",)),
        *(
            Measure(name, label, where=has_constants, methods=("rate",))
            for name, label in (
                ("bias_ratio", "bias over its textbook value"),
                ("variance_ratio", "variance over its textbook value"),
            )
        ),
        Measure("n_empty", "empty windows", kind="count"),
    ),
    claims=(
        *(
            Claim(
                name,
                f"{what} = O(n^(-2 alpha/(2 alpha + d))) over a Hölder class.",
                quantity,
                theory=theory,
                margin=margin,
                method="rate",
                where=is_tested,
                **TAIL,
            )
            for name, quantity, what in (
                ("R1", "mse", "E|m(x) - f(x)|^2"),
                ("R1_bias2", "bias2", "At the bandwidth of the theorem, squared bias"),
                ("R1_variance", "variance", "At the bandwidth of the theorem, variance"),
            )
        ),
        Claim(
            "R2",
            "At the bandwidth the theorem names, squared bias of order 2 stops at h^4.",
            "bias2",
            theory=saturated,
            margin=0.05,  # the exponents of the two orders lie 2/7 apart
            method="rate",
            where=lambda setting: setting["world"] == "saturating",
            **TAIL,
        ),
        Claim(
            "R2",
            "At its own best bandwidth (n to 2^16) each kernel has the rate of min(alpha, order).",
            "mse",
            theory=best_exponent,
            margin=0.02,
            method="oracle",
            where=lambda setting: setting["world"] == "saturating",
            **TAIL,
        ),
        *(
            Claim(
                "R2_constants",
                f"Where f hardly varies within a window, the {what} has the textbook's size.",
                f"{what}_ratio",
                theory=1.0,
                margin=0.05,
                rule="equivalence",
                over="n_obs",
            )
            for what in ("bias", "variance")
        ),
    ),
    curves=(
        Curve("local_slope", "mse", "local_slope"),
        *(
            Curve("tail_slope", measure, "tail_slope", tail=3, where=lambda c: c["method"] != "loo")
            for measure in ("mse", "bias2", "variance")
        ),
    ),
    contrasts=(
        Contrast("cost_of_constant", "mse", "method", "rate", "oracle", kind="ratio"),
        Contrast("regret", "mse", "method", "loo", "oracle", kind="ratio"),
        Contrast("boundary", "mse", "region", "whole", "interior", kind="ratio"),
        Contrast("order", "mse", "kernel", "epanechnikov4", "epanechnikov", kind="ratio"),
    ),
    figures=(
        Figure("risk", f"{PAGES}:risk", {"where": PLAIN, "theory_of": "rate"}),
        Figure("parts", f"{PAGES}:parts", {"where": PLAIN}),
        Figure(
            "local_slopes",
            f"{PAGES}:local_slopes",
            {"where": PLAIN, "methods": ("rate", "oracle"), "theory_of": "rate"},
        ),
        Figure("boundary", f"{PAGES}:boundary", {"where": {"world": "steep"}}),
        Figure(
            "saturation",
            f"{PAGES}:saturation",
            {
                "where": {"world": "saturating"},
                "claims": ("R2",),
                "printed": ("R1", "R1_bias2"),
                "labels": KERNEL_LABELS,
            },
        ),
        Figure("constants", f"{PAGES}:constants", {"where": {"world": "gentle"}}),
    ),
    profiles={
        "quick": Profile(
            4,
            keep=lambda condition: condition["n_obs"] <= 2**14,
            rule="enough to fill every table",
        ),
        "standard": Profile(
            200, rule="standard error of R1's slopes below 0.005 in rough worlds, d = 1"
        ),
        "full": Profile(2000, rule="the same below 0.002"),
    },
)
