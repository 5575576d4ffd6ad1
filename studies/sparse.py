"""Attention that keeps the k largest weights of each query.

Aims
    Does the output move by at most the dropped mass times the diameter of the values, in every
    query (claim K1_bound)? How many keys must be kept to lose less than 1% of the error: a fixed
    number, such as 32, the default argument of the printed code (K1_fixed; nothing printed
    says that it is enough), or as many as lie in the kernel's window (K1_window, K1_needed)?
    Can fewer keys be better (K1_gain)? Are the largest dot products the largest kernel values,
    as the printed code takes them to be (K1_ranking), and what does it cost where they are not
    (K1_ranking_cost)?

Data-generating mechanisms
    Keys are uniform on the circle or the sphere in R^2 or R^3, all of one length; on the
    interval [-1, 1] or the square [-1, 1]^2, with queries in the inner half; or in a shell
    about the sphere, directions uniform and lengths uniform on [0.8, 1.2]. Values are a sum of
    six long waves at the key plus N(0, 1). Queries are drawn anew in every replicate.

Estimands
    Mean squared error of attention with Gaussian weights over all keys (``dense``) or over the
    k largest of each query, averaged over queries; the number of keys that is needed, the
    least k from which on all larger ones lose at most 1% of the dense error of this function;
    how far outputs move, and the bound.

Methods of estimation
    Bandwidth h = width c n^(-1/(4 + d)), d the dimension of the keys' set; at width 1 it is near
    the best one, at 0.5 variance rules and at 2 squared bias. ``keep_…``: that many keys.
    ``window``: as many as lie on average within the radius that holds 99.75% of the mass of
    the kernel. ``best``: the k with the least error for this function on keys and queries of
    its own. ``dot_32``: 32 keys with the largest dot products, weighted by the kernel.

Performance measures
    Exact moments given the keys, over two sets of keys a replicate; averages over replicates
    with their Monte Carlo standard errors. Losses are ratios of averages, paired by replicate.
    The bound is tested on noisy values. It and the ranking are claimed of every query: the
    largest value over queries and replicates decides, not an average.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from nwsim.attention.sparse import top_k_attention, top_k_mask
from nwsim.attention.weights import gaussian_weights
from nwsim.dgp import make_world
from nwsim.inference import decompose
from nwsim.study import Claim, Contrast, Curve, Figure, Grid, Measure, Method, Profile, Study

N_SETS, N_QUERIES = 2, 48
PRINTED = 32
KEPT = (2, 4, 8, 16, 32, 64, 128, 256, 512)
LOSS = 0.01
# Keys outside the window hold this part of the kernel's mass. Where variance rules, dropping a
# part T of the mass raises it by 1/(1 - T)^2 - 1, here half of the 1% that may be lost.
OUTSIDE = 0.0025
BOUND_SIZE = 1024  # where the bound is tested, and keys are ranked by dot products
LARGEST = 16384  # for the growth of the number of keys that is needed


class Keys(NamedTuple):
    """A set that keys lie in."""

    ambient: int
    dim: int  # of the set itself
    constant: float  # of the bandwidth: near the best at width 1
    density: float  # of uniform keys, where queries are


SETS = {
    "interval": Keys(1, 1, 0.3, 1.0 / 2.0),
    "circle": Keys(2, 1, 0.45, 1.0 / (2.0 * math.pi)),
    "square": Keys(2, 2, 0.4, 1.0 / 4.0),
    "sphere": Keys(3, 2, 0.5, 1.0 / (4.0 * math.pi)),
    "shell": Keys(3, 3, 0.5, math.nan),
}


class Moments(NamedTuple):
    """Moments of attention with k keys given the keys: column k - 1 of arrays (sets, m, n)."""

    truth: np.ndarray  # (m,)
    mean: np.ndarray
    noise: np.ndarray


class Data(NamedTuple):
    """What the methods of a replicate share."""

    function: Any
    queries: np.ndarray  # (m, ambient)
    keys: np.ndarray  # (sets, n, ambient)
    noise: np.ndarray  # (n,) of the values of the first set
    moments: Moments


def draw_points(name, rng, size, inner=1.0):
    """Draw points (size, ambient) of a set; ``inner`` shrinks one with a boundary."""
    ambient = SETS[name].ambient
    if name in ("interval", "square"):
        return rng.uniform(-inner, inner, (size, ambient))
    points = rng.standard_normal((size, ambient))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    if name == "shell":
        points *= rng.uniform(1.0 - 0.2 * inner, 1.0 + 0.2 * inner, (size, 1))
    return points


def bandwidth(condition):
    """Return the bandwidth, the temperature's root."""
    own = SETS[condition["keys"]]
    return condition["width"] * own.constant * condition["n_obs"] ** (-1.0 / (4.0 + own.dim))


