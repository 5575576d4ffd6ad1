"""What the temperature of attention does: limits, entropy, and the best one.

Aims
    What is left of attention at low and at high temperature (claim E3)? How does the entropy of
    the weights go with it? Is the best temperature of Gaussian weights a squared bandwidth,
    t ~ n^(-2/(2 alpha + d))? Has the error at the best temperature the rate of kernel
    regression, for Gaussian weights and for softmax of dot products?

Data-generating mechanisms
    Without a function (alpha 0): 64 queries and the keys are standard normal (``normal``),
    uniform on the unit sphere (``sphere``), or drawn from points with whole coordinates, queries
    also with half ones, so that several keys may be equally near (``lattice``). With one: keys
    uniform on a flat torus of dimension d in R^(2d), all of one length (``torus``), or on
    [-1/2, 1/2]^d with queries in [-1/4, 1/4]^d (``cube``); f is a lacunary sum, of Hölder
    exponent alpha everywhere; noise is normal, of standard deviation 1 for alpha = 1/2, else 1/2.

Estimands
    Weight on the nearest keys and on those of the largest dot product, and how much of a query's
    weight is elsewhere; entropy, its distance to the log of the number of best keys, its fall
    from a temperature to the next, and its derivative in log t; the log of the temperature of
    least mean squared error, and that error.

Methods of estimation
    ``gaussian``: weights exp(-|q - k|^2 / (2 t)). ``dot``: exp(<q, k> / t). Temperatures are
    levels, or 0: then the one that minimises the exact conditional error of this function on
    other keys and queries than those that score. On the torus both forms are the same weights,
    and only one is computed.

Performance measures
    Averages over replicates with their Monte Carlo standard errors. What is claimed of every
    query is measured on the worst of them, and judged by the worst replicate. The formula for
    the derivative is compared with the complex step, Im H(t exp(i e)) / e, which has no error
    but rounding (Squire and Trapp 1998). Levels of the temperature share keys and queries.
"""

import cmath
import math
from typing import Any, NamedTuple

import numpy as np

from nwsim.attention.weights import attention_weights, gaussian_weights
from nwsim.dgp import make_world
from nwsim.smoothing import oracle_bandwidth
from nwsim.study import Claim, Curve, Figure, Grid, Measure, Method, Profile, Study

N_QUERIES = 64
COLD, HOT = 2.0**-40, 2.0**20
MIDDLE = tuple(4.0**k for k in range(-5, 5))
LEVELS = (COLD, *MIDDLE, HOT)
CHOSEN = 0.0
SIZES = (1024, 4096, 16384)
RANGE = (1e-6, 10.0)  # of temperatures that are tried
STEP = 1e-100  # of log t, imaginary
EPS = np.finfo(np.float64).eps


class Tables(NamedTuple):
    """Queries (m, d), keys (n, d); the function at both, and the variance of the noise.

    ``others`` are of the same function: a temperature is chosen on them.
    """

    q: np.ndarray
    k: np.ndarray
    f_q: np.ndarray
    f_k: np.ndarray
    noise2: float
    others: "Tables | None" = None


def torus(x):
    """Return points of R^(2d), all of one length, whose near distances are those of x."""
    turn = 2.0 * math.pi * x
    return np.concatenate([np.cos(turn), np.sin(turn)], axis=1) / (2.0 * math.pi)


def lattice(rng, n, dim):
    """Return queries with halves and n different keys with whole coordinates up to 3."""
    axes = np.meshgrid(*[np.arange(-3.0, 4.0)] * dim)
    points = np.stack(axes, axis=-1).reshape(-1, dim)
    return rng.integers(-6, 7, (N_QUERIES, dim)) / 2.0, rng.permutation(points)[:n]


def sample(rng, f, n, dim, alpha, on_torus):
    """Draw keys and queries for a function."""
    x, x_q = rng.random((n, dim)), rng.random((N_QUERIES, dim))
    if not on_torus:
        x_q = 0.25 + 0.5 * x_q
    q, k = (torus(x_q), torus(x)) if on_torus else (x_q - 0.5, x - 0.5)
    # Noise of a size that keeps windows wider than gaps and narrower than waves.
    return Tables(q, k, f(x_q), f(x), 1.0 if alpha == 0.5 else 0.25)


