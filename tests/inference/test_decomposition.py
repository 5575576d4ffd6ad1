"""The decomposition: identities, reductions, closed forms against brute force."""

import math
import warnings
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nwsim.exceptions import ParameterError, PrecisionWarning
from nwsim.inference import decompose, jackknife, performance

TWO_HEADS = np.array([[1.0, 1.0], [-1.0, 1.0], [2.0, -1.0], [-2.0, -1.0]])[:, None, :]
PARTS = ("bias2", "variance", "head_covariance")


def random_case(seed, n_sim, n_query, n_heads, *, by_replicate=True):
    rng = np.random.default_rng(seed)
    estimates = rng.normal(size=(n_sim, n_query, n_heads)) + rng.normal(size=n_heads)
    estimates += rng.normal(size=(n_sim, 1, 1))  # heads correlate
    factor = rng.normal(size=(n_sim, n_query, n_heads, n_heads))
    noise = np.einsum("rmkj,rmlj->rmkl", factor, factor)
    weights = rng.normal(size=n_heads)
    return {
        "estimates": estimates,
        "truth": rng.normal(size=n_query),
        "head_weights": weights,
        "noise_covariance": noise if by_replicate else noise[0],
        "query_weights": rng.uniform(size=n_query),
    }


def by_the_book(estimates, truth, head_weights, noise_covariance, query_weights):
    """Point by point with explicit loops over heads."""
    n_sim, n_query, n_heads = estimates.shape
    noise = np.broadcast_to(noise_covariance, (n_sim, n_query, n_heads, n_heads))
    query_weights = query_weights / query_weights.sum()
    parts = dict.fromkeys((*PARTS, "mse"), 0.0)
    for j in range(n_query):
        covariance = np.atleast_2d(np.cov(estimates[:, j, :], rowvar=False, ddof=1))
        total = covariance + noise[:, j].mean(axis=0)
        bias = sum(a * estimates[:, j, k].mean() for k, a in enumerate(head_weights)) - truth[j]
        q = query_weights[j]
        parts["bias2"] += q * (bias**2 - head_weights @ covariance @ head_weights / n_sim)
        for k in range(n_heads):
            for other in range(n_heads):
                term = q * head_weights[k] * head_weights[other] * total[k, other]
                parts["variance" if k == other else "head_covariance"] += term
        for r in range(n_sim):
            error = estimates[r, j] @ head_weights - truth[j]
            square = error**2 + head_weights @ noise[r, j] @ head_weights
            parts["mse"] += q * square / n_sim
    return parts


def test_two_heads_have_the_known_parts():
    found = decompose(TWO_HEADS, [0.0])
    assert found.mse == pytest.approx(0.875)
    assert found.variance == pytest.approx(1.166667, abs=1e-6)
    assert found.head_covariance == pytest.approx(0.0, abs=1e-15)
    assert found.bias2 == pytest.approx(-0.291667, abs=1e-6)
    assert (found.n_sim, found.n_heads) == (4, 2)


def test_one_head_reduces_to_the_summaries_of_its_errors():
    errors = np.array([1.0, -1.0, 2.0, -2.0])
    found, expected = decompose(errors[:, None] + 7.0, [7.0]), performance(errors)
    for name in ("bias2", "variance", "mse"):
        assert getattr(found, name) == pytest.approx(expected[name].estimate)
        assert getattr(found, f"{name}_mcse") == pytest.approx(expected[name].mcse)
    assert (found.head_covariance, found.head_covariance_mcse) == (0.0, 0.0)


@pytest.mark.parametrize("n_sim", [2, 7])
def test_copies_of_a_head_change_nothing(n_sim):
    rng = np.random.default_rng(2)
    head = rng.normal(size=(n_sim, 5))
    noise = rng.uniform(size=(n_sim, 5))
    truth = rng.normal(size=5)
    one = decompose(head, truth, noise_covariance=noise)
    many = decompose(
        np.repeat(head[:, :, None], 4, axis=2),
        truth,
        noise_covariance=np.broadcast_to(noise[:, :, None, None], (n_sim, 5, 4, 4)),
    )
    assert many.variance == pytest.approx(one.variance / 4)
    assert many.variance + many.head_covariance == pytest.approx(one.variance)
    for name in ("bias2", "bias2_mcse", "mse", "mse_mcse"):
        assert getattr(many, name) == pytest.approx(getattr(one, name))


