"""Bandwidth of Gaussian attention: chosen on data, learned, adaptive by query or by key.

Aims
    Is a bandwidth that gradient descent learns as good as one that leave-one-out finds on a
    grid, does it matter where the descent starts, and how often is it stuck? How much more
    error than the best fixed bandwidth do the criteria have? Does a kernel that adapts improve
    on a fixed one (claim K2)? Does scaling queries and keys to length one, as printed, lose
    nothing?

Data-generating mechanisms
    A replicate draws one function on [0, 1]^d of standard deviation 1: six sinusoids
    (``smooth``); a lacunary sum of exponent 1/2 (``rough``); sinusoids whose waves shorten
    twentyfold from one corner to the other (``varying``), where adapting should pay; sinusoids
    of the direction from the centre alone (``direction``); waves so much shorter than the rule
    of thumb that a descent from there often goes astray (``short``). Inputs are uniform, or
    beta(1, 4) in each coordinate (``skewed``: few at the far corner). Normal noise.

Estimands
    Mean squared error of the estimate at new queries from the design, so weighted with its
    density, which is what the criteria estimate too; 200 queries, redrawn in every replicate.

Methods of estimation
    ``oracle``: the fixed h with the least exact error for this function on four designs and
    queries of their own. ``loo``, ``gcv``, ``aicc``, ``rot``: as in ``nwsim.NadarayaWatson``.
    ``learned``: one h by gradient descent on the leave-one-out error, from where
    ``learn_bandwidth`` starts; ``from_rule``: from the rule of thumb; ``from_one``: from 1, as
    the printed module does. ``coordinate``: one h a coordinate.
    ``position``, ``neighbors``: log h linear in the query's coordinates, or in its log distance
    to the n^(1/2)-th neighbour. ``knn``: a multiple of that distance; ``abramson``: h s_j at key
    j, s_j by a pilot density at the rule of thumb, and ``abramson_density`` with the factor
    s_j^(-d) too; ``unit_norm``: inputs, centred, of length one. These four have their one free
    number chosen like the oracle's h. ``printed``: one h learned from 1 on inputs of length one.

Performance measures
    ``mse`` by the plain route, with one noisy sample for all methods, since most choose on it.
    ``exact_mse`` for methods that see no responses: exact moments given the inputs. ``stuck`` is
    the share of descents that end more than STUCK above the least leave-one-out error of the
    search: a mean over replicates that hold none says little of what one would cost. Regret is
    the ratio of averages over replicates, paired; Monte Carlo standard errors throughout.
"""

import math
import warnings
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nwsim import NadarayaWatson
from nwsim.attention import LearnedBandwidth, learn_bandwidth, weight_family
from nwsim.dgp import make_design, make_world
from nwsim.exceptions import PrecisionWarning
from nwsim.smoothing import oracle_bandwidth
from nwsim.study import Claim, Contrast, Figure, Grid, Measure, Method, Profile, Study

N_QUERIES, N_SEARCHED, N_DESIGNS = 200, 64, 4
LARGEST, MIDDLE, NOISE = 512, 256, 0.5
WARP = 3.0  # waves at the two ends of an axis differ by e^3, about 20
CENTRE = 0.5
REACH, N_GRID = 40.0, 11  # of the search for the best number: about its middle, either way

# Fixed before results were seen. A tenth more error than the best fixed bandwidth is what some
# tenth fewer observations would cost (error ~ n^(-4/5) in the smooth world), little beside
# what worlds and noise change; two ways to minimise one criterion should differ by far less.
REGRET_MARGIN, SAME_MARGIN = 0.1, 0.05
STUCK = 0.01  # criteria of one minimum differ by far less, those of two by more
STUCK_SHARE = 0.05
# 59 descents of which none is stuck bound the share by 1 - 0.05^(1/59) = 5%; 300 by 1%.
N_SIM, N_SIM_SHORT = 60, 300

WORLDS = ("smooth", "rough", "varying")
FREQUENCIES = {
    **{"smooth": (1.0, 2.0), "short": (5.0, 7.0)},
    **{"varying": (2.0, 4.0), "direction": (0.25, 0.5)},
}
CHOSEN = ("loo", "gcv", "aicc", "learned", "rot", "from_one")