def window_count(condition):
    """Return how many keys lie on average in the window around a query, at least one."""
    own = SETS[condition["keys"]]
    radius = math.sqrt(chi2.isf(OUTSIDE, own.dim)) * bandwidth(condition)
    volume = {1: 2.0, 2: math.pi}[own.dim] * radius**own.dim
    return min(condition["n_obs"], math.ceil(condition["n_obs"] * own.density * volume))


def moments(condition, function, queries, key_sets):
    """Return the moments for every number of kept keys at once.

    With weights in falling order, sums over the k largest are cumulative sums.
    """
    means, noises = [], []
    for keys in key_sets:
        dense = gaussian_weights(queries, keys, bandwidth(condition))
        order = np.argsort(-dense, axis=1)
        falling = np.take_along_axis(dense, order, axis=1)
        mass = falling.cumsum(axis=1)
        means.append((falling * function(keys)[order]).cumsum(axis=1) / mass)
        noises.append((falling**2).cumsum(axis=1) / mass**2)
    return Moments(function(queries), np.array(means), np.array(noises))


def errors(found):
    """Return the mean squared error (n,) for 1, …, n kept keys."""
    squared = (found.mean - found.truth[:, np.newaxis]) ** 2 + found.noise
    return squared.mean(axis=(0, 1))


def draw(condition, rng):
    """Draw a function, queries, sets of keys and noise, and all moments."""
    name, n_obs = condition["keys"], condition["n_obs"]
    world = make_world("analytic", dim=SETS[name].ambient, lowest=0.25, highest=0.75)
    function_rng, query_rng, key_rng, noise_rng = rng.spawn(4)
    function = world.draw(function_rng)
    queries = draw_points(name, query_rng, N_QUERIES, inner=0.5)
    keys = np.array([draw_points(name, one, n_obs) for one in key_rng.spawn(N_SETS)])
    found = moments(condition, function, queries, keys)
    return Data(function, queries, keys, noise_rng.standard_normal(n_obs), found)


def parts(truth, mean, noise):
    """Return the error and its parts, from moments (sets, m)."""
    d = decompose(mean, truth, noise_covariance=noise)
    return {"mse": d.mse, "bias2": d.bias2, "variance": d.variance}


def with_kept(data, n_keep):
    """Return the error and its parts with this many keys."""
    truth, mean, noise = data.moments
    return parts(truth, mean[:, :, n_keep - 1], noise[:, :, n_keep - 1])


def needed(mse):
    """Return the least number of keys from which on no larger one loses more than 1%."""
    worse = np.flatnonzero(mse > (1.0 + LOSS) * mse[-1])
    return 1 if worse.size == 0 else int(worse[-1]) + 2


def dense(condition, data, rng):
    """Keep all keys."""
    row = with_kept(data, condition["n_obs"])
    return {**row, "needed": needed(errors(data.moments))}


def keep(condition, data, rng, n_keep):
    """Keep a number of keys; on noisy values, see how far outputs move and how far they may."""
    row = with_kept(data, n_keep)
    if not is_bounded(condition):
        return row
    values = (data.function(data.keys[0]) + data.noise)[:, np.newaxis]
    how: dict[str, Any] = {"scores": "gaussian", "bandwidth": bandwidth(condition)}
    few = top_k_attention(data.queries, data.keys[0], values, n_keep, **how)
    whole = gaussian_weights(data.queries, data.keys[0], bandwidth(condition)) @ values
    moved = np.abs(few.output - whole)[:, 0]
    return {
        **row,
        "moved": moved.mean(),
        "bound": few.bound.mean(),
        "excess": (moved - few.bound).max() / np.ptp(values),
    }


