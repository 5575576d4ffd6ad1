"""Frames that minimise the error of an ensemble of heads, and whether they are orthogonal.

Aims
    Claim D1 says that projections which minimise the integrated mean squared error are
    mutually orthogonal. How much do the frames overlap that do minimise it? What would
    orthogonal frames cost? Does the bias or the covariance between heads decide, and when?

Data-generating mechanisms
    The worlds of claim H2 (`nwsim.dgp.head_mechanism`): a Matérn field of isotropic normal
    inputs, a sum of fields of one coordinate each, a field of one direction, and the isotropic
    field of correlated normal and of multivariate t inputs. The two worlds with one direction
    are one here: without a given path of frames they have the same law. Functions have unit
    variance; noise has standard deviation 1/2, or 2 or 8, where variance is most of the error.

Estimands
    The overlap of the frames that minimise the conditional mean squared error of H uniformly
    weighted Gaussian heads, and that error. Errors are weighted with the density of the
    inputs: queries are drawn from it anew in every replicate.

Methods of estimation
    All frames are orthonormal, and those that are fitted or chosen minimise the exact
    conditional error on designs and queries of their own. ``optimised``: the best descent of
    many starts: random, of least overlap, almost identical, disjoint coordinates, and the two
    constrained optima that follow. ``best_orthogonal``: the best among mutually orthogonal
    frames, by descent, where they fit (H d_k <= d). ``best_identical``: the best single frame,
    for all heads. ``chosen_apart``: the best of as many frames of least overlap, drawn at
    random, as ``optimised`` has starts. ``apart``, ``random``, ``identical``: one draw of such
    frames, untrained. Bandwidth, in standard deviations of the inputs: ``rate`` has
    h = n^(-1/(4 + d_k)) for all; ``fitted`` fits it with the frames, on the same designs.

Performance measures
    Error and its parts by the conditional route on fresh designs and fresh queries; the mean
    overlap of pairs of heads (1 - HDI), and that in the metric of the inputs where it is
    another; the floor under the squared bias, which no n removes, where it is known exactly;
    the error on the training designs; records of the descents and of the curvature at the
    optimum. Averages over replicates with their Monte Carlo standard errors.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from nwsim.dgp import Replicate, head_mechanism, projected_errors
from nwsim.heads import (
    diversity_path,
    head_diversity_index,
    minimum_overlap,
    null_mean,
    pairwise_angles,
    random_frames,
)
from nwsim.inference import decompose_conditional, design_moments
from nwsim.learning import (
    FrameFit,
    FrameRisk,
    QueriedSample,
    best_bandwidth,
    curvatures,
    distinct_optima,
    fit_frames,
    least_overlap_frames,
    shaken,
    starting_frames,
)
from nwsim.smoothing import MultiHeadNadarayaWatson
from nwsim.study import Claim, Contrast, Figure, Grid, Measure, Method, Profile, Study

N_SCORED, N_QUERIES = 4, 256
QUERIES_A_DESIGN = 40  # of each training design, drawn for it alone
SPAN = 12.0  # a fitted bandwidth lies within this factor of that of the rate
FLAT = 0.02  # share of the largest curvature below which a direction counts as flat
CLOSE = 0.01  # share of the best training error within which a start has done as well


@dataclass(frozen=True, eq=False)
class Task:
    """What a replicate holds: where frames are scored, and what was fitted for them.

    Fits are part of the data because several methods compare them.
    """

    scored: Replicate
    covariance: np.ndarray
    risk: FrameRisk
    n_starts: int
    optimised: tuple[FrameFit, ...]
    orthogonal: tuple[FrameFit, ...]
    identical: tuple[FrameFit, ...]


def fits_apart(condition):
    """Whether mutually orthogonal heads fit into the inputs' dimension."""
    return condition["n_heads"] * condition["d_k"] <= condition["dim"]


def shape_of(condition):
    """Return the numbers of heads, dimensions and columns, as `nwsim.heads` calls them."""
    return {"n_heads": condition["n_heads"], "d": condition["dim"], "d_k": condition["d_k"]}


def rate_bandwidth(condition):
    """Return h of the rate for a function with two derivatives, seen through d_k directions."""
    return condition["n_obs"] ** (-1.0 / (4.0 + condition["d_k"]))


