"""Heads against head dimension at a fixed budget: laws for the best d_k and the best H.

Aims
    At a fixed budget D = H d_k, does the best head dimension grow like (log n)^(2/(4+d))
    (S1), is there an optimum between the ends, and is a larger head blurrier, as the source
    argues? Does the best number of heads grow linearly in D (S2)? Do many small heads beat few
    large ones (S3)? The source has the bandwidth d_k^(-1/2), heads of softmax attention have
    d_k^(1/4), and any statistician would ask for the best one.

Data-generating mechanisms
    Inputs are standard normal in R^d with d = D, so that the heads can share the inputs out
    among themselves. ``isotropic``: a Matérn field of length scale sqrt(d), drawn anew in
    every replicate: no direction is special, and a typical wave turns by one radian over one
    standard deviation of the inputs, so that heads of any size learn something (``floor2``
    says how much they cannot). ``additive``: one field a coordinate, the world in which small
    heads on coordinates see most. Noise is normal. Frames: ``orthogonal`` (one random rotation
    dealt out; overlap 0), ``independent`` (random, expected overlap d_k/d), ``shared`` (all the
    same; overlap 1), ``coordinates`` (orthogonal, along the axes). A replicate has one rotation.

Estimands
    Mean squared error of the uniform average of the heads, its parts, and the squared bias of
    a single head, about f and about what the head could know of f (what smoothing blurs);
    queries are drawn from the law of the inputs, anew in every replicate.

Methods of estimation
    ``inverse_root``: h = d_k^(-1/2), the source's. ``softmax``: h = d_k^(1/4), that of scaled
    dot products with keys of one norm. ``oracle``: the common h that minimises the exact
    conditional error of the ensemble for this function on a design of its own.

Performance measures
    Each replicate holds two designs; the conditional route is exact given the designs. All
    d_k, bandwidths, frames and noise levels of a replicate share function, inputs and
    queries, so comparisons along d_k are paired. The best d_k has a bootstrap interval over
    whole replicates. Laws are fitted to the smaller n and scored at the larger.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from nwsim.dgp import head_mechanism, projected_errors
from nwsim.heads import coordinate_frames, random_frames
from nwsim.inference import decompose, held_out_laws
from nwsim.inference.interpolated import optimum_slope
from nwsim.inference.laws import FREE_POWER, LawComparison
from nwsim.inference.trends import LEVEL
from nwsim.inference.verdicts import INCONCLUSIVE, undecided
from nwsim.seeding import digest
from nwsim.smoothing import MultiHeadNadarayaWatson, oracle_bandwidth
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

N_DESIGNS, N_SEARCH, FLOOR_AT = 2, 32, 2**10
BUDGETS = (8, 12, 24, 48)
SIZES = {dim: tuple(2**k for k in range(6, 15, 1 if dim <= 12 else 2)) for dim in BUDGETS}
FEWER = tuple(4**k for k in range(3, 7))


def at(*sizes):
    """Return the condition that n is one of these."""
    return lambda condition: condition["n_obs"] in sizes


# Floors do not depend on n; projections of many heads are costly.
at_floor, at_blur = at(FLOOR_AT), at(2**6, FLOOR_AT, 2**14)


def divisors(dim):
    """Return every head dimension that uses the whole budget."""
    return tuple(size for size in range(1, dim + 1) if dim % size == 0)


def mechanism(condition):
    """Return the laws of function, inputs and noise."""
    options = {name: condition[name] for name in ("noise", "alpha")}
    return head_mechanism(condition["world"], condition["dim"], **options)


def draw(condition, rng):
    """Draw function, queries, designs and frames, the same for every d_k; what heads miss."""
    dim, size = condition["dim"], condition["d_k"]
    data_rng, frame_rng = rng.spawn(2)
    n_obs = condition["n_obs"]
    n_queries = 64 if n_obs < 2**12 else N_SEARCH
    replicate = mechanism(condition).draw(data_rng, n_obs, N_DESIGNS, n_queries, None)
    frames = frames_of(condition["frames"], dim // size, dim, size, frame_rng)
    missed = None
    if at_blur(condition):
        missed = projected_errors(replicate.function, frames, np.eye(dim), replicate.queries)
    return replicate, frames, missed


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
    replicate, frames, missed = data
    queries, truth, n_heads = replicate.queries, replicate.truth, frames.shape[0]
    per_design = [
        fit(frames, sample).ensemble_moments(queries, sample.f, sample.noise_variance, h)
        for sample in replicate.samples
    ]
    mean = np.stack([m.heads.mean(axis=1) for m in per_design])
    whole = decompose(mean, truth, noise_covariance=np.stack([m.noise for m in per_design]))
    # Heads are taken as further queries of one smoother: the result is their average.
    heads = np.stack([m.heads.ravel() for m in per_design])
    noise = np.stack([m.own_noise.ravel() for m in per_design])
    single = decompose(heads, np.repeat(truth, n_heads), noise_covariance=noise)
    row = {
        "mse": whole.mse,
        "bias2": whole.bias2,
        "variance": single.variance / n_heads,
        "head_covariance": whole.variance - single.variance / n_heads,
        "head_bias2": single.bias2,
    }
    if missed is not None:
        known = (truth[:, np.newaxis] + missed).ravel()
        row["head_blur2"] = decompose(heads, known, noise_covariance=noise).bias2
    return row


def at_inverse_root(condition, data, rng):
    """Smooth with the source's bandwidth; say what no bandwidth and no n could remove."""
    row = score(data, condition["d_k"] ** -0.5)
    return {**row, **floors(data)} if at_floor(condition) else row


