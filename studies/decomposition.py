"""Bias, variance and head covariance of an ensemble of heads.

Aims
    Does the error of an ensemble split into squared bias, variance and covariance of heads, to
    rounding, whatever the weights and the noise (claim B1)? Do the conditional route, exact
    given the inputs, and the plain one, which draws noise, agree, and what is the first worth
    in replicates of the second? Do identical heads gain nothing, and uncorrelated ones 1/H
    (B2)? Is one head a low-variance smoother, unlike a regression tree?

Data-generating mechanisms
    A Matérn field of 33 standard normal inputs, normal noise whose standard deviation is
    constant or swings with the first input. H = 1, ..., 32 heads of one dimension on a path of
    diversity: ``identical``, ``correlated`` (index 3/4), ``orthogonal``. ``mixed``: six heads,
    the first two identical, the next two correlated, the last two orthogonal to all. Queries
    come from the design, so that errors are weighted with the density. A replicate has a new
    function and new queries (``random``), or one function and set of queries serves all of
    them (``fixed``): then only designs and noise are left to average over.

Estimands
    Squared bias, variance (the sum of a_k^2 V_k), covariance of different heads, and mean
    squared error of the ensemble.

Methods of estimation
    ``conditional``: uniform weights, exact moments given the inputs. ``geometric``: the same
    with weights proportional to 0.7^k. ``plain``: uniform weights, noisy responses. ``tree``: a
    regression tree, fully grown, on all inputs and the same responses.
    h = n^(-1/5) throughout.

Performance measures
    Averages over replicates of four designs, with their Monte Carlo standard errors. Kinds and
    numbers of heads share functions, designs, noise and queries.
"""

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeRegressor

from nwsim.dgp import Mechanism, head_mechanism, make_noise
from nwsim.heads import diversity_path, geometric_weights, uniform_weights
from nwsim.inference import decompose, decompose_conditional, design_moments
from nwsim.smoothing import MultiHeadNadarayaWatson
from nwsim.study import Claim, Contrast, Curve, Figure, Grid, Measure, Method, Profile, Study

N_DESIGNS, N_QUERIES = 4, 64
MOST = 32
DIM = MOST + 1
INDEX = {"identical": 0.0, "correlated": 0.75, "orthogonal": 1.0}
N_MIXED = 6
PAIRS = [(k, other) for k in range(N_MIXED) for other in range(k + 1)]
NOISE_SCALE = 1.0
FIXED_SEED = 20261201


def frames(condition):
    """Return the frames of the heads, (H, d, 1)."""
    n_heads, kind = condition["n_heads"], condition["heads"]
    if kind == "mixed":
        e = np.eye(DIM)
        # Two heads of index 3/4 on a path have a principal angle of cosine 1/2.
        turned = 0.5 * e[1] + np.sqrt(0.75) * e[2]
        return np.stack([e[0], e[0], e[1], turned, e[3], e[4]])[:, :, np.newaxis]
    # A path needs two heads at least; the first of two is the head by itself.
    path = diversity_path(max(n_heads, 2), DIM, 1)
    return path.frames_at(INDEX[kind])[:n_heads]


def draw(condition, rng):
    """Draw the inner designs, and unless they are fixed a function and queries."""
    base = head_mechanism("isotropic", DIM)
    noise = make_noise(condition["noise"], scale=NOISE_SCALE)
    given: dict[str, Any] = {}
    if condition["function"] == "fixed":
        function_rng, query_rng = np.random.default_rng(FIXED_SEED).spawn(2)
        given["function"] = base.world.draw(function_rng)
        given["queries"] = base.design.draw(query_rng, N_QUERIES)
    return Mechanism(base.world, base.design, noise).draw(
        rng, condition["n_obs"], N_DESIGNS, N_QUERIES, None, **given
    )


def model(condition):
    """Return the ensemble, unfitted; its own weights do not enter the moments of heads."""
    return MultiHeadNadarayaWatson(frames(condition), condition["n_obs"] ** -0.2)


def parts(decomposition, n_empty=0):
    """Return the error, its parts, and by how much these fail to add up to it."""
    d = decomposition
    return {
        "mse": d.mse,
        "bias2": d.bias2,
        "variance": d.variance,
        "head_covariance": d.head_covariance,
        "total_variance": d.variance + d.head_covariance,
        "inflation": (d.variance + d.head_covariance) / d.variance,
        "variance_share": (d.variance + d.head_covariance) / d.mse,
        "identity_gap": abs(d.mse - d.bias2 - d.variance - d.head_covariance) / d.mse,
        "n_empty": n_empty,
    }


def weighted(condition, data, weights):
    """Return the parts on the conditional route, and the moments behind them."""
    fit = model(condition).fit
    per_design = design_moments(fit, data.samples, data.queries, data.truth)
    decomposition = decompose_conditional(per_design, data.truth, weights)
    return parts(decomposition, sum(found.n_empty for found in per_design)), per_design


