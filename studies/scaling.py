"""Heads against head dimension at a fixed budget: laws for the best d_k and the best H.

Aims
    At a fixed budget D = H d_k, does the best head dimension grow like (log n)^(2/(4+d))
    (claim S1), does an optimum between the ends exist at all, and is a larger head blurrier,
    as the source argues? Does the best number of heads grow linearly in D (S2)? Do many small
    heads beat few large ones (S3)? The source takes the bandwidth to be d_k^(-1/2); heads of
    softmax attention have d_k^(1/4), and any statistician would ask for the best one.

Data-generating mechanisms
    Inputs are standard normal in R^d with d = D, so that the heads can share the inputs out
    among themselves. ``isotropic``: a Matérn field of length scale sqrt(d), drawn anew in
    every replicate; a typical wave turns by one radian over one standard deviation of the
    inputs, so that no direction is special, a head of any size learns something and none
    learns all (``floor2`` says how little one that sees few directions can). ``additive``: one
    field a coordinate, the world in which small heads on coordinates see most. Noise is
    normal. Frames of the heads: ``orthogonal`` (one random rotation dealt out; overlap 0),
    ``independent`` (random, expected overlap d_k/d), ``shared`` (all heads the same; overlap 1),
    ``coordinates`` (orthogonal and aligned with the axes). The rotation of a replicate is the
    same for every d_k.

Estimands
    Mean squared error of the uniform average of the heads and its parts, and the squared bias
    and error of a single head, integrated with the density of the inputs as weight: queries
    are drawn from it, anew in every replicate.

Methods of estimation
    ``inverse_root``: h = d_k^(-1/2), the source's. ``softmax``: h = d_k^(1/4), that of scaled
    dot products with keys of one norm. ``oracle``: the common h that minimises the exact
    conditional error of the ensemble for this function on a design of its own.

Performance measures
    Each replicate holds two designs; the conditional route is exact given the designs. All
    d_k, bandwidths, frames and noise levels of a replicate share function, inputs and
    queries, so comparisons along d_k are paired. The best d_k has a bootstrap interval over
    whole replicates. The rival laws are fitted to the smaller n and scored at the larger.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from nwsim.dgp import head_mechanism, projected_mean
from nwsim.heads import coordinate_frames, random_frames
from nwsim.inference import decompose, held_out_laws
from nwsim.inference.optima import N_BOOT, Draws
from nwsim.inference.verdicts import Verdict, undecided
from nwsim.smoothing import MultiHeadNadarayaWatson
from nwsim.study import (
    Claim,
    ClaimRule,
    Curve,
    CurvePoint,
    CurveRule,
    Figure,
    Grid,
    Measure,
    Method,
    Profile,
    Study,
    register_rule,
)

N_DESIGNS, N_SEARCH = 2, 32
FLOOR_AT = 2**10  # floors do not depend on n and are costly
BUDGETS = (8, 12, 24, 48)
SIZES = {dim: tuple(2**k for k in range(6, 15, 1 if dim <= 12 else 2)) for dim in BUDGETS}
FEWER = tuple(4**k for k in range(3, 7))


def at_floor(condition):
    """Measure floors at one n."""
    return condition["n_obs"] == FLOOR_AT


def divisors(dim):
    """Return every head dimension that uses the whole budget."""
    return tuple(size for size in range(1, dim + 1) if dim % size == 0)


def mechanism(condition):
    """Return the laws of function, inputs and noise."""
    options = {name: condition[name] for name in ("noise", "alpha")}
    return head_mechanism(condition["world"], condition["dim"], **options)


def draw(condition, rng):
    """Draw a function, queries and designs, and the frames; the same for every d_k."""
    dim, size = condition["dim"], condition["d_k"]
    data_rng, frame_rng = rng.spawn(2)
    n_obs = condition["n_obs"]
    n_queries = 64 if n_obs < 2**12 else N_SEARCH
    replicate = mechanism(condition).draw(data_rng, n_obs, N_DESIGNS, n_queries, None)
    return replicate, frames_of(condition["frames"], dim // size, dim, size, frame_rng)


def frames_of(name, n_heads, dim, size, rng):
    """Return the frames (H, d, d_k) of the heads."""
    if name == "coordinates":
        return coordinate_frames(n_heads, dim, size)
    dealt = random_frames(n_heads, dim, size, rng, orthogonal=name != "independent")
    return np.repeat(dealt[:1], n_heads, axis=0) if name == "shared" else dealt


def fit(frames, sample):
    """Fit the ensemble. It looks at the inputs alone; the function stands in for responses."""
    return MultiHeadNadarayaWatson(frames).fit(sample.X, sample.f)


def score(data, h):
    """Return the error of the ensemble at bandwidth h, its parts, and those of single heads."""
    replicate, frames = data
    queries, truth, n_heads = replicate.queries, replicate.truth, frames.shape[0]
    per_design = [
        fit(frames, sample).ensemble_moments(queries, sample.f, sample.noise_variance, h)
        for sample in replicate.samples
    ]
    whole = decompose(
        np.stack([m.heads.mean(axis=1) for m in per_design]),
        truth,
        noise_covariance=np.stack([m.noise for m in per_design]),
    )
    # Heads are taken as further queries of one smoother: the result is their average.
    single = decompose(
        np.stack([m.heads.ravel() for m in per_design]),
        np.repeat(truth, n_heads),
        noise_covariance=np.stack([m.own_noise.ravel() for m in per_design]),
    )
    return {
        "mse": whole.mse,
        "bias2": whole.bias2,
        "variance": single.variance / n_heads,
        "head_covariance": whole.variance - single.variance / n_heads,
        "head_bias2": single.bias2,
    }


def at_inverse_root(condition, data, rng):
    """Smooth with the source's bandwidth; say what no bandwidth and no n could remove."""
    row = score(data, condition["d_k"] ** -0.5)
    return {**row, **floor(*data)} if at_floor(condition) else row


