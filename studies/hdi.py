"""Error of an ensemble of heads along a path of diversity.

Aims
    Does the integrated error never rise with the head diversity index (claim H2), and does it
    fall in a straight line (H3)? Which part of it moves: bias, variance or head covariance?
    Does the index, as printed, have the ends that are claimed for it (H1)?

Data-generating mechanisms
    Six worlds in R^10, see ``nwsim.dgp.head_mechanism``: a Matérn field of standard normal
    inputs (``isotropic``), a sum of one field a coordinate (``additive``), a field of one
    index that lies in the frame that all heads share at index 0 (``index_shared``) or is
    spread over the frames they have to themselves at index 1 (``index_private``), and the
    isotropic field of ``correlated`` and of ``nongaussian`` inputs. Normal noise. Queries come
    from the design, new ones in every replicate: errors are weighted with the density.

Estimands
    Mean squared error of the uniformly weighted ensemble, and its parts: squared bias,
    variance, covariance of different heads; and the error of one head by itself. Of the
    squared bias, the part that no sample size removes, since a head knows f only through
    E[f | P'X] (``floor2``; normal inputs).

Methods of estimation
    Heads smooth on Q_k(t) = cos t U + sin t V_k, whose index is 1 - cos^4 t. ``fixed``:
    Gaussian kernel, h = n^(-1 / (4 + d_k)) at every index. ``oracle``: at every index the h
    that minimises the error of this function on two designs and queries of their own. ``index``: no
    smoothing, the index itself: in the subspace form from frames whose columns are mixed at
    random, as printed from orthonormal frames and from ones twice as long.

Performance measures
    Exact moments given the inputs, over two designs a replicate; averages over replicates with
    their Monte Carlo standard errors. Levels of the index share functions, designs and
    queries, so that steps along the path are differences of pairs.
"""

from typing import Any

import numpy as np

from nwsim.dgp import HEAD_WORLDS, head_mechanism, projected_errors
from nwsim.heads import diversity_path, head_diversity_index
from nwsim.inference import decompose_conditional, design_moments
from nwsim.smoothing import MultiHeadNadarayaWatson, oracle_bandwidth
from nwsim.study import Claim, Contrast, Curve, Figure, Grid, Measure, Method, Profile, Study

DIM = 10
N_DESIGNS, N_QUERIES = 2, 128
# Near its end the index hardly moves while the frames still turn: one level more there.
PATH = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 1.0)
COARSE = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MAIN_SIZE, NOISE = 1024, 1.0
# Fixed before the results were seen: one step may rise by 1% of the error of identical heads
# before it counts, and a line may leave 5% of the variation along the path.
STEP_MARGIN, LINE_MARGIN = 0.01, 0.05


def path_of(condition):
    """Return the path; its frames are coordinates, so that the worlds know them."""
    return diversity_path(condition["n_heads"], condition["dim"], condition["d_k"])


def mechanism(condition):
    """Return the laws of function, inputs and noise."""
    return head_mechanism(
        condition["world"], condition["dim"], path_of(condition), noise=condition["noise"]
    )


def draw(condition, rng):
    """Draw a function, queries from the design, and the inner designs."""
    return mechanism(condition).draw(rng, condition["n_obs"], N_DESIGNS, N_QUERIES, None)


def fixed_bandwidth(condition):
    """Return the bandwidth of the best rate for twice differentiable f of d_k variables."""
    return condition["n_obs"] ** (-1.0 / (4.0 + condition["d_k"]))


def parts(frames, bandwidth, data):
    """Return the decomposition over the designs, and the moments behind it."""
    fit = MultiHeadNadarayaWatson(frames, bandwidth).fit
    per_design = design_moments(fit, data.samples, data.queries, data.truth)
    return decompose_conditional(per_design, data.truth), per_design


def head_mse(per_design):
    """Return the mean squared error of a head by itself, averaged over heads."""
    errors = [m.bias**2 + np.einsum("mkk->mk", m.noise_covariance) for m in per_design]
    return float(np.mean(errors))


def at_bandwidth(condition, data, bandwidth):
    """Return the measures of the ensemble at a bandwidth."""
    frames = path_of(condition).frames_at(condition["hdi"])
    d, per_design = parts(frames, bandwidth, data)
    row = {
        "mse": d.mse,
        "bias2": d.bias2,
        "variance": d.variance,
        "head_covariance": d.head_covariance,
        "head_mse": head_mse(per_design),
        "n_empty": sum(found.n_empty for found in per_design),
    }
    if has_floor(condition):
        row["floor2"] = floor2(condition, data, frames)
    return row


def floor2(condition, data, frames):
    """Return the integrated squared bias that is left when n goes to infinity and h to 0."""
    covariance = mechanism(condition).design.covariance
    errors = projected_errors(data.function, frames, covariance, data.queries)
    return float(np.mean(errors.mean(axis=1) ** 2))


