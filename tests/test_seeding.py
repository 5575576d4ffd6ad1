"""Streams: one a key, no two alike, whatever the key holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nwsim.exceptions import ParameterError
from nwsim.seeding import canonical, digest, stream, words

ALARM = 1e-6
"""Share of right generators that a test here would call wrong."""

Key = tuple[int, dict[str, Any], int, str]


def keys(n: int) -> Iterator[Key]:
    """Yield keys as studies have them: neighbours in every part, and large replicates."""
    roles = ("data", "rate", "oracle", "loo")
    sizes = (2**6, 2**7, 2**8, 2**9, 2**10)
    per = n // (2 * len(roles) * len(sizes))
    for seed in (7, 8):
        for role in roles:
            for size in sizes:
                for rep in range(per):
                    yield (
                        seed,
                        {"n_obs": size, "alpha": 0.5},
                        rep if rep % 2 else 2**32 - 1 - rep,
                        role,
                    )


def first_draws(n: int, make: Callable[..., np.random.Generator] = stream) -> np.ndarray[Any, Any]:
    return np.array([make(*key).bit_generator.random_raw() for key in keys(n)], dtype=np.uint64)


def collisions(draws: np.ndarray[Any, Any]) -> int:
    return int(draws.size - np.unique(draws).size)


def p_values(draws: np.ndarray[Any, Any]) -> list[float]:
    """Return p-values of uniform first draws, and of independence from the stream before."""
    bins = (draws >> np.uint64(56)).astype(int)
    alone = stats.chisquare(np.bincount(bins, minlength=256)).pvalue
    coarse = (draws >> np.uint64(60)).astype(int)
    pairs = np.bincount(16 * coarse[:-1:2] + coarse[1::2], minlength=256)
    return [float(alone), float(stats.chisquare(pairs).pvalue)]


def check(n: int) -> None:
    draws = first_draws(n)
    assert draws.size == n
    # By chance two of n alike have probability n^2 / 2^65: 3e-8 for a million.
    assert collisions(draws) == 0
    assert min(p_values(draws)) > ALARM / 2


def test_many_streams() -> None:
    check(40_000)


@pytest.mark.slow
def test_a_million_streams() -> None:
    check(1_000_000)


def test_bad_keys_are_found() -> None:
    """Negative control: a key that keeps half of what it should, and streams in step."""

    def short(seed: int, factors: dict[str, Any], rep: int, role: str) -> np.random.Generator:
        return np.random.default_rng(seed + rep % 1000)

    assert collisions(first_draws(4_000, short)) > 0

    def in_step(seed: int, factors: dict[str, Any], rep: int, role: str) -> Any:
        return type("Counter", (), {"bit_generator": Raw(rep << 44)})()

    class Raw:
        def __init__(self, value: int) -> None:
            self.value = value % 2**64

        def random_raw(self) -> int:
            return self.value

    assert min(p_values(first_draws(4_000, in_step))) < ALARM / 2


def test_words_beyond_32_bits_would_meet() -> None:
    """Why components stay below 2^32: numpy splits larger ones, and keys meet."""
    split = np.random.SeedSequence(1, spawn_key=(2**32 + 5,))
    apart = np.random.SeedSequence(1, spawn_key=(5, 1))
    assert np.array_equal(split.generate_state(4), apart.generate_state(4))
    assert all(0 <= word < 2**32 for word in words("any text", 8))


def test_a_stream_is_reached_directly_and_is_the_same_every_time() -> None:
    one = stream(3, {"n": 5, "kind": "a"}, 12, "data").random(4)
    same = stream(3, {"kind": "a", "n": np.int64(5)}, 12, "data").random(4)
    assert np.array_equal(one, same)
    for other in (
        stream(4, {"n": 5, "kind": "a"}, 12, "data"),
        stream(3, {"n": 5, "kind": "b"}, 12, "data"),
        stream(3, {"n": 5, "kind": "a"}, 13, "data"),
        stream(3, {"n": 5, "kind": "a"}, 12, "test"),
    ):
        assert not np.array_equal(one, other.random(4))


# A float is told from an integer of its value: 1 and 1.0 are two levels of a factor.
levels = st.one_of(
    st.integers(-(2**70), 2**70),
    st.booleans(),
    st.text(max_size=5),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
)


@given(st.dictionaries(st.text(min_size=1, max_size=4), levels, max_size=4), st.data())
def test_a_condition_has_one_digest(factors: dict[str, Any], data: Any) -> None:
    shuffled = dict(data.draw(st.permutations(list(factors.items()))))
    assert digest(factors) == digest(shuffled)
    assert len(digest(factors)) == 16
    assert canonical(factors).isascii()


@pytest.mark.parametrize("bad", [math.nan, math.inf, [1], {"a": 1}, 1 + 2j, b"x"])
def test_levels_that_are_no_levels_are_named(bad: Any) -> None:
    with pytest.raises(ParameterError, match="factor 'x' must have"):
        digest({"x": bad})


@pytest.mark.parametrize(
    ("seed", "rep", "named"),
    [(-1, 0, "seed"), (2**64, 0, "seed"), (0.5, 0, "seed"), (0, -1, "rep"), (0, 2**32, "rep")],
)
def test_numbers_out_of_range_are_named(seed: Any, rep: Any, named: str) -> None:
    with pytest.raises(ParameterError, match=f"{named} must be a whole number"):
        stream(seed, {}, rep, "data")