def draw(condition, rng):
    """Draw a function with designs to train and to score on, and fit frames to the former."""
    scored_rng, path_rng, train_rng, start_rng = rng.spawn(4)
    path = diversity_path(2, condition["dim"], 1, path_rng)
    mechanism = head_mechanism(condition["world"], condition["dim"], path, noise=condition["noise"])
    scored = mechanism.draw(scored_rng, condition["n_obs"], N_SCORED, N_QUERIES, None)
    risk = FrameRisk(
        training_sample(mechanism, scored.function, condition["n_obs"], design_rng)
        for design_rng in train_rng.spawn(condition["n_designs"])
    )
    starts = starting_frames(**shape_of(condition), rng=start_rng)
    fit = partial(
        fit_frames,
        risk,
        bandwidth=rate_bandwidth(condition),
        span=SPAN if condition["bandwidth"] == "fitted" else None,
    )
    # One head on its own has the error of any number of heads that are alike.
    alone = fit(starts={name: frames[:1] for name, frames in starts.items()})
    n_heads = condition["n_heads"]
    identical = tuple(one._replace(frames=np.repeat(one.frames, n_heads, 0)) for one in alone)
    starts["identical"] = shaken(best(identical).frames, 0.05, start_rng)
    orthogonal: tuple[FrameFit, ...] = ()
    if fits_apart(condition):
        within = {name: frames for name, frames in starts.items() if name[:2] in ("ap", "co")}
        within["apart"] = least_overlap_frames(**shape_of(condition), rng=start_rng)
        orthogonal = fit(starts=within, orthogonal=True)
        starts["orthogonal"] = best(orthogonal).frames
    return Task(
        scored=scored,
        covariance=mechanism.design.covariance,
        risk=risk,
        n_starts=len(starts),
        optimised=fit(starts=starts),
        orthogonal=orthogonal,
        identical=identical,
    )


def training_sample(mechanism, function, n_obs, rng):
    """Draw one training design with queries of its own."""
    design_rng, query_rng = rng.spawn(2)
    X, f, noise_variance = mechanism.draw_samples(function, [design_rng], n_obs)[0]
    queries = mechanism.draw_queries(query_rng, QUERIES_A_DESIGN, None)
    return QueriedSample(X, f, noise_variance, queries, function(queries))


def best(fits):
    """Return the fit with the least error on the training designs."""
    return min(fits, key=lambda fit: fit.value)


def score(condition, data, frames, bandwidth):
    """Return the measures of frames on the designs that they were not fitted to."""
    scored = data.scored
    fit = MultiHeadNadarayaWatson(frames, bandwidth).fit
    per_design = design_moments(fit, scored.samples, scored.queries, scored.truth)
    parts = decompose_conditional(per_design, scored.truth)
    row = {name: getattr(parts, name) for name in PARTS}
    row["overlap"] = 1.0 - head_diversity_index(frames)
    row["train_mse"] = data.risk.value(frames, bandwidth)
    # Angles ascend, so cosines descend; means over pairs of heads.
    cosines = np.cos(pairwise_angles(frames)).mean(axis=0)
    row.update({cosine_name(j): float(value) for j, value in enumerate(cosines)})
    if has_metric(condition):
        row["overlap_metric"] = 1.0 - head_diversity_index(frames, metric=data.covariance)
    if has_floor(condition):
        row["floor2"] = floor2(data, frames)
    if has_fitted_bandwidth(condition):
        row["bandwidth"] = bandwidth
    return row


def floor2(data, frames):
    """Return the integrated squared bias that is left when n grows and h falls."""
    scored = data.scored
    errors = projected_errors(scored.function, frames, data.covariance, scored.queries)
    return float(np.mean(errors.mean(axis=1) ** 2))


def at_optimised(condition, data, rng):
    """Score the best descent, and describe all of them."""
    fit = best(data.optimised)
    risk = partial(data.risk.value_and_gradient, bandwidth=fit.bandwidth)
    bends = curvatures(risk, fit.frames)
    return {
        **score(condition, data, fit.frames, fit.bandwidth),
        "n_optima": distinct_optima(data.optimised),
        "near_best": np.mean([one.value <= (1 + CLOSE) * fit.value for one in data.optimised]),
        "converged": np.mean([one.converged for one in data.optimised]),
        "flat": np.mean(bends < FLAT * bends[-1]),
    }


def at_best(condition, data, rng, kind):
    """Score the best of the constrained fits, "orthogonal" or "identical"."""
    fit = best(getattr(data, kind))
    return score(condition, data, fit.frames, fit.bandwidth)