def draw(condition, rng):
    """Draw queries and keys, and a function where there is one."""
    world, dim, n = condition["world"], condition["dim"], condition["n_obs"]
    if has_function(condition):
        on_torus = world == "torus"
        alpha = condition["alpha"]
        # Where windows are wide, half the amplitude: f's spread there adds to the variance.
        amplitude = 0.5 if alpha == 0.5 and dim > 1 else 1.0
        domain = {"domain": "torus"} if on_torus else {}
        law = make_world("lacunary", alpha=alpha, dim=dim, amplitude=amplitude, **domain)
        f = law.draw(rng)
        scoring, others = (sample(rng, f, n, dim, alpha, on_torus) for _ in range(2))
        return scoring._replace(others=others)
    if world == "lattice":
        q, k = lattice(rng, n, dim)
    else:
        q, k = rng.standard_normal((N_QUERIES, dim)), rng.standard_normal((n, dim))
        if world == "sphere":
            q, k = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in (q, k))
    return Tables(q, k, np.zeros(len(q)), np.zeros(len(k)), 0.0)


def weights_of(form, data, t):
    """Return the weights of a form at a temperature."""
    if form == "gaussian":
        return gaussian_weights(data.q, data.k, math.sqrt(t))
    return attention_weights(data.q, data.k, t)


def scores_of(form, data):
    """Return scores s, so that weights are exp(s / t) over their sum."""
    if form == "dot":
        return data.q @ data.k.T
    columns = zip(data.q.T, data.k.T, strict=True)
    return -0.5 * sum(np.subtract.outer(a, b) ** 2 for a, b in columns)


def entropy_of(weights):
    """Return the entropy (m,) of each row, in nats."""
    logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
    return -(weights * logs).sum(axis=1)


def best_of(scores):
    """Return where the largest score of each row is reached."""
    return scores == scores.max(axis=1, keepdims=True)


def slope_check(t, weights, scores):
    """Return the error of Var_w(s)/t^2 as dH/dlog t, and its ratio to what rounding allows."""
    mean = (weights * scores).sum(axis=1, keepdims=True)
    exact = (weights * (scores - mean) ** 2).sum(axis=1) / t**2
    exponents = (scores - scores.max(axis=1, keepdims=True)) / (t * cmath.exp(1j * STEP))
    terms = np.exp(exponents)
    total = terms.sum(axis=1)
    entropy = np.log(total) - (terms * exponents).sum(axis=1) / total
    error = np.abs(entropy.imag / STEP - exact).max()
    # A score's rounding is a relative error of its weight; squared logs of weights weigh in.
    logs = 1.0 + math.log(weights.shape[1])
    rounding = 16.0 * EPS * (1.0 + np.abs(scores).max() / t) * logs**2
    return float(error), float(error / rounding)


def next_level(t):
    """Return the next higher temperature, four times as high above all levels."""
    return min((level for level in LEVELS if level > t), default=4.0 * t)


def at_level(form, data, t):
    """Return what a given temperature does."""
    weights, scores = weights_of(form, data, t), scores_of(form, data)
    entropy, best = entropy_of(weights), best_of(scores)
    nearest, largest = (best_of(scores_of(other, data)) for other in ("gaussian", "dot"))
    error, ratio = slope_check(t, weights, scores)
    warmer = entropy_of(weights_of(form, data, next_level(t)))
    on_nearest, on_largest = ((weights * own).sum(axis=1) for own in (nearest, largest))
    return {
        "entropy": float(entropy.mean()),
        "entropy_fall": float((entropy - warmer).max()),
        "entropy_gap": float(np.abs(entropy - np.log(best.sum(axis=1))).max()),
        "unevenness": float(np.abs(len(data.k) * weights - 1.0).max()),
        "on_nearest": float(on_nearest.mean()),
        "on_largest": float(on_largest.mean()),
        "off_nearest": float(1.0 - on_nearest.min()),
        "off_largest": float(1.0 - on_largest.min()),
        "differ": float((nearest != largest).any(axis=1).mean()),
        "slope_error": error,
        "slope_ratio": ratio,
    }


def risk_of(form, data):
    """Return the exact conditional error as a function of the temperature."""
    scores = scores_of(form, data)
    scores -= scores.max(axis=1, keepdims=True)
    weights = np.empty_like(scores)

    def risk(t):
        # In place, and normalised last: tables of this size cost more to make than to fill.
        np.exp(np.divide(scores, t, out=weights), out=weights)
        total = weights.sum(axis=1)
        noise = data.noise2 * np.einsum("ij,ij->i", weights, weights) / total**2
        return float(np.mean((weights @ data.f_k / total - data.f_q) ** 2 + noise))

    return risk