class Sample(NamedTuple):
    """Inputs (n, d), the function there, queries (m, d) and the truth (m,)."""

    X: np.ndarray
    f: np.ndarray
    queries: np.ndarray
    truth: np.ndarray


class Data(NamedTuple):
    """The sample that scores, its responses, and samples for oracles to choose on."""

    sample: Sample
    y: np.ndarray
    others: tuple[Sample, ...]
    searched: NadarayaWatson
    learned: LearnedBandwidth


def warped(points):
    """Stretch [0, 1] so that waves at 1 are e^WARP times as short as at 0."""
    return np.expm1(WARP * points) / math.expm1(WARP)


def direction(points):
    """Return the unit vectors from the centre."""
    away = points - CENTRE
    return away / np.linalg.norm(away, axis=1, keepdims=True)


def draw_function(condition, rng):
    """Draw a regression function on [0, 1]^d."""
    world, dim = condition["world"], condition["dim"]
    if world == "rough":
        return make_world("lacunary", alpha=0.5, dim=dim).draw(rng)
    lowest, highest = FREQUENCIES[world]
    waves = make_world("analytic", dim=dim, lowest=lowest, highest=highest).draw(rng)
    if world in ("smooth", "short"):
        return waves
    move = warped if world == "varying" else direction
    return lambda points: waves(move(points))


def draw_sample(condition, function, n_queries, rng):
    """Draw inputs and queries from the design."""
    skewed = condition["design"] == "skewed"
    dim = condition["dim"]
    design = make_design("beta", dim=dim, a=1.0, b=4.0) if skewed else make_design("uniform", dim)
    X, queries = design.draw(rng, condition["n_obs"]), design.draw(rng, n_queries)
    return Sample(X, function(X), queries, function(queries))


