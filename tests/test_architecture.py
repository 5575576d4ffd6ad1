"""The house rules, read off the source: who may import whom, and how light imports stay."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "nwsim"
STUDIES = ROOT / "studies"

# A room may import from lower levels only; rooms of one level do not know each other.
LEVELS = {
    "seeding": 0,
    "exceptions": 0,
    "_typing": 0,
    "_files": 0,
    "_validation": 0,
    "numerics": 1,
    "heads": 2,
    "inference": 2,
    "smoothing": 3,
    "dgp": 3,
    "attention": 4,
    "report": 4,
    "study": 5,
    "learning": 5,
    "bench": 6,
    "cli": 7,
    "__main__": 8,
}
# The foundations are one level and may use each other.
FOUNDATIONS = {name for name, level in LEVELS.items() if level == 0}

# Who alone may import a package, at any depth of the code.
ONLY_IN = {"numba": {"numerics"}, "llvmlite": {"numerics"}, "matplotlib": {"report"}}

# What loops over arrays have no business with.
NOT_IN_NUMERICS = {"pandas", "random", "nwsim.seeding", "nwsim._validation", "numpy.random"}

MAXIMUM_LINES = 450


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def studies() -> list[Path]:
    return sorted(STUDIES.glob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """Return the room of a dotted name: ``nwsim.study.store`` is in ``study``."""
    parts = module.split(".")
    return parts[1] if parts[0] == "nwsim" and len(parts) > 1 else None


def _for_types_only(node: ast.AST) -> bool:
    test = node.test if isinstance(node, ast.If) else None
    name = test.id if isinstance(test, ast.Name) else getattr(test, "attr", None)
    return name == "TYPE_CHECKING"


def nodes(tree: ast.AST, *, lazy: bool = True, types: bool = True) -> Iterator[ast.AST]:
    """Walk a module; leave out function bodies or TYPE_CHECKING blocks on request."""
    for node in ast.iter_child_nodes(tree):
        if not lazy and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if not types and _for_types_only(node):
            continue
        yield node
        yield from nodes(node, lazy=lazy, types=types)


def imports(source: str, module: str, *, lazy: bool = True, types: bool = True) -> set[str]:
    """Return the dotted names that a module imports, ``from a import b`` as ``a.b``."""
    found: set[str] = set()
    for node in nodes(ast.parse(source), lazy=lazy, types=types):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: -node.level]
                base = ".".join([*above, base]).strip(".")
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return found


def upward(source: str, module: str) -> list[str]:
    """Return the imports of a module that do not point downward."""
    own = room_of(module)
    if own is None:
        # The package's own file: it may name rooms, never load them.
        return [name for name in imports(source, module, lazy=False, types=False) if room_of(name)]
    wrong = []
    for name in imports(source, module):
        other = room_of(name)
        if other is None or other == own or name == "nwsim.__version__":
            continue
        if other not in LEVELS or (
            not (own in FOUNDATIONS and other in FOUNDATIONS) and LEVELS[other] >= LEVELS[own]
        ):
            wrong.append(name)
    return sorted(wrong)


def under(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def misplaced(source: str, module: str) -> list[str]:
    """Return the imports that belong to other rooms alone."""
    return sorted(
        name
        for name in imports(source, module, types=False)
        for package, rooms in ONLY_IN.items()
        if under(name, package) and room_of(module) not in rooms
    )


def jit_uses(source: str) -> list[str]:
    """Return what a source takes from numba, or names that compile."""
    tree = ast.parse(source)
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    names |= {name.split(".")[0] for name in imports(source, "study")}
    compiling = {"njit", "jit", "vectorize", "guvectorize", "numba", "compiled"}
    return sorted(names & compiling)


def test_every_module_has_a_room_with_a_level() -> None:
    found = {
        path.stem if path.is_file() else path.name
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    } - {"__init__"}
    assert found
    assert found <= set(LEVELS)


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_point_downward(path: Path) -> None:
    assert upward(path.read_text(encoding="utf-8"), name_of(path)) == []


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("nwsim.numerics.loops", "import nwsim.inference"),
        ("nwsim.inference.rates", "from nwsim.smoothing import NadarayaWatson"),
        ("nwsim.dgp.noise", "from nwsim.smoothing.kernels import get_kernel"),
        ("nwsim.smoothing.engines", "from ..study import runner"),
        ("nwsim.report.rates", "def draw():\n    from nwsim.study import load_results"),
        ("nwsim.seeding", "from nwsim import numerics"),
        ("nwsim.report.rates", "import nwsim.newroom"),
        ("nwsim", "from nwsim.study import run_study"),
    ],
)
def test_an_upward_import_is_found(module: str, line: str) -> None:
    assert upward(line, module)


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a ring, empty if there is none."""
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph[name]):
            if found := visit(other, (*path, name)):
                return found
        done.add(name)
        return []

    for name in sorted(graph):
        if found := visit(name, ()):
            return found
    return []