def chosen(form, data):
    """Return the temperature of least error on other draws, and the error that it has here."""
    best = oracle_bandwidth(risk_of(form, data.others), *RANGE, tolerance=0.05, n_grid=13)
    # In logs: where f is nearly constant the best temperature is orders of magnitude larger.
    log_t, error = math.log(best.bandwidth), risk_of(form, data)(best.bandwidth)
    return {"log_best_t": log_t, "best_mse": error, "n_at_edge": int(best.at_edge)}


def of_form(form):
    """Return the method of one form."""

    def method(condition, data, rng):
        t = condition["temperature"]
        return chosen(form, data) if t == CHOSEN else at_level(form, data, t)

    return method


def has_function(condition):
    """Select conditions with a regression function, whose temperature is chosen."""
    return condition["alpha"] > 0.0


def is_limit(condition):
    """Select conditions with a given temperature."""
    return not has_function(condition)


def at_temperature(*levels):
    """Return a filter on the temperature."""
    return lambda condition: condition["temperature"] in levels


def lengths_matter(condition):
    """Select conditions in which softmax is not Gaussian weights once more."""
    return condition["world"] != "torus"


def exponent(setting):
    """Return the exponent of a squared bandwidth of the best rate."""
    return -2.0 / (2.0 * setting["alpha"] + setting["dim"])


def error_exponent(setting):
    """Return the exponent of the error at that bandwidth."""
    return setting["alpha"] * exponent(setting)


def limits(world, dim, n_obs):
    """Return the crossing of temperatures with keys of one kind."""
    known = {"world": (world,), "alpha": (0.0,), "dim": dim, "n_obs": n_obs}
    return Grid({**known, "temperature": LEVELS})


def optima(world, alpha, dim):
    """Return the crossing of sample sizes with worlds of known smoothness."""
    known = {"world": (world,), "alpha": alpha, "dim": (dim,), "n_obs": SIZES}
    return Grid({**known, "temperature": (CHOSEN,)})


def vanishes(name, statement, quantity, level, method):
    """Return the claim that a quantity is 0 in every replicate at a level of the temperature."""
    margin, where = HOT_MARGIN if level == HOT else COLD_MARGIN, at_temperature(level)
    return Claim(name, statement, quantity, 0.0, margin, "never_above", where=where, method=method)


# Limits: at COLD weights differ from their limit by less than 10^-8, and a query whose best key
# is another one, by nearly 1; at HOT by less than 10^-4 of 1/n.
COLD_MARGIN, HOT_MARGIN = 1e-6, 1e-3
# A step of the entropy is exact but for rounding.
STEP_MARGIN = 1e-9
# Below half of 1/6, the distance of any two exponents of one dimension, of temperatures and of
# errors alike; those of errors that stall, 0, lie further off.
SLOPE_MARGIN = 0.07

LABELS = {
    "gaussian": "Gaussian weights",
    "dot": "softmax of dot products",
    "normal": "normal keys",
    "sphere": "keys on a sphere",
    "lattice": "lattice",
    "temperature": "temperature $t$",
}
GIVEN: dict[str, Any] = {
    "where": {"temperature": MIDDLE, "n_obs": 32, "dim": 2},
    **{"panel": "world", "x": "temperature", "x_log": True, "log": False, "labels": LABELS},
}
PAGES = "nwsim.report.lines:lines"

