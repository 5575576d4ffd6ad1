"""References against tiny computations that share no code with them, and measures of error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nwsim.bench import machine_limits
from nwsim.bench.native import NoCompilerError, library
from nwsim.bench.workloads import (
    WORKLOADS,
    Attention,
    Heads,
    Sample,
    attention_values,
    cached_reference,
    epanechnikov_means,
    gaussian_means,
    head_parts,
    least_score,
    leave_one_out,
    part_of,
    relative_to_range,
)
from tests.bench import toys


def small(dim: int = 1, n_obs: int = 60, n_queries: int = 7) -> Sample:
    rng = np.random.default_rng(dim)
    x, q = rng.random((n_obs, dim)), rng.random((n_queries, dim))
    y = rng.standard_normal(n_obs)
    return Sample(x[:, 0], y, q[:, 0], 0.2) if dim == 1 else Sample(x, y, q, 0.4)


def by_hand(data, kernel):
    """The ratio of two sums, point by point in plain Python."""
    answer = []
    for query in np.reshape(data.q, (len(data.q), -1)):
        above = below = 0.0
        for point, value in zip(np.reshape(data.x, (len(data.x), -1)), data.y, strict=True):
            distance = math.dist(query, point) / data.h
            above += kernel(distance) * value
            below += kernel(distance)
        answer.append(above / below)
    return answer


@pytest.mark.parametrize("dim", [1, 3])
def test_gaussian_means(dim):
    data = small(dim)
    expected = by_hand(data, lambda u: math.exp(-u * u / 2))
    np.testing.assert_allclose(gaussian_means(data), expected, rtol=1e-12)


def test_epanechnikov_means():
    data = small()
    expected = by_hand(data, lambda u: max(1 - u * u, 0.0))
    np.testing.assert_allclose(epanechnikov_means(data), expected, rtol=1e-12)


def test_leave_one_out_leaves_each_point_out():
    data = small(n_obs=12)
    errors = []
    for i in range(12):
        rest = np.arange(12) != i
        part = Sample(data.x[rest], data.y[rest], data.x[i : i + 1], 0.3)
        errors.append((data.y[i] - by_hand(part, lambda u: math.exp(-u * u / 2))[0]) ** 2)
    assert leave_one_out(data.x, data.y, 0.3) == pytest.approx(np.mean(errors), rel=1e-12)
    assert leave_one_out(data.x, data.y, 1e-6) == math.inf


def test_the_least_score_is_least():
    rng = np.random.default_rng(5)
    x = rng.random(80)
    data = Sample(x, np.sin(6 * x) + 0.3 * rng.standard_normal(80), x[:1], 1.0)
    bandwidth, score = least_score(data)
    assert score == leave_one_out(x, data.y, bandwidth)
    others = [leave_one_out(x, data.y, h) for h in np.geomspace(1e-3, 1.0, 500)]
    assert score <= min(others)
    assert score >= min(others) * (1 - 1e-3)


def test_attention_values():
    rng = np.random.default_rng(6)
    q, k, v = (rng.standard_normal((2, 5, 3), dtype=np.float32) for _ in range(3))
    found = attention_values(Attention(q, k, v, 0.7))
    for head in range(2):
        for i in range(5):
            weights = [math.exp(0.7 * float(np.dot(q[head, i], key))) for key in k[head]]
            expected = sum(w * v[head, j] for j, w in enumerate(weights)) / sum(weights)
            np.testing.assert_allclose(found[head, i], expected, rtol=1e-5)


def some_heads(n_obs: int = 20, n_queries: int = 3) -> Heads:
    rng = np.random.default_rng(7)
    x, q = rng.standard_normal((n_obs, 8)), rng.standard_normal((n_queries, 8))
    frames = np.stack([np.linalg.qr(rng.standard_normal((8, 4)))[0] for _ in range(8)])
    return Heads(x, q, frames, np.sin(x[:, 0]), np.sin(q[:, 0]), 0.9)


def test_head_parts():
    data = some_heads()
    found = head_parts(data)
    assert found.shape == (3, 9, 8)
    projected = np.einsum("nd,hdk->hnk", data.x, data.projections)
    queries = np.einsum("md,hdk->hmk", data.q, data.projections)
    squares = ((projected[:, None] - queries[:, :, None]) ** 2).sum(axis=3)
    weights = np.exp(-0.5 * squares / data.h**2)
    weights /= weights.sum(axis=2, keepdims=True)
    bias = (weights @ data.f_train).T - data.f_query[:, None]
    np.testing.assert_allclose(found[:, 0], bias, atol=1e-13)
    covariance = np.einsum("hmn,gmn->mhg", weights, weights)
    np.testing.assert_allclose(found[:, 1:], covariance, atol=1e-13)


def test_data_are_the_same_at_every_call():
    for workload in WORKLOADS:
        if workload.name in ("W2", "W4", "W6"):  # as W1, with more points; large
            continue
        first, second = workload.draw(), workload.draw()
        for name, array in vars(first).items():
            np.testing.assert_array_equal(array, getattr(second, name))
    assert [workload.name for workload in WORKLOADS] == [f"W{k}" for k in range(1, 8)]


def test_a_part_has_the_ends_and_what_lies_evenly_between():
    part, rows = part_of(small(n_queries=9), 3)
    assert list(rows) == [0, 4, 8]
    np.testing.assert_array_equal(part.q, small(n_queries=9).q[[0, 4, 8]])


def test_errors_are_relative_and_never_hide_what_is_undefined():
    data = small()
    reference = gaussian_means(data)
    answer = reference.copy()
    answer[3] += 0.5
    assert relative_to_range(data, answer, reference) == pytest.approx(0.5 / np.ptp(data.y))
    answer[2] = np.nan
    assert math.isnan(relative_to_range(data, answer, reference))
    assert math.isnan(relative_to_range(data, answer[:-1], reference))


def test_references_are_computed_once(tmp_path, monkeypatch):
    path = cached_reference(toys.WORKLOADS[0], tmp_path)
    np.testing.assert_array_equal(np.load(path), gaussian_means(toys.draw()))
    np.save(path, np.zeros(8))
    assert cached_reference(toys.WORKLOADS[0], tmp_path) == path
    assert not np.load(path).any()


# ----------------------------------------------------------------- the C programs


@pytest.fixture
def compiled(tmp_path, monkeypatch):
    monkeypatch.setattr("nwsim.bench.native.LIBRARY_FOLDER", tmp_path)
    library.cache_clear()
    try:
        library()
    except NoCompilerError as error:
        pytest.skip(str(error))
    yield
    library.cache_clear()


def test_c_programs_agree_with_the_references(compiled):
    for dim in (1, 3):
        data = small(dim)
        found = machine_limits.gaussian(data)()
        np.testing.assert_allclose(found, gaussian_means(data), rtol=1e-12)
    data = small(n_obs=400)
    found = machine_limits.epanechnikov(data)()
    np.testing.assert_allclose(found, epanechnikov_means(data), atol=1e-11)
    heads = some_heads(n_obs=512)
    np.testing.assert_allclose(machine_limits.heads(heads)(), head_parts(heads), atol=1e-13)


def test_a_missing_compiler_is_said(monkeypatch):
    monkeypatch.setattr("nwsim.bench.native.shutil.which", lambda name: None)
    library.cache_clear()
    with pytest.raises(ImportError, match="no C compiler"):
        machine_limits.gaussian(small())
    library.cache_clear()


def test_c_binning_keeps_the_sums(compiled):
    from nwsim.bench.native import call

    data = small(n_obs=100)
    cells = np.zeros((9, 4))
    call("bin_linearly", data.x, data.y, 100, 8.0, cells)
    place = data.x * 8
    np.testing.assert_allclose(cells[:, 0], np.bincount(place.astype(int), minlength=9))
    np.testing.assert_allclose(cells[:, 1].sum(), (place % 1).sum())
    np.testing.assert_allclose(cells[:, 2].sum(), data.y.sum())
    np.testing.assert_allclose(cells[:, 3].sum(), ((place % 1) * data.y).sum())