def at_softmax(condition, data, rng):
    """Smooth with the bandwidth of softmax attention."""
    return score(data, condition["d_k"] ** 0.25)


def at_oracle(condition, data, rng):
    """Choose h for this function on a design and queries of its own, then score it."""
    replicate, frames, _ = data
    few = mechanism(condition).draw(
        rng, condition["n_obs"], 1, N_SEARCH, None, function=replicate.function
    )
    (sample,) = few.samples
    model = fit(frames, sample)
    # From far below the rate of a smooth function of d_k variables, since averaging many heads
    # takes the variance away and asks for narrow windows, to one in which all weights are
    # nearly equal: exponents |x - X|^2 / 2h^2 have a spread of sqrt(d_k) / h^2.
    rate = condition["n_obs"] ** (-1.0 / (4.0 + condition["d_k"]))

    def risk(h):
        found = model.ensemble_moments(few.queries, sample.f, sample.noise_variance, h)
        return np.mean((found.heads.mean(axis=1) - few.truth) ** 2 + found.noise)

    best = oracle_bandwidth(risk, rate / 8.0, 6.0 * condition["d_k"] ** 0.25, tolerance=0.15)
    row = score(data, best.bandwidth)
    return {**row, "bandwidth": best.bandwidth, "n_at_edge": best.at_edge}


def floors(data):
    """Return what heads miss however large n is, their average and one; what one could know."""
    replicate, _, missed = data
    known = replicate.truth[:, np.newaxis] + missed
    return {
        "floor2": float(np.mean(missed.mean(axis=1) ** 2)),
        "head_floor2": float(np.mean(missed**2)),
        "head_known": float(np.mean(np.var(known, axis=0, ddof=1))),
    }


LAWS = {
    "printed": lambda n, dim: np.log(n) ** (2.0 / (4.0 + dim)),
    "power": lambda n, dim: n ** (2.0 / (4.0 + dim)),
    "decorrelated": lambda n, dim: (n * dim) ** (2.0 / (6.0 + dim)),
    "log_ratio": lambda n, dim: np.log(n) / np.log(np.log(n)),
    "constant": lambda n, dim: np.ones_like(n),
}
FITTED = (*LAWS, FREE_POWER)
COMPARED: dict[Any, LawComparison] = {}


