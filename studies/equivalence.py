"""Softmax attention against Gaussian kernel regression.

Aims
    Is softmax attention Nadaraya-Watson regression with a Gaussian kernel (claim E1), and what
    do the lengths of the keys have to do with it? Which bandwidth belongs to a temperature
    (E2)? Is the kernel symmetric in the two points that it compares?

Data-generating mechanisms
    Self-attention: x ~ N(0, I) in 2 d_k dimensions, q = x W_Q and k = x W_K with normal maps,
    one map for both (``tied``) or two (``different``). Every x is then scaled so that its key
    has length sqrt(d_k) exp(spread z), z standard normal: at spread 0 all keys have one length.
    Values are standard normal. The first 64 points are the queries.

Estimands
    The difference between weights of softmax attention at temperature t, and of kernel
    regression on the same keys: the largest one over queries and keys, and the mean total
    variation distance of a query's two weightings; the largest difference of outputs.

Methods of estimation
    Kernel regression with sigma^2 = t: ``plain``, with the prior weights exp(|k|^2 / (2 t))
    that the algebra asks for (``twin``), and on keys that are all scaled to length sqrt(d_k),
    in softmax too (``one_length``). At spread 0, where lengths play no part, also the
    bandwidths in question: sigma = sqrt(t) (``root_t``), sqrt(t/2) (``half_t``), and, at
    t = sqrt(d_k), sqrt(d_k/2) (``half_d_k``), 1/sqrt(d_k) (``inverse_root``), and the
    temperature sqrt(d_k/2) of a printed program (``code``). ``kernel`` looks at the scores.

Performance measures
    Averages over replicates with their Monte Carlo standard errors. All claims here are
    identities, claimed of every query and every draw: the largest replicate decides, and the
    curve ``largest`` has it spread by spread. Spreads, temperatures and maps share all numbers.
"""

import math
from typing import NamedTuple

import numpy as np

