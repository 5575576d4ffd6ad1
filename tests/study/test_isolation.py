"""Neither the process nor another method can change what a replicate gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from nwsim.dgp.registry import WORLDS
from nwsim.exceptions import StudyError
from nwsim.smoothing import kernels
from nwsim.study import load_study, registrations, run_study
from nwsim.study.replicate import shareable
from tests.study.toys import rewrite, snapshot, write_study


def test_numpy_error_state_does_not_matter(tmp_path: Path) -> None:
    path = write_study(tmp_path / "s", BEFORE_HALF="np.log(np.zeros(1))")
    rewrite(path, "import os\n", "import os\nimport numpy as np\n")
    expected = run_study(path, out=tmp_path / "whole")
    assert expected.manifest["warnings"] == [
        {"role": "half", "category": "RuntimeWarning", "count": 60}
    ]
    for place, old, new in (
        ("method", 'return {"mse": (data', 'np.seterr(all="raise")\n    return {"mse": (data'),
        ("draw", "return Data(", 'np.seterr(all="raise")\n    return Data('),
        ("file", "SHIFT = 0.3", 'SHIFT = 0.3\nnp.seterr(all="raise")'),
        ("caller", "SHIFT = 0.3", "SHIFT = 0.3"),
    ):
        changed = write_study(tmp_path / place, BEFORE_HALF="np.log(np.zeros(1))")
        rewrite(changed, "import os\n", "import os\nimport numpy as np\n")
        rewrite(changed, old, new)
        with np.errstate(all="raise" if place == "caller" else "warn"):
            results = run_study(changed, out=tmp_path / place)
        assert results.manifest["failures"] == []
        assert results.performance.equals(expected.performance)
        assert results.manifest["warnings"] == expected.manifest["warnings"]


REGISTERING = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from nwsim.dgp import World, make_world, register_world
from nwsim.smoothing.kernels import Kernel, get_kernel, register_kernel

register_kernel(Kernel("bump_test", "Bump", "compact", "a test", coefficients=lambda dim: (2.0,)))


@register_world
@dataclass(frozen=True, kw_only=True)
class Flat(World):
    name: ClassVar[str] = "flat_test"
    label: ClassVar[str] = "Flat"
    source: ClassVar[str] = "a test"
    roughness: ClassVar[str] = "none"

    def draw(self, rng):
        return 0.5


"""


def test_registrations_of_a_study_reach_the_workers(tmp_path: Path) -> None:
    use = (
        'shift = make_world("flat_test").draw(rng) * get_kernel("bump_test")(0.5)\n    '
        'return {"mse": float(shift), "noise": rng.normal(), "n_empty": 0}'
    )
    path = write_study(tmp_path / "s", BEFORE_PLAIN=use)
    rewrite(path, "SIZES = (50", f"{REGISTERING}SIZES = (50")
    study = load_study(path)
    try:
        run_study(study, out=tmp_path / "one")
        results = run_study(study, out=tmp_path / "two", workers=2)
    finally:
        WORLDS.remove("flat_test")
        kernels._registry.pop("bump_test")
    assert results.manifest["failures"] == []
    assert snapshot(tmp_path / "one" / "toy") == snapshot(tmp_path / "two" / "toy")
    rows = results.performance
    assert set(rows[(rows.method == "plain") & (rows.measure == "mse")].estimate) == {0.75}


def test_nothing_is_shipped_that_comes_with_the_package() -> None:
    assert registrations.collect() == {}


LISTING = """
class Listing:
    def __init__(self, values):
        self.parts = [values, 1.0]

    @property
    def values(self):
        return self.parts[0] * len(self.parts) / 2


def draw("""


def listing_study(folder: Path, change: str) -> Path:
    path = write_study(folder, BEFORE_PLAIN=change)
    rewrite(path, "return Data(rng", "return Listing(rng")
    rewrite(path, "\ndef draw(", LISTING)
    return path


def test_a_list_is_not_shared_between_methods(tmp_path: Path) -> None:
    expected = run_study(listing_study(tmp_path / "whole", "pass"), out=tmp_path / "whole")
    for change in ("data.parts.append(9.0)", "del data.parts[1]", "data.parts[0][:] = 9.0"):
        path = listing_study(tmp_path / "changed", change)
        rows = run_study(path, out=tmp_path, replace=True).performance
        half = rows.method == "half"
        assert rows[half].equals(expected.performance[half])
        assert not rows[~half].equals(expected.performance[~half])


def test_data_that_cannot_be_copied_is_named(tmp_path: Path) -> None:
    path = listing_study(tmp_path / "s", "pass")
    rewrite(path, "[values, 1.0]", "[values, (x for x in ())]")
    with pytest.raises(StudyError, match=r"'toy': draw returns a Listing .* cannot be copied"):
        run_study(path, out=tmp_path)


@dataclass(frozen=True)
class Frozen:
    values: np.ndarray
    label: str = "x"


@dataclass
class Loose:
    values: np.ndarray


class Point(NamedTuple):
    x: np.ndarray
    y: float


def test_what_methods_may_share() -> None:
    array = np.zeros(3)
    for data in (
        array,
        1.0,
        "x",
        None,
        (array, 1),
        Point(array, 2.0),
        Frozen(array),
        np.float64(1),
    ):
        assert shareable(data)
        assert shareable(Frozen((data,)))  # type: ignore[arg-type]
    for data in ([1], {"x": array}, Loose(array), {1}, np.array([None]), object(), bytearray(b"x")):
        assert not shareable(data)
        assert not shareable(Frozen((data,)))  # type: ignore[arg-type]