@pytest.mark.parametrize("room", ["study", "cli"])
def test_modules_of_a_room_import_each_other_in_one_direction(room: str) -> None:
    # Imports within functions and for types alone count: they hide a ring, no more.
    sources = {name_of(path): path for path in (PACKAGE / room).rglob("*.py")}
    sources.pop(f"nwsim.{room}")
    graph = {
        name: {
            other
            for target in imports(path.read_text(encoding="utf-8"), name)
            for other in sources
            if under(target, other) and other != name
        }
        for name, path in sources.items()
    }
    assert any(graph.values())
    assert cycle(graph) == []


def test_a_ring_of_imports_is_found() -> None:
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_packages_stay_in_their_rooms(path: Path) -> None:
    assert misplaced(path.read_text(encoding="utf-8"), name_of(path)) == []


def test_a_misplaced_package_is_found() -> None:
    assert misplaced("def f():\n    import matplotlib.pyplot as plt", "nwsim.study.runner")
    assert misplaced("from numba import njit", "nwsim.smoothing.engines")
    assert not misplaced("from numba import njit", "nwsim.numerics.loops")


@pytest.mark.parametrize("path", sorted((PACKAGE / "numerics").rglob("*.py")), ids=name_of)
def test_numerics_is_arrays_in_arrays_out(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    found = imports(source, name_of(path))
    assert not [name for name in found for package in NOT_IN_NUMERICS if under(name, package)]
    attributes = {n.attr for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Attribute)}
    assert not attributes & {"random", "default_rng"}


@pytest.mark.parametrize("path", studies(), ids=lambda path: path.stem)
def test_studies_compile_nothing(path: Path) -> None:
    assert jit_uses(path.read_text(encoding="utf-8")) == []


def test_a_compiling_study_is_found() -> None:
    assert jit_uses("from numba import njit")
    assert jit_uses("@numba.njit\ndef f(): ...")


@pytest.mark.parametrize("path", [*modules(), *studies()], ids=lambda path: path.stem)
def test_files_stay_short(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MAXIMUM_LINES


def loaded_after(code: str, **environment: str) -> set[str]:
    """Run code in a fresh interpreter; return the top-level modules it loaded."""
    script = f"{code}\nimport sys\nprint(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


HEAVY = {"numpy", "scipy", "numba", "llvmlite", "pandas", "matplotlib", "sklearn", "statsmodels"}


def test_import_is_light() -> None:
    assert not loaded_after("import nwsim; nwsim.__version__; dir(nwsim)") & HEAVY


def test_the_light_import_test_can_fail() -> None:
    assert "numpy" in loaded_after("import nwsim.seeding") & HEAVY


@pytest.mark.parametrize("room", ["nwsim.study", "nwsim.cli"])
def test_workers_and_startup_load_no_matplotlib(room: str) -> None:
    loaded = loaded_after(f"import {room}")
    assert "matplotlib" not in loaded
    if room == "nwsim.cli":
        assert not loaded & HEAVY


def test_what_computes_replicates_loads_no_tables() -> None:
    assert not loaded_after("import nwsim.study.replicate") & {"matplotlib", "pandas"}


def test_figures_leave_the_backend_alone() -> None:
    code = """
import matplotlib
before = dict.get(matplotlib.rcParams, "backend"), matplotlib.rcParams["font.family"]
import nwsim, nwsim.report
with nwsim.report.style():
    nwsim.report.new_figure()
after = dict.get(matplotlib.rcParams, "backend"), matplotlib.rcParams["font.family"]
assert before == after, (before, after)
import sys
assert "matplotlib.pyplot" not in sys.modules
"""
    assert "matplotlib" in loaded_after(code, MPLBACKEND="svg")
    assert "matplotlib" in loaded_after(code)


def test_public_names_load_on_first_use() -> None:
    import nwsim

    assert set(nwsim.__all__) <= set(dir(nwsim))
    for name in nwsim.__all__:
        assert getattr(nwsim, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = nwsim.nothing
