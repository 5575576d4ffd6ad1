"""The tangent kernel of attention against its definition, and training against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import softmax_attention
from nwsim.attention.tangent import AttentionNetwork, random_network
from nwsim.attention.tangent_training import kernel_descent, largest_step, train_attention
from nwsim.attention.weights import attention_weights
from nwsim.exceptions import ParameterError


def sample(
    n_heads: int = 5, dim: int = 3, n: int = 7, m: int = 6, seed: int = 0, scale: float = 1.0
) -> tuple[AttentionNetwork, np.ndarray]:
    rng = np.random.default_rng([seed, n_heads, dim, n, m])
    network = random_network(rng, n_heads, rng.standard_normal((n, dim)), score_scale=scale)
    return network, rng.standard_normal((m, dim))


def flat(network: AttentionNetwork, x: np.ndarray) -> np.ndarray:
    return np.hstack([part.reshape(len(x), -1) for part in network.gradients(x)])


shapes = st.fixed_dictionaries(
    {
        "n_heads": st.integers(1, 6),
        "dim": st.integers(1, 5),
        "n": st.integers(1, 9),
        "m": st.integers(1, 6),
        "seed": st.integers(0, 10),
        "scale": st.sampled_from([0.1, 1.0, 20.0]),
    }
)


@given(shapes)
def test_outputs_are_softmax_attention_of_every_head(shape: Any) -> None:
    network, x = sample(**shape)
    q = x @ network.scores
    tokens = network.context
    heads = softmax_attention(q, tokens, tokens @ network.values[..., np.newaxis], None)
    want = heads[..., 0].sum(axis=0) / np.sqrt(network.n_heads)
    np.testing.assert_allclose(network.outputs(x), want, rtol=0, atol=1e-12)
    np.testing.assert_allclose(network.parts(x).outputs, want, rtol=0, atol=1e-12)
    weights = attention_weights(q, tokens)
    np.testing.assert_allclose(network.weights(x), np.moveaxis(weights, 0, 1), atol=1e-12)


@given(shapes)
def test_kernel_is_the_inner_product_of_gradients(shape: Any) -> None:
    network, x = sample(**shape)
    slopes = flat(network, x)
    kernel = network.tangent_kernel(x)
    size = float(np.abs(kernel).max())
    np.testing.assert_allclose(kernel, slopes @ slopes.T, rtol=0, atol=1e-13 * size)
    np.testing.assert_array_equal(kernel, network.value_kernel(x) + network.score_kernel(x))
    crossed = network.tangent_kernel(x[:2], x)
    np.testing.assert_allclose(crossed, kernel[:2], rtol=0, atol=1e-13 * size)


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
def test_gradients_agree_with_central_differences(scale: float) -> None:
    network, x = sample(scale=scale)
    found = flat(network, x)
    step = 1e-5
    columns = []
    for name in ("values", "scores"):
        array = getattr(network, name)
        for place in np.ndindex(*array.shape):
            ends = []
            for sign in (1.0, -1.0):
                moved = array.copy()
                moved[place] += sign * step
                ends.append(replace(network, **{name: moved}).outputs(x))
            columns.append((ends[0] - ends[1]) / (2.0 * step))
    want = np.array(columns).T
    assert found.shape == want.shape
    # Truncation is step^2 times a third derivative, rounding 1e-16 / step.
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-8 * np.abs(want).max())
    assert np.abs(found - want).max() > 0  # the two routes are different ones


def test_a_wrong_gradient_is_seen_by_the_identity() -> None:
    network, x = sample()
    slopes = flat(network, x)
    # Without the centring of the values the score part is another kernel.
    weights = network.weights(x)
    raw = (weights * (network.values @ network.context.T)) @ network.context
    wrong = network.value_kernel(x) + np.einsum("mhd,lhd->ml", raw, raw) / 5 * (x @ x.T) / 3
    assert np.abs(wrong - slopes @ slopes.T).max() > 0.01 * np.abs(wrong).max()


def test_kernel_by_hand_where_one_point_is_all_the_context() -> None:
    # One key: its weight is 1, the average is the key, and no score matters.
    network, x = sample(n=1)
    key = network.context[0]
    np.testing.assert_allclose(network.value_kernel(x), np.full((6, 6), key @ key))
    np.testing.assert_array_equal(network.score_kernel(x), np.zeros((6, 6)))


def test_kernel_by_hand_at_zero_scores() -> None:
    # Equal weights: z is the mean of the context, c its covariance matrix times v.
    network, x = sample()
    network = replace(network, scores=np.zeros_like(network.scores))
    mean = network.context.mean(axis=0)
    covariance = np.cov(network.context.T, ddof=0)
    np.testing.assert_allclose(network.value_kernel(x), np.full((6, 6), mean @ mean))
    lengths = np.square(network.values @ covariance).sum(axis=1).mean()
    want = lengths * (x @ x.T) / network.temperature**2
    np.testing.assert_allclose(network.score_kernel(x), want, rtol=1e-10)


def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    network, x = sample(n_heads=3)
    values = torch.tensor(network.values, requires_grad=True)
    scores = torch.tensor(network.scores, requires_grad=True)
    keys = torch.tensor(network.context)
    found = network.gradients(x)
    for i, point in enumerate(torch.tensor(x)):
        weights = torch.softmax((point @ scores) @ keys.T / network.temperature, dim=-1)
        output = ((weights @ keys) * values).sum() / 3**0.5
        slopes = torch.autograd.grad(output, (values, scores))
        for got, want in zip(found, slopes, strict=True):
            np.testing.assert_allclose(got[i], want.numpy(), rtol=0, atol=1e-12)


def test_variance_of_the_kernel_over_starts_falls_as_one_over_heads() -> None:
    # A mean of H independent heads. Of 400 starts, the log of a variance has a standard error
    # of about 0.1 (kurtosis 5), so a band of 4.5 of them in the log of the ratio fails by
    # chance once in 1e5 seeds; a kernel that does not concentrate is off by log 16.
    rng = np.random.default_rng(3)
    context, x = rng.standard_normal((6, 2)), rng.standard_normal((2, 2))

    def variance(n_heads: int) -> float:
        starts = [random_network(rng, n_heads, context) for _ in range(400)]
        return float(np.var([start.tangent_kernel(x)[0, 1] for start in starts], ddof=1))

    few, many = variance(4), variance(64)
    assert abs(np.log(few / many) - np.log(16.0)) < 0.65
    # The negative control: without more heads the same band is left.
    assert abs(np.log(few / variance(4)) - np.log(16.0)) > 0.65


def test_descent_in_the_values_is_linear_in_the_value_kernel() -> None:
    network, x = sample(n_heads=6, m=8)
    rng = np.random.default_rng(1)
    y, watch = rng.standard_normal(8), rng.standard_normal((5, 3))
    steps = (0, 1, 7, 40)
    found = train_attention(network, x, y, steps, watch=watch, fixed_scores=True)
    moved = kernel_descent(
        network.value_kernel(x),
        network.value_kernel(watch, x),
        y - network.outputs(x),
        steps,
    )
    np.testing.assert_allclose(found.watched, network.outputs(watch) + moved, atol=1e-12)
    assert found.n_halved == 0
    np.testing.assert_array_equal(found.network.scores, network.scores)
    # With scores as they are the kernel of the descent never moves.
    np.testing.assert_array_equal(found.network.value_kernel(x), network.value_kernel(x))


def test_one_step_is_the_gradient_of_the_loss() -> None:
    network, x = sample()
    y = np.linspace(-1.0, 1.0, 6)
    found = train_attention(network, x, y, [1], step_size=1e-3).network
    slopes = network.gradients(x)
    residuals = (network.outputs(x) - y) / 6.0
    np.testing.assert_allclose(
        found.values, network.values - 1e-3 * np.einsum("m,mha->ha", residuals, slopes.values)
    )
    np.testing.assert_allclose(
        found.scores, network.scores - 1e-3 * np.einsum("m,mhab->hab", residuals, slopes.scores)
    )


def test_training_of_many_heads_is_its_linearisation() -> None:
    # The departure falls with H: at 4096 heads it is a small part of what the outputs move.
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((6, 2)), rng.standard_normal(6)

    def departure(n_heads: int) -> float:
        start = random_network(np.random.default_rng(6), n_heads, x)
        offset, kernel = start.outputs(x), start.tangent_kernel(x)
        found = train_attention(start, x, y + offset, [20]).watched[0] - offset
        straight = kernel_descent(kernel, kernel, y, [20])[0]
        return float(np.linalg.norm(found - straight) / np.linalg.norm(straight))

    assert departure(4096) < 0.01 < departure(4)


def test_the_loss_never_rises_and_too_long_a_step_is_halved() -> None:
    network, x = sample(n_heads=4, m=8)
    y = np.random.default_rng(2).standard_normal(8)
    size = largest_step(network.tangent_kernel(x))
    found = train_attention(network, x, y, range(60), step_size=64.0 * size)
    assert found.n_halved > 0
    assert found.step_size == 64.0 * size / 2.0**found.n_halved
    assert (np.diff(found.losses) <= 0).all()
    again = train_attention(network, x, y, [59], step_size=64.0 * size)
    np.testing.assert_array_equal(again.network.scores, found.network.scores)


@given(st.integers(1, 6), st.integers(0, 3), st.floats(0.1, 1.99))
def test_kernel_descent_is_the_recursion(rank: int, seed: int, part: float) -> None:
    rng = np.random.default_rng([rank, seed])
    features, others = rng.standard_normal((6, rank)), rng.standard_normal((4, rank))
    kernel, cross = features @ features.T, others @ features.T
    y, steps = rng.standard_normal(6), (0, 1, 2, 9)
    size = part * largest_step(kernel)
    found = kernel_descent(kernel, cross, y, steps, step_size=size)
    coefficients, want = np.zeros(6), []
    for step in range(10):
        if step in steps:
            want.append(cross @ coefficients)
        coefficients = coefficients + size / 6.0 * (y - kernel @ coefficients)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-9)


def test_kernel_descent_ends_in_regression() -> None:
    rng = np.random.default_rng(8)
    features, others = rng.standard_normal((5, 9)), rng.standard_normal((3, 9))
    kernel, cross, y = features @ features.T, others @ features.T, rng.standard_normal(5)
    found = kernel_descent(kernel, cross, y, [2**30])[0]
    np.testing.assert_allclose(found, cross @ np.linalg.solve(kernel, y), atol=1e-9)


def test_a_network_keeps_its_arrays() -> None:
    network, x = sample()
    before = network.values.copy(), network.scores.copy()
    train_attention(network, x, np.ones(6), [3])
    np.testing.assert_array_equal(network.values, before[0])
    np.testing.assert_array_equal(network.scores, before[1])


def test_a_temperature_scales_the_scores() -> None:
    network, x = sample()
    hot = replace(network, temperature=4.0 * network.temperature)
    same = replace(network, scores=network.scores / 4.0)
    np.testing.assert_allclose(hot.outputs(x), same.outputs(x), rtol=1e-12)


def test_no_inputs_give_no_outputs() -> None:
    network, _ = sample()
    none = np.empty((0, 3))
    assert network.outputs(none).shape == (0,)
    assert network.tangent_kernel(none).shape == (0, 0)
    assert network.gradients(none).scores.shape == (0, 5, 3, 3)


def test_a_network_does_not_change_with_the_arrays_it_came_from() -> None:
    network, x = sample()
    given_arrays = [np.array(part) for part in (network.values, network.scores, network.context)]
    own = AttentionNetwork(*given_arrays)
    before = own.tangent_kernel(x)
    for array in given_arrays:
        array[:] = 7.0
    np.testing.assert_array_equal(own.tangent_kernel(x), before)
    for name in ("values", "scores", "context"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(own, name)[0] = 1.0


MAGNITUDES = (0.0, 5e-324, 1e-300, 1e-150, 1.0, 1e150, 1e300)


@given(
    sizes=st.tuples(*[st.sampled_from(MAGNITUDES)] * 4),
    temperature=st.sampled_from(MAGNITUDES[1:]),
    seed=st.integers(0, 9),
)
def test_hostile_magnitudes_give_numbers_or_an_error(
    sizes: tuple[float, ...], temperature: float, seed: int
) -> None:
    network, x = sample(seed=seed)
    parts = (network.values, network.scores, network.context)
    arrays = [size * array for size, array in zip(sizes, parts, strict=False)]
    hostile, x = AttentionNetwork(*arrays, temperature), sizes[3] * x
    for name in (
        *("weights", "outputs", "parts", "gradients"),
        *("value_kernel", "score_kernel", "tangent_kernel"),
    ):
        try:
            found = getattr(hostile, name)(x)
        except ParameterError as error:
            assert "float64" in str(error)  # noqa: PT017
            continue
        for array in found if isinstance(found, tuple) else (found,):
            assert np.isfinite(array).all(), name


@settings(max_examples=40)
@given(
    sizes=st.tuples(*[st.sampled_from(MAGNITUDES)] * 3),
    step_size=st.sampled_from([None, *MAGNITUDES[1:]]),
    fixed=st.booleans(),
)
def test_training_of_hostile_magnitudes_gives_numbers_or_an_error(
    sizes: tuple[float, ...], step_size: float | None, fixed: bool
) -> None:
    network, x = sample(n_heads=2, dim=2, n=3, m=3)
    network = replace(network, values=sizes[0] * network.values)
    x, y = sizes[1] * x, sizes[2] * np.array([1.0, -1.0, 0.5])
    try:
        found = train_attention(network, x, y, [0, 1, 3], fixed_scores=fixed, step_size=step_size)
    except ParameterError as error:
        assert "float64" in str(error) or "eigenvalue" in str(error)  # noqa: PT017
        return
    assert np.isfinite(found.losses).all()
    assert np.isfinite(found.watched).all()
    assert (np.diff(found.losses) <= 0.0).all()
    assert np.isfinite(found.network.values).all()
    assert np.isfinite(found.network.scores).all()


def test_a_step_beyond_the_range_is_halved_until_the_loss_falls() -> None:
    network, x = sample(n_heads=4, m=8)
    y = np.random.default_rng(2).standard_normal(8)
    found = train_attention(network, x, y, [0, 1], step_size=1e300)
    assert 900 < found.n_halved < 1100
    assert found.step_size == 1e300 / 2.0**found.n_halved
    assert found.losses[1] < found.losses[0]


def test_a_temperature_whose_square_is_no_float() -> None:
    network, x = sample()
    for t in (1e-200, 1e200):
        # With scores and temperature in one unit, weights stay and the score part has a unit.
        other = replace(network, scores=t * network.scores, temperature=t * network.temperature)
        np.testing.assert_allclose(other.value_kernel(x), network.value_kernel(x), rtol=1e-12)
        if t > 1:
            assert not other.score_kernel(x).any()
        else:
            with pytest.raises(ParameterError, match="keep kernels within"):
                other.score_kernel(x)


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1.0, 1e150, 1e300])
def test_kernel_descent_does_not_depend_on_the_unit(size: float) -> None:
    rng = np.random.default_rng(4)
    features, others = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    kernel, cross, y = features @ features.T, others @ features.T, rng.standard_normal(6)
    want = kernel_descent(kernel, cross, y, [0, 1, 50, 2**20])
    found = kernel_descent(size * kernel, size * cross, y, [0, 1, 50, 2**20])
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("gap", [1e-8, 1e-3, 1.0])
def test_a_kernel_that_is_indefinite_is_refused_with_its_eigenvalue(gap: float) -> None:
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((4, 4)))[0]
    kernel = turn @ np.diag([2.0, 1.0, 0.5, -gap]) @ turn.T
    kernel = (kernel + kernel.T) / 2.0
    with pytest.raises(ParameterError, match=rf"semidefinite; the least .* is -{gap:g}"[:-4]):
        kernel_descent(kernel, kernel, np.ones(4), [1])


def test_the_longest_step_of_kernel_descent_does_not_diverge() -> None:
    rng = np.random.default_rng(9)
    for _ in range(20):
        features, y = rng.standard_normal((5, 5)), rng.standard_normal(5)
        kernel = features @ features.T
        longest = 2.0 * largest_step(kernel)
        found = kernel_descent(kernel, kernel, y, [2**62], step_size=longest)
        assert np.linalg.norm(found[0] - y) <= np.linalg.norm(y) * (1 + 1e-9)


NETWORK, INPUTS = sample()
RNG = np.random.default_rng(0)


def trained(**change: Any) -> Any:
    options = {"network": NETWORK, "inputs": INPUTS, "responses": np.ones(6), "steps": [1]}
    return train_attention(**{**options, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.ones(3)}, "values must have 2 axes"),
        ({"values": np.empty((5, 0))}, "values must have at least one column"),
        ({"scores": np.ones((5, 3, 2))}, "scores must have shape"),
        ({"scores": np.ones((4, 3, 3))}, "scores must have shape"),
        ({"context": np.ones((4, 2))}, "context must have as many columns"),
        ({"context": np.full((4, 3), np.nan)}, "context must be finite"),
        ({"temperature": 0.0}, "temperature must be a number"),
        ({"temperature": "warm"}, "temperature must be a number"),
    ],
)
def test_bad_networks_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        replace(NETWORK, **change)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: NETWORK.outputs(np.ones((2, 4))), "inputs must have as many columns"),
        (lambda: NETWORK.outputs([[np.inf, 0, 0]]), "inputs must be finite"),
        (lambda: NETWORK.tangent_kernel(INPUTS, np.ones((2, 4))), "others must have as many"),
        (lambda: replace(NETWORK, scores=np.full((5, 3, 3), 1e308)).outputs(INPUTS), "scores"),
        (lambda: random_network(np.random.default_rng(0), 0, INPUTS), "n_heads must be"),
        (lambda: random_network(np.random.default_rng(0), 2, np.ones(3)), "context must have"),
        (lambda: random_network(np.random.default_rng(0), 2, np.ones((3, 0))), "values must have"),
        (lambda: random_network(np.random.default_rng(0), 2, INPUTS, None, 0.0), "score_scale"),
        (lambda: random_network(0, 2, INPUTS), "rng must be a numpy.random.Generator"),  # type: ignore[arg-type]
        (lambda: random_network(None, 2, INPUTS), "rng must be a numpy.random.Generator"),  # type: ignore[arg-type]
        (lambda: random_network(RNG, 10**30, INPUTS), "n_heads must be a whole number"),
        (lambda: random_network(RNG, 2, INPUTS, None, 1.7e308), "score_scale must keep"),
        (lambda: train_attention(NETWORK, INPUTS, np.ones(5), [1]), "lengths must agree"),
        (lambda: trained(steps=5), "steps must be a sequence"),
        (lambda: trained(steps=None), "steps must be a sequence"),
        (lambda: trained(steps="12"), "steps must be a whole number"),
        (lambda: trained(steps=[1.0]), "steps must be a whole number"),
        (lambda: trained(steps=[True]), "steps must be a whole number"),
        (lambda: trained(steps=[10**400]), "steps must be a whole number"),
        (lambda: trained(fixed_scores="no"), "fixed_scores must be True or False"),
        (lambda: trained(fixed_scores=1), "fixed_scores must be True or False"),
        (lambda: trained(network=None), "network must be an AttentionNetwork"),
        (lambda: trained(step_size=math.inf), "step_size must be a number"),
        (lambda: trained(responses=np.full(6, 1e200)), "responses, less outputs, must"),
        (lambda: trained(watch=np.full((2, 3), 1e308)), "keep scores within"),
        (lambda: largest_step([[1e-310]]), "kernel must have a largest eigenvalue"),
        (lambda: largest_step(np.full((4, 4), 1e308)), "kernel must have a largest eigenvalue"),
        (lambda: kernel_descent([[1e-310]], [[1e-310]], [1.0], [1]), "kernel must have a largest"),
        (lambda: kernel_descent([[1.0]], [[1e300]], [1e300], [1]), "keep outputs within"),
        (lambda: kernel_descent([[1.0]], [[1.0]], [1.0], 5), "steps must be a sequence"),
        (lambda: kernel_descent([[1.0]], [[1.0]], [1.0], [2**63]), "steps must be a whole"),
        (lambda: train_attention(NETWORK, INPUTS, np.ones(6), []), "steps must be"),
        (lambda: train_attention(NETWORK, INPUTS, np.ones(6), [2, 1]), "steps must be"),
        (lambda: train_attention(NETWORK, INPUTS, np.ones(6), [-1]), "steps must be"),
        (lambda: train_attention(NETWORK, INPUTS, np.ones(6), [1], step_size=-1.0), "step_size"),
        (lambda: train_attention(NETWORK, np.empty((0, 3)), [], [1]), "inputs must have at least"),
        (lambda: largest_step(np.zeros((2, 2))), "kernel must have an eigenvalue"),
        (lambda: largest_step(np.ones((2, 3))), "kernel must be square"),
        (lambda: kernel_descent(np.ones((2, 2)), np.ones((1, 3)), np.ones(2), [1]), "cross must"),
        (lambda: kernel_descent(np.ones((2, 3)), np.ones((1, 2)), np.ones(2), [1]), "kernel must"),
        (
            lambda: kernel_descent(np.eye(2), np.eye(2), np.ones(2), [1], step_size=4.1),
            "step_size must be",
        ),
        (
            lambda: kernel_descent([[1.0, 2.0], [0.0, 1.0]], np.ones((1, 2)), np.ones(2), [1]),
            "kernel must be symmetric",
        ),
    ],
)
def test_bad_input_is_named(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
