"""How well attention approximates a function, against the number of keys.

Aims
    Are there, for a continuous function on a compact set, parameters with which attention
    approximates it, as printed (claim A1_printed)? Parameters are found here for raw dot
    products, whose values are free. With values f(k_j) at the keys, does the error fall like the
    spacing of keys: of a Gaussian kernel (A1_gaussian), of dot products of inputs that are
    lifted to one length (A1_lifted), of raw dot products (A1_dot_fixed), or do the last stall
    (A1_dot_stalls)? Is continuity needed (A1_discontinuous)?

Data-generating mechanisms
    No noise: f is a sum of six long waves on [-1, 1]^d, d = 1 or 2, a new one in every
    replicate and the same for all numbers of keys; or the same with a jump of 2 across a random
    line (``jump``). Keys are the points of a regular grid that holds the boundary.

Estimands
    The largest error |attention - f| over [-1, 1]^d, as a part of half the range of f, which
    the best constant leaves; with a jump also as a part of half the jump. The largest value
    that free values take, likewise.

Methods of estimation
    Weights: ``gaussian``, a kernel of bandwidth h; ``dot``, softmax of <q, k> / h^2; ``lifted``,
    the same of (x, sqrt(2 d - |x|^2)), which all have length sqrt(2 d). Values: ``fixed``,
    f at the keys; ``free``, by least squares on a grid of points of its own, singular values
    below 1e-8 of the largest cut. h is chosen from a list as the one with the least
    largest error over random points, a part of which lie on the boundary, and scored on
    another grid.

Performance measures
    Averages over functions with their Monte Carlo standard errors. Slopes are taken function by
    function. What is claimed of every function (A1_printed, A1_discontinuous) is judged by the
    worst one. The largest error over a grid is a lower bound of the supremum; with a jump the
    points on its two sides are added.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nwsim.attention.weights import attention_weights, gaussian_weights
from nwsim.dgp import make_world
from nwsim.study import Claim, Contrast, Curve, Figure, Grid, Measure, Method, Profile, Study

FORMS = ("gaussian", "lifted", "dot")
SIZES = {1: (8, 16, 32, 64, 128, 256), 2: (16, 64, 256, 1024)}  # numbers of keys by dimension
TAIL = 3  # of them, the largest, for slopes
LARGEST_FREE = 256  # keys with free values: a fit costs their square
JUMP = 2.0
CUT = 1e-8  # of singular values: below, rounding would decide the values
BESIDE = 1e-12  # distance of points from the jump: far below any bandwidth
# Points a coordinate, by dimension. Their gaps, a prime number, share no place with each other
# or with keys but the ends.
FITTED, SCORED = {1: 402, 2: 38}, {1: 3002, 2: 60}
CHOSEN_ON = {1: 600, 2: 1200}


class Target(NamedTuple):
    """The function of a replicate; ``normal`` and ``place`` say where it jumps."""

    smooth: Any
    jump: float
    normal: np.ndarray
    place: np.ndarray

    def __call__(self, points):
        """Return f (m,) at points (m, d)."""
        above = (points - self.place) @ self.normal > 0.0
        return self.smooth(points) + self.jump * above


def grid(size, dim):
    """Return a regular grid (size^dim, dim) of the cube that has its boundary."""
    axes = np.meshgrid(*[np.linspace(-1.0, 1.0, size)] * dim, indexing="ij")
    return np.stack(axes, axis=-1).reshape(-1, dim)


def per_axis(condition):
    """Return the number of keys along each axis."""
    return round(condition["n_keys"] ** (1.0 / condition["dim"]))


def spacing(condition):
    """Return the distance of neighbouring keys."""
    return 2.0 / (per_axis(condition) - 1)


def draw(condition, rng):
    """Draw a function and where it jumps."""
    dim = condition["dim"]
    function_rng, place_rng, normal_rng = rng.spawn(3)
    smooth = make_world("analytic", dim=dim, lowest=0.25, highest=0.75).draw(function_rng)
    normal = normal_rng.standard_normal(dim)
    jump = JUMP if condition["target"] == "jump" else 0.0
    place = place_rng.uniform(-0.5, 0.5, dim)
    return Target(smooth, jump, normal / np.linalg.norm(normal), place)


def lift(points):
    """Return points (m, d + 1) on a sphere above those (m, d) of the cube."""
    dim = points.shape[1]
    height = np.sqrt(2.0 * dim - (points**2).sum(axis=1, keepdims=True))
    return np.hstack([points, height])


def weights(form, queries, keys, bandwidth):
    """Return the weights (m, n) of a form of attention; temperature is the squared bandwidth."""
    if form == "gaussian":
        return gaussian_weights(queries, keys, bandwidth)
    if form == "lifted":
        return attention_weights(lift(queries), lift(keys), bandwidth**2)
    return attention_weights(queries, keys, bandwidth**2)


def bandwidths(condition, form, values):
    """Return the list that the bandwidth is chosen from.

    Local forms need a multiple of the spacing of keys, a larger one where free values can undo
    the smoothing. Raw dot products have no scale of distance, only one of scores.
    """
    if form == "dot":
        return 2.0 ** np.arange(-4.0, 2.1, 1.0)
    steps = np.arange(-2.0, 1.1, 0.5) if values == "fixed" else np.arange(-1.0, 4.1, 1.0)
    return spacing(condition) * 2.0**steps


def points_to_choose_on(condition, rng):
    """Draw points of the cube; one in ten coordinates lies on the boundary."""
    wide = rng.uniform(-1.1, 1.1, (CHOSEN_ON[condition["dim"]], condition["dim"]))
    return np.clip(wide, -1.0, 1.0)


def points_to_score(condition, target):
    """Return a fine grid, and the points on both sides of the jump."""
    fine = grid(SCORED[condition["dim"]], condition["dim"])
    if not target.jump:
        return fine
    return np.vstack([fine, target.place + BESIDE * np.outer([-1.0, 1.0], target.normal)])


def approximate(condition, target, rng, form, values):
    """Choose the bandwidth, and values if they are free; return the largest error."""
    dim = condition["dim"]
    keys = grid(per_axis(condition), dim)
    fitted, chosen_on = grid(FITTED[dim], dim), points_to_choose_on(condition, rng)
    truth, best = target(chosen_on), (math.inf, math.nan, keys)
    for bandwidth in bandwidths(condition, form, values):
        if values == "fixed":
            own = target(keys)
        else:
            basis = weights(form, fitted, keys, bandwidth)
            own = np.linalg.lstsq(basis, target(fitted), rcond=CUT)[0]
        worst = np.abs(weights(form, chosen_on, keys, bandwidth) @ own - truth).max()
        if worst < best[0]:
            best = worst, bandwidth, own
    _, bandwidth, own = best
    scored = points_to_score(condition, target)
    wanted = target(scored)
    # By blocks: queries by keys are many, and the weights of each are used once.
    blocks = np.array_split(scored, math.ceil(len(scored) * len(keys) / 2**20))
    got = np.concatenate([weights(form, block, keys, bandwidth) @ own for block in blocks])
    error, half_range = np.abs(got - wanted).max(), 0.5 * np.ptp(wanted)
    sup_error = error / half_range
    row = {"sup_error": sup_error, "log_error": math.log(sup_error), "bandwidth": bandwidth}
    if values == "free":
        row["largest_value"] = math.log10(np.abs(own).max() / half_range)
    if target.jump:
        row["jump_error"] = error / (0.5 * JUMP)
        row["short_of_half"] = 1.0 - row["jump_error"]
    return row


def has_free(condition):
    """Select the numbers of keys at which values are fitted."""
    return condition["n_keys"] <= LARGEST_FREE


def has_jump(condition):
    """Select functions that jump."""
    return condition["target"] == "jump"


def is_smooth(condition):
    """Select functions that do not jump."""
    return not has_jump(condition)


def has_most_free(condition):
    """Select the most keys at which values are fitted, for functions that do not jump."""
    return is_smooth(condition) and condition["n_keys"] == LARGEST_FREE


def slope(setting):
    """Return the log-log slope of the spacing of keys in their number, over the largest.

    A grid with its boundary has the spacing 2/(m - 1) for m keys an axis: the slope is a little
    steeper than -1/dim.
    """
    sizes = SIZES[setting["dim"]][-TAIL:]
    gaps = [spacing({**setting, "n_keys": size}) for size in sizes]
    return float(np.polyfit(np.log(sizes), np.log(gaps), 1)[0])


def margin(setting):
    """Return a margin far below half the distance to 0, the slope of an error that stalls."""
    return 0.2 / setting["dim"]


METHODS = tuple(f"{form}_{values}" for values in ("fixed", "free") for form in FORMS)
FREE = METHODS[3:]
PAGES = "nwsim.report.approximation"
LABELS = {
    "gaussian_fixed": "Gaussian, values f(k)",
    "lifted_fixed": "lifted dot products, values f(k)",
    "dot_fixed": "dot products, values f(k)",
    "gaussian_free": "Gaussian, free values",
    "lifted_free": "lifted dot products, free values",
    "dot_free": "dot products, free values",
    "n_keys": "number of keys $n$",
    "smooth": "no jump",
    "jump": "jump",
}

STUDY = Study(
    name="approximation",
    label="Approximation by attention",
    seed=20261209,
    factors=tuple(
        Grid({"target": ("smooth", "jump"), "dim": (dim,), "n_keys": sizes})
        for dim, sizes in SIZES.items()
    ),
    shared_streams=("target", "n_keys"),
    draw=draw,
    methods=tuple(
        Method(
            f"{form}_{values}",
            partial(approximate, form=form, values=values),
            where=has_free if values == "free" else None,
        )
        for values in ("fixed", "free")
        for form in FORMS
    ),
    measures=(
        Measure("sup_error", "largest error over half the range of f"),
        Measure("log_error", "log of the largest error over half the range of f"),
        Measure("bandwidth", "chosen bandwidth"),
        Measure("largest_value", "log10 of the largest value over half the range", methods=FREE),
        Measure("jump_error", "largest error over half the jump", where=has_jump),
        Measure("short_of_half", "what the largest error lacks to half the jump", where=has_jump),
    ),
    claims=(
        Claim(
            "A1_printed",
            "For every continuous f drawn there are parameters of softmax attention, found with "
            "256 keys and free values, whose largest error is at most a thousandth of half the "
            "range.",
            "sup_error",
            theory=0.001,
            margin=0.0,
            rule="never_above",
            where=has_most_free,
            method="dot_free",
        ),
        *(
            Claim(
                name,
                f"With values f(k), the largest error of {what} falls at least as fast as the "
                "spacing of keys.",
                "log_error",
                theory=slope,
                margin=margin,
                rule="falls_in_logs",
                over="n_keys",
                tail=TAIL,
                where=is_smooth,
                method=method,
            )
            for name, method, what in (
                ("A1_gaussian", "gaussian_fixed", "Gaussian weights"),
                ("A1_lifted", "lifted_fixed", "dot products of lifted inputs"),
                ("A1_dot_fixed", "dot_fixed", "raw dot products"),
            )
        ),
        Claim(
            "A1_dot_stalls",
            "With values f(k) and the best temperature at each number of keys, the mean of raw dot "
            "products' largest error falls by less than a fifth while the spacing of keys falls to "
            "a fourth or less.",
            "sup_error",
            theory=0.0,
            margin=0.2,  # of log(first / last); local forms gain some log 4
            rule="ends",
            over="n_keys",
            tail=TAIL,
            where=is_smooth,
            method="dot_fixed",
        ),
        Claim(
            "A1_discontinuous",
            "At every jump the largest error is at least half the jump.",
            "short_of_half",
            theory=0.0,
            margin=0.001,  # attention may move between the points on both sides of the jump
            rule="never_above",
            over="n_keys",
        ),
    ),
    curves=(Curve("slope", "sup_error", "log_log_slope", "n_keys", tail=TAIL),),
    contrasts=(
        Contrast("dot_to_gaussian", "sup_error", "method", "dot_fixed", "gaussian_fixed", "ratio"),
        Contrast("lifted_to_dot", "sup_error", "method", "lifted_fixed", "dot_fixed", "ratio"),
    ),
    figures=(
        Figure(
            "error",
            f"{PAGES}:lines",
            {"measure": "sup_error", "where": {"target": "smooth"}, "labels": LABELS}
            | {"claims": ("A1_gaussian", "A1_lifted"), "judged": "log_error"},
        ),
        Figure(
            "values",
            f"{PAGES}:lines",
            {"measure": "largest_value", "where": {"target": "smooth"}, "labels": LABELS}
            | {"log": False},
        ),
        Figure(
            "jump",
            f"{PAGES}:lines",
            {"measure": "jump_error", "where": {"target": "jump"}, "labels": LABELS}
            | {"log": False, "level": 1.0},
        ),
    ),
    profiles={
        "quick": Profile(
            2,
            keep=lambda condition: condition["dim"] == 1 or condition["n_keys"] <= 64,
            rule="enough to fill every table",
        ),
        "standard": Profile(50, rule="standard error of the slopes of A1_gaussian below 0.03"),
        "full": Profile(500, rule="the same below 0.01"),
    },
)