STUDY = Study(
    name="temperature",
    label="Temperature of attention",
    seed=20261202,
    factors=(
        limits("normal", (2, 8), (32, 256)),
        limits("sphere", (2, 8), (32, 256)),
        limits("lattice", (2, 3), (32,)),
        optima("torus", (0.5, 1.0, 1.5), 1),
        optima("torus", (0.5, 1.0), 2),
        optima("cube", (0.5, 1.0), 1),
        optima("cube", (0.5, 1.0), 2),
    ),
    shared_streams=("temperature",),
    draw=draw,
    methods=(
        Method("gaussian", of_form("gaussian")),
        Method("dot", of_form("dot"), where=lengths_matter),
    ),
    measures=(
        *(
            Measure(name, label, unit, where=is_limit)
            for name, label, unit in (
                ("entropy", "entropy of a query's weights", "nats"),
                ("entropy_fall", "largest fall of an entropy to the next temperature", "nats"),
                ("entropy_gap", "largest distance of an entropy to log(best keys)", "nats"),
                ("unevenness", "largest difference of n times a weight from 1", ""),
                ("on_nearest", "weight on the nearest keys", ""),
                ("on_largest", "weight on the keys of the largest dot product", ""),
                ("off_nearest", "largest weight of a query off its nearest keys", ""),
                ("off_largest", "largest weight off a query's keys of largest dot product", ""),
                ("differ", "share of queries whose nearest keys do not have it", ""),
                ("slope_error", "error of the formula for dH/dlog t", "nats"),
                ("slope_ratio", "the same over what rounding allows", ""),
            )
        ),
        Measure("log_best_t", "log of the temperature of least error", where=has_function),
        Measure(
            "best_mse", "mean squared error at the best temperature", unit="y²", where=has_function
        ),
        Measure("n_at_edge", "searches that ended at an edge", kind="count", where=has_function),
    ),
    claims=(
        *(
            vanishes(f"E3_{name}", statement, quantity, level, method)
            for name, quantity, level, method, statement in (
                ("hot", "unevenness", HOT, None, "At high temperature all keys have weight 1/n."),
                (
                    *("cold_gaussian", "off_nearest", COLD, "gaussian"),
                    "At low temperature Gaussian weights are on the nearest keys.",
                ),
                (
                    *("cold_dot", "off_largest", COLD, "dot"),
                    "At low temperature softmax weights are on the keys of largest dot product.",
                ),
                (
                    *("cold_nearest", "off_nearest", COLD, "dot"),
                    "At low temperature softmax weights, like Gaussian ones, are on the nearest "
                    "keys.",
                ),
                (
                    *("ties", "entropy_gap", COLD, None),
                    "At low temperature the entropy is the log of the number of best keys.",
                ),
            )
        ),
        Claim(
            "E3_derivative",
            "dH/dt = Var_w(s)/t^3, within what rounding allows.",
            "slope_ratio",
            theory=1.0,
            margin=0.0,
            rule="never_above",
            over="temperature",
            where=at_temperature(*MIDDLE),
        ),
        Claim(
            "E3_monotone",
            "The entropy of no query falls with the temperature.",
            "entropy_fall",
            theory=0.0,
            margin=STEP_MARGIN,
            rule="never_above",
            over="temperature",
        ),
        Claim(
            "E3_best",
            "The best temperature of Gaussian weights falls like n^(-2/(2 alpha + d)).",
            "log_best_t",
            theory=exponent,
            margin=SLOPE_MARGIN,
            rule="rate_of_log",
            tail=len(SIZES),
            method="gaussian",
        ),
        Claim(
            "E3_error",
            "At its best temperature the error of attention on a solid set falls like "
            "n^(-2 alpha/(2 alpha + d)).",
            "best_mse",
            theory=error_exponent,
            margin=SLOPE_MARGIN,
            rule="rate",
            tail=len(SIZES),
            where=lambda condition: condition["world"] == "cube",
        ),
    ),
    curves=tuple(
        Curve(name, "best_mse", name, tail=tail)
        for name, tail in (("local_slope", None), ("tail_slope", len(SIZES)))
    ),
    figures=(
        *(
            Figure(name, PAGES, {**GIVEN, "measures": measures})
            for name, measures in (
                ("entropy", ("entropy",)),
                ("nearest", ("on_nearest", "on_largest")),
            )
        ),
        *(
            Figure(
                name,
                PAGES,
                {
                    "where": {"world": world},
                    "measures": (measure,),
                    "methods": methods,
                    "line": "alpha",
                    "row": "method",
                    "panel": "dim",
                    "x_log": True,
                    "log": rule == "rate",
                    "claims": (claim,),
                    "rule": rule,
                    "labels": LABELS,
                },
            )
            for name, world, measure, methods, claim, rule in (
                ("best_torus", "torus", "log_best_t", ("gaussian",), "E3_best", "rate_of_log"),
                ("best_cube", "cube", "log_best_t", ("gaussian",), "E3_best", "rate_of_log"),
                ("error_cube", "cube", "best_mse", ("gaussian", "dot"), "E3_error", "rate"),
            )
        ),
    ),
    profiles={
        "quick": Profile(
            2,
            keep=lambda condition: (
                condition["n_obs"] in SIZES[:2] or (condition["n_obs"], condition["dim"]) == (32, 2)
            ),
            rule="enough to fill every table",
        ),
        "standard": Profile(
            lambda condition: 100 if has_function(condition) else 40,
            rule="standard error of the slope of E3_best below 0.02",
        ),
        "full": Profile(1000, rule="the same below 0.006"),
    },
)
