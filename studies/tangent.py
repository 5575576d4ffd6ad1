"""Tangent kernel of attention: its form, its concentration, and what training adds to it.

Aims
    Is the tangent kernel of attention with many heads k_vv + k_vk k_qk, as printed (claim N1)?
    The source does not say which kernels these are, so three readings are tried (N1_printed).
    Does the kernel concentrate at the rate of a mean over heads (N1_concentration)? Do
    parameters and kernel move less in training, relative to their size, the more heads there
    are (N1_movement), while the total movement stays (N1_total)? Do learned query-key maps
    raise expressiveness markedly (N1_features), and is that the larger kernel or the learning
    of features (N1_learning)?

Data-generating mechanisms
    A context of 16 standard normal points, which every input attends to; standard normal
    inputs: 64 to train on, 64 to choose on, 256 to score on. Targets are
    sqrt(2/K) sum_k cos(1.3 <u_k, x> + phase_k) with uniform directions and phases: of one wave
    (K = 1, one direction of the input counts) or of 64 (none stands out). Both have the same
    mean 0 and the same covariance as random functions, so no method that is linear in the
    responses can tell them apart on average: the same test error, if it stops at a given step.
    No noise. Contexts, inputs, networks and targets are new in every replicate; levels of
    ``waves`` share all but the target.

Estimands
    Relative Frobenius distance of a printed kernel from the inner products of gradients; variance
    of the kernel over starts; relative and total movement after 256 steps, and after 16; mean
    squared error on the inputs to score on, at the step that is chosen and after 2048.

Methods of estimation
    Heads start with v_h ~ N(0, I) and entries of M_h ~ N(0, 1/(4 d)); t = sqrt(d). ``direct``,
    ``recursion``, ``factored``: readings of the printed formula, see ``READINGS``. ``spread``:
    eight independent starts over one context. ``fixed``: descent in the values alone, which is
    linear; ``linearised``: descent in all parameters of the model's linearisation; ``trained``:
    descent in all parameters of the model itself. All train the departure from the start,
    which is 0 there, full-batch. Each stops at the step, of powers of two, with the least error
    on the inputs to choose on. Linear descents have up to 2^20 steps, which cost nothing, at N
    over the largest eigenvalue of the kernel. ``trained`` has 2048 of nearly twice that size; in
    trials with up to 64 heads twice as many lowered its error by a tenth at most. ``n_falling``
    counts descents that more steps would still have helped. It has 4 to 128 heads: more would
    cost more than all the rest. After 2048 steps of that size all three are also compared as they
    are, none of them stopped (N1_features_steps, N1_learning_steps).
    ``moved``: descent at N over the largest eigenvalue, of all numbers of heads.

Performance measures
    Averages over replicates with their Monte Carlo standard errors; slopes along the number of
    heads, whose levels are independent; ratios of averages, paired by replicate. The kernel's
    variance over the starts of a replicate is divided by the squared norm of a kernel of 256
    heads, drawn independently, so that its mean is exactly proportional to 1/H. The control is of
    errors after 256 steps of 32 targets a replicate, of which both kinds have one expectation.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from nwsim.attention.tangent import AttentionNetwork, random_network
from nwsim.attention.tangent_training import kernel_descent, largest_step, train_attention
from nwsim.study import Claim, Contrast, Curve, Figure, Grid, Measure, Method, Profile, Study

DIM, N_CONTEXT, N_TRAIN, N_CHOOSE, N_SCORE = 8, 16, 64, 64, 256
N_KERNEL = 32  # inputs at which kernels of starts are compared
SCORE_SCALE, FREQUENCY = 0.5, 1.3
HEADS = (2, 4, 8, 16, 32, 64, 128, 256)
FEWER_HEADS = HEADS[1::2]  # in other dimensions
LONG_HEADS, MANY_HEADS = (4, 16, 64, 128), (4, 16, 64)  # of long training, by target
FEW, MANY, N_STARTS, REFERENCE_HEADS = 1, 64, 8, 256
# Steps after which movement is taken, and early descents that are averaged in a replicate.
EARLY, MOVED, N_EARLY = 16, 256, 4
STEPS = (0, *(2**k for k in range(12)))  # of long training
LONG = (0, *(2**k for k in range(21)))  # of linear descent
STEP = 1.9  # of long training, in units of N over the largest eigenvalue; 2 is unstable
CONTROL_STEPS, N_TARGETS = 256, 32
FALLING = 0.95  # an error that fell by a twentieth in the last doubling still falls

# Fixed before the tracked run; trials had other seeds. Rounding leaves about 1e-15 of an identity.
IDENTITY_MARGIN, LIMIT_MARGIN = 1e-10, 0.01**2  # the second: a hundredth
# Rivals of a slope are half a power away: margins lie below a quarter.
SLOPE_MARGIN, MOVEMENT_MARGIN = 0.1, 0.2
MARKED = 0.8  # an error lower by a fifth is "markedly" lower
CONTROL_MARGIN = 0.05  # a quarter of what is marked
TAIL = 4


class Data(NamedTuple):
    """What methods share in a replicate."""

    network: AttentionNetwork
    inputs: np.ndarray  # (N_TRAIN, d)
    watched: np.ndarray  # (N_CHOOSE + N_SCORE, d)
    responses: np.ndarray
    truth: np.ndarray  # at the watched


def draw(condition, rng):
    """Draw context, inputs, a start and a target, which alone depends on ``waves``."""
    points, start, target = rng.spawn(3)
    d, n_heads = condition["dim"], condition["n_heads"]
    context = points.standard_normal((N_CONTEXT, d))
    inputs = points.standard_normal((N_TRAIN, d))
    watched = points.standard_normal((N_CHOOSE + N_SCORE, d))
    network = started(start, n_heads, context)
    function = wave_target(target, condition["waves"], d)
    return Data(network, inputs, watched, function(inputs), function(watched))


def wave_target(rng, waves, dim):
    """Return a sum of waves of one length, over the root of half their number."""
    directions = rng.standard_normal((waves, dim))
    directions *= FREQUENCY / np.linalg.norm(directions, axis=1, keepdims=True)
    phases = rng.uniform(0.0, 2.0 * np.pi, waves)
    return lambda x: np.sqrt(2.0 / waves) * np.cos(x @ directions.T + phases).sum(axis=1)


def started(rng, n_heads, context):
    """Return a network at its start."""
    return random_network(rng, n_heads, context, score_scale=SCORE_SCALE)


def gram(*parts):
    """Return inner products of gradients, given as parts (m, ...), over all parameters."""
    rows = np.hstack([part.reshape(len(part), -1) for part in parts])
    return rows @ rows.T


def relative(kernel, reference):
    """Return the Frobenius distance of a kernel from a reference, over the norm of that."""
    return float(np.linalg.norm(kernel - reference) / np.linalg.norm(reference))


def mean_inner(parts):
    """Return the mean over heads of inner products, for parts (m, H, ...)."""
    return gram(parts) / parts.shape[1]


def direct(network, rng):
    """Read k_vk as mean_h <c_h(x), c_h(x')> and k_qk as <x, x'> / t^2, M_h being trained itself."""
    return lambda x: (network.tangent_kernel(x), gram(*network.gradients(x)))


def recursion(network, rng):
    """Read the formula as the recursion of networks in layers, with scalar kernels.

    k_vk is the kernel of the derivatives in the n scores, mean_h <a_h(x), a_h(x')>, and k_qk that
    of one score, <x, x'> mean_j |X_j|^2 / t^2, as if scores of different keys had no kernel.
    """

    def kernels(x):
        z, _, _ = network.parts(x)
        # (m, H, n): w_j (<v_h, X_j> - f_h), what the output gains from a score.
        read = (z * network.values).sum(axis=2, keepdims=True)
        slopes = network.weights(x) * (network.values @ network.context.T - read)
        k_qk = x @ x.T * np.square(network.context).sum(axis=1).mean() / network.temperature**2
        return mean_inner(z) + mean_inner(slopes) * k_qk, gram(*network.gradients(x))

    return kernels


def factored(network, rng):
    """Read the formula with query and key maps, M_h = W_h U_h', both trained.

    k_qk is then the tangent kernel of the scores, averaged over heads by itself:
    (<x, x'> mean_h |U_h|^2 / d + mean_h <W_h'x, W_h'x'>) / t^2.
    """
    d = network.dim
    # Scores have the variance that they have in the other readings.
    W, U = rng.standard_normal((2, *network.scores.shape)) * np.sqrt(SCORE_SCALE / d)
    network = AttentionNetwork(network.values, W @ np.swapaxes(U, 1, 2), network.context)

    def kernels(x):
        found = network.gradients(x)
        kernel = gram(found.values, found.scores @ U, np.swapaxes(found.scores, 2, 3) @ W)
        z, c, _ = network.parts(x)
        of_keys = x @ x.T * np.square(U).sum(axis=(1, 2)).mean() / d
        k_qk = (of_keys + mean_inner(np.moveaxis(x @ W, 0, 1))) / network.temperature**2
        return mean_inner(z) + mean_inner(c) * k_qk, kernel

    return kernels


def reading(condition, data, rng, form):
    """Compare the kernel as printed with the inner products of gradients, at two starts."""
    x, context = data.inputs[:N_KERNEL], data.network.context
    printed, kernel = form(data.network, rng)(x)
    other_printed, other = form(started(rng, condition["n_heads"], context), rng)(x)
    # Starts are independent: the product of two errors has no part from the chance of either.
    product = np.sum((printed - kernel) * (other_printed - other))
    return {
        "kernel_error": relative(printed, kernel),
        "limit_error2": float(product / np.sum(kernel * other)),
    }


READINGS = {"direct": direct, "recursion": recursion, "factored": factored}


def spread(condition, data, rng):
    """Return the variance of the kernels over starts, in units of a kernel of many heads."""
    x, context = data.inputs[:N_KERNEL], data.network.context
    heads = [condition["n_heads"]] * N_STARTS + [REFERENCE_HEADS]
    starts = [started(rng, n_heads, context) for n_heads in heads]
    row = {}
    for part in ("value", "score", "tangent"):
        *kernels, reference = (getattr(start, f"{part}_kernel")(x) for start in starts)
        variance = np.var(kernels, axis=0, ddof=1).sum() / np.square(reference).sum()
        row[f"{part}_variance"] = float(variance)
    return {**row, "kernel_sd": float(np.sqrt(variance))}


def scored(data, moved, steps):
    """Stop on the inputs to choose on, and score there; outputs ``moved`` are (k, m)."""
    errors = np.square(moved - data.truth)
    chosen, score = errors[:, :N_CHOOSE].mean(axis=1), errors[:, N_CHOOSE:].mean(axis=1)
    best = int(chosen.argmin())
    return {
        "test_error": float(score[best]),
        "n_at_last": int(best == len(steps) - 1),
        "n_falling": int(chosen[-1] < FALLING * chosen[-2]),
    }


def linear(condition, data, rng, name):
    """Descend in the kernel of this name, which is linear in the responses."""
    kernel = getattr(data.network, name)
    inner, cross = kernel(data.inputs), kernel(data.watched, data.inputs)
    step_size = STEP * largest_step(inner)
    as_far = kernel_descent(inner, cross, data.responses, STEPS[-1:], step_size=step_size)
    errors = []
    for target in rng.spawn(N_TARGETS):
        function = wave_target(target, condition["waves"], condition["dim"])
        (moved,) = kernel_descent(inner, cross, function(data.inputs), [CONTROL_STEPS])
        errors.append(np.mean(np.square(moved - function(data.watched))))
    return {
        **scored(data, kernel_descent(inner, cross, data.responses, LONG), LONG),
        "error_at_step": score_at(data, as_far[0]),
        "control_error": float(np.mean(errors)),
    }


def score_at(data, moved):
    """Return the error of outputs (m,) on the inputs to score on."""
    return float(np.square(moved - data.truth)[N_CHOOSE:].mean())


def trained(condition, data, rng):
    """Train all parameters of the model."""
    start, x, watched = data.network, data.inputs, data.watched
    offset, responses = start.outputs(watched), data.responses + start.outputs(x)
    step_size = STEP * largest_step(start.tangent_kernel(x))
    found = train_attention(start, x, responses, STEPS, watch=watched, step_size=step_size)
    return {
        **scored(data, found.watched - offset, STEPS),
        "error_at_step": score_at(data, found.watched[-1] - offset),
    }


def moved(condition, data, rng):
    """Compare the end of training with its start."""
    start, x = data.network, data.inputs
    end = train_attention(start, x, data.responses + start.outputs(x), [MOVED]).network
    way = np.hypot(
        np.linalg.norm(end.values - start.values), np.linalg.norm(end.scores - start.scores)
    )
    size = np.hypot(np.linalg.norm(start.values), np.linalg.norm(start.scores))
    early = [early_movement(condition, data, own) for own in rng.spawn(N_EARLY)]
    return {
        "total_movement": float(way),
        "parameter_movement": float(way / size),
        "kernel_movement": relative(end.tangent_kernel(x), start.tangent_kernel(x)),
        "early_movement": float(np.mean(early)),
    }


def early_movement(condition, data, rng):
    """Return by how much the kernel moves in a few steps, from a start to a target of their own."""
    x, start = data.inputs, started(rng, condition["n_heads"], data.network.context)
    target = wave_target(rng, condition["waves"], condition["dim"])
    end = train_attention(start, x, target(x) + start.outputs(x), [EARLY]).network
    return relative(end.tangent_kernel(x), start.tangent_kernel(x))


def few_waves(condition):
    """Choose one target: kernels at the start need none, and all numbers of heads have this."""
    return condition["waves"] == FEW


def has_training(condition):
    """Choose where networks are trained for long."""
    return condition["dim"] == DIM and condition["n_heads"] in LONG_HEADS


LINEAR = ("fixed", "linearised")
TRAINED = (*LINEAR, "trained")
MOVEMENTS = {
    "parameter_movement": "relative movement of parameters",
    "early_movement": f"movement of the kernel, {EARLY} steps",
    "kernel_movement": "relative movement of the kernel",
    "total_movement": "movement of parameters",
}
VARIANCES = ("tangent", "value", "score")


def always(name, statement, quantity, margin, method=None):
    """Return a claim that no draw has more than 0."""
    return Claim(name, statement, quantity, 0.0, margin, "never_above", method=method)


def slope(name, statement, quantity, theory, margin, rule="rate", tail=TAIL):
    """Return a claim about the slope of the log of a quantity in the log of H."""
    return Claim(name, statement, quantity, theory, margin, rule, "n_heads", tail, few_waves)


def gains():
    """Yield the claims that training lowers the error of a linear method, stopped or not."""
    last, lower = STEPS[-1], f"by {1.0 - MARKED:.0%} or more"
    rivals = {
        "features": ("fixed", "fixed scores"),
        "learning": ("linearised", "its linearisation"),
    }
    for name, (rival, said) in rivals.items():
        best = f"Training of up to {last} steps lowers the error of {said}, of any length, {lower}."
        same = f"After {last} steps of both, training has an error below that of {said} {lower}."
        for suffix, statement, ratio in (("", best, "to"), ("_steps", same, "same")):
            quantity = f"{ratio}_{rival}_trained"
            yield Claim(f"N1_{name}{suffix}", statement, quantity, MARKED, 0.0, "not_above")


PRINTED = "The tangent kernel is k_vv + k_vk k_qk, each a kernel by itself."
LIMIT = "The same, to a hundredth, in the limit of many heads of this dimension."
TWO_PARTS = "Value part plus score part are the inner products of the gradients."
ROOT = "The spread of the kernel over starts falls as one over the root of the number of heads."
INVERSE = "The variance of the kernel over starts falls as one over the number of heads."
LESS = "Relative to size, parameters move as one over the root of H, the kernel no more than that."
EARLY_RATE = "Early in training the kernel moves as one over the number of heads."
TOTAL = "The total movement of the parameters does not depend on the number of heads."
EVEN = f"To a linear method one wave and many are equally hard, up to {CONTROL_MARGIN:.0%}."
PAGES, SLOPES = "nwsim.report", "nwsim.report.tangent:slopes"
SPREADS = ("kernel_sd", "value_variance", "score_variance")
WORDS = {
    "direct": "$M_h$ trained, kernel by head",
    "recursion": "recursion of layers",
    "factored": "query and key maps trained",
    "fixed": "values alone",
    "linearised": "linearised, all parameters",
    "trained": "trained, all parameters",
    "waves": "waves in the target",
}
LINES: dict[str, Any] = {"x": "n_heads", "x_log": True, "labels": WORDS}


STUDY = Study(
    name="tangent",
    label="Tangent kernel of attention",
    seed=20261213,
    factors=(
        Grid({"dim": (DIM,), "waves": (FEW,), "n_heads": HEADS}),
        Grid({"dim": (DIM,), "waves": (MANY,), "n_heads": MANY_HEADS}),
        Grid({"dim": (4, 16), "waves": (FEW,), "n_heads": FEWER_HEADS}),
    ),
    shared_streams=("waves",),
    draw=draw,
    methods=(
        *(Method(name, partial(reading, form=form), few_waves) for name, form in READINGS.items()),
        Method("spread", spread, few_waves),
        Method("fixed", partial(linear, name="value_kernel"), has_training),
        Method("linearised", partial(linear, name="tangent_kernel"), has_training),
        Method("trained", trained, has_training),
        Method("moved", moved, lambda condition: condition["dim"] == DIM and few_waves(condition)),
    ),
    measures=(
        Measure("kernel_error", "distance of the printed kernel", methods=tuple(READINGS)),
        Measure("limit_error2", "squared distance for many heads", methods=tuple(READINGS)),
        Measure("kernel_sd", "relative spread of the kernel", methods=("spread",)),
        *(
            Measure(f"{part}_variance", f"variance of the {part} kernel", methods=("spread",))
            for part in VARIANCES
        ),
        Measure("test_error", "mean squared test error", "y²", methods=TRAINED),
        Measure("error_at_step", f"test error after {STEPS[-1]} steps", "y²", methods=TRAINED),
        Measure("n_at_last", "descents that stop at the last step", kind="count", methods=TRAINED),
        Measure("n_falling", "descents that still fall", kind="count", methods=TRAINED),
        Measure("control_error", "mean error over many targets", "y²", methods=LINEAR),
        *(Measure(name, label, methods=("moved",)) for name, label in MOVEMENTS.items()),
    ),
    claims=(
        always("N1_identity", TWO_PARTS, "kernel_error", IDENTITY_MARGIN, "direct"),
        always("N1_printed", PRINTED, "kernel_error", IDENTITY_MARGIN),
        Claim("N1_limit", LIMIT, "limit_error2", 0.0, LIMIT_MARGIN, "equivalence", "n_heads"),
        slope("N1_concentration", ROOT, "kernel_sd", -0.5, SLOPE_MARGIN),
        # A mean of independent heads: exact for every number of them, so no tail.
        *(
            slope("N1_variance", INVERSE, f"{part}_variance", -1.0, MOVEMENT_MARGIN, tail=None)
            for part in VARIANCES
        ),
        slope("N1_movement", LESS, "parameter_movement", -0.5, SLOPE_MARGIN),
        slope("N1_movement", LESS, "kernel_movement", -0.5, SLOPE_MARGIN, "falls_as"),
        slope("N1_rate", EARLY_RATE, "early_movement", -1.0, MOVEMENT_MARGIN),
        slope("N1_total", TOTAL, "total_movement", 0.0, SLOPE_MARGIN),
        *gains(),
        *(
            Claim("N1_control", EVEN, "few_to_many", 1.0, CONTROL_MARGIN, "equivalence", method=m)
            for m in LINEAR
        ),
    ),
    curves=tuple(
        Curve(rule, name, rule, "n_heads", few_waves, tail)
        for rule, tail in (("local_slope", None), ("tail_slope", TAIL))
        for name in MOVEMENTS
    ),
    contrasts=(
        Contrast("to_fixed_linearised", "test_error", "method", "linearised", "fixed", "ratio"),
        *(
            Contrast(f"{name}_{rival}_trained", measure, "method", "trained", rival, "ratio")
            for name, measure in (("to", "test_error"), ("same", "error_at_step"))
            for rival in LINEAR
        ),
        Contrast("few_to_many", "control_error", "waves", FEW, MANY, "ratio"),
    ),
    figures=(
        Figure(
            "readings",
            f"{PAGES}.lines:lines",
            {"where": {"waves": FEW}, "measures": ("kernel_error",), "methods": tuple(READINGS)}
            | {"panel": "dim", **LINES},
        ),
        Figure("concentration", SLOPES, {"method": "spread", "measures": SPREADS}),
        Figure("movement", SLOPES, {"method": "moved", "measures": tuple(MOVEMENTS)}),
        Figure(
            "errors",
            f"{PAGES}.lines:lines",
            {"where": {"dim": DIM}, "measures": ("test_error", "error_at_step"), "methods": TRAINED}
            | {"panel": "waves", **LINES},
        ),
        Figure(
            "ratios",
            f"{PAGES}.weights:ratios",
            {"where": {"dim": DIM}, "prefix": "to_fixed_", "row": None, "panel": "waves"}
            | {"labels": WORDS},
        ),
    ),
    profiles={
        "quick": Profile(
            2,
            keep=lambda condition: condition["n_heads"] in (4, 16),
            rule="enough to fill every table",
        ),
        "standard": Profile(60, rule="standard error of the slopes of N1_movement below 0.05"),
        "full": Profile(400, rule="the same below 0.02"),
    },
)