def compare(points):
    """Fit the laws to the smaller n and score them at the larger third, two at least.

    One comparison serves the claim and all curves; it is kept by what it is a function of.
    """
    groups = list(points.groups())
    if len(groups) < 4:
        return None
    levels, sizes, values = zip(*groups, strict=True)
    key = digest(points.setting), points.measure, *(repr(one) for one in levels)
    key += tuple(array.tobytes() for array in (*sizes, *values))
    if key not in COMPARED:
        laws = {name: partial(law, dim=points.setting["dim"]) for name, law in LAWS.items()}
        n_test = max(2, len(groups) // 3)
        COMPARED[key] = held_out_laws(levels, sizes, values, laws, n_test, points.rng())
    return COMPARED[key]


def judge_law(points, theory, margin):
    """Judge whether some rival predicts the best d_k at larger n better than the printed law.

    Open where a best d_k is an end of its grid, since the true one may lie beyond; and where
    the printed law, with some constant, is what the grid shows at all n.
    """
    if (found := compare(points)) is None:
        return undecided(theory, margin)
    verdict = found.verdict("printed", margin)
    at_end = np.isin([*found.best_train, *found.best_test], (1, points.setting["dim"])).any()
    is_open = at_end or not found.fit_shares["printed"] < LEVEL
    return replace(verdict, verdict=INCONCLUSIVE) if is_open else verdict


def law_rule(kind, name):
    """Return the curve of a law: its values, its held-out miss, or its regret there."""

    def derive(points):
        if (found := compare(points)) is None:
            return []
        one = found.scores[name]
        if kind != "law":
            return [CurvePoint(np.nan, getattr(one, kind), np.nan, *getattr(one, f"{kind}_ci"))]
        x = [*found.x_train, *found.x_test]
        return [CurvePoint(n, size, np.nan) for n, size in zip(x, one.fitted, strict=True)]

    return CurveRule(f"{kind}_{name}", derive, n_factors=2)


def fitted_to(points):
    """Return the largest n that the laws are fitted to."""
    found = compare(points)
    return [] if found is None else [CurvePoint(np.nan, found.x_train[-1], np.nan)]


def judge_slope(points, theory, margin, in_budget):
    """Judge the log-log slope of the best d_k in n, or of the best H = D / d_k in D."""
    groups = list(points.groups())
    if len(groups) < 2:
        return undecided(theory, margin)
    levels, sizes, values = zip(*groups, strict=True)
    found = optimum_slope(levels, sizes, values, points.rng())
    # A best H of 1 or D counts like others: D holds no other. But some, not all, bend the line.
    is_open = np.ptp(found.ends) if in_budget else found.ends.any()
    verdict = (found.complement() if in_budget else found).verdict(theory, margin)
    return replace(verdict, verdict=INCONCLUSIVE) if is_open else verdict


def judge_exponent(points, theory, margin):
    """Judge the slope in n; open where a best d_k is at an end."""
    return judge_slope(points, theory, margin, in_budget=False)


def judge_heads(points, theory, margin):
    """Judge the slope in D; open where some but not all best d_k are the same end."""
    return judge_slope(points, theory, margin, in_budget=True)


def printed_slope(setting):
    """Return the mean slope of log d_k on log n under the printed law, over the n that we run."""
    n = np.array([SIZES[setting["dim"]][0], SIZES[setting["dim"]][-1]])
    return float(np.diff(np.log(LAWS["printed"](n, setting["dim"])))[0] / np.diff(np.log(n))[0])


for rule in (
    ClaimRule("scaling_law", judge_law, n_factors=2, one_sided=True),
    ClaimRule("scaling_exponent", judge_exponent, n_factors=2),
    ClaimRule("heads_in_budget", judge_heads, n_factors=2),
    CurveRule("fitted_to", fitted_to, n_factors=2),
    *(law_rule(kind, name) for kind in ("law", "miss", "regret") for name in FITTED),
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
TEXTS, ORACLE = {"labels": LABELS}, ("oracle",)
SHOWN = {**PLAIN, "n_obs": SIZES[48]}
BLUR = {"measure": "head_blur2", "floor": "head_known", "mark": False}
LAW_LINES = {
    "law_printed": "(log $n$)$^{2/(4+d)}$ (printed)",
    "law_power": "$n^{2/(4+d)}$",
    "law_decorrelated": "$(nD)^{2/(6+d)}$",
    "law_log_ratio": "log $n$ / log log $n$",
    "law_constant": "constant",
}
BEST, ONE_N = {"where": PLAIN, "laws": LAW_LINES}, {**PLAIN, "n_obs": FLOOR_AT}
METHODS = {"inverse_root": at_inverse_root, "softmax": at_softmax, "oracle": at_oracle}
PAIRS = {"noise": "0.5", "alpha": "1.5", "dim": (12, 24)}
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
    methods=tuple(Method(name, function) for name, function in METHODS.items()),
    measures=(
        Measure("mse", "mean squared error of the ensemble", unit="y²"),
        Measure("bias2", "squared bias", unit="y²"),
        Measure("variance", "variance part", unit="y²"),
        Measure("head_covariance", "covariance part", unit="y²"),
        Measure("head_bias2", "squared bias of one head", unit="y²"),
        Measure("head_blur2", "squared bias of smoothing, one head", unit="y²", where=at_blur),
        Measure("floor2", "squared bias that no n removes", **AT_FLOOR),
        Measure("head_floor2", "squared bias of one head that no n removes", **AT_FLOOR),
        Measure("head_known", "variance of what one head could know", **AT_FLOOR),
        Measure("bandwidth", "chosen bandwidth", methods=ORACLE),
        Measure("n_at_edge", "searches that ended at an edge", kind="count", methods=ORACLE),
    ),
    claims=(
        # A twentieth in d_k does not count; the nearest divisors lie a quarter apart or more.
        Claim(
            "S1",
            "At a fixed budget the best d_k grows like (log n)^(2/(4+d)): no rival law predicts it "
            "better at larger n. Support is out of reach: divisors cannot tell it from a constant.",
            *("mse", 0.0, 0.05, "scaling_law", ALONG),
        ),
        # The margin is half the distance to a constant.
        Claim(
            "S1_exponent",
            "The log-log slope of the best d_k in n is that of (log n)^(2/(4+d)); to support it "
            "would take divisors that are closer together.",
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
            "A larger head is blurrier: the squared bias of smoothing, about what the head could "
            "know, is no less at d_k = D than at 1.",
            *("head_blur2", 0.0, 0.05, "ends", "d_k"),
            where=lambda setting: is_plain(setting) and at_blur(setting),
        ),
        # The margin is half the distance to growth like sqrt(D).
        Claim(
            "S2",
            "The best number of heads grows linearly in D.",
            *("mse", 1.0, 0.25, "heads_in_budget", ("dim", "d_k")),
            where=lambda setting: is_plain(setting) and setting["n_obs"] in SIZES[48],
        ),
        Claim(
            "S3",
            "At this n, overlap and bandwidth many heads of d_k = 2 beat two of d_k = D/2.",
            *("mse", 0.0, 0.0, "ends", "d_k"),
            where=is_fair_pair,
        ),
    ),
    curves=(
        Curve("best_dimension", "mse", "best_level", over="d_k"),
        Curve("share_best", "mse", "best_share", over="d_k"),
        Curve("fitted_to", "mse", "fitted_to", over=ALONG),
        *(
            Curve(f"{kind}_{name}", "mse", f"{kind}_{name}", over=ALONG)
            for name in FITTED
            for kind in ("law", "miss", "regret")
        ),
    ),
    figures=(
        Figure("best_dimension", f"{PAGES}:best_dimension", {**BEST, **TEXTS}),
        Figure("grid", "nwsim.report.budgets:grid", {"where": ONE_N, **TEXTS}),
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
