"""Compiled passes over tiles against their interpreted twins and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nwsim.numerics import attention as tiles
from nwsim.numerics.attention import LANES

REALS = [np.float32, np.float64]
EPS = {real: float(np.finfo(real).eps) for real in REALS}
HIDDEN = {real: real(-np.finfo(real).max / 4) for real in REALS}


def normal(seed: int, *shape: int, real: Any) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(real)


def pack(a: Any, order: tuple[int, ...]) -> Any:
    rows, columns = a.shape
    blocks = a.reshape(rows // 4, 4, columns // 4, 4).transpose(order)
    return np.ascontiguousarray(blocks).reshape(-1)


def both(function: Any, *arguments: Any) -> tuple[list[Any], list[Any]]:
    """Run the compiled function and its twin on copies; return the arrays after each."""
    ran = []
    for run in (function, function.py_func):
        own = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        run(*own)
        ran.append([a for a in own if isinstance(a, np.ndarray)])
    return ran[0], ran[1]


def test_single_exponential_over_its_range() -> None:
    t = np.linspace(-126, 0, 20_001).astype(np.float32)
    got = np.array([tiles.exp2_single.py_func(value) for value in t])
    assert got.dtype == np.float32
    assert np.abs(got / np.exp2(t.astype(np.float64)) - 1).max() < 1.5 * EPS[np.float32]
    whole = np.arange(-126, 1, dtype=np.float32)
    exact = [tiles.exp2_single.py_func(value) for value in whole]
    np.testing.assert_array_equal(exact, np.exp2(whole))


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("lanes", [16, LANES])
def test_multiply(real: Any, lanes: int) -> None:
    a, b = normal(0, 8, 12, real=real), normal(1, 12, LANES, real=real)
    out = np.full((8, LANES), 7.0, dtype=real)
    arguments = (pack(a, (0, 2, 1, 3)), 4 * 12, 16, b.reshape(-1), 8, 12, lanes, out.reshape(-1))
    compiled, twin = both(tiles.multiply, *arguments)
    got = compiled[-1].reshape(8, LANES)
    np.testing.assert_allclose(got, twin[-1].reshape(8, LANES), rtol=0, atol=30 * EPS[real])
    np.testing.assert_allclose(got[:, :lanes], (a @ b)[:, :lanes], rtol=0, atol=30 * EPS[real])
    assert (got[:, lanes:] == 7.0).all()


@pytest.mark.parametrize("real", REALS)
def test_multiply_takes_blocks_in_the_other_order(real: Any) -> None:
    v, b = normal(2, 12, 8, real=real), normal(3, 12, LANES, real=real)
    out = np.zeros(8 * LANES, dtype=real)
    tiles.multiply(pack(v, (0, 2, 3, 1)), 16, 4 * 8, b.reshape(-1), 8, 12, LANES, out)
    np.testing.assert_allclose(out.reshape(8, LANES), v.T @ b, rtol=0, atol=30 * EPS[real])


@pytest.mark.parametrize("real", REALS)
def test_maximum_and_weights(real: Any) -> None:
    s = 40 * normal(4, 8, LANES, real=real)
    s[2, 3] = s[5, :9] = HIDDEN[real]
    old = 10 * normal(5, LANES, real=real)
    old[:4] = HIDDEN[real] / 2
    blank = np.zeros(LANES, dtype=real)
    compiled, twin = both(tiles.raise_maximum, s.reshape(-1), 8, 16, old, blank)
    for got, want in zip(compiled, twin, strict=True):
        np.testing.assert_allclose(got, want, rtol=2 * EPS[real])
    top = compiled[1]
    np.testing.assert_array_equal(top[:16], np.maximum(old, s.max(axis=0))[:16])
    factor = np.exp2((old - top)[:16].astype(np.float64))
    np.testing.assert_allclose(compiled[2][:16], factor, rtol=3 * EPS[real], atol=1e-30)
    assert (compiled[2][:4] == 0.0).all()

    compiled, twin = both(tiles.weigh, s.reshape(-1), 8, 16, top, blank)
    for got, want in zip(compiled, twin, strict=True):
        np.testing.assert_allclose(got, want, rtol=4 * EPS[real])
    weights = compiled[0].reshape(8, LANES)[:, :16]
    exact = np.exp2((s[:, :16] - top[:16]).astype(np.float64))
    np.testing.assert_allclose(weights, exact, rtol=3 * EPS[real], atol=1e-30)
    np.testing.assert_allclose(compiled[2][:16], exact.sum(axis=0), rtol=8 * EPS[real])
    assert weights[2, 3] == 0.0
    assert (weights[5, :9] == 0.0).all()


@pytest.mark.parametrize("real", REALS)
def test_hide_and_merge(real: Any) -> None:
    s, factor = normal(6, 4, LANES, real=real), normal(7, LANES, real=real)
    seen = np.random.default_rng(8).random((4, LANES)) < 0.5
    compiled, twin = both(tiles.hide, s.reshape(-1), 4, 16, seen, HIDDEN[real])
    np.testing.assert_array_equal(compiled[0], twin[0])
    got = compiled[0].reshape(4, LANES)
    np.testing.assert_array_equal(got[:, :16], np.where(seen, s, HIDDEN[real])[:, :16])
    np.testing.assert_array_equal(got[:, 16:], s[:, 16:])

    new = normal(9, 4, LANES, real=real)
    compiled, twin = both(tiles.merge, s.reshape(-1), factor, new.reshape(-1), 4, 16)
    np.testing.assert_allclose(compiled[0], twin[0], rtol=0, atol=8 * EPS[real])
    got = compiled[0].reshape(4, LANES)[:, :16]
    np.testing.assert_allclose(got, (s * factor + new)[:, :16], rtol=0, atol=8 * EPS[real])


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("masked", [False, True])
def test_attend(real: Any, masked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    n, d, p, lanes = 5, 4, 4, 16
    q, v = normal(10, d, LANES, real=real), normal(12, 8, p, real=real)
    k = normal(11, 8, d, real=real)
    k[n:] = v[n:] = 0.0
    seen = np.random.default_rng(13).random((n, LANES)) < 0.6
    seen[2] = True
    arguments = (
        *(q.reshape(-1), pack(k, (0, 2, 1, 3)), pack(v, (0, 2, 3, 1)), seen, masked),
        *(n, d, p, lanes, HIDDEN[real], np.zeros(p * LANES, dtype=real)),
    )
    # The twin calls compiled passes otherwise, and leaves unused lanes as they are.
    compiled, _ = both(tiles.attend, *arguments)
    for name in ("multiply", "hide", "raise_maximum", "weigh", "merge"):
        monkeypatch.setattr(tiles, name, getattr(tiles, name).py_func)
    with np.errstate(invalid="ignore"):
        _, twin = both(tiles.attend, *arguments)
    got, want = (ran[-1].reshape(p, LANES)[:, :lanes] for ran in (compiled, twin))
    np.testing.assert_allclose(got, want, rtol=0, atol=30 * EPS[real])
    scores = np.where(seen | (not masked), k[:n] @ q, -np.inf)
    weights = np.exp2(scores - scores.max(axis=0))
    exact = v[:n].T @ (weights / weights.sum(axis=0))
    np.testing.assert_allclose(got, exact[:, :lanes], rtol=0, atol=30 * EPS[real])