def at_chosen_apart(condition, data, rng):
    """Choose among frames of least overlap as often as the descents have starts."""
    drawn = [least_overlap_frames(**shape_of(condition), rng=rng) for _ in range(data.n_starts)]
    found = [(frames, own_bandwidth(condition, data, frames)) for frames in drawn]
    return score(condition, data, *min(found, key=lambda pair: data.risk.value(*pair)))


def at_untrained(condition, data, rng, draw_frames):
    """Score frames that were drawn, not fitted."""
    frames = draw_frames(**shape_of(condition), rng=rng)
    return score(condition, data, frames, own_bandwidth(condition, data, frames))


def own_bandwidth(condition, data, frames):
    """Return the bandwidth of frames that were not fitted."""
    h = rate_bandwidth(condition)
    return best_bandwidth(data.risk, frames, h, SPAN) if has_fitted_bandwidth(condition) else h


def identical_frames(n_heads, d, d_k, rng):
    """Draw one frame for all heads."""
    return np.repeat(random_frames(1, d, d_k, rng), n_heads, axis=0)


def cosine_name(j):
    """Return the name of the measure of the j-th largest cosine, counted from 0."""
    return f"cosine_{j + 1}"


def has_metric(condition):
    """Whether the inputs have a metric other than the identity."""
    return condition["world"] == "correlated"


def has_floor(condition):
    """Whether projected means are known exactly: normal inputs."""
    return condition["world"] != "nongaussian"


def has_angle(j, condition):
    """Whether pairs of heads have a j-th principal angle, counted from 0."""
    return condition["d_k"] > j


def has_fitted_bandwidth(condition):
    """Whether each method fits its own bandwidth."""
    return condition["bandwidth"] == "fitted"


def is_optimised(condition):
    """Whether overlaps are a result: those of the other methods are set."""
    return condition["method"] == "optimised"


def least(setting):
    """Return the least mean overlap that so many heads can have: 0 where they fit side by side."""
    return minimum_overlap(**shape_of(setting))


def halfway(setting):
    """Return half the distance from the least overlap to that of random frames."""
    return 0.5 * (1.0 - null_mean(**shape_of(setting)) - least(setting))


def cells(shape, noise, worlds=None, n_designs=(8,), bandwidth=("rate",), n_obs=128):
    """Return the crossing of worlds and noise for heads of one shape (H, d, d_k)."""
    n_heads, d, d_k = shape
    return Grid(
        {
            "world": worlds or WORLDS,
            "dim": (d,),
            "n_heads": (n_heads,),
            "d_k": (d_k,),
            "n_obs": (n_obs,),
            "noise": noise,
            "n_designs": n_designs,
            "bandwidth": bandwidth,
        }
    )


def is_quick(condition):
    """Keep what fills every table: both kinds of size, the metric, a fitted bandwidth."""
    small = condition["dim"] == 4
    if condition["noise"] > 0.5:
        return False
    if condition["world"] == "isotropic":
        return small or condition["d_k"] == 4
    return condition["world"] == "correlated" and small and condition["bandwidth"] == "rate"


WORLDS = ("isotropic", "additive", "index_shared", "correlated", "nongaussian")
PARTS = ("mse", "bias2", "variance", "head_covariance")
SMALL = (2, 4, 2)
WIDE = ((3, 6, 2), (4, 6, 2), (2, 6, 4))  # the last two have no room for orthogonal heads
RIVALS = ("best_orthogonal", "best_identical", "chosen_apart", "apart", "random", "identical")
LABELS = {
    "optimised": "free optimum",
    "best_orthogonal": "best orthogonal frames",
    "best_identical": "best single frame",
    "chosen_apart": "chosen among least overlap",
    "apart": "least overlap, drawn",
    "random": "random frames",
    "identical": "one random frame",
    "index_shared": "one direction",
    "nongaussian": "heavy tails",
    "rate": "bandwidth of the rate",
    "fitted": "fitted bandwidth",
}

