"""Sinkhorn attention: limits, the variational identity, marginals, the POT package, bad input."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nwsim import softmax_attention
from nwsim.attention.transport import sinkhorn_attention, transport_objective
from nwsim.attention.weights import attention_weights, gaussian_weights
from nwsim.exceptions import ParameterError, PrecisionWarning

Q = np.array([[0.0, 1.0], [1.0, -0.5], [-1.0, 0.25]])
K = np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, -0.5], [2.0, 1.0]])
MARGINAL = np.array([0.1, 0.2, 0.3, 0.4])
# POT 0.9.7.post1, numpy 2.4.6, with Q, K, MARGINAL as b, t = 0.5, a = np.full(3, 1 / 3):
#   None: 3 * ot.bregman.sinkhorn_log(a, b, -Q @ K.T, t, numItermax=10**6, stopThr=1e-16)
#   else: 3 * ot.unbalanced.sinkhorn_unbalanced(a, b, -Q @ K.T, t, (np.inf, penalty),
#             c=np.full((3, 4), 1 / 12), numItermax=10**6, stopThr=1e-16)
POT = {
    None: [
        [0.057028126834099, 0.394789899219296, 0.061638634277656, 0.486543339668948],
        [0.225915765247291, 0.010537826769221, 0.054483966409816, 0.709062441573672],
        [0.017056107918610, 0.194672274011483, 0.783877399312528, 0.004394218757379],
    ],
    0.25: [
        [0.061834321910713, 0.424526612973591, 0.028286741491892, 0.485352323623804],
        [0.247775824614170, 0.011462037864916, 0.025291263494817, 0.715470874026096],
        [0.031242084832905, 0.353640964552043, 0.607711749954040, 0.007405200661012],
    ],
    2.0: [
        [0.060151631074533, 0.392528414263475, 0.043708531742186, 0.503611422919805],
        [0.233310940425012, 0.010258559609570, 0.037827896411708, 0.718602603553709],
        [0.023304980182783, 0.250737718925331, 0.720065253717494, 0.005892047174392],
    ],
}


def sample(seed: int, m: int = 12, n: int = 17, d: int = 3) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    marginal = rng.random(n) + 0.1
    return (
        rng.standard_normal((m, d)),
        rng.standard_normal((n, d)),
        rng.standard_normal((n, 2)),
        marginal / marginal.sum(),
    )


def kl_rows(rows: Any, other: Any) -> float:
    """Return the mean divergence of rows, whose second argument is positive."""
    logs = np.log(np.where(rows > 0, rows, 1.0)) - np.log(other)
    return float((rows * logs).sum(axis=-1).mean())


@pytest.mark.parametrize("penalty", POT)
def test_agrees_with_values_of_pot(penalty: float | None) -> None:
    found = sinkhorn_attention(Q, K, np.eye(4), 0.5, MARGINAL, penalty, tol=1e-13)
    np.testing.assert_allclose(found.weights, POT[penalty], rtol=1e-11)
    np.testing.assert_array_equal(found.output, found.weights)


@pytest.mark.parametrize("temperature", [2.0, 0.2, 0.05])
def test_agrees_with_pot(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise it loads whatever array libraries are installed, which takes longer than the rest.
    for library in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):
        monkeypatch.setenv(f"POT_BACKEND_DISABLE_{library}", "1")
    ot = pytest.importorskip("ot")
    q, k, v, marginal = sample(1)
    a, cost = np.full(12, 1 / 12), -q @ k.T
    options = {"numItermax": 10**5, "stopThr": 1e-13}
    found = sinkhorn_attention(q, k, v, temperature, marginal, tol=1e-11)
    want = ot.bregman.sinkhorn_log(a, marginal, cost, temperature, **options)
    np.testing.assert_allclose(found.weights / 12, want, rtol=1e-7, atol=1e-12)
    for penalty in (0.1, 1.0):
        found = sinkhorn_attention(q, k, v, temperature, marginal, penalty, tol=1e-11)
        want = ot.unbalanced.sinkhorn_unbalanced(
            a, marginal, cost, temperature, (np.inf, penalty), c=np.full(cost.shape, 1.0), **options
        )
        np.testing.assert_allclose(found.weights / 12, want, rtol=1e-7, atol=1e-12)


@given(seed=st.integers(0, 99), temperature=st.floats(0.01, 10.0), masked=st.booleans())
def test_no_penalty_is_row_softmax_exactly(seed: int, temperature: float, masked: bool) -> None:
    q, k, v, marginal = sample(seed)
    mask = None
    if masked:
        mask = np.random.default_rng(seed).random((12, 17)) < 0.3
        mask[:, seed % 17] = True
    found = sinkhorn_attention(q, k, v, temperature, marginal, 0.0, mask=mask)
    want = attention_weights(q, k, temperature, mask)
    np.testing.assert_array_equal(found.weights, want)
    np.testing.assert_allclose(found.output, softmax_attention(q, k, v, temperature, mask), 1e-12)
    assert (found.n_iter, found.converged) == (0, True)
    np.testing.assert_array_equal(found.key_potential, 0.0)


def test_default_temperature_and_squared_distance() -> None:
    q, k, v, _ = sample(5)
    plain = sinkhorn_attention(q, k, v, marginal_penalty=0.0)
    np.testing.assert_allclose(plain.output, softmax_attention(q, k, v), rtol=1e-12)
    near = sinkhorn_attention(q, k, v, 0.49, marginal_penalty=0.0, cost="squared_distance")
    np.testing.assert_allclose(near.weights, gaussian_weights(q, k, 0.7), rtol=1e-12)


@given(
    seed=st.integers(0, 99),
    temperature=st.floats(0.1, 5.0),
    penalty=st.sampled_from([0.0, 0.1, 1.0, 20.0]),
    sharp=st.sampled_from([0.1, 1.0, 30.0]),
)
def test_gap_to_other_weights_is_their_divergence(
    seed: int, temperature: float, penalty: float, sharp: float
) -> None:
    q, k, v, marginal = sample(seed)
    best = sinkhorn_attention(q, k, v, temperature, marginal, penalty, tol=1e-13)
    other = attention_weights(np.random.default_rng(seed).standard_normal((12, 17)), np.eye(17))
    other = other**sharp / (other**sharp).sum(axis=1, keepdims=True)

    def objective(rows: Any) -> float:
        return transport_objective(rows, -q @ k.T, temperature, marginal, penalty)

    gap = objective(other) - objective(best.weights)
    load = kl_rows(other.mean(axis=0)[np.newaxis], best.load)
    want = temperature * kl_rows(other, best.weights) + penalty * load
    assert gap == pytest.approx(want, rel=1e-9, abs=1e-12)
    assert gap >= 0.0


@settings(max_examples=15)
@given(seed=st.integers(0, 99), temperature=st.floats(0.2, 5.0))
def test_balanced_weights_are_least_among_weights_of_the_same_loads(
    seed: int, temperature: float
) -> None:
    q, k, v, marginal = sample(seed)
    cost = -q @ k.T
    best = sinkhorn_attention(q, k, v, temperature, marginal, tol=1e-12)
    np.testing.assert_allclose(best.load, marginal, atol=1e-11)
    # Independent of the query, and the balanced weights of another cost.
    for other in (
        np.broadcast_to(marginal, (12, 17)),
        sinkhorn_attention(k[:12], k, v, 0.5, marginal, tol=1e-12).weights,
    ):
        gap = transport_objective(other, cost, temperature) - transport_objective(
            best.weights, cost, temperature
        )
        want = temperature * kl_rows(other, best.weights)
        assert gap == pytest.approx(want, rel=1e-8, abs=1e-10)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 99),
    temperature=st.floats(0.05, 5.0),
    penalty=st.sampled_from([0.0, 0.3, 5.0, None]),
)
def test_potentials_give_the_weights_and_loads(
    seed: int, temperature: float, penalty: float | None
) -> None:
    q, k, v, marginal = sample(seed)
    found = sinkhorn_attention(q, k, v, temperature, marginal, penalty)
    exponent = found.query_potential[:, np.newaxis] + found.key_potential + q @ k.T
    np.testing.assert_allclose(np.exp(exponent / temperature), found.weights, rtol=1e-9)
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-14)
    assert found.load.sum() == pytest.approx(1.0, rel=1e-13)
    assert found.converged
    assert found.marginal_error <= 1e-9
    if penalty is None:
        assert abs(found.key_potential.mean()) < 1e-12 * np.abs(found.key_potential).max()
    else:
        want = -penalty * np.log(found.load / marginal)
        # The error in log load is up to that in load over the least load.
        np.testing.assert_allclose(found.key_potential, want, atol=1e-6)


def test_a_penalty_goes_from_softmax_to_balanced() -> None:
    q, k, v, _ = sample(2)
    spread = [
        float(np.ptp(sinkhorn_attention(q, k, v, 0.3, marginal_penalty=penalty).load))
        for penalty in (0.0, 0.03, 0.3, 3.0, 300.0, math.inf)
    ]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] < 1e-8 < spread[0]


def test_a_huge_penalty_is_balanced() -> None:
    q, k, v, marginal = sample(2)
    huge, infinite = (sinkhorn_attention(q, k, v, 0.3, marginal, size) for size in (1e300, None))
    np.testing.assert_array_equal(huge.key_potential, infinite.key_potential)


def test_balanced_weights_forget_lengths() -> None:
    # |q|^2 and |k|^2 are functions of the row or of the column: potentials absorb them.
    q, k, v, _ = sample(3)
    dot = sinkhorn_attention(q, k, v, 0.5, tol=1e-12)
    squared = sinkhorn_attention(q, k, v, 0.5, tol=1e-12, cost="squared_distance")
    np.testing.assert_allclose(dot.weights, squared.weights, rtol=1e-9)
    plain, gaussian = attention_weights(q, k, 0.5), gaussian_weights(q, k, 0.5**0.5)
    assert np.abs(plain - gaussian).max() > 0.1


def test_one_query_gets_the_marginal_whatever_it_asks() -> None:
    q, k, v, marginal = sample(4, m=1)
    found = sinkhorn_attention(q, k, v, 0.01, marginal)
    np.testing.assert_allclose(found.weights[0], marginal, rtol=1e-8)


def test_weights_depend_on_the_other_queries() -> None:
    q, k, v, _ = sample(6)
    assert np.abs(
        sinkhorn_attention(q, k, v).weights[:6] - sinkhorn_attention(q[:6], k, v).weights
    ).max() > 0.01  # fmt: skip
    plain = sinkhorn_attention(q, k, v, marginal_penalty=0.0).weights[:6]
    np.testing.assert_allclose(
        plain, sinkhorn_attention(q[:6], k, v, marginal_penalty=0.0).weights, rtol=1e-13
    )


def test_masks() -> None:
    q, k, v, marginal = sample(7)
    mask = np.random.default_rng(7).random((12, 17)) < 0.6
    for penalty in (None, 0.5):
        found = sinkhorn_attention(q, k, v, 0.5, marginal, penalty, mask=mask)
        assert not found.weights[~mask].any()
        assert found.weights[mask].all()
    # Softly, a key that no query sees just has no load; its potential is 0 before the shift.
    mask[:, 3] = False
    found = sinkhorn_attention(q, k, v, 0.5, marginal, 0.5, mask=mask)
    assert found.load[3] == 0.0
    assert np.isfinite(found.key_potential).all()
    rest = np.delete(np.arange(17), 3)
    own = marginal[rest]
    part = sinkhorn_attention(q, k[rest], v[rest], 0.5, own, 0.5, mask=mask[:, rest])
    np.testing.assert_allclose(found.weights[:, rest], part.weights, rtol=1e-6)


@pytest.mark.parametrize(
    ("mask", "marginal"),
    [
        ([[True, False], [True, False]], None),
        ([[True, False], [True, True]], [0.4, 0.6]),
        ([[True, True, False], [True, True, False], [True, True, True]], [0.2, 0.3, 0.5]),
    ],
)
def test_infeasible_masks_are_refused(mask: Any, marginal: Any) -> None:
    mask = np.array(mask)
    m, n = mask.shape
    with pytest.raises(ParameterError, match="mask must leave room"):
        sinkhorn_attention(np.zeros((m, 1)), np.zeros((n, 1)), np.eye(n), 1.0, marginal, mask=mask)
    sinkhorn_attention(np.zeros((m, 1)), np.zeros((n, 1)), np.eye(n), 1.0, marginal, 1.0, mask=mask)


def test_a_causal_mask_leaves_the_identity_and_is_reported() -> None:
    mask = np.tril(np.ones((4, 4), dtype=bool))
    zero, v = np.zeros((4, 1)), np.eye(4)
    with pytest.raises(ParameterError, match=r"max_iter or tol .* after 100 iterations"):
        sinkhorn_attention(zero, zero, v, 1.0, mask=mask, max_iter=100)
    with pytest.warns(PrecisionWarning, match="loads of the keys are"):
        found = sinkhorn_attention(
            zero, zero, v, 1.0, mask=mask, max_iter=1000, not_converged="warn"
        )
    assert not found.converged
    assert found.n_iter == 1000
    np.testing.assert_allclose(found.weights, np.eye(4), atol=0.02)


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_large_scores_are_safe(scale: float) -> None:
    q, k, v, marginal = sample(8, m=5, n=4)
    found = sinkhorn_attention(scale * q, k, v, 1.0, marginal, 1.0)
    assert np.isfinite(found.output).all()
    assert np.isfinite(found.key_potential).all()
    # Balanced and nearly without entropy: the cost of the best coupling, by linear programming.
    from scipy.optimize import linprog

    cost = -q @ k.T
    rows = np.kron(np.eye(5), np.ones(4)), np.kron(np.ones(5), np.eye(4))
    best = linprog(
        cost.ravel(), A_eq=np.vstack(rows), b_eq=np.concatenate([np.full(5, 0.2), marginal])
    )
    hard = sinkhorn_attention(200 * q, k, v, 1.0, marginal, tol=1e-6, max_iter=100_000)
    assert float((hard.weights * cost).sum() / 5) == pytest.approx(best.fun, abs=0.03)


def test_constant_and_huge_shifts_of_scores_change_nothing() -> None:
    k = np.array([[0.0, 1.0], [1.0, 1.0], [3.0, 1.0]])
    q = np.array([[1.0, 0.0], [-1.0, 0.0]])
    aside, far = (q + np.array([0.0, size]) for size in (64.0, 1e200))
    plain, moved = (sinkhorn_attention(queries, k, np.eye(3), 1.0) for queries in (q, aside))
    np.testing.assert_allclose(moved.weights, plain.weights, rtol=1e-12)
    with pytest.raises(ParameterError, match="range of float64"):
        sinkhorn_attention(far, 1e200 * k, np.eye(3), 1.0)


@pytest.mark.parametrize("penalty", [None, 0.5, 30.0])
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8, 1e10, 1e14])
@pytest.mark.filterwarnings("ignore::nwsim.exceptions.PrecisionWarning")
def test_the_error_reported_is_that_of_the_weights_returned(
    scale: float, penalty: float | None
) -> None:
    for seed in range(4):
        q, k, v, marginal = sample(seed, m=5, n=4)
        options: Any = {"max_iter": 500, "not_converged": "warn"}
        found = sinkhorn_attention(scale * q, k, v, 1.0, marginal, penalty, **options)
        load = found.weights.mean(axis=0)
        np.testing.assert_array_equal(load, found.load)
        if penalty is None:
            asked = marginal
        else:
            # S_j is load_j exp(-g_j) but for a constant; what underflowed has no load to miss.
            share = penalty / (penalty + 1.0)
            logs = np.log(np.where(load > 0, load, 1.0)) - found.key_potential
            logs = share * np.log(marginal) + (1.0 - share) * logs
            asked = np.where(load > 0, np.exp(logs - logs[load > 0].max()), 0.0)
            asked /= asked.sum()
        error = float(np.abs(asked - load).sum())
        # Of potentials of this size, digits beyond this are lost.
        lost = 0.0 if penalty is None else 30 * np.spacing(np.abs(found.key_potential).max())
        assert found.marginal_error == pytest.approx(error, rel=1e-6, abs=lost + 1e-14)
        assert found.converged == (found.marginal_error <= 1e-9)


def test_scores_too_large_for_their_loads_are_said_to_be() -> None:
    q, k, v, marginal = sample(0, m=6, n=6)
    with pytest.raises(ParameterError, match=r"loads of the keys .* have no digits for less"):
        sinkhorn_attention(1e12 * q, k, v, 1.0, marginal, max_iter=2000)


MAGNITUDES = (0.0, 5e-324, 1e-300, 1e-150, 1.0, 1e8, 1e150, 1e300)


@settings(max_examples=60)
@given(
    sizes=st.tuples(*[st.sampled_from(MAGNITUDES)] * 3),
    temperature=st.sampled_from(MAGNITUDES[1:]),
    penalty=st.sampled_from([None, *MAGNITUDES]),
    cost=st.sampled_from(["dot", "squared_distance"]),
    seed=st.integers(0, 9),
)
@pytest.mark.filterwarnings("ignore::nwsim.exceptions.PrecisionWarning")
def test_hostile_magnitudes_give_numbers_or_an_error(
    sizes: Any, temperature: float, penalty: float | None, cost: str, seed: int
) -> None:
    q, k, v, marginal = sample(seed, m=3, n=4, d=2)
    arrays = [size * array for size, array in zip(sizes, (q, k, v), strict=True)]
    options: Any = {"max_iter": 50, "not_converged": "warn", "cost": cost}
    try:
        found = sinkhorn_attention(*arrays, temperature, marginal, penalty, **options)
    except ParameterError as error:
        assert "range of float64" in str(error)  # noqa: PT017
        return
    for name in ("output", "weights", "query_potential", "key_potential", "load"):
        assert np.isfinite(getattr(found, name)).all(), name
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-14)


@pytest.mark.parametrize("cost", ["dot", "squared_distance"])
@pytest.mark.parametrize("powers", [(-530, -530), (-540, 400), (500, 500), (-300, -300)])
def test_a_power_of_two_in_scores_and_temperature_changes_no_bit(
    powers: tuple[int, int], cost: str
) -> None:
    q, k, v, marginal = sample(3)
    if cost == "squared_distance":
        powers = (sum(powers) // 2,) * 2
    (first, second), t = (2.0**power for power in powers), 2.0 ** sum(powers)
    for penalty in (0.0, 1.0, None):
        plain = sinkhorn_attention(q, k, v, 1.0, marginal, penalty, cost=cost)
        own = None if penalty is None else penalty * t
        moved = sinkhorn_attention(first * q, second * k, v, t, marginal, own, cost=cost)
        np.testing.assert_array_equal(moved.weights, plain.weights)


GOOD: dict[str, Any] = {"q": Q, "k": K, "v": np.eye(4)}
FAR = {"q": 1e160 * Q, "k": 1e160 * K}


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"q": np.zeros((0, 2))}, "q must have at least one row"),
        ({"q": np.zeros((1, 3, 2))}, "q must have 2 axes"),
        ({"q": np.zeros((3, 3))}, "k must have as many columns"),
        ({"v": np.eye(3)}, "v must have as many rows"),
        ({"v": np.full((4, 1), math.nan)}, "v must be finite"),
        ({"k": np.full((4, 2), math.inf)}, "k must be finite"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"column_marginal": [0.5, 0.5]}, "column_marginal must have one entry"),
        ({"column_marginal": [0.5, 0.5, 0.0, 0.1]}, "column_marginal must have one entry"),
        ({"column_marginal": [1.0, 1.0, 1.0, 5e-324]}, "range of float64"),
        ({"marginal_penalty": -1.0}, "marginal_penalty"),
        ({"marginal_penalty": math.nan}, "marginal_penalty"),
        ({"marginal_penalty": -math.inf}, "marginal_penalty must be a number"),
        ({"marginal_penalty": "inf"}, "marginal_penalty must be a number"),
        ({"marginal_penalty": np.ones(4)}, "marginal_penalty must be a number"),
        ({**FAR, "temperature": 1e300, "marginal_penalty": 0.0}, "keep potentials within"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": 0.0}, "tol"),
        ({"cost": "cosine"}, "cost must be one of"),
        ({"not_converged": "ignore"}, "not_converged must be one of"),
        ({"mask": np.zeros((3, 4), dtype=bool)}, "at least one key"),
        ({"mask": np.ones((3, 4))}, "bool"),
        ({"mask": np.ones((1, 3, 4), dtype=bool)}, "mask must have 2 axes"),
    ],
)
def test_bad_input_is_refused(arguments: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        sinkhorn_attention(**{**GOOD, **arguments})


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (([[0.5, 0.5]], [[1.0]], 1.0), "cost must have the shape"),
        (([[0.5, 0.6]], [[1.0, 1.0]], 1.0), "sum to 1"),
        (([[0.5, 0.5]], [[1.0, 1.0]], 0.0), "temperature"),
        (([[0.5, 0.5]], [[1.0, 1.0]], 1.0, None, math.inf), "marginal_penalty"),
        ((np.full((4, 2), 0.5), np.full((4, 2), 1e308), 1.0), "keep sums within the range"),
        ((np.full((2, 9), 1 / 9), np.zeros((2, 9)), 1.7e308), "keep sums within the range"),
        (([[1.0, 0.0]], [[0.0, 0.0]], 1.0, [1e-9, 1.0], 1e308), "keep sums within the range"),
    ],
)
def test_bad_objectives_are_refused(arguments: Any, match: str) -> None:
    with pytest.raises(ParameterError, match=match):
        transport_objective(*arguments)


def test_example_of_the_docs_runs() -> None:
    page = Path(__file__).parents[2] / "docs" / "systems" / "transport.md"
    (example,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert "assert" in example
    exec(example, {})