def at_softmax(condition, data, rng):
    """Smooth with the bandwidth of softmax attention."""
    return score(data, condition["d_k"] ** 0.25)


def at_oracle(condition, data, rng):
    """Choose h for this function on a design of its own, then score it on the replicate's."""
    replicate, frames = data
    (sample,) = mechanism(condition).draw_samples(
        replicate.function, rng.spawn(1), condition["n_obs"]
    )
    model, few = fit(frames, sample), replicate.at_queries(slice(N_SEARCH))
    # From far below the rate of a smooth function of d_k variables, since averaging many heads
    # takes the variance away and asks for narrow windows, to one in which all weights are
    # nearly equal: exponents |x - X|^2 / 2h^2 have a spread of sqrt(d_k) / h^2.
    rate = condition["n_obs"] ** (-1.0 / (4.0 + condition["d_k"]))
    low, high = np.log(rate / 8.0), np.log(6.0 * condition["d_k"] ** 0.25)

    def risk(log_h):
        found = model.ensemble_moments(
            few.queries, sample.f, sample.noise_variance, float(np.exp(log_h))
        )
        return float(np.mean((found.heads.mean(axis=1) - few.truth) ** 2 + found.noise))

    found = minimize_scalar(risk, bounds=(low, high), method="bounded", options={"xatol": 0.15})
    at_edge = min(found.x - low, high - found.x) < 0.3
    h = float(np.exp(found.x))
    return {**score(data, h), "bandwidth": h, "n_at_edge": int(at_edge)}


def floor(replicate, frames):
    """Return the squared bias that heads keep however large n is, of the average and of one."""
    function, queries, covariance = replicate.function, replicate.queries, np.eye(frames.shape[1])
    means = np.stack([projected_mean(function, frame, covariance, queries) for frame in frames])
    errors = means - replicate.truth
    return {
        "floor2": float(np.mean(errors.mean(axis=0) ** 2)),
        "head_floor2": float(np.mean(errors**2)),
    }