from nwsim import softmax_attention
from nwsim.attention.gaussian import gaussian_attention, nadaraya_watson_attention
from nwsim.attention.weights import attention_weights, gaussian_weights, key_norm_log_prior
from nwsim.study import (
    Claim,
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

N_QUERIES, N_VALUES = 64, 4
SPREADS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
MAIN = {"d_k": 16, "n_obs": 256, "temperature": 1.0}
# Exponents reach some 10^4 where long keys meet a low temperature, which rounding turns into errors
# of weights of at most 10^-11; a form that is not the same errs by 10^-3 or more.
ROUNDING = 1e-10


class Tables(NamedTuple):
    """Queries (m, d_k), keys (n, d_k), values (n, p) and the temperature."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    t: float


def draw(condition, rng):
    """Draw inputs and maps, and scale the inputs until keys have the wanted lengths."""
    d_k, n = condition["d_k"], condition["n_obs"]
    w_k, w_q = rng.standard_normal((2, 2 * d_k, d_k)) / math.sqrt(2 * d_k)
    x = rng.standard_normal((n, 2 * d_k))
    lengths = math.sqrt(d_k) * np.exp(condition["spread"] * rng.standard_normal(n))
    values = rng.standard_normal((n, N_VALUES))
    k = x @ w_k
    scale = (lengths / np.linalg.norm(k, axis=1))[:, np.newaxis]
    q = (x @ (w_k if condition["maps"] == "tied" else w_q) * scale)[:N_QUERIES]
    return Tables(q, k * scale, values, condition["temperature"] * math.sqrt(d_k))


def compared(softmax, kernel, softmax_out, kernel_out):
    """Return how far two weightings, and two outputs, are apart."""
    gap = np.abs(softmax - kernel)
    return {
        "weight_error": float(gap.max()),
        "distance": float(gap.sum(axis=1).mean() / 2.0),
        "output_error": float(np.abs(softmax_out - kernel_out).max()),
    }


def of_bandwidth(data, sigma, temperature=None):
    """Compare softmax with kernel regression of a bandwidth, without a prior."""
    q, k, v, t = data
    t = t if temperature is None else temperature
    return compared(
        attention_weights(q, k, t),
        gaussian_weights(q, k, sigma),
        softmax_attention(q, k, v, t),
        gaussian_attention(q, k, v, sigma),
    )


def plain(condition, data, rng):
    """Compare with kernel regression as printed."""
    return of_bandwidth(data, math.sqrt(data.t))


def twin(condition, data, rng):
    """Compare with kernel regression whose prior knows the lengths of the keys."""
    q, k, v, t = data
    return compared(
        attention_weights(q, k, t),
        gaussian_weights(q, k, math.sqrt(t), log_prior=key_norm_log_prior(k, t)),
        softmax_attention(q, k, v, t),
        nadaraya_watson_attention(q, k, v, t),
    )


def one_length(condition, data, rng):
    """Compare on keys that are scaled to one length, without a prior."""
    k = data.k * (math.sqrt(condition["d_k"]) / np.linalg.norm(data.k, axis=1, keepdims=True))
    return of_bandwidth(data._replace(k=k), math.sqrt(data.t))


def half_t(condition, data, rng):
    """Compare at the printed sigma of a temperature."""
    return of_bandwidth(data, math.sqrt(data.t / 2.0))


def half_d_k(condition, data, rng):
    """Compare at the printed sigma of scaled dot products."""
    return of_bandwidth(data, math.sqrt(condition["d_k"] / 2.0))


def inverse_root(condition, data, rng):
    """Compare at the factor of the inner product, read as a length."""
    return of_bandwidth(data, 1.0 / math.sqrt(condition["d_k"]))


def code(condition, data, rng):
    """Compare softmax at sqrt(d_k) with that at the temperature of the printed program."""
    q, k, v, t = data
    other = math.sqrt(condition["d_k"] / 2.0)
    return compared(
        attention_weights(q, k, t),
        attention_weights(q, k, other),
        softmax_attention(q, k, v, t),
        softmax_attention(q, k, v, other),
    )


def kernel(condition, data, rng):
    """Return how far the scores of pairs are from being symmetric, 0 if they are."""
    scores = data.q @ data.k[:N_QUERIES].T
    odd, even = scores - scores.T, scores + scores.T
    return {"asymmetry": float(np.linalg.norm(odd) / np.linalg.norm(even))}


def is_even(condition):
    """Select keys of one length, so that only the bandwidth is in question."""
    return condition["spread"] == 0.0


def is_standard(condition):
    """Select the temperature that formulas in d_k alone are about."""
    return is_even(condition) and condition["temperature"] == 1.0


def largest(points):
    """Return the largest replicate at every level."""
    return [
        CurvePoint(float(level), float(values.max()), math.nan)
        for level, values in zip(points.levels, points.replicates(), strict=True)
    ]


register_rule(CurveRule("largest", largest))


def cells(**levels):
    """Return the crossing of all spreads and maps with what varies beside them."""
    varied = {name: (value,) for name, value in MAIN.items()} | levels
    return Grid({**varied, "maps": ("tied", "different"), "spread": SPREADS})


def same(name, statement, method, quantities=("weight_error", "output_error"), **options):
    """Return the claim that softmax and a method agree but for rounding, in every draw."""
    return tuple(
        Claim(
            name,
            statement,
            quantity,
            theory=0.0,
            margin=ROUNDING,
            rule="never_above",
            method=method,
            **options,
        )
        for quantity in quantities
    )


FORMS = ("plain", "twin", "one_length")
WIDTHS = ("root_t", "half_t", "half_d_k", "inverse_root", "code")
LABELS = {
    "spread": "spread of the log of key lengths",
    "plain": "no prior",
    "twin": "prior of key norms",
    "one_length": "keys of one length",
    "root_t": r"$\sigma = \sqrt{t}$",
    "half_t": r"$\sigma = \sqrt{t/2}$",
    "half_d_k": r"$\sigma = \sqrt{d_k/2}$",
    "inverse_root": r"$\sigma = 1/\sqrt{d_k}$",
    "code": r"temperature $\sqrt{d_k/2}$",
    "kernel": "scores",
    "tied": "one map",
    "different": "two maps",
}
PAGES = "nwsim.report.lines"

STUDY = Study(
    name="equivalence",
    label="Softmax attention and Gaussian kernel regression",
    seed=20261210,
    factors=(
        cells(d_k=(4, 16, 64)),
        cells(n_obs=(64, 1024)),
        cells(temperature=(0.5, 2.0)),
        # The largest exponents, and so the most rounding.
        cells(d_k=(64,), n_obs=(1024,), temperature=(0.5,)),
    ),
    shared_streams=("temperature", "maps", "spread"),
    draw=draw,
    methods=(
        Method("plain", plain),
        Method("twin", twin),
        Method("one_length", one_length),
        Method("root_t", plain, where=is_even),
        Method("half_t", half_t, where=is_even),
        Method("half_d_k", half_d_k, where=is_standard),
        Method("inverse_root", inverse_root, where=is_standard),
        Method("code", code, where=is_standard),
        Method("kernel", kernel),
    ),
    measures=(
        *(
            Measure(name, label, methods=(*FORMS, *WIDTHS))
            for name, label in (
                ("weight_error", "largest difference of weights"),
                ("distance", "mean total variation distance of weights"),
                ("output_error", "largest difference of outputs, values of variance 1"),
            )
        ),
        Measure("asymmetry", "odd over even part of the scores", methods=("kernel",)),
    ),
    claims=(
        *same(
            "E1_printed",
            "Softmax attention equals Gaussian kernel regression on its keys.",
            "plain",
        ),
        *same(
            "E1",
            "Softmax attention equals Gaussian kernel regression with sigma^2 = t and prior "
            "weights exp(|k|^2 / (2 t)).",
            "twin",
            over="spread",
        ),
        *same(
            "E1_equal_norms",
            "On keys of one length softmax attention equals Gaussian kernel regression.",
            "one_length",
            over="spread",
        ),
        Claim(
            "E1_symmetric",
            "The kernel of attention is symmetric, K(x, y) = K(y, x).",
            "asymmetry",
            theory=0.0,
            margin=ROUNDING,
            rule="never_above",
            over="spread",
        ),
        *same("E2", "The bandwidth of temperature t is sigma = sqrt(t).", "root_t"),
        *same("E2_half_t", "The bandwidth of temperature t is sigma = sqrt(t/2).", "half_t"),
        *same(
            "E2_half_d_k",
            "The bandwidth of scaled dot products is sigma = sqrt(d_k/2).",
            "half_d_k",
        ),
        *same(
            "E2_inverse_root",
            "The bandwidth of scaled dot products is sigma = 1/sqrt(d_k).",
            "inverse_root",
        ),
        *same("E2_code", "The standard temperature is sqrt(d_k/2).", "code"),
    ),
    curves=tuple(
        Curve("largest", measure, "largest", over="spread")
        for measure in ("weight_error", "output_error")
    ),
    figures=(
        Figure(
            "weights",
            f"{PAGES}:lines",
            {
                "where": {"n_obs": MAIN["n_obs"], "temperature": MAIN["temperature"]},
                "measures": ("weight_error",),
                "methods": FORMS,
                "row": "maps",
                "panel": "d_k",
                "x": "spread",
                "labels": LABELS,
            },
        ),
        Figure(
            "distance",
            f"{PAGES}:lines",
            {
                "where": {"n_obs": MAIN["n_obs"], "temperature": MAIN["temperature"]},
                "measures": ("distance",),
                "methods": ("plain",),
                "line": "d_k",
                "panel": "maps",
                "x": "spread",
                "log": False,
                "labels": LABELS,
            },
        ),
        Figure(
            "bandwidths",
            f"{PAGES}:lines",
            {
                "where": {"n_obs": MAIN["n_obs"], "temperature": MAIN["temperature"]}
                | {"spread": 0.0},
                "measures": ("distance",),
                "methods": WIDTHS,
                "panel": "maps",
                "x": "d_k",
                "x_log": True,
                "log": False,
                "labels": LABELS,
            },
        ),
        Figure(
            "asymmetry",
            f"{PAGES}:lines",
            {
                "where": {"n_obs": MAIN["n_obs"], "temperature": MAIN["temperature"]},
                "measures": ("asymmetry",),
                "methods": ("kernel",),
                "line": "maps",
                "panel": "d_k",
                "x": "spread",
                "log": False,
                "labels": LABELS,
            },
        ),
    ),
    profiles={
        "quick": Profile(
            2,
            keep=lambda condition: condition["n_obs"] <= 256,
            rule="enough to fill every table",
        ),
        "standard": Profile(
            50, rule="standard error of a largest difference of weights below 0.05"
        ),
        "full": Profile(500, rule="the same below 0.02"),
    },
)
