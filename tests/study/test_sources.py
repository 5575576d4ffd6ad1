"""What makes numbers counts for a digest, and nothing else does."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nwsim
from nwsim.exceptions import StoreError, StudyError
from nwsim.study import (
    Grid,
    Measure,
    Method,
    Profile,
    Study,
    helpers,
    load_study,
    run_study,
    sources,
)
from tests.study.toys import CountingExecutor, rewrite, write_study


def digest_of(path: Path) -> str:
    return sources.source_digests(load_study(path))["study_source"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Draw the data."""', '"""Another docstring."""'),
        ("# BEFORE_DRAW", "# a comment"),
        ("SIZES = (50, 100, 200)", "SIZES = (50, 100, 200, 400)"),
        ("return -1.0", "return -0.8"),
        ('label="Toy"', 'label="Renamed"'),
        ("Profile(10, rule", "Profile(1 + 10, rule"),
        ('Curve("local", "mse", "local_slope"), ', ""),
        ("SHIFT = 0.3", "SHIFT   =  0.30"),
        ("theory, 0.5", "theory, 0.4"),
        ('"falls like 1/n"', '"falls"'),
        ("METHODS = ", "class Unused:\n    size = 3\n\n\nMETHODS = "),
        ("Measure, Method, Profile, Study", "Figure, Measure, Method, Profile, Study"),
        ("curves=(", 'curves=(Curve("more", "noise", "local_slope"), '),
        ("def theory(setting):", "def unused():\n    return 3\n\n\ndef theory(setting):"),
    ],
)
def test_what_leaves_replicates_valid(tmp_path: Path, old: str, new: str) -> None:
    path = write_study(tmp_path)
    before = digest_of(path)
    rewrite(path, old, new)
    assert digest_of(path) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("SHIFT = 0.3", "SHIFT = 0.31"),
        ("rng.normal(SHIFT, 1.0", "rng.normal(SHIFT, 2.0"),
        ("    values: object", "    values: object\n    more: int = 0"),
        ('Method("half", half)', 'Method("half", plain)'),
        ("METHODS = ", "for _ in range(3):\n    SHIFT += 1\nMETHODS = "),
        ("import os\n", "import os.path as os\n"),
        ("METHODS = ", "@register\nclass World:\n    power = 2\n\n\nMETHODS = "),
        ("METHODS = ", "@register\ndef world(x):\n    return x\n\n\nMETHODS = "),
        ("METHODS = ", "class World(Base):\n    power = 2\n\n\nMETHODS = "),
        ("METHODS = ", "class World(metaclass=Meta):\n    power = 2\n\n\nMETHODS = "),
        ("METHODS = ", "class World:\n    register(2)\n\n\nMETHODS = "),
        ("METHODS = ", "world = register(2)\nMETHODS = "),
        ("METHODS = ", "def unused(x=register(2)):\n    return x\n\n\nMETHODS = "),
        ("SIZES = (50, 100, 200)", "SIZES = (50, (SHIFT := 100), 200)"),
        ("factors=(Grid(", "factors=(register(), Grid("),
        ("factors=(Grid(", "factors=(indirect(), Grid("),
        ("METHODS = ", "import some_plugin\nMETHODS = "),
        ("METHODS = ", "tuple = register\nsize = tuple(2)\nMETHODS = "),
        ("    os.getpid()", "    os.getpid(); STUDY.label"),
        ("METHODS = ", 'globals()["SHIFT"] = 3\nMETHODS = '),
    ],
)
def test_what_makes_other_numbers(tmp_path: Path, old: str, new: str) -> None:
    # `os` is reached by no function unless a marker is replaced.
    path = write_study(tmp_path, BEFORE_PLAIN="os.getpid()")
    rewrite(path, "def theory(setting):", f"{HELPERS}def theory(setting):")
    before = digest_of(path)
    rewrite(path, old, new)
    assert counted_text(path) != before
    # And every later change of such a statement shows.
    changed = counted_text(path)
    if "power = 2" in new or "register(2)" in new:
        rewrite(path, "2", "5")
        assert counted_text(path) != changed


HELPERS = """def register(x=None):
    import sys
    sys.modules[__name__].REGISTERED = x
    return x or Grid({"n_obs": (1,), "world": ("a",)})


def indirect():
    return register()


"""


def counted_text(path: Path) -> str:
    tree = helpers.parse(path.read_bytes())
    return sources._digest(["\n".join(map(ast.unparse, sources.counted(tree)))])