def fixed(condition, data, rng):
    """Smooth with the same bandwidth at every index."""
    return at_bandwidth(condition, data, fixed_bandwidth(condition))


def oracle(condition, data, rng):
    """Choose the bandwidth for this function and index on designs and queries of its own."""
    few = mechanism(condition).draw(
        rng, condition["n_obs"], N_DESIGNS, N_QUERIES // 2, None, function=data.function
    )
    frames = path_of(condition).frames_at(condition["hdi"])
    start = fixed_bandwidth(condition)
    best = oracle_bandwidth(lambda h: parts(frames, h, few)[0].mse, start / 4.0, 8.0 * start)
    row = at_bandwidth(condition, data, best.bandwidth)
    return {**row, "bandwidth": best.bandwidth, "n_at_edge": best.at_edge}


def index(condition, data, rng):
    """Compute the index from other bases of the same subspaces."""
    frames = path_of(condition).frames_at(condition["hdi"])
    mixing = rng.standard_normal((condition["n_heads"], condition["d_k"], condition["d_k"]))
    covariance = mechanism(condition).design.covariance
    return {
        "subspace_hdi": head_diversity_index(frames @ mixing),
        "metric_hdi": head_diversity_index(frames @ mixing, metric=covariance),
        "printed_hdi": (printed := head_diversity_index(frames, "printed")),
        "printed_hdi_scaled": (longer := head_diversity_index(2.0 * frames, "printed")),
        "printed_change": longer - printed,
    }


def at_index(value):
    """Return a filter on the index."""
    return lambda condition: condition["hdi"] == value


def has_floor(condition):
    """Use the closed form, which needs normal inputs."""
    return condition["world"] != "nongaussian"


def has_oracle(condition):
    """Search in the main setting, at as many levels as costs allow."""
    return is_main(condition) and condition["n_obs"] == MAIN_SIZE and condition["hdi"] in COARSE


def has_index(condition):
    """Select two worlds, which tell both metrics: the index knows no function or sample."""
    return (
        condition["world"] in ("isotropic", "correlated")
        and condition["n_obs"] == MAIN_SIZE
        and condition["noise"] == NOISE
    )


def is_main(condition):
    """Select the number and size of heads, and the noise, of most tables."""
    return (condition["n_heads"], condition["d_k"], condition["noise"]) == (4, 2, NOISE)


def is_quick(condition):
    """Select a whole path in one world, and little of the others."""
    few = condition["hdi"] in (0.0, 0.4, 1.0)
    if condition["n_obs"] == MAIN_SIZE and condition["world"] == HEAD_WORLDS[0]:
        return few or is_main(condition)
    return few and is_main(condition) and condition["n_obs"] <= MAIN_SIZE


def is_smoothing(condition):
    """Select the methods that estimate f."""
    return condition["method"] != "index"


def cells(n_obs, n_heads=4, d_k=2, noise=NOISE, hdi=COARSE):
    """Return the crossing of all worlds and a path with one setting."""
    return Grid(
        {
            "world": HEAD_WORLDS,
            "dim": (DIM,),
            "n_obs": n_obs,
            "n_heads": (n_heads,),
            "d_k": (d_k,),
            "noise": (noise,),
            "hdi": hdi,
        }
    )


PARTS = ("mse", "bias2", "variance", "head_covariance", "head_mse")
PAGES = "nwsim.report.diversity"
MAIN = {"n_heads": 4, "d_k": 2, "noise": NOISE}
ENDS: dict[str, Any] = {"level": 1.0, "baseline": 0.0, "kind": "ratio"}