def learn(X, y, kind="global", start=None):
    """Learn a bandwidth; descents that stop or end at an edge are counted, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return learn_bandwidth(X, y, kind, start=start)


def draw(condition, rng):
    """Draw a function and samples; choose the bandwidths that several methods refer to."""
    function_rng, sample_rng, noise_rng, *rngs = rng.spawn(3 + N_DESIGNS)
    function = draw_function(condition, function_rng)
    sample = draw_sample(condition, function, N_QUERIES, sample_rng)
    y = sample.f + condition["noise"] * noise_rng.standard_normal(len(sample.f))
    others = tuple(draw_sample(condition, function, N_SEARCHED, own) for own in rngs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # an edge is counted
        searched = NadarayaWatson("loo", engine="direct").fit(sample.X, y)
    return Data(sample, y, others, searched, learn(sample.X, y))


def plain_error(estimate, sample):
    """Return the mean squared error at the queries."""
    return float(np.mean((estimate - sample.truth) ** 2))


def exact_error(condition, weights, sample):
    """Return its mean over the noise, for weights (m, n) that saw no responses."""
    noise = condition["noise"] ** 2 * np.sum(weights**2, axis=1)
    return float(np.mean((weights @ sample.f - sample.truth) ** 2 + noise))


def selected(condition, data, rng, method):
    """Choose a bandwidth by a criterion of the package."""
    model = data.searched
    if method != "loo":
        model = NadarayaWatson(method, engine="direct").fit(data.sample.X, data.y)
    chosen = model.bandwidth_selection_
    estimate = model.predict(data.sample.queries)
    row = {"mse": plain_error(estimate, data.sample), "log_bandwidth": math.log(model.bandwidth_)}
    return {**row, "n_at_edge": bool(chosen and chosen.at_edge)}


def scored(found, data, queries):
    """Return the measures of a learned bandwidth."""
    error = plain_error(found.weights(queries) @ data.y, data.sample)
    row = {"mse": error, "n_at_edge": found.at_edge, "n_stopped": not found.converged}
    return row | ({"log_bandwidth": found.parameters[0]} if found.kind == "global" else {})


def descent(condition, data, rng, start):
    """Learn one bandwidth from the start of the package, the rule of thumb, or 1."""
    X, found = data.sample.X, data.learned
    if start != "package":
        found = learn(X, data.y, start=rule_of_thumb(X) if start == "rule" else 1.0)
    least = data.searched.bandwidth_selection_.criterion
    row = scored(found, data, data.sample.queries)
    return row | {"stuck": float(found.criterion > (1.0 + STUCK) * least)}


def adaptive(condition, data, rng, kind):
    """Learn a bandwidth by coordinate or by query."""
    # The global descent is done: from its end it stops at once.
    start = data.learned.at(data.sample.X)
    found = learn(data.sample.X, data.y, kind, start=start)
    row = scored(found, data, data.sample.queries)
    return row | ({"slope": found.parameters[1]} if kind == "neighbors" else {})


def printed(condition, data, rng):
    """Learn one bandwidth on inputs of length one, starting from 1."""
    X, queries = direction(data.sample.X), direction(data.sample.queries)
    return scored(learn(X, data.y, start=1.0), data, queries)


def rule_of_thumb(X):
    """Return the normal-reference bandwidth of inputs."""
    return NadarayaWatson("rot").fit(X, np.zeros(len(X))).bandwidth_


AS_NAMED = ("abramson", "abramson_density", "unit_norm")
FAMILIES = {"oracle": "fixed", "knn": "neighbors"} | {name: name for name in AS_NAMED}


def family(method, sample):
    """Return the weights at the queries up to one number; for length one, about the centre."""
    centre = CENTRE if method == "unit_norm" else 0.0
    return weight_family(FAMILIES[method], sample.queries - centre, sample.X - centre)


def at_best(condition, data, rng, method):
    """Choose the one free number of a family on other samples of this function."""
    ready = [family(method, sample) for sample in data.others]

    def risk(number):
        errors = [
            exact_error(condition, one.weights(number), sample)
            for sample, one in zip(data.others, ready, strict=True)
        ]
        return float(np.mean(errors))

    middle = math.prod(one.middle for one in ready) ** (1.0 / len(ready))
    best = oracle_bandwidth(risk, middle / REACH, middle * REACH, n_grid=N_GRID)
    weights = family(method, data.sample).weights(best.bandwidth)
    row = {
        "mse": plain_error(weights @ data.y, data.sample),
        "exact_mse": exact_error(condition, weights, data.sample),
        "n_at_edge": best.at_edge,
    }
    return row | ({"log_bandwidth": math.log(best.bandwidth)} if method == "oracle" else {})


def within(**levels):
    """Return a filter on conditions: their levels of these factors are among those given."""
    return lambda condition: all(condition[name] in known for name, known in levels.items())


has_unit = within(dim=(2, 4))  # more than a sign is left
has_descents = within(world=("short", *WORLDS))
has_rule = within(world=("short", *WORLDS), noise=(NOISE,))
has_oracles = within(world=("direction", *WORLDS))
has_all = within(world=WORLDS)
has_rivals = within(world=WORLDS, noise=(NOISE,), design=("uniform",))
# At one n: it is the costliest method.
has_coordinates = within(world=WORLDS, noise=(NOISE,), dim=(2, 4), n_obs=(MIDDLE,))
# Waves and inputs that are alike everywhere give no reason to adapt.
is_even = within(world=("smooth", "rough"), design=("uniform",))


def is_quick(condition):
    """Select one world in full, and of the others what the pages need to have panels."""
    if condition["world"] != "varying":
        return condition["n_obs"] == 64 and (condition["dim"] == 2 or not has_oracles(condition))
    return condition["n_obs"] < LARGEST or condition["dim"] == 1


def cells(dims, n_obs, worlds=WORLDS, design="uniform", noise=(NOISE,)):
    """Return the crossing of worlds and dimensions with one setting."""
    return Grid({"world": worlds, "design": (design,), "dim": dims, "n_obs": n_obs, "noise": noise})


ADAPTIVE = ("knn", "abramson", "abramson_density")
LEARNED = ("position", "neighbors")
RUN: dict[str, tuple[Any, Any]] = {
    "oracle": (partial(at_best, method="oracle"), has_oracles),
    "loo": (partial(selected, method="loo"), None),
    "gcv": (partial(selected, method="gcv"), has_rivals),
    "aicc": (partial(selected, method="aicc"), has_rivals),
    "rot": (partial(selected, method="rot"), has_rivals),
    "learned": (partial(descent, start="package"), has_descents),
    "from_rule": (partial(descent, start="rule"), has_rule),
    "from_one": (partial(descent, start="one"), has_descents),
    **{name: (partial(adaptive, kind=name), has_all) for name in LEARNED},
    "coordinate": (partial(adaptive, kind="coordinate"), has_coordinates),
    **{name: (partial(at_best, method=name), has_all) for name in ADAPTIVE},
    "unit_norm": (partial(at_best, method="unit_norm"), has_unit),
    "printed": (printed, has_unit),
}
STARTS = ("learned", "from_rule", "from_one")
FIXED = ("oracle", *CHOSEN, "from_rule", "printed")
DESCENTS = (*STARTS, *LEARNED, "coordinate", "printed")


def ratio(name, method, baseline, measure="mse"):
    """Return a contrast of two methods: the ratio of their errors."""
    return Contrast(name, measure, "method", method, baseline, "ratio")


def below(name, statement, quantity, margin=0.0, where=None, rule="not_above"):
    """Return a claim that a ratio is at most 1, up to the margin."""
    return Claim(name, statement, quantity, 1.0, margin, rule, where=where)


def same(name, statement, quantity):
    """Return a claim that a ratio is 1 up to the margin of two ways to do one thing."""
    return Claim(name, statement, quantity, 1.0, SAME_MARGIN, "equivalence")


# A descent that is stuck may be rarer than one in N_SIM, and cost many times the error.
OPEN = "refutes_above"
ANY_START = (
    "Started from the rule of thumb, or from 1, a descent has on average at most a twentieth more "
    "error than the search."
)
COSTS = "The chosen bandwidth costs at most a tenth more than the best fixed one."
FEW_STUCK = "At most one descent in twenty is stuck."
IMPROVES = "Read as an improvement, adapting leaves less error than a fixed bandwidth."
LABELS = {
    "oracle": "best fixed",
    "loo": "leave-one-out",
    "gcv": "GCV",
    "aicc": "AICc",
    "rot": "rule of thumb",
    "learned": "learned",
    "from_rule": "learned from rule of thumb",
    "from_one": "learned from 1",
    "position": "learned by position",
    "neighbors": "learned by neighbours",
    "knn": "neighbour distance",
    "abramson": "Abramson",
    "abramson_density": "Abramson, density",
    "unit_norm": "length one, best",
    "printed": "as printed",
    **{"varying": "varying waves", "direction": "direction alone", "short": "short waves"},
}
UNIFORM: dict[str, Any] = {"design": "uniform", "noise": NOISE}
MAIN = {**UNIFORM, "world": WORLDS, "dim": (1, 2)}
STARTED = {**UNIFORM, "world": ("short", *WORLDS), "dim": 1, "n_obs": (64, MIDDLE)}
AT_MIDDLE = {**UNIFORM, "n_obs": MIDDLE, "dim": (2, 4)}
SHOWN = (*(f"exact_{name}" for name in ADAPTIVE), *(f"{name}_to_learned" for name in LEARNED))
LENGTH_ONE = ("exact_unit_norm", "printed_to_loo")


def page(name, where, contrasts, claim=None, **options):
    """Return a figure of ratios of errors, a row a dimension and a column a world."""
    kept = {"where": where, "contrasts": contrasts, "claim": claim, "labels": LABELS}
    return Figure(name, "nwsim.report.bandwidth:ratios", {**kept, **options})


STUDY = Study(
    name="bandwidth",
    label="Bandwidth of Gaussian attention",
    seed=20261214,
    factors=(
        cells((1, 2), (64, MIDDLE, LARGEST)),
        cells((1, 2), (MIDDLE,), design="skewed"),
        cells((1,), (MIDDLE,), noise=(0.25, 1.0)),
        cells((1,), (MIDDLE,), design="skewed", noise=(0.25, 1.0)),
        cells((4,), (MIDDLE,), worlds=("smooth", "rough")),
        cells((2, 4), (64, MIDDLE), worlds=("direction",)),
        cells((1,), (64, MIDDLE), worlds=("short",)),
    ),
    draw=draw,
    methods=tuple(Method(name, run, where=where) for name, (run, where) in RUN.items()),
    measures=(
        Measure("mse", "mean squared error", unit="y²"),
        Measure("exact_mse", "mean squared error, exact", unit="y²", methods=tuple(FAMILIES)),
        Measure("log_bandwidth", "log of the bandwidth", methods=FIXED),
        Measure("slope", "slope of log h on log distance", methods=("neighbors",)),
        Measure("stuck", "share of descents that are stuck", methods=STARTS),
        Measure("n_at_edge", "choices that ended at an edge of their range", kind="count"),
        Measure("n_stopped", "descents that did not converge", kind="count", methods=DESCENTS),
    ),
    claims=(
        same(
            "K2_learned_global",
            "A bandwidth learned by gradient, from the best of a grid, has on average the error of "
            "one searched for by leave-one-out.",
            "learned_to_loo",
        ),
        *(
            below("K2_start", ANY_START, f"{name}_to_loo", SAME_MARGIN, rule=OPEN)
            for name in STARTS[1:]
        ),
        *(
            Claim("K2_stuck", FEW_STUCK, "stuck", 0.0, STUCK_SHARE, "share_at_most", method=name)
            for name in STARTS
        ),
        *(below("K2_regret", COSTS, f"regret_{name}", REGRET_MARGIN) for name in CHOSEN[:-1]),
        below("K2_regret", COSTS, "regret_from_one", REGRET_MARGIN, rule=OPEN),
        *(below("K2_adaptive", IMPROVES, f"exact_{name}") for name in ADAPTIVE),
        *(below("K2_adaptive", IMPROVES, f"{name}_to_learned") for name in LEARNED),
        *(
            below(
                "K2_harmless",
                "Where nothing calls for adapting, learning slopes costs at most a twentieth.",
                f"{name}_to_learned",
                SAME_MARGIN,
                is_even,
            )
            for name in LEARNED
        ),
        below(
            "K2_unit_norm",
            "Read as harmless, scaling to length one costs at most a twentieth.",
            "exact_unit_norm",
            SAME_MARGIN,
        ),
        below(
            "K2_printed",
            "Read as an improvement, the printed module has at most a twentieth more error than "
            "one fixed h.",
            "printed_to_loo",
            SAME_MARGIN,
        ),
    ),
    contrasts=(
        *(ratio(f"regret_{name}", name, "oracle") for name in RUN if name != "oracle"),
        *(ratio(f"exact_{name}", name, "oracle", "exact_mse") for name in tuple(FAMILIES)[1:]),
        *(ratio(f"{name}_to_loo", name, "loo") for name in (*STARTS, "printed")),
        *(ratio(f"{name}_to_learned", name, "learned") for name in (*LEARNED, "coordinate")),
    ),
    figures=(
        page("criteria", MAIN, [f"regret_{name}" for name in CHOSEN[:4]], "K2_regret"),
        page("far_off", MAIN, ("regret_rot", "regret_from_one"), "K2_regret"),
        page("descents", STARTED, [f"{name}_to_loo" for name in STARTS], "K2_start", row=None),
        page("adaptive", MAIN, SHOWN),
        page("noise", {"dim": 1, "n_obs": MIDDLE}, SHOWN, row="design", line="noise"),
        page("unit_norm", AT_MIDDLE, LENGTH_ONE, "K2_unit_norm", row=None, line="dim"),
        Figure(
            "bandwidths",
            "nwsim.report.lines:lines",
            # Without "learned", which lies on "loo".
            {"where": MAIN, "methods": ("oracle", "loo", "gcv", "aicc", "rot", "from_one")}
            | {"measures": ("log_bandwidth",), "x_log": True, "log": False, "labels": LABELS}
            | {"row": "dim", "panel": "world"},
        ),
    ),
    profiles={
        "quick": Profile(2, keep=is_quick, rule="enough to fill every table"),
        "standard": Profile(
            lambda condition: N_SIM_SHORT if condition["world"] == "short" else N_SIM,
            rule="59 descents without a stuck one bound the share of such by 5%; 300, where waves "
            "are short, by 1%",
        ),
        "full": Profile(1000, rule="the same by 0.3%"),
    },
)