def conditional(condition, data, rng):
    """Weight all heads alike; moments are exact given the inputs."""
    n_heads = condition["n_heads"]
    row, per_design = weighted(condition, data, uniform_weights(n_heads))
    noise = np.mean([found.noise_covariance for found in per_design], axis=0)
    if n_heads > 1:
        off_diagonal = noise[:, ~np.eye(n_heads, dtype=bool)]
        row["share_negative"] = float(np.mean(off_diagonal < 0.0))
        row["shared_noise"] = float(condition["n_obs"] * off_diagonal.mean() / NOISE_SCALE**2)
    if is_mixed(condition):
        means = np.stack([found.mean for found in per_design])
        deviations = means - means.mean(axis=0)
        spread = np.einsum("jmk,jml->mkl", deviations, deviations) / (N_DESIGNS - 1)
        covariance = (noise + spread).mean(axis=0)
        row.update({f"covariance_{k + 1}_{m + 1}": float(covariance[k, m]) for k, m in PAIRS})
    return row


def geometric(condition, data, rng):
    """Weight heads unequally."""
    weights = geometric_weights(condition["n_heads"], 0.7)
    return weighted(condition, data, weights)[0]


def plain(condition, data, rng):
    """Draw noise, predict, and take moments over the designs."""
    fitted = [
        model(condition).fit(sample.X, data.responses(j)) for j, sample in enumerate(data.samples)
    ]
    estimates = np.stack([one.predict_heads(data.queries) for one in fitted])
    return parts(decompose(estimates, data.truth))


def tree(condition, data, rng):
    """Grow a regression tree on all inputs, to single observations."""
    seeds = rng.integers(2**31, size=N_DESIGNS)
    estimates = [
        DecisionTreeRegressor(random_state=int(seed))
        .fit(sample.X, data.responses(j))
        .predict(data.queries)
        for j, (seed, sample) in enumerate(zip(seeds, data.samples, strict=True))
    ]
    return parts(decompose(np.stack(estimates), data.truth))


def is_mixed(condition):
    """Select the heads of which the whole covariance matrix is kept."""
    return condition["heads"] == "mixed"


def has_tree(condition):
    """Select one head, of one kind, since a tree has none, where costs allow."""
    return has_plain(condition) and condition["n_heads"] == 1 and condition["heads"] == "identical"


def has_plain(condition):
    """Draw noise where costs allow."""
    return condition["n_obs"] <= 1024


def has_geometric(condition):
    """Weight heads unequally where that is cheap, or where noise varies."""
    return has_pairs(condition) and (condition["n_obs"] == 256 or not is_constant(condition))


def has_pairs(condition):
    """Select two heads or more."""
    return condition["n_heads"] > 1


def shares_noise(condition):
    """Select heads of independent inputs under one noise variance."""
    return has_pairs(condition) and condition["heads"] == "orthogonal" and is_random(condition)


def is_random(condition):
    """Select errors that are averaged over functions."""
    return condition["function"] == "random" and is_constant(condition)


def is_constant(condition):
    """Select noise of one variance."""
    return condition["noise"] == "gaussian"


def is_quick(condition):
    """Select a little of everything."""
    if condition["n_obs"] == 256:
        return condition["heads"] == "orthogonal" or condition["n_heads"] in (1, MOST)
    fixed = condition["function"] == "fixed" and condition["n_heads"] in (1, 8)
    return is_mixed(condition) or not is_constant(condition) or fixed


def of(kind):
    """Return a filter on the kind of heads."""
    return lambda condition: condition["heads"] == kind


def cells(n_obs, n_heads, noise="gaussian", heads=tuple(INDEX), function="random"):
    """Return the crossing of the given levels."""
    return Grid(
        {
            "n_obs": n_obs,
            "function": (function,),
            "noise": (noise,),
            "heads": heads,
            "n_heads": n_heads,
        }
    )


COUNTS = (1, 2, 4, 8, 16, MOST)
SIZES = (256, 1024, 4096)
ROUTES = ("mse", "bias2", "total_variance")
PAGES = "nwsim.report.ensembles"
CONSTANT = {"noise": "gaussian", "function": "random"}