STUDY = Study(
    name="decorrelation",
    label="Frames that minimise the error of an ensemble of heads",
    seed=20261211,
    factors=(
        cells(SMALL, (0.5, 2.0, 8.0)),
        cells(SMALL, (0.5,), bandwidth=("fitted",)),
        cells(SMALL, (8.0,), ("isotropic", "index_shared"), bandwidth=("fitted",)),
        cells(SMALL, (0.5, 8.0), ("isotropic",), n_designs=(24,)),
        cells(SMALL, (0.5, 8.0), ("isotropic",), n_obs=512),
        *(cells(shape, (0.5,)) for shape in WIDE),
        *(cells(shape, (8.0,), ("isotropic",)) for shape in WIDE),
    ),
    shared_streams=("noise", "bandwidth", "n_designs"),
    draw=draw,
    methods=(
        Method("optimised", at_optimised),
        Method("best_orthogonal", partial(at_best, kind="orthogonal"), where=fits_apart),
        Method("best_identical", partial(at_best, kind="identical")),
        Method("chosen_apart", at_chosen_apart),
        Method("apart", partial(at_untrained, draw_frames=least_overlap_frames)),
        Method("random", partial(at_untrained, draw_frames=random_frames)),
        Method("identical", partial(at_untrained, draw_frames=identical_frames)),
    ),
    measures=(
        Measure("mse", "integrated mean squared error", unit="y²"),
        Measure("bias2", "integrated squared bias", unit="y²"),
        Measure("variance", "integrated variance", unit="y²"),
        Measure("head_covariance", "integrated covariance between heads", unit="y²"),
        Measure("floor2", "floor under the squared bias", unit="y²", where=has_floor),
        Measure("train_mse", "error on the training designs", unit="y²"),
        Measure("overlap", "mean overlap of pairs of heads"),
        Measure("overlap_metric", "mean overlap in the inputs' metric", where=has_metric),
        *(
            Measure(
                cosine_name(j),
                f"cosine of principal angle {j + 1}, mean over pairs",
                where=partial(has_angle, j),
            )
            for j in range(4)
        ),
        Measure("bandwidth", "fitted bandwidth", where=has_fitted_bandwidth),
        *(
            Measure(name, label, methods=("optimised",))
            for name, label in (
                ("n_optima", "distinct local optima among converged descents"),
                ("near_best", "share of starts within 1% of the best"),
                ("converged", "share of descents that converged"),
                ("flat", "share of directions with under 2% of the largest curvature"),
            )
        ),
    ),
    claims=(
        Claim(
            "D1",
            "Frames that minimise the integrated mean squared error are nearer to the least "
            "overlap that frames can have, none where there is room, than to random frames.",
            "overlap",
            theory=least,
            margin=halfway,
            rule="not_above",
            method="optimised",
        ),
        Claim(
            "D1_strict",
            "Frames that minimise the integrated mean squared error have the least overlap, to a "
            "tenth of its distance to that of random frames.",
            "overlap",
            theory=least,
            margin=lambda setting: 0.2 * halfway(setting),
            rule="not_above",
            method="optimised",
        ),
        Claim(
            "D1_metric",
            "In the metric of the inputs, frames that minimise the integrated mean squared error "
            "are nearer to the least overlap than to random frames.",
            "overlap_metric",
            theory=least,
            margin=halfway,
            rule="not_above",
            method="optimised",
        ),
        Claim(
            "D1_cost",
            "The best mutually orthogonal frames have an error at most 5% above that of the free "
            "optimum.",
            "cost_of_best_orthogonal",
            theory=1.0,
            margin=0.05,  # untrained frames differ among themselves by more
            rule="not_above",
        ),
    ),
    contrasts=(
        *(
            Contrast(f"cost_of_{rival}", "mse", "method", rival, "optimised", kind="ratio")
            for rival in RIVALS
        ),
        *(
            Contrast(f"{part}_above_{rival}", part, "method", "optimised", rival)
            for rival in ("best_orthogonal", "best_identical", "chosen_apart", "random")
            for part in PARTS
        ),
        Contrast(
            "training_cost", "train_mse", "method", "best_orthogonal", "optimised", kind="ratio"
        ),
        Contrast("more_training", "overlap", "n_designs", 24, 8, where=is_optimised),
        Contrast("fitted_bandwidth", "overlap", "bandwidth", "fitted", "rate", where=is_optimised),
    ),
    figures=tuple(
        Figure(
            name,
            f"nwsim.report.overlap:{name}",
            {"where": {"n_designs": 8, "n_obs": 128, **where}, "labels": LABELS},
        )
        for name, where in (
            ("optimum", {}),
            ("spectra", {"bandwidth": "rate", "noise": (0.5, 8.0)}),
            ("reasons", {"bandwidth": "rate", "dim": 4}),
        )
    ),
    profiles={
        "quick": Profile(2, keep=is_quick, rule="enough to fill every table"),
        "standard": Profile(
            20, rule="the least that gives verdicts: margins are many standard errors wide"
        ),
        "full": Profile(200, rule="a third of the standard errors"),
    },
)