def test_the_digest_is_of_what_was_executed(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    study = load_study(path)
    before = sources.source_digests(study)
    rewrite(path, "SHIFT = 0.3", "SHIFT = 0.4")
    assert sources.source_digests(study) == before
    assert sources.source_digests(load_study(path)) != before


def test_the_manifest_tells_the_sources_of_the_start(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    before = sources.source_digests(load_study(path))

    class Editor(CountingExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            rewrite(path, "SHIFT = 0.3", "SHIFT = 0.4")

    results = run_study(path, out=tmp_path / "out", executor=Editor)
    assert "SHIFT = 0.4" in path.read_text()
    assert results.manifest["sources"] == before


def test_rooms_that_a_study_imports_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "nwsim"
    for name, text in {
        "__init__.py": "",
        "seeding.py": "A = 1",
        "study/replicate.py": "from nwsim.seeding import A",
        "study/store.py": "B = 1",
        "dgp/__init__.py": "from nwsim.numerics.waves import C",
        "dgp/registry.py": "D = 1",
        "numerics/waves.py": "C = 1",
        "smoothing/__init__.py": "E = 1",
        "report/__init__.py": "F = 1",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(nwsim, "__file__", str(root / "__init__.py"))
    statements = ast.parse("from nwsim.dgp import make_world\nimport nwsim.report").body

    def now() -> str:
        return sources._package_digest(statements)

    before = now()
    for counted in ("seeding.py", "study/replicate.py", "dgp/registry.py", "numerics/waves.py"):
        text = (root / counted).read_text()
        (root / counted).write_text(f"{text}\nNEW = 2")
        assert now() != before, counted
        (root / counted).write_text(f'"""Only words."""\n\n{text}  # and a comment')
        assert now() == before, counted
    for other in ("study/store.py", "smoothing/__init__.py", "report/__init__.py"):
        (root / other).write_text("NEW = 2")
        assert now() == before, other


def test_names_imported_from_the_package_lead_to_their_rooms() -> None:
    root = Path(nwsim.__file__).parent
    assert sources._rooms(ast.parse("from nwsim import fit_rate"), root) == {"inference"}
    assert "dgp" in sources._rooms(ast.parse("import nwsim"), root)


def test_what_functions_hold_counts_for_a_study_without_a_file() -> None:
    def build(scale: object, power: int = 1) -> Study:
        def draw(condition: Any, rng: Any, power: int = power) -> Any:
            return scale, power

        def method(factor: Any, condition: Any, data: Any, rng: Any) -> dict[str, float]:
            return {"mse": 0.0}

        return Study(
            name="handmade",
            label="made by hand",
            seed=3,
            factors=(Grid({"n_obs": (10,)}),),
            draw=draw,
            methods=(Method("m", functools.partial(method, scale)),),
            measures=(Measure("mse", "squared error"),),
            profiles={"quick": Profile(5, rule="test")},
        )

    values = (1.0, 2.0, "a", (1, 2), (1, 3), np.arange(3.0), np.arange(4.0), len)
    found = [sources._study_source(build(value))[1] for value in values]
    assert len(set(found)) == len(values)
    assert found == [sources._study_source(build(value))[1] for value in values]
    assert sources._study_source(build(1.0, 2))[1] not in found


def test_a_helper_beside_a_study_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("deep_helper", "near_helper"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    deep, near = tmp_path / "deep_helper.py", tmp_path / "near_helper.py"
    deep.write_text("C = 1.0\n")
    near.write_text('"""Words."""\nfrom deep_helper import C\n')
    path = write_study(tmp_path / "s", BEFORE_PLAIN="near_helper.C")
    without = digest_of(path)
    rewrite(path, "import os\n", "import os\nimport near_helper\n")
    before = digest_of(path)
    assert before != without
    run_study(path, out=tmp_path)
    near.write_text("# a comment\nfrom deep_helper import C\n")
    assert digest_of(path) == before
    deep.write_text("C = 5.0\n")
    assert digest_of(path) != before
    with pytest.raises(StoreError, match="study_source"):
        run_study(path, out=tmp_path, n_sim=20)
    deep.write_text("C = \n")
    with pytest.raises(StudyError, match=r"cannot read the source .*deep_helper"):
        digest_of(path)


def test_an_installed_package_counts_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_study(tmp_path, BEFORE_PLAIN="pandas.NA")
    rewrite(path, "import os\n", "import os\nimport pandas\n")
    before = digest_of(path)
    monkeypatch.setattr(helpers.metadata, "version", lambda name: "0.0")
    assert digest_of(path) != before
