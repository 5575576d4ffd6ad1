"""Weights of heads: uniform against geometric, Fibonacci, inverse-error and optimal ones.

Aims
    With heads ordered by quality, do geometric or Fibonacci weights make the error fall faster
    in the number of heads than uniform weights, as printed (claim W1)? Are uniform weights the
    best for heads that cannot be told apart (W1_exchangeable), and do fixed ratios stop at a
    floor (W1_floor)? How different must heads be for structured weights to win?

Data-generating mechanisms
    X ~ N(0, I_65), noise N(0, 1). The function is a Matérn field of the first coordinate, the
    signal. Head k smooths on two coordinates, a view of the signal and a private one, with
    bandwidth h = 0.8 n^(-1/6). Private coordinates are its own, so at spread 0 the heads have one
    joint law under any permutation, given the function: they are exactly exchangeable. Each
    head has a rank r_k, uniform on (0, 1) and spread evenly over any first H heads. At spread
    c > 0 the ranks make heads differ: in ``signal`` head k sees cos(t) signal + sin(t) other,
    t = c r_k pi/2, with another private coordinate, so that at c = 1 heads go from perfect to
    useless; in ``bandwidth`` all see the signal, with h 16^(c (r_k - 1/2)). Heads are nested.

Estimands
    Mean squared error of the ensemble and its parts, weight: the density of X, and queries
    redrawn in every replicate. The floor2 part of bias2, which no n removes, is that of
    E[f | what a head sees]; it is 0 in ``bandwidth`` and at spread 0.

Methods of estimation
    Order of heads, inverse errors and optima are chosen on two designs and queries of their
    own, on exact moments; ``stacking`` on noisy responses at those queries, with heads fitted
    to noisy responses. All are scored on two other designs. ``oracle`` is chosen on the very
    moments that score it: a lower bound for any weights, flattered by its choice.
    ``unordered`` has geometric weights, ratio 0.7, without the order.

Performance measures
    Averages over replicates, one function each. Contrasts are ratios of averages. ``log_ratio``
    is the average over functions of the log of the ratio to uniform weights, by which slopes
    along H and crossings along spread are judged: paired, since levels of n_heads and spread
    share their numbers. ``private_share`` is the part left of what exchangeable heads do not
    share.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nwsim.dgp import Mechanism, make_design, make_noise, make_world, projected_errors
from nwsim.heads import (
    FIBONACCI_FLOOR,
    error_moments,
    fibonacci_weights,
    geometric_floor,
    geometric_weights,
    inverse_variance_weights,
    optimal_weights,
    order_weights,
    stacking_weights,
    uniform_weights,
)
from nwsim.inference import design_moments
from nwsim.smoothing import MultiHeadNadarayaWatson
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

N_DESIGNS, N_QUERIES = 2, 96
LARGEST = 32
DIM = 1 + 2 * LARGEST  # the signal, and two private coordinates a head
GOLDEN = (5.0**0.5 - 1.0) / 2.0
BASE = 0.8  # with n^(-1/6) near the best bandwidth of one head, a little narrow: it is averaged
SPAN = 16.0  # widest over narrowest bandwidth at spread 1
PROFILED = 8  # the number of heads at which single weights are kept

MECHANISM = Mechanism(
    make_world(
        "single_index",
        alpha=2.5,
        dim=DIM,
        direction=(1.0, *(0.0,) * (DIM - 1)),
        inner="matern",
        inner_options={"length_scale": 1.0},
    ),
    make_design("gaussian", dim=DIM),
    make_noise("gaussian", scale=1.0),
)


class Moments(NamedTuple):
    """Second moments of the errors of heads, averaged over designs and queries."""

    total: np.ndarray  # (H, H): a'Ma is the mean squared error
    covariance: np.ndarray  # (H, H): its part that is no bias


class Heads(NamedTuple):
    """What methods choose weights on, and what scores them."""

    chosen_on: Moments
    predictions: np.ndarray  # (m, H) at the queries to choose on, from noisy responses
    responses: np.ndarray  # (m,) noisy, there
    scored_on: Moments
    floor: np.ndarray  # (H, H) second moments of E[f | what a head sees] - f


def frames_and_bandwidths(condition, ranks):
    """Return the frames (H, DIM, 2) and bandwidths (H,) of heads with these ranks."""
    n_heads, spread = condition["n_heads"], condition["spread"]
    base = BASE * condition["n_obs"] ** (-1.0 / 6.0)
    turned = condition["quality"] == "signal"
    angles = 0.5 * np.pi * spread * ranks if turned else np.zeros(n_heads)
    frames = np.zeros((n_heads, DIM, 2))
    head = np.arange(n_heads)
    frames[:, 0, 0] = np.cos(angles)
    frames[head, 1 + 2 * head, 0] = np.sin(angles)
    frames[head, 2 + 2 * head, 1] = 1.0
    factors = np.ones(n_heads) if turned else SPAN ** (spread * (ranks - 0.5))
    return frames, base * factors


def fit(condition, ranks, X, y):
    """Fit the heads; no window of a Gaussian kernel is empty."""
    frames, bandwidths = frames_and_bandwidths(condition, ranks)
    return MultiHeadNadarayaWatson(frames, bandwidths, empty_window="raise").fit(X, y)


def smooth(condition, ranks, samples, queries, truth):
    """Return the exact moments of the heads over these designs and queries.

    The bias part, total minus covariance, is the corrected one of ``decompose``, to which
    quadratic forms of both are equal.
    """
    found = design_moments(partial(fit, condition, ranks), samples, queries, truth)
    biases = np.stack([one.bias for one in found])
    noises = np.stack([one.noise_covariance for one in found])
    centred = (biases - biases.mean(axis=0)).reshape(-1, biases.shape[2])
    covariance = centred.T @ centred / ((len(biases) - 1) * biases.shape[1])
    return Moments(error_moments(biases, noises), covariance + noises.mean(axis=(0, 1)))


def floor_moments(condition, ranks, data):
    """Return the second moments (H, H) of what heads can never know."""
    frames, _ = frames_and_bandwidths(condition, ranks)
    if not is_floored(condition):
        return np.zeros((len(frames), len(frames)))
    return error_moments(projected_errors(data.function, frames, np.eye(DIM), data.queries))


def draw(condition, rng):
    """Draw a function, designs to choose on and to score on, and smooth with all heads.

    Streams are the same for any number of heads: the first ones see the same numbers.
    """
    n_obs = condition["n_obs"]
    scoring, choosing, noise_rng, rank_rng = rng.spawn(4)
    ranks = (rank_rng.random() + GOLDEN * np.arange(condition["n_heads"])) % 1.0
    data = MECHANISM.draw(scoring, n_obs, N_DESIGNS, N_QUERIES, region=None)
    query_rng, *design_rngs = choosing.spawn(1 + N_DESIGNS)
    samples = MECHANISM.draw_samples(data.function, design_rngs, n_obs)
    queries = MECHANISM.draw_queries(query_rng, N_QUERIES, None)
    truth = data.function(queries)
    noise = data.noise
    noisy = samples[0].f + noise.draw(noise_rng, samples[0].X)
    return Heads(
        chosen_on=smooth(condition, ranks, samples, queries, truth),
        predictions=fit(condition, ranks, samples[0].X, noisy).predict_heads(queries),
        responses=truth + noise.draw(noise_rng, queries),
        scored_on=smooth(condition, ranks, data.samples, data.queries, data.truth),
        floor=floor_moments(condition, ranks, data),
    )


def errors_of(heads):
    """Return the error (H,) of each head on the designs to choose on."""
    return np.diag(heads.chosen_on.total)


def ordered(profile, heads):
    """Hand a profile of weights out, the largest to the best head of the designs to choose on."""
    return order_weights(profile(len(errors_of(heads))), errors_of(heads))


RHO = {"geometric_50": 0.5, "geometric_70": 0.7, "geometric_90": 0.9}
PROFILES: dict[str, Any] = {name: partial(geometric_weights, rho=rho) for name, rho in RHO.items()}
PROFILES["fibonacci"] = fibonacci_weights
FLOORS = {name: geometric_floor(rho) for name, rho in RHO.items()}
FLOORS["fibonacci"] = FIBONACCI_FLOOR
# What turns the heads into weights (H,), by method; figures give looks in this order.
CHOICES: dict[str, Any] = {
    "uniform": lambda heads: uniform_weights(len(heads.floor)),
    **{name: partial(ordered, profile) for name, profile in PROFILES.items()},
    "optimal_nonnegative": lambda heads: optimal_weights(heads.chosen_on.total).weights,
    "stacking": lambda heads: stacking_weights(heads.predictions, heads.responses),
    "unordered": lambda heads: geometric_weights(len(heads.floor), 0.7),
    "optimal_free": lambda heads: optimal_weights(heads.chosen_on.total, nonnegative=False).weights,
    "inverse_variance": lambda heads: inverse_variance_weights(np.diag(heads.chosen_on.covariance)),
    "best_head": lambda heads: np.eye(len(heads.floor))[errors_of(heads).argmin()],
    "inverse_mse": lambda heads: inverse_variance_weights(errors_of(heads)),
    "oracle": lambda heads: optimal_weights(heads.scored_on.total, nonnegative=False).weights,
}
COMPARED = ("uniform", *PROFILES, "optimal_nonnegative")  # shown in full
OTHERS = tuple(name for name in CHOICES if name not in ("uniform", "oracle"))


def score(condition, heads, rng, method):
    """Choose weights and return the error of the ensemble with its parts."""
    weights = CHOICES[method](heads)
    total, covariance = heads.scored_on
    mse = float(weights @ total @ weights)
    row = {"mse": mse}
    if method != "uniform":
        row["log_ratio"] = float(np.log(mse / total.mean()))
    if has_many(condition):
        row["sum_of_squares"] = float(weights @ weights)
    if method in COMPARED:
        whole = float(weights @ covariance @ weights)
        variance = float(weights**2 @ np.diag(covariance))
        row.update(bias2=mse - whole, variance=variance, head_covariance=whole - variance)
        if is_floored(condition):
            row["floor2"] = float(weights @ heads.floor @ weights)
        if condition["n_heads"] == PROFILED:
            by_rank = weights[np.argsort(errors_of(heads), kind="stable")]
            row.update({f"weight_{k + 1}": float(a) for k, a in enumerate(by_rank)})
        if is_exchangeable(condition):
            shared, private = shared_and_private(total)
            row["private_share"] = (mse - shared) / private
            if method == "uniform":
                row.update(shared_error=shared, private_error=private)
    return row


def shared_and_private(total):
    """Split the error of exchangeable heads: that of infinitely many, and what each adds.

    Averaged over permutations of heads a'Ma is shared + private sum a^2, so the mean of
    (a'Ma - shared) / private is exactly sum a^2 unless the scoring designs hand out weights.
    """
    n_heads = len(total)
    own = float(np.trace(total)) / n_heads
    shared = (float(total.sum()) - n_heads * own) / (n_heads * (n_heads - 1))
    return shared, own - shared


def is_exchangeable(condition):
    """Say whether heads cannot be told apart."""
    return condition["spread"] == 0.0


def is_floored(condition):
    """Say whether some heads see less than the signal, and the floor of that is kept."""
    return condition["quality"] == "signal" and condition["spread"] > 0.0 and has_many(condition)


def once(setting):
    """Choose each setting once: with no spread both kinds of quality are one."""
    return setting["quality"] == "signal" or not is_exchangeable(setting)


def once_exchangeable(setting):
    """Choose heads that cannot be told apart, once."""
    return is_exchangeable(setting) and once(setting)


def ratio(name, method, baseline, where=None):
    """Return a contrast of two methods: the ratio of their errors."""
    return Contrast(name, "mse", "method", method, baseline, "ratio", where)


def has_many(setting):
    """Choose the numbers of heads at which errors themselves are judged."""
    return setting["n_heads"] in (PROFILED, LARGEST)


def judged(setting):
    """Choose where errors themselves are judged, once each."""
    return has_many(setting) and once(setting)


PAGES = "nwsim.report.weights"
REGRET = ("uniform", "geometric_70", "optimal_nonnegative", "optimal_free", "stacking", "best_head")
SHOWN: dict[str, Any] = {"n_obs": 1024, "spread": (0.0, 0.25, 1.0)}
FASTER = (
    "With heads ordered by quality, geometric or Fibonacci weights make the error fall faster in "
    "H than uniform weights: the log of their ratio falls in log H."
)
LESS = "Heads ordered by quality have less error under geometric or Fibonacci weights than uniform."
BEST = "For heads that cannot be told apart no weights beat uniform ones by a hundredth."
FLOOR = (
    "Fixed ratios stop at a floor: of the error that exchangeable heads do not share, "
    "(1-rho)/(1+rho) stays, and sqrt(5) - 2 for Fibonacci weights."
)

STUDY = Study(
    name="weighting",
    label="Weights of heads that differ in quality",
    seed=20261205,
    factors=(
        Grid(
            {
                "quality": ("signal", "bandwidth"),
                "spread": (0.0, 0.0625, 0.125, 0.25, 0.5, 1.0),
                "n_obs": (256, 1024),
                "n_heads": (2, 4, 8, 16, 32),
            }
        ),
    ),
    shared_streams=("quality", "spread", "n_heads"),
    draw=draw,
    methods=tuple(Method(name, partial(score, method=name)) for name in CHOICES),
    measures=(
        Measure("mse", "integrated mean squared error", unit="y²"),
        *(
            Measure(name, label, unit="y²", methods=COMPARED)
            for name, label in (
                ("bias2", "integrated squared bias"),
                ("variance", "sum of weighted variances of heads"),
                ("head_covariance", "covariance between heads"),
            )
        ),
        Measure(
            "floor2",
            "squared bias that no sample removes",
            "y²",
            where=is_floored,
            methods=COMPARED,
        ),
        Measure("sum_of_squares", "sum of squared weights", where=has_many),
        Measure(
            "log_ratio",
            "log of the error over that of uniform weights",
            methods=tuple(name for name in CHOICES if name != "uniform"),
        ),
        Measure(
            "private_share",
            "share of the private error that is left",
            where=is_exchangeable,
            methods=COMPARED,
        ),
        *(
            Measure(name, label, unit="y²", where=is_exchangeable, methods=("uniform",))
            for name, label in (
                ("shared_error", "error of infinitely many heads"),
                ("private_error", "error that a head does not share"),
            )
        ),
        *(
            Measure(
                f"weight_{k}",
                f"weight of the head of rank {k}",
                where=lambda condition: condition["n_heads"] == PROFILED,
                methods=COMPARED,
            )
            for k in range(1, PROFILED + 1)
        ),
    ),
    claims=(
        *(
            Claim("W1", FASTER, "log_ratio", 0.0, 0.0, "falls_in_logs", "n_heads", None, once, name)
            for name in PROFILES
        ),
        *(
            Claim("W1_error", LESS, f"to_uniform_{name}", 1.0, 0.0, "not_above", where=judged)
            for name in PROFILES
        ),
        *(
            Claim("W1_exchangeable", BEST, f"exchangeable_{name}", 1.0, 0.01, "not_above")
            for name in OTHERS
        ),
        *(
            Claim(
                "W1_floor",
                FLOOR,
                "private_share",
                theory=floor,
                margin=0.2 * floor,  # below half the distance to the 1/32 of uniform weights
                rule="equivalence",
                where=lambda setting: setting["n_heads"] == LARGEST and once(setting),
                method=name,
            )
            for name, floor in FLOORS.items()
        ),
    ),
    curves=(
        Curve(
            "crossing",
            "log_ratio",
            "crossing",
            "spread",
            # Two Fibonacci weights are equal: there is no ratio that could cross 1.
            where=lambda setting: setting["method"] in PROFILES and setting["n_heads"] > 2,
        ),
        Curve("decay", "mse", "log_log_slope", "n_heads", lambda at: at["method"] in COMPARED),
    ),
    contrasts=(
        *(ratio(f"to_uniform_{name}", name, "uniform") for name in COMPARED[1:]),
        *(ratio(f"regret_{name}", name, "oracle") for name in ("uniform", *OTHERS)),
        *(ratio(f"exchangeable_{name}", "uniform", name, once_exchangeable) for name in OTHERS),
        ratio("order", "geometric_70", "unordered"),
    ),
    figures=(
        Figure("profiles", f"{PAGES}:profiles", {"where": SHOWN, "methods": COMPARED}),
        Figure("errors", f"{PAGES}:errors", {"where": SHOWN, "methods": COMPARED}),
        Figure("regret", f"{PAGES}:ratios", {"where": SHOWN, "methods": REGRET}),
        Figure(
            "crossing",
            f"{PAGES}:crossings",
            {"where": {"n_obs": 1024, "n_heads": (PROFILED, LARGEST)}, "methods": COMPARED[1:]},
        ),
    ),
    profiles={
        "quick": Profile(
            4,
            keep=lambda condition: (
                condition["n_obs"] == SHOWN["n_obs"]
                and condition["spread"] in SHOWN["spread"]
                and condition["n_heads"] in (2, PROFILED, *((LARGEST,) * (not condition["spread"])))
            ),
            rule="enough to fill every table",
        ),
        "standard": Profile(80, rule="standard error of the slopes of W1 below 0.025"),
        "full": Profile(1000, rule="the same below 0.008"),
    },
)