def test_bias_is_the_square_of_the_mean_and_not_the_mean_of_squares():
    # Heads biased by +1 and -1 cancel in the ensemble; a mean of squares would say 1.
    estimates = np.broadcast_to([1.0, -1.0], (5, 3, 2))
    assert decompose(estimates, np.zeros(3)).bias2 == 0.0


def test_weights_that_do_not_sum_to_one_bias_the_ensemble():
    truth = np.array([2.0, 4.0])
    estimates = np.broadcast_to(truth[None, :, None], (3, 2, 2))
    found = decompose(estimates, truth, head_weights=[0.25, 0.25])
    assert found.bias2 == pytest.approx(np.mean((0.5 * truth) ** 2))
    assert found.variance == pytest.approx(0.0)


@given(
    st.integers(0, 2**31),
    st.integers(2, 9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.floats(-8, 8),
)
def test_the_parts_add_up_to_the_mse(seed, n_sim, n_query, n_heads, noisy, simple, power):
    case = random_case(seed, n_sim, n_query, n_heads)
    scale = 10.0**power
    case["estimates"] *= scale
    case["truth"] *= scale
    case["noise_covariance"] = case["noise_covariance"] * scale**2 if noisy else None
    if simple:
        case["head_weights"] = case["query_weights"] = None
    found = decompose(**case)
    size = abs(found.bias2) + found.variance + abs(found.head_covariance) + found.mse
    assert abs(sum(getattr(found, part) for part in PARTS) - found.mse) <= 1e-14 * size
    assert all(math.isfinite(value) for value in astuple(found))


def test_the_identity_survives_a_response_far_from_zero():
    rng = np.random.default_rng(4)
    truth = 1e8 + rng.normal(size=6)
    found = decompose(truth[:, None] + rng.normal(size=(20, 6, 3)), truth)
    total = found.bias2 + found.variance + found.head_covariance
    assert total == pytest.approx(found.mse, rel=1e-13)
    assert found.mse == pytest.approx(1 / 3, rel=0.5)


@given(
    st.integers(0, 2**31), st.integers(2, 6), st.integers(1, 4), st.integers(1, 3), st.booleans()
)
def test_the_parts_are_those_of_the_book(seed, n_sim, n_query, n_heads, by_replicate):
    case = random_case(seed, n_sim, n_query, n_heads, by_replicate=by_replicate)
    found = decompose(**case)
    for name, value in by_the_book(**case).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**31), st.integers(3, 8), st.integers(1, 4), st.integers(1, 3))
def test_closed_form_mcses_are_the_brute_force_jackknife(seed, n_sim, n_query, n_heads):
    case = random_case(seed, n_sim, n_query, n_heads)
    found = decompose(**case)

    def part(rows, name):
        chosen = rows.astype(np.int64)
        subset = case | {
            "estimates": case["estimates"][chosen],
            "noise_covariance": case["noise_covariance"][chosen],
        }
        return getattr(decompose(**subset), name)

    for name in (*PARTS, "mse"):
        direct = jackknife(lambda rows, name=name: part(rows, name), np.arange(n_sim))
        assert getattr(found, f"{name}_mcse") == pytest.approx(direct.mcse, rel=1e-9, abs=1e-12)


def test_a_fixed_noise_covariance_has_no_monte_carlo_error():
    case = random_case(1, 5, 3, 2, by_replicate=False)
    without = decompose(**(case | {"noise_covariance": None}))
    found = decompose(**case)
    assert found.variance > without.variance
    assert found.bias2 == without.bias2
    for name in (*PARTS, "mse"):
        mcse = f"{name}_mcse"
        assert getattr(found, mcse) == pytest.approx(getattr(without, mcse))


@pytest.mark.parametrize("axes", [1, 2])
def test_noise_of_one_head_may_leave_out_the_head_axes(axes):
    case = random_case(8, 4, 3, 1, by_replicate=axes == 2)
    short = case["noise_covariance"][..., 0, 0]
    assert short.ndim == axes
    assert decompose(**(case | {"noise_covariance": short})) == decompose(**case)
    flat = case | {"estimates": case["estimates"][:, :, 0]}
    assert decompose(**flat) == decompose(**case)


def test_query_weights_are_normalised_and_choose_the_region():
    case = random_case(3, 6, 4, 2)
    tripled = case | {"query_weights": 3.0 * case["query_weights"]}
    assert astuple(decompose(**tripled)) == pytest.approx(astuple(decompose(**case)))
    one = case | {"query_weights": [0.0, 1.0, 0.0, 0.0]}
    alone = {
        "estimates": case["estimates"][:, 1:2],
        "truth": case["truth"][1:2],
        "head_weights": case["head_weights"],
        "noise_covariance": case["noise_covariance"][:, 1:2],
    }
    assert astuple(decompose(**one)) == pytest.approx(astuple(decompose(**alone)))