LAWS = {
    "printed": lambda n, dim: np.log(n) ** (2.0 / (4.0 + dim)),
    "power": lambda n, dim: n ** (2.0 / (4.0 + dim)),
    "decorrelated": lambda n, dim: (n * dim) ** (2.0 / (6.0 + dim)),
    "log_ratio": lambda n, dim: np.log(n) / np.log(np.log(n)),
    "constant": lambda n, dim: np.ones_like(n),
}


def compare(points):
    """Fit the laws to the smaller n and score them at the larger third, two at least."""
    levels, sizes, values = zip(*points.groups(), strict=True)
    if len(levels) < 4:
        return None
    laws = {name: partial(law, dim=points.setting["dim"]) for name, law in LAWS.items()}
    return held_out_laws(levels, sizes, values, laws, max(2, len(levels) // 3), points.rng())


def judge_law(points, theory, margin):
    """Judge whether the printed law predicts the best d_k at larger n better than its rivals.

    A best d_k at an end of its grid leaves it open: the true one may lie beyond.
    """
    found = compare(points)
    if found is None:
        return undecided(theory, margin)
    verdict = found.verdict("printed", margin)
    if np.isin([*found.best_train, *found.best_test], (1, points.setting["dim"])).any():
        return replace(verdict, verdict="inconclusive")
    return verdict


def law_rules(name):
    """Return the curves of a law: its values, fitted to the smaller n, and its held-out miss."""

    def values(points):
        found = compare(points)
        if found is None:
            return []
        x = np.concatenate([found.x_train, found.x_test])
        shape = LAWS[name](x, points.setting["dim"])
        fitted = shape * found.scores[name].predictions[-1] / shape[-1]
        return [CurvePoint(n, size, np.nan) for n, size in zip(x, fitted, strict=True)]

    def miss(points):
        found = compare(points)
        if found is None:
            return []
        one = found.scores[name]
        return [CurvePoint(np.nan, one.miss, np.nan, *one.miss_ci)]

    return (
        CurveRule(f"law_{name}", values, n_factors=2),
        CurveRule(f"miss_{name}", miss, n_factors=2),
    )


def log_optimum(draws):
    """Return the log of the best d_k in every bootstrap draw, the data first.

    Between divisors it is the vertex of the parabola, in log d_k, through the least mean and
    its two neighbours; the vertex is nearer to the best divisor than to those. An end stays.
    """
    x, best = np.log(draws.levels), draws.position
    inner = np.clip(best, 1, x.size - 2)
    beside = inner[:, np.newaxis] + np.arange(-1, 2)
    at, rise = x[beside], np.diff(np.take_along_axis(draws.means, beside, axis=1), axis=1)
    slope = rise / np.diff(at, axis=1)
    middle = (at[:, :-1] + at[:, 1:]) / 2.0
    bend = np.diff(slope, axis=1) / np.diff(middle, axis=1)
    return np.where(best == inner, middle[:, 0] - slope[:, 0] / bend[:, 0], x[best])


def judge_exponent(points, theory, margin):
    """Judge the exponent of the best d_k in n, or of the best H = D / d_k in D.

    It is the slope of a least-squares line through the logs, with its bootstrap interval. In
    n, a best d_k at an end of its grid leaves the claim open. In D it does not: one head of
    size D is a number of heads like others.
    """
    in_budget = "dim" not in points.setting
    groups, rng = list(points.groups()), points.rng()
    if len(groups) < 2:
        return undecided(theory, margin)
    draws = [Draws(group.levels, group.values, rng, N_BOOT) for group in groups]
    x = np.log([group.level for group in groups])
    x -= x.mean()
    best = np.column_stack([log_optimum(one) for one in draws])
    slopes = np.einsum("bg,g->b", best, x) / np.square(x).sum()
    slopes = 1.0 - slopes if in_budget else slopes
    low, lower, upper, high = np.quantile(slopes[1:], (0.025, 0.05, 0.95, 0.975))
    word = "inconclusive"
    if in_budget or not any(one.at_edge for one in draws):
        if theory - margin <= lower and upper <= theory + margin:
            word = "supported"
        elif upper < theory - margin or lower > theory + margin:
            word = "refuted"
    spread = float(slopes[1:].std())
    return Verdict(float(slopes[0]), spread, theory, margin, float(low), float(high), word)


def printed_slope(setting):
    """Return the mean slope of log d_k on log n under the printed law, over the n that we run."""
    log_n = np.log([SIZES[setting["dim"]][0], SIZES[setting["dim"]][-1]])
    return float(2.0 / (4.0 + setting["dim"]) * np.diff(np.log(log_n))[0] / np.diff(log_n)[0])


for rule in (
    ClaimRule("scaling_law", judge_law, n_factors=2, one_sided=True),
    ClaimRule("scaling_exponent", judge_exponent, n_factors=2),
    *(rule for name in LAWS for rule in law_rules(name)),
):
    register_rule(rule)


PLAIN = {"world": "isotropic", "frames": "orthogonal", "noise": 0.5, "alpha": 1.5}


def cells(dim, sizes, **other):
    """Return all head dimensions, at one level of each other factor."""
    fixed = {name: (level,) for name, level in {**PLAIN, **other}.items()}
    return Grid({"dim": (dim,), **fixed, "n_obs": sizes, "d_k": divisors(dim)})


def is_plain(setting):
    """Select the one noise level and smoothness that all budgets have."""
    return all(setting[name] == level for name, level in PLAIN.items())


def is_fair_pair(setting):
    """Select two ensembles: heads of two directions against two heads of D/2."""
    return setting["d_k"] in (2, setting["dim"] // 2)


def n_sim(condition):
    """Spend replicates where they are cheap; a verdict needs 20."""
    large = {2**10: 48, 2**11: 40, 2**12: 32, 2**13: 24, 2**14: 20}
    count = large.get(condition["n_obs"], 60)
    return max(20, 2 * count // 3) if condition["dim"] == 48 else count


ALONG = ("n_obs", "d_k")
PAGES = "nwsim.report.architecture"
LABELS = {
    "dim": "$D$",
    "d_k": "head dimension $d_k$",
    "inverse_root": "$h = d_k^{-1/2}$",
    "softmax": "$h = d_k^{1/4}$",
    "oracle": "best $h$",
    "best_dimension": "best $d_k$",
    "S3": "error at $d_k = 2$ over that at $d_k = D/2$",
    "coordinates": "coordinates,\nadditive",
}
TEXTS = {"labels": LABELS}
SHOWN = {**PLAIN, "n_obs": SIZES[48]}
BLUR = {"measure": "head_bias2", "floor": "head_floor2", "mark": False}
PAIRS = {"noise": "0.5", "alpha": "1.5", "dim": (12, 24)}
ORACLE = ("oracle",)
AT_FLOOR: dict[str, Any] = {"unit": "y²", "where": at_floor, "methods": ("inverse_root",)}

STUDY = Study(
    name="scaling",
    label="Heads against head dimension at a fixed budget",
    seed=20261203,
    factors=(
        *(cells(dim, SIZES[dim]) for dim in BUDGETS),
        *(cells(dim, FEWER, noise=2.0) for dim in (12, 24)),
        cells(12, FEWER, alpha=0.5),
        *(cells(dim, FEWER, frames="independent") for dim in (12, 24)),
        cells(12, FEWER, frames="shared"),
        cells(12, FEWER, world="additive", frames="coordinates"),
    ),
    shared_streams=("d_k", "frames", "noise"),
    draw=draw,
    methods=(
        *(Method("inverse_root", at_inverse_root), Method("softmax", at_softmax)),
        Method("oracle", at_oracle),
    ),
    measures=(
        Measure("mse", "mean squared error of the ensemble", unit="y²"),
        Measure("bias2", "squared bias", unit="y²"),
        Measure("variance", "variance part", unit="y²"),
        Measure("head_covariance", "covariance part", unit="y²"),
        Measure("head_bias2", "squared bias of one head", unit="y²"),
        Measure("floor2", "squared bias that no n removes", **AT_FLOOR),
        Measure("head_floor2", "squared bias of one head that no n removes", **AT_FLOOR),
        Measure("bandwidth", "chosen bandwidth", methods=ORACLE),
        Measure("n_at_edge", "searches that ended at an edge", kind="count", methods=ORACLE),
    ),
    claims=(
        # A twentieth in d_k does not count; the nearest divisors lie a quarter apart or more.
        Claim(
            "S1",
            "At a fixed budget the best d_k grows like (log n)^(2/(4+d)): this law predicts it "
            "at larger n better than its rivals.",
            *("mse", 0.0, 0.05, "scaling_law", ALONG),
        ),
        # The margin is half the distance to a constant.
        Claim(
            "S1_exponent",
            "The log-log slope of the best d_k in n is that of (log n)^(2/(4+d)).",
            *("mse", printed_slope, lambda setting: 0.5 * printed_slope(setting)),
            *("scaling_exponent", ALONG),
            where=is_plain,
        ),
        # By a hundredth at least: a flat curve has no optimum to speak of.
        Claim(
            "S1_interior",
            "Some d_k between 1 and D has a smaller error than both.",
            *("mse", 0.0, 0.01, "interior_optimum", "d_k"),
        ),
        Claim(
            "S1_blur",
            "A larger head is blurrier: one head has no less squared bias at d_k = D than at 1.",
            *("head_bias2", 0.0, 0.05, "ends", "d_k"),
            where=is_plain,
        ),
        # The margin is half the distance to growth like sqrt(D).
        Claim(
            "S2",
            "The best number of heads grows linearly in D.",
            *("mse", 1.0, 0.25, "scaling_exponent", ("dim", "d_k")),
            where=lambda setting: is_plain(setting) and setting["n_obs"] in SIZES[48],
        ),
        Claim(
            "S3",
            "Many small heads (d_k = 2) beat two large ones (d_k = D/2).",
            *("mse", 0.0, 0.0, "ends", "d_k"),
            where=is_fair_pair,
        ),
    ),
    curves=(
        Curve("best_dimension", "mse", "best_level", over="d_k"),
        Curve("share_best", "mse", "best_share", over="d_k"),
        *(
            Curve(f"{kind}_{name}", "mse", f"{kind}_{name}", over=ALONG, where=is_plain)
            for name in LAWS
            for kind in ("law", "miss")
        ),
    ),
    figures=(
        Figure("best_dimension", f"{PAGES}:best_dimension", {"where": PLAIN, **TEXTS}),
        Figure("risk", f"{PAGES}:profiles", {"where": SHOWN, **TEXTS}),
        Figure("blur", f"{PAGES}:profiles", {"where": SHOWN, **BLUR, **TEXTS}),
        Figure("best_heads", f"{PAGES}:best_heads", {"where": SHOWN, **TEXTS}),
        Figure("small_against_large", f"{PAGES}:small_against_large", {"where": PAIRS, **TEXTS}),
    ),
    profiles={
        "quick": Profile(
            2,
            keep=lambda c: c["n_obs"] in (2**6, FLOOR_AT) and c["dim"] <= 12,
            rule="enough to fill every table",
        ),
        "standard": Profile(n_sim, rule="standard errors of the log ratios of S3 about 0.03"),
        "full": Profile(1000, rule="the same to a fifth of that"),
    },
)
