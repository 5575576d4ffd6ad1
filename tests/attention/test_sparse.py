"""Attention over the largest weights: what must hold exactly, and its bound."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from nwsim import softmax_attention
from nwsim.attention.sparse import top_k_attention, top_k_mask
from nwsim.attention.weights import gaussian_weights
from nwsim.exceptions import ParameterError
from tests.attention.oracle import dense_attention

ROOT = Path(__file__).parents[2]
EPS = float(np.finfo(np.float64).eps)


def sample(m: int, n: int, d: int = 3, p: int = 2, batch: tuple[int, ...] = ()) -> Any:
    rng = np.random.default_rng([m, n, d, p])
    shapes = ((*batch, m, d), (*batch, n, d), (*batch, n, p))
    return tuple(rng.standard_normal(shape) for shape in shapes)


def slow_mask(scores: Any, n_keep: int, seen: Any) -> Any:
    """Choose keys one by one: the largest score left, the first of equal ones."""
    kept = np.zeros(scores.shape, dtype=bool)
    for row in range(len(scores)):
        for _ in range(n_keep):
            left = [j for j in np.flatnonzero(seen[row]) if not kept[row, j]]
            if left:
                kept[row, max(left, key=lambda j: (scores[row, j], -j))] = True
    return kept


def test_a_hand_computed_case() -> None:
    # Weights 1/2, 1/4, 1/4 of values 0, 4, 8: dense 3; the two first kept (a tie), 4/3.
    q, k = [[1.0]], np.log([[2.0], [1.0], [1.0]])
    found = top_k_attention(q, k, [[0.0], [4.0], [8.0]], 2, temperature=1.0)
    np.testing.assert_allclose(found.weights, [[2 / 3, 1 / 3, 0.0]], rtol=1e-15)
    np.testing.assert_allclose(found.output, [[4 / 3]], rtol=1e-15)
    np.testing.assert_allclose(found.tail_mass, [0.25], rtol=1e-15)
    np.testing.assert_allclose(found.bound, [2.0], rtol=1e-15)


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_all_keys_kept_is_dense_attention(batch: tuple[int, ...]) -> None:
    q, k, v = sample(4, 7, batch=batch)
    found = top_k_attention(q, k, v, 7)
    np.testing.assert_allclose(found.output, softmax_attention(q, k, v), rtol=0, atol=1e-14)
    assert not found.tail_mass.any()
    assert not found.bound.any()
    assert found.bound.shape == (*batch, 4)


def test_one_key_kept_is_the_value_of_the_largest_score() -> None:
    q, k, v = sample(20, 9)
    found = top_k_attention(q, k, v, 1)
    np.testing.assert_array_equal(found.output, v[(q @ k.T).argmax(axis=1)])
    near = top_k_attention(q, k, v, 1, scores="gaussian", bandwidth=1e-3)
    distance = ((q[:, None] - k) ** 2).sum(axis=-1)
    np.testing.assert_array_equal(near.output, v[distance.argmin(axis=1)])


def test_kept_weights_keep_their_proportions() -> None:
    q, k, v = sample(6, 30)
    found = top_k_attention(q, k, v, 8, scores="gaussian", bandwidth=0.7)
    assert ((found.weights > 0).sum(axis=1) == 8).all()
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, rtol=1e-15)
    # The mask of kept keys, handed to the dense function, is the same attention.
    distance = ((q[:, None] - k) ** 2).sum(axis=-1)
    masked = gaussian_weights(q, k, 0.7, mask=top_k_mask(-distance, 8))
    np.testing.assert_allclose(found.weights, masked, rtol=1e-13, atol=0)


@given(
    scores=arrays.arrays(np.float64, (3, 6), elements=st.sampled_from([-1.0, 0.0, 0.5, 2.0])),
    seen=arrays.arrays(np.bool_, (3, 6)),
    n_keep=st.integers(1, 6),
)
def test_mask_is_that_of_a_slow_choice_with_ties(scores: Any, seen: Any, n_keep: int) -> None:
    np.testing.assert_array_equal(
        top_k_mask(scores, n_keep), slow_mask(scores, n_keep, np.ones((3, 6), dtype=bool))
    )
    seen[:, 0] |= ~seen.any(axis=1)
    np.testing.assert_array_equal(top_k_mask(scores, n_keep, seen), slow_mask(scores, n_keep, seen))


def test_equal_keys_are_kept_from_the_first() -> None:
    mask = top_k_mask(np.zeros((2, 5)), 3)
    np.testing.assert_array_equal(mask, [[True, True, True, False, False]] * 2)


NUMBERS = st.floats(-1e3, 1e3, width=32)


@given(
    q=arrays.arrays(np.float64, (4, 2), elements=NUMBERS),
    k=arrays.arrays(np.float64, (9, 2), elements=NUMBERS),
    v=arrays.arrays(np.float64, (9, 3), elements=st.floats(-1e6, 1e6)),
    n_keep=st.integers(1, 9),
    scale=st.floats(1e-3, 1e6),
    gaussian=st.booleans(),
    columns=st.integers(1, 3),
)
def test_no_output_moves_by_more_than_the_bound(
    q: Any, k: Any, v: Any, n_keep: int, scale: float, gaussian: bool, columns: int
) -> None:
    v = v[:, :columns]
    how: dict[str, Any] = {"temperature": scale}
    if gaussian:
        how = {"scores": "gaussian", "bandwidth": scale}
    dense = top_k_attention(q, k, v, 9, **how)
    found = top_k_attention(q, k, v, n_keep, **how)
    moved = np.linalg.norm(found.output - dense.output, axis=-1)
    # Each average carries the rounding of nine products and of weights that sum to 1.
    assert (moved <= found.bound + 40 * EPS * np.abs(v).max(initial=0.0)).all()
    assert ((found.tail_mass >= 0) & (found.tail_mass <= 1 - n_keep / 9 + 1e-12)).all()


def test_the_bound_is_attained() -> None:
    rng = np.random.default_rng(8)
    q, k = rng.standard_normal((5, 2)), rng.standard_normal((12, 2))
    for row in q:
        kept = top_k_mask(row[None] @ k.T, 4)[0]
        # The diameter is a diagonal of the box: both ends are values.
        v = np.where(kept[:, None], [3.0, -1.0], [-1.0, 2.0])
        found = top_k_attention(row[None], k, v, 4, temperature=1.0)
        dense = dense_attention(row[None], k, v, temperature=1.0)
        moved = np.linalg.norm(found.output - dense)
        assert found.tail_mass[0] > 1e-3
        np.testing.assert_allclose(moved, found.bound[0], rtol=1e-12)
        # A diameter a hundredth shorter would be no bound.
        assert moved > 0.99 * found.bound[0]


def test_masked_keys_are_never_kept_and_do_not_count() -> None:
    q, k, v = sample(5, 10)
    mask = np.ones((5, 10), dtype=bool)
    mask[:, 7:] = False
    mask[2, 3:] = False
    k[8], v[8] = 1e3 * q.sum(axis=0), 1e9
    found = top_k_attention(q, k, v, 4, mask=mask)
    assert not found.weights[~mask].any()
    assert (found.weights > 0).sum(axis=1).tolist() == [4, 4, 3, 4, 4]
    assert found.tail_mass[2] == 0.0
    short = top_k_attention(q, k[:7], v[:7], 4, mask=mask[:, :7])
    np.testing.assert_allclose(found.output, short.output, rtol=1e-14)
    np.testing.assert_allclose(found.bound, short.bound, rtol=1e-14)


def test_ranks_of_both_scores_agree_for_keys_of_one_length_alone() -> None:
    q, k, _ = sample(40, 50)
    unit = k / np.linalg.norm(k, axis=1, keepdims=True)
    for keys, same in ((unit, True), (k, False)):
        near = -((q[:, None] - keys) ** 2).sum(axis=-1)
        agree = (top_k_mask(near, 5) == top_k_mask(q @ keys.T, 5)).all()
        assert bool(agree) is same


def test_agrees_with_torch() -> None:
    torch = pytest.importorskip("torch")
    scores = np.random.default_rng(9).standard_normal((6, 40))
    theirs = torch.topk(torch.from_numpy(scores), 7, dim=-1).indices.numpy()
    ours = top_k_mask(scores, 7)
    np.testing.assert_array_equal(np.flatnonzero(ours), np.flatnonzero(_at(theirs, scores.shape)))


def _at(indices: Any, shape: tuple[int, int]) -> Any:
    mask = np.zeros(shape, dtype=bool)
    np.put_along_axis(mask, indices, True, axis=-1)
    return mask


def test_no_query_and_values_without_columns() -> None:
    q, k, v = sample(0, 4)
    mask = np.ones((0, 4), dtype=bool)
    assert top_k_attention(q, k, v, 2, mask=mask).output.shape == (0, 2)
    q, k, _ = sample(3, 4)
    assert not top_k_attention(q, k, np.ones((4, 0)), 2).bound.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_keep": 5}, "n_keep must be a whole number of at least 1 and at most 4"),
        ({"n_keep": 0}, "n_keep must be a whole number"),
        ({"n_keep": 2.0}, "n_keep must be a whole number"),
        ({"scores": "cosine"}, "scores must be one of 'dot', 'gaussian'"),
        ({"scores": "gaussian"}, "bandwidth must be given"),
        ({"scores": "gaussian", "bandwidth": 0.0}, "bandwidth must be a number"),
        ({"scores": "gaussian", "bandwidth": 1.0, "temperature": 1.0}, "temperature must be None"),
        ({"bandwidth": 1.0}, "bandwidth must be None"),
        ({"temperature": -1.0}, "temperature must be a number"),
        ({"v": np.ones((5, 2))}, "v must have as many rows as k, 4"),
        ({"v": np.full((4, 2), np.nan)}, "v must be finite"),
        ({"v": np.outer([1, -1, 1, 1], np.full(40, 4e307))}, "v must keep the distances"),
        ({"v": np.full((4, 2), 1.7e308)}, "v must keep sums of values"),
        ({"v": np.ones((3, 4, 2)), "q": np.ones((2, 2, 3))}, "batch shapes must broadcast"),
        ({"mask": np.array([[True] * 4, [False] * 4])}, "mask must leave every query"),
    ],
)
def test_bad_input_is_named(change: dict[str, Any], message: str) -> None:
    arguments = {"q": np.ones((2, 3)), "k": np.ones((4, 3)), "v": np.ones((4, 2)), "n_keep": 2}
    with pytest.raises(ParameterError, match=message):
        top_k_attention(**(arguments | change))


def test_bad_scores_are_named() -> None:
    with pytest.raises(ParameterError, match="scores must be finite"):
        top_k_mask([[0.0, np.nan]], 1)
    with pytest.raises(ParameterError, match="at most 2"):
        top_k_mask([[0.0, 1.0]], 3)
    with pytest.raises(ParameterError, match="scores must have at least one column"):
        top_k_mask(np.ones((2, 0)), 1)


def test_example_of_the_docs_runs() -> None:
    text = (ROOT / "docs" / "systems" / "sparse.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert "assert" in example
    exec(example, {})