def window(condition, data, rng):
    """Keep as many keys as lie in the window."""
    return with_kept(data, window_count(condition))


def best(condition, data, rng):
    """Choose the number of keys on keys and queries of its own."""
    name, n_obs = condition["keys"], condition["n_obs"]
    queries = draw_points(name, rng, N_QUERIES, inner=0.5)
    keys = [draw_points(name, rng, n_obs) for _ in range(N_SETS)]
    chosen = int(errors(moments(condition, data.function, queries, keys)).argmin()) + 1
    return {**with_kept(data, chosen), "chosen": chosen}


def ranked_by_dot(condition, data, rng):
    """Keep the keys with the largest dot products, and weigh them by the kernel."""
    means, noises, differ, common = [], [], [], []
    for keys in data.keys:
        kept = top_k_mask(data.queries @ keys.T, PRINTED)
        nearest = top_k_mask(gaussian_weights(data.queries, keys, bandwidth(condition)), PRINTED)
        weights = gaussian_weights(data.queries, keys, bandwidth(condition), mask=kept)
        means.append(weights @ data.function(keys))
        noises.append((weights**2).sum(axis=1))
        differ.append((kept != nearest).any(axis=1))
        common.append((kept & nearest).sum(axis=1) / PRINTED)
    row = parts(data.moments.truth, np.array(means), np.array(noises))
    return {**row, "differing": np.mean(differ), "common": np.mean(common)}


def is_bounded(condition):
    """Select the size at which the bound is tested and keys are ranked by dot products."""
    return condition["n_obs"] == BOUND_SIZE


def is_searched(condition):
    """Select the sizes at which the best number of keys is looked for."""
    return condition["n_obs"] < LARGEST


def has_window(condition):
    """Select keys whose density is the same everywhere."""
    return condition["keys"] != "shell"


def has_more(condition, n_keep):
    """Select sets of more keys than are kept."""
    return condition["n_obs"] > n_keep


def at_width_1(setting):
    """Select one bandwidth, for what hardly depends on it."""
    return setting["width"] == 1.0


KEEP = tuple(f"keep_{k}" for k in KEPT)
NUMBERED = (*KEEP, "window", "best")
PAGES = "nwsim.report.sparse"
UNIFORM = ("interval", "circle", "square", "sphere")
SHOWN = ("keep_8", "keep_32", "keep_128", "keep_512", "window")
LABELS = {
    "width": "width",
    "n_obs": "number of keys $n$",
    "dense": "all keys",
    "window": "k of the window",
    "best": "best k",
    "dot_32": "32 largest dot products",
} | {f"keep_{k}": f"k = {k}" for k in KEPT}