STUDY = Study(
    name="decomposition",
    label="Bias, variance and covariance of heads",
    seed=20261201,
    factors=(
        cells(SIZES, COUNTS),
        cells((1024,), (2, 8), noise="heteroskedastic"),
        cells((1024,), COUNTS, function="fixed"),
        cells((1024,), (N_MIXED,), heads=("mixed",)),
    ),
    shared_streams=("heads", "n_heads"),
    draw=draw,
    methods=(
        Method("conditional", conditional),
        Method("geometric", geometric, where=has_geometric),
        Method("plain", plain, where=has_plain),
        Method("tree", tree, where=has_tree),
    ),
    measures=(
        *(
            Measure(name, label, unit="y²")
            for name, label in (
                ("mse", "integrated mean squared error"),
                ("bias2", "integrated squared bias"),
                ("variance", "integrated variance of the heads, without covariance"),
                ("head_covariance", "integrated covariance of different heads"),
                ("total_variance", "integrated variance"),
            )
        ),
        Measure("inflation", "variance of the ensemble over that of uncorrelated heads"),
        Measure("variance_share", "variance as a part of the error"),
        Measure("identity_gap", "what the parts lack of the error, as a part of it"),
        Measure(
            "share_negative",
            "share of negative noise covariances",
            where=has_pairs,
            methods=("conditional",),
        ),
        Measure(
            "shared_noise",
            "n times the noise covariance of two heads over the noise variance",
            where=has_pairs,
            methods=("conditional",),
        ),
        *(
            Measure(
                f"covariance_{k + 1}_{m + 1}",
                f"covariance of heads {k + 1} and {m + 1}",
                unit="y²",
                where=is_mixed,
                methods=("conditional",),
            )
            for k, m in PAIRS
        ),
        Measure("n_empty", "empty windows", kind="count"),
    ),
    claims=(
        Claim(
            "B1",
            "Squared bias, variance and head covariance add up to the mean squared error.",
            "identity_gap",
            theory=0.0,
            margin=1e-12,
            rule="never_above",
        ),
        *(
            Claim(
                "B1_routes",
                "The conditional and the plain route have one expectation.",
                f"routes_{measure}",
                theory=1.0,
                margin=0.1,
                rule="equivalence",
            )
            for measure in ROUTES
        ),
        Claim(
            "B2_identical",
            "Identical heads gain nothing: the variance of many is that of one.",
            "many_heads",
            theory=1.0,
            margin=1e-9,
            rule="equivalence",
            where=of("identical"),
            method="conditional",
        ),
        Claim(
            "B2_orthogonal",
            "The variance of H orthogonal heads is 1/H of that of one.",
            "inflation",
            theory=1.0,
            margin=0.25,
            rule="equivalence",
            where=lambda c: c["heads"] == "orthogonal" and has_pairs(c) and is_random(c),
            method="conditional",
        ),
        Claim(
            "B2_floor",
            "Heads of independent inputs share noise covariance s^2/n.",
            "shared_noise",
            theory=1.0,
            margin=0.05,
            rule="equivalence",
            where=shares_noise,
        ),
        Claim(
            "B2_sign",
            "Nonnegative weights on one sample leave no negative noise covariance.",
            "share_negative",
            theory=0.0,
            margin=0.0,
            rule="never_above",
        ),
        Claim(
            "B2_tree",
            "Variance is a smaller part of the error of one head than of one regression tree.",
            "share_to_tree",
            theory=0.0,
            margin=0.0,
            rule="not_above",
        ),
    ),
    curves=(
        Curve(
            "gain",
            "total_variance",
            "steps",
            over="n_heads",
            where=lambda c: c["method"] == "conditional" and not is_mixed(c),
        ),
    ),
    contrasts=(
        *(
            Contrast(f"routes_{measure}", measure, "method", "plain", "conditional", "ratio")
            for measure in ROUTES
        ),
        *(
            Contrast(f"worth_{measure}", measure, "method", "conditional", "plain", "precision")
            for measure in ROUTES
        ),
        *(
            Contrast(f"heads_{count}", "total_variance", "n_heads", count, 1, "ratio")
            for count in COUNTS[1:-1]
        ),
        Contrast("many_heads", "total_variance", "n_heads", MOST, 1, "ratio"),
        Contrast("share_to_tree", "variance_share", "method", "conditional", "tree"),
        Contrast("head_to_tree", "total_variance", "method", "conditional", "tree", "ratio"),
        Contrast("tree_mse", "mse", "method", "conditional", "tree", "ratio"),
    ),
    figures=(
        Figure("variance", f"{PAGES}:variance", {"where": CONSTANT, "method": "conditional"}),
        Figure("routes", f"{PAGES}:routes", {"where": {"function": "fixed"}}),
        Figure("covariance", f"{PAGES}:heat_map", {"where": {"heads": "mixed"}}),
        Figure("tree", f"{PAGES}:shares", {"where": {**CONSTANT, "n_heads": 1}}),
    ),
    profiles={
        "quick": Profile(
            3,
            keep=is_quick,
            rule="enough to fill every table",
        ),
        "standard": Profile(100, rule="standard error of routes_mse below 0.3%"),
        "full": Profile(1500, rule="the same below 0.1%"),
    },
)