def test_one_replicate_has_its_mse_alone():
    case = random_case(0, 1, 3, 2)
    with pytest.warns(PrecisionWarning, match="mcse"):
        found = decompose(**case)
    a = case["head_weights"]
    errors = case["estimates"][0] @ a - case["truth"]
    noise = np.einsum("mkl,k,l->m", case["noise_covariance"][0], a, a)
    assert found.mse == pytest.approx(np.average(errors**2 + noise, weights=case["query_weights"]))
    assert all(math.isnan(getattr(found, name)) for name in PARTS)
    assert all(math.isnan(getattr(found, f"{name}_mcse")) for name in (*PARTS, "mse"))


def test_two_replicates_use_normal_theory_and_bound_the_true_error():
    # 4,000 studies of two replicates at 3 independent points: root mean square MCSEs must not
    # fall below the standard deviation (2% slack for its own error, about four of its se).
    rng = np.random.default_rng(9)
    studies = rng.normal(0.5, 1.0, size=(4_000, 2, 3, 2))
    studies[..., 1] += 0.5 * studies[..., 0]
    found = [decompose(study, np.zeros(3)) for study in studies]
    for name in PARTS:
        estimates = np.array([getattr(f, name) for f in found])
        mcses = np.array([getattr(f, f"{name}_mcse") for f in found])
        assert np.isfinite(mcses).all()
        assert math.sqrt(np.mean(mcses**2)) > 0.95 * estimates.std()


def test_heads_that_cancel_have_an_mcse_above_zero():
    found = decompose([[[1.0, -1.0]], [[-1.0, 1.0]]], [0.0])
    assert found.head_covariance == pytest.approx(-1.0)
    assert found.head_covariance_mcse == pytest.approx(math.sqrt(2.0))


def test_query_weights_of_any_size_are_normalised():
    case = random_case(3, 6, 4, 2)
    uniform = decompose(**(case | {"query_weights": None}))
    assert decompose(**(case | {"query_weights": np.full(4, 1e308)})) == uniform


def test_inputs_are_left_alone():
    case = random_case(5, 4, 3, 2)
    copies = {name: value.copy() for name, value in case.items()}
    for value in case.values():
        value.setflags(write=False)
    decompose(**case)
    assert all(np.array_equal(case[name], copies[name]) for name in case)


def test_no_warning_from_two_replicates_on():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decompose(np.zeros((2, 1)), [0.0])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"estimates": [[math.nan, 0, 0]] * 3}, "estimates"),
        ({"estimates": [1.0, 2.0]}, "estimates"),
        ({"estimates": np.zeros((0, 3, 2))}, "estimates"),
        ({"estimates": np.zeros((4, 3, 0))}, "estimates"),
        ({"truth": [0.0, 1.0]}, "truth"),
        ({"truth": [0.0, 1.0, math.inf]}, "truth"),
        ({"truth": np.zeros((3, 1))}, "truth"),
        ({"head_weights": [1.0]}, "head_weights"),
        ({"head_weights": [math.nan, 1.0]}, "head_weights"),
        ({"noise_covariance": np.zeros((3, 2))}, "noise_covariance"),
        ({"noise_covariance": np.zeros((5, 3, 2, 2))}, "noise_covariance"),
        ({"noise_covariance": np.full((3, 2, 2), math.nan)}, "noise_covariance"),
        ({"noise_covariance": np.broadcast_to(-np.eye(2), (3, 2, 2))}, "noise_covariance"),
        (
            {"noise_covariance": np.broadcast_to([[1.0, 0.5], [0.0, 1.0]], (3, 2, 2))},
            "noise_covariance",
        ),
        ({"query_weights": [1.0, 1.0]}, "query_weights"),
        ({"query_weights": [1.0, -1.0, 1.0]}, "query_weights"),
        ({"query_weights": [0.0, 0.0, 0.0]}, "query_weights"),
        ({"query_weights": [1.0, math.nan, 0.0]}, "query_weights"),
    ],
)
def test_bad_input_is_named(change, name):
    with pytest.raises(ParameterError, match=name):
        decompose(**(random_case(0, 4, 3, 2) | change))
