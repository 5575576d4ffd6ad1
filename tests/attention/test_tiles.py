"""Compiled passes over tiles against their interpreted twins and against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nwsim.numerics import attention as tiles
from nwsim.numerics.attention import KEYS, LANES

REALS = [np.float32, np.float64]
EPS = {real: float(np.finfo(real).eps) for real in REALS}
HIDDEN = {real: real(-np.finfo(real).max / 4) for real in REALS}


def normal(seed: int, *shape: int, real: Any) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(real)


def packed(a: Any, transposed: bool = False) -> Any:
    out = np.zeros(a.size, dtype=a.dtype)
    tiles.pack(a, transposed, out)
    return out


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
    arguments = (packed(a), 4 * 12, 16, b.reshape(-1), 8, 12, lanes, out.reshape(-1))
    compiled, twin = both(tiles.multiply, *arguments)
    got = compiled[-1].reshape(8, LANES)
    np.testing.assert_allclose(got, twin[-1].reshape(8, LANES), rtol=0, atol=30 * EPS[real])
    np.testing.assert_allclose(got[:, :lanes], (a @ b)[:, :lanes], rtol=0, atol=30 * EPS[real])
    assert (got[:, lanes:] == 7.0).all()


@pytest.mark.parametrize("real", REALS)
def test_multiply_takes_blocks_in_the_other_order(real: Any) -> None:
    v, b = normal(2, 12, 8, real=real), normal(3, 12, LANES, real=real)
    out = np.zeros(8 * LANES, dtype=real)
    tiles.multiply(packed(v, True), 16, 4 * 8, b.reshape(-1), 8, 12, LANES, out)
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
@pytest.mark.parametrize("transposed", [False, True])
def test_pack(real: Any, transposed: bool) -> None:
    a = normal(14, 6, 9, real=real)
    compiled, twin = both(tiles.pack, a, transposed, np.zeros(8 * 12, dtype=real))
    np.testing.assert_array_equal(compiled[1], twin[1])
    filled = np.zeros((8, 12), dtype=real)
    filled[:6, :9] = a
    order = (0, 2, 3, 1) if transposed else (0, 2, 1, 3)
    blocks = filled.reshape(2, 4, 3, 4).transpose(order)
    np.testing.assert_array_equal(compiled[1], blocks.ravel())


@pytest.mark.parametrize("real", REALS)
def test_spread_and_collect(real: Any) -> None:
    q, lanes = normal(15, 3, 5, real=real), np.zeros(5 * LANES, dtype=real)
    compiled, twin = both(tiles.spread, q, real(0.3), lanes)
    np.testing.assert_array_equal(compiled[1], twin[1])
    spread = compiled[1].reshape(5, LANES)
    np.testing.assert_array_equal(spread[:, :3], q.T * real(0.3))
    assert not spread[:, 3:].any()

    total, out = np.array([2.0, 4.0, 0.5], dtype=real), np.zeros((3, 5), dtype=real)
    compiled, twin = both(tiles.collect, compiled[1], total, out)
    np.testing.assert_array_equal(compiled[2], twin[2])
    np.testing.assert_array_equal(compiled[2], q * real(0.3) / total[:, None])


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("shared", [False, True])
def test_hide(real: Any, shared: bool) -> None:
    start, keys, count = 3, 70, 67
    s = normal(6, keys, LANES, real=real)
    seen = np.random.default_rng(8).random((1 if shared else count, start + keys + 2)) < 0.5
    kept = seen[:, start : start + keys]
    assert tiles.count_seen(seen, start, keys) == kept.sum()
    assert tiles.count_seen.py_func(seen, start, keys) == kept.sum()

    turned = np.zeros(KEYS * LANES, dtype=bool)
    arguments = (s.reshape(-1), seen, start, keys, count, HIDDEN[real], turned)
    compiled, twin = both(tiles.hide, *arguments)
    np.testing.assert_array_equal(compiled[0], twin[0])
    got = compiled[0].reshape(keys, LANES)
    np.testing.assert_array_equal(got[:, :count], np.where(kept.T, s[:, :count], HIDDEN[real]))
    np.testing.assert_array_equal(got[:, count:], s[:, count:])


@pytest.mark.parametrize("real", REALS)
def test_merge(real: Any) -> None:
    s, factor = normal(6, 4, LANES, real=real), normal(7, LANES, real=real)
    new = normal(9, 4, LANES, real=real)
    compiled, twin = both(tiles.merge, s.reshape(-1), factor, new.reshape(-1), 4, 16)
    np.testing.assert_allclose(compiled[0], twin[0], rtol=0, atol=8 * EPS[real])
    got = compiled[0].reshape(4, LANES)[:, :16]
    np.testing.assert_allclose(got, (s * factor + new)[:, :16], rtol=0, atol=8 * EPS[real])


@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("mask", ["none", "each", "shared"])
def test_attend(real: Any, mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    m, n, d, p, scale = 3, 5, 2, 3, 0.7
    q, k, v = (normal(10, *shape, real=real) for shape in ((m, d), (n, d), (n, p)))
    rows = {"none": 0, "each": m, "shared": 1}[mask]
    seen = np.random.default_rng(13).random((rows, n)) < 0.6
    seen[:, 2] = True
    out = np.zeros((m, p), dtype=real)
    arguments = (q, k, v, seen, mask != "none", real(scale), HIDDEN[real], out)
    compiled, _ = both(tiles.attend, *arguments)
    # The twin would call compiled passes.
    for name, function in vars(tiles).copy().items():
        if hasattr(function, "py_func") and name != "attend":
            monkeypatch.setattr(tiles, name, function.py_func)
    with np.errstate(invalid="ignore"):
        _, twin = both(tiles.attend, *arguments)
    np.testing.assert_allclose(compiled[-1], twin[-1], rtol=0, atol=30 * EPS[real])

    scores = scale * (q @ k.T)
    if mask != "none":
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp2(scores - scores.max(axis=1, keepdims=True))
    exact = weights / weights.sum(axis=1, keepdims=True) @ v
    np.testing.assert_allclose(compiled[-1], exact, rtol=0, atol=30 * EPS[real])