STUDY = Study(
    name="sparse",
    label="Attention over the largest weights",
    seed=20261206,
    factors=(
        Grid(
            {
                "keys": UNIFORM,
                "n_obs": (256, 1024, 4096),
                "width": (0.5, 1.0, 2.0),
            }
        ),
        Grid({"keys": UNIFORM, "n_obs": (LARGEST,), "width": (0.5, 1.0)}),
        Grid({"keys": ("shell",), "n_obs": (BOUND_SIZE,), "width": (0.5, 1.0, 2.0)}),
    ),
    shared_streams=("width",),
    draw=draw,
    methods=(
        Method("dense", dense),
        *(
            Method(f"keep_{k}", partial(keep, n_keep=k), where=partial(has_more, n_keep=k))
            for k in KEPT
        ),
        Method("window", window, where=has_window),
        Method("best", best, where=is_searched),
        Method("dot_32", ranked_by_dot, where=is_bounded),
    ),
    measures=(
        Measure("mse", "mean squared error", unit="y²"),
        Measure("bias2", "squared bias", unit="y²"),
        Measure("variance", "variance", unit="y²"),
        Measure("needed", "keys for a loss of 1%", methods=("dense",)),
        Measure("chosen", "keys with the least error", methods=("best",)),
        *(
            Measure(name, label, unit, where=is_bounded, methods=KEEP)
            for name, label, unit in (
                ("moved", "distance to dense attention", "y"),
                ("bound", "dropped mass times diameter", "y"),
                ("excess", "largest excess over the bound, as part of the diameter", ""),
            )
        ),
        Measure("differing", "queries whose kept keys differ", methods=("dot_32",)),
        Measure("common", "kept keys in common", methods=("dot_32",)),
    ),
    claims=(
        Claim(
            "K1_bound",
            "No output moves by more than the dropped mass times the diameter of the values.",
            "excess",
            theory=0.0,
            margin=1e-12,  # rounding of some thousand products, relative to the diameter
            rule="never_above",
            over="width",
        ),
        Claim(
            "K1_fixed",
            "A fixed number of keys, here 32, loses at most 1% of the error at any n.",
            "loss_keep_32",
            theory=1.0,
            margin=LOSS,
            rule="not_above",
        ),
        Claim(
            "K1_window",
            "Keeping as many keys as the kernel's window holds loses at most 1% of the error.",
            "loss_window",
            theory=1.0,
            margin=LOSS,
            rule="not_above",
        ),
        Claim(
            "K1_needed",
            "The number of keys needed to lose at most 1% grows like the window's, n h^d.",
            "needed",
            theory=lambda setting: 4.0 / (4.0 + SETS[setting["keys"]].dim),
            # Below half the distance from 4/5 to 1, the slope of a fixed share of the keys; a
            # fixed number of keys would have the slope 0.
            margin=0.08,
            rule="rate",
            tail=3,
            where=has_window,
        ),
        Claim(
            "K1_gain",
            "Whatever the bandwidth, the best number of keys has at least 1% less error than all "
            "keys.",
            "gain",
            theory=1.0 - LOSS,
            margin=0.0,
            rule="not_above",
        ),
        Claim(
            "K1_ranking",
            "In every query the keys with the largest dot products are those with the largest "
            "kernel values.",
            "differing",
            theory=0.0,
            margin=0.0,
            rule="never_above",
            where=at_width_1,
        ),
        Claim(
            "K1_ranking_cost",
            "Keeping the largest dot products costs at most 1% over the largest kernel values.",
            "dot_cost",
            theory=1.0,
            margin=LOSS,
            rule="not_above",
        ),
    ),
    curves=(Curve("local_slope", "needed", "local_slope", "n_obs"),),
    contrasts=(
        *(
            Contrast(f"loss_{name}", "mse", "method", name, "dense", "ratio")
            for name in NUMBERED[:-1]
        ),
        Contrast("gain", "mse", "method", "best", "dense", "ratio"),
        Contrast("dot_cost", "mse", "method", "dot_32", f"keep_{PRINTED}", "ratio"),
    ),
    figures=(
        Figure(
            "by_size",
            "nwsim.report.weights:ratios",
            {"prefix": "loss_", "x": "n_obs", "row": "width", "panel": "keys", "labels": LABELS}
            | {"where": {"keys": UNIFORM}, "methods": SHOWN},
        ),
        Figure(
            "by_number",
            f"{PAGES}:losses",
            {"where": {"n_obs": BOUND_SIZE}, "labels": LABELS},
        ),
        Figure(
            "needed",
            "nwsim.report.rates:risk",
            {"measure": "needed", "line": "width", "panel": "keys", "methods": ("dense",)}
            | {"where": {"keys": UNIFORM}, "claims": ("K1_needed",), "labels": LABELS},
        ),
        Figure(
            "bound",
            f"{PAGES}:bounds",
            {"where": {"n_obs": BOUND_SIZE, "width": 1.0}, "methods": KEEP[:7], "labels": LABELS},
        ),
        Figure(
            "ranking",
            f"{PAGES}:ranking",
            {"where": {"n_obs": BOUND_SIZE, "width": 1.0}, "labels": LABELS},
        ),
    ),
    profiles={
        "quick": Profile(
            3,
            keep=lambda condition: condition["n_obs"] <= BOUND_SIZE,
            rule="enough to fill every table",
        ),
        "standard": Profile(
            lambda condition: 60 if condition["n_obs"] == LARGEST else 100,
            rule="standard error of the slopes of K1_needed below 0.03",
        ),
        "full": Profile(1000, rule="the same below 0.01"),
    },
)