STUDY = Study(
    name="hdi",
    label="Error against head diversity",
    seed=20261130,
    factors=(
        cells((MAIN_SIZE,), hdi=PATH),
        cells((256, 4096)),
        cells((MAIN_SIZE,), n_heads=2),
        cells((MAIN_SIZE,), d_k=1),
        cells((MAIN_SIZE,), n_heads=9, d_k=1),
        cells((MAIN_SIZE,), noise=0.25),
        cells((MAIN_SIZE,), noise=4.0),
    ),
    shared_streams=("hdi",),
    draw=draw,
    methods=(
        Method("fixed", fixed),
        Method("oracle", oracle, where=has_oracle),
        Method("index", index, where=has_index),
    ),
    measures=(
        *(
            Measure(name, label, unit="y²", methods=("fixed", "oracle"))
            for name, label in (
                ("mse", "integrated mean squared error"),
                ("bias2", "integrated squared bias"),
                ("variance", "integrated variance of the heads"),
                ("head_covariance", "integrated covariance of different heads"),
                ("head_mse", "error of one head, averaged over heads"),
            )
        ),
        Measure(
            "floor2",
            "squared bias that no sample removes",
            unit="y²",
            where=has_floor,
            methods=("fixed", "oracle"),
        ),
        Measure("bandwidth", "chosen bandwidth", methods=("oracle",)),
        Measure("n_at_edge", "searches that ended at an edge", kind="count", methods=("oracle",)),
        *(
            Measure(name, label, methods=("index",))
            for name, label in (
                ("subspace_hdi", "head diversity index"),
                ("metric_hdi", "index in the metric of the inputs"),
                ("printed_hdi", "index as printed"),
                ("printed_hdi_scaled", "index as printed, frames twice as long"),
                ("printed_change", "change of the printed index with the length of the frames"),
            )
        ),
        Measure("n_empty", "empty windows", kind="count", methods=("fixed", "oracle")),
    ),
    claims=(
        *(
            Claim(
                name,
                f"{what} is {value:g} for {kind} heads.",
                quantity,
                theory=value,
                margin=1e-6,
                rule="equivalence",
                where=at_index(value),
            )
            for name, quantity, what, value, kind in (
                ("H1_identical", "printed_hdi", "The index as printed", 0.0, "identical"),
                ("H1_orthogonal", "printed_hdi", "The index as printed", 1.0, "orthogonal"),
                ("H1_subspace_identical", "subspace_hdi", "The subspace index", 0.0, "identical"),
                ("H1_subspace_orthogonal", "subspace_hdi", "The subspace index", 1.0, "orthogonal"),
            )
        ),
        Claim(
            "H1_scale",
            "The index as printed does not depend on the scale of the projections.",
            "printed_change",
            theory=0.0,
            margin=1e-6,
            rule="equivalence",
        ),
        *(
            Claim(
                name,
                f"{what} does not increase with the head diversity index.",
                quantity,
                theory=0.0,
                margin=STEP_MARGIN,
                rule=rule,
                over="hdi",
            )
            for name, quantity, rule, what in (
                ("H2", "mse", "never_rises", "Integrated mean squared error"),
                ("H2_any", "mse", "no_rise_at_all", "From any level to any later one, the error"),
                ("H2_covariance", "head_covariance", "never_rises", "Covariance of heads"),
            )
        ),
        Claim(
            "H2_ends",
            "Orthogonal heads have at most the error of identical heads.",
            "total_at_1",
            theory=1.0,
            margin=0.0,
            rule="not_above",
        ),
        Claim(
            "H2_tenfold",
            "Covariance of heads falls at least tenfold from identical to orthogonal heads.",
            "head_covariance_at_1",
            theory=0.1,
            margin=0.0,
            rule="not_above",
        ),
        Claim(
            "H3",
            "Integrated mean squared error falls in a straight line in the index.",
            "mse",
            theory=0.0,
            margin=LINE_MARGIN,
            rule="straight_line",
            over="hdi",
        ),
    ),
    curves=(
        *(Curve("step", measure, "steps", over="hdi", where=is_smoothing) for measure in PARTS),
        Curve("departure", "mse", "departure", over="hdi", where=is_smoothing),
        Curve("line_slope", "mse", "line_slope", over="hdi", where=is_smoothing),
        Curve("lack_of_fit", "mse", "lack_of_fit", over="hdi", where=is_smoothing),
    ),
    contrasts=(
        *(
            Contrast(f"total_at_{level:g}".replace(".", "_"), "mse", "hdi", level, 0.0, "ratio")
            for level in PATH[1:]
        ),
        *(Contrast(f"{measure}_at_1", measure, "hdi", **ENDS) for measure in PARTS[1:]),
    ),
    figures=(
        Figure(
            "decomposition",
            f"{PAGES}:stacked",
            {"where": {**MAIN, "n_obs": MAIN_SIZE}, "method": "fixed"},
        ),
        Figure(
            "decomposition_noisy",
            f"{PAGES}:stacked",
            {"where": {**MAIN, "noise": 4.0, "n_obs": MAIN_SIZE}, "method": "fixed"},
        ),
        Figure(
            "decomposition_oracle",
            f"{PAGES}:stacked",
            {"where": {**MAIN, "n_obs": MAIN_SIZE}, "method": "oracle"},
        ),
        Figure("total", f"{PAGES}:relative", {"where": MAIN, "method": "fixed", "line": "n_obs"}),
        Figure(
            "covariance",
            f"{PAGES}:along",
            {"where": {**MAIN, "n_obs": MAIN_SIZE}, "method": "fixed", "log": True}
            | {"measures": ("head_covariance", "variance"), "ylabel": "part of the error (y²)"},
        ),
        Figure(
            "heads",
            f"{PAGES}:along",
            {"where": {**MAIN, "n_obs": MAIN_SIZE}, "method": "fixed"}
            | {"measures": ("mse", "head_mse")},
        ),
        Figure("steps", f"{PAGES}:steps", {"where": {**MAIN, "n_obs": MAIN_SIZE}, "claim": "H2"}),
    ),
    profiles={
        "quick": Profile(
            2,
            keep=is_quick,
            rule="enough to fill every table",
        ),
        "standard": Profile(100, rule="s.e. of H2_ends below 0.025 but for index_shared"),
        "full": Profile(1000, rule="the same below 0.008"),
    },
)
