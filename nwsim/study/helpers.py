"""Modules that a study imports beside the package and the standard library."""

from __future__ import annotations

import ast
import functools
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from nwsim.exceptions import StudyError
from nwsim.study.versions import LIBRARIES

# The last are compared by version in any case.
_KNOWN = {"nwsim", *sys.stdlib_module_names, "numpy", "scipy", "numba", "llvmlite", "sklearn"}


def helper_texts(statements: Iterable[ast.AST]) -> list[str]:
    """Return what stands for the modules that statements import, and for those these import.

    A module of an installed package is its version, any other its source without comments:
    who changes a helper beside a study changes its numbers. Versions that a checkpoint
    compares by themselves, such as numpy's, are left out, and so is the package.
    """
    found: dict[str, str] = {}
    queue = list(statements)
    while queue:
        for name in _imports(queue.pop()):
            top = name.partition(".")[0]
            if top in _KNOWN or name in found:
                continue
            versions = _versions(top)
            if versions is not None:
                found[top] = versions
                continue
            path = _file(name)
            if path is not None:
                tree = parse(path)
                found[name] = ast.unparse(tree)
                queue.append(tree)
    return [f"{name}\n{found[name]}" for name in sorted(found) if found[name]]


def parse(source: Path | bytes) -> ast.Module:
    """Return the syntax tree of a source without its docstrings."""
    try:
        tree = ast.parse(source.read_bytes() if isinstance(source, Path) else source)
    except (OSError, SyntaxError) as error:
        raise StudyError(f"cannot read the source {source!s:.200}: {error}") from None
    for node in ast.walk(tree):
        holder = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, holder) and node.body and _is_docstring(node.body[0]):
            node.body = node.body[1:]
    return tree


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            # What is imported may be a module itself, or a name of one.
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[: i + 1]) for i in range(len(parts)))


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return {top: list(names) for top, names in metadata.packages_distributions().items()}


def _versions(top: str) -> str | None:
    """Return the versions of the installed packages behind a name, None if there are none."""
    names = sorted(set(_distributions().get(top, ())))
    if not names:
        return None
    return " ".join(f"{one} {metadata.version(one)}" for one in names if one not in LIBRARIES)


def _file(name: str) -> Path | None:
    """Return the source file of a module; None for what is no module, or has no source."""
    loaded = sys.modules.get(name)
    origin = getattr(loaded, "__file__", None)
    if loaded is None:
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError, AttributeError):
            spec = None
        origin = None if spec is None else spec.origin
    path = Path(origin) if isinstance(origin, str) else None
    return path if path is not None and path.suffix == ".py" and path.is_file() else None
