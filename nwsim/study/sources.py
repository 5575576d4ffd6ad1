"""Digests of the sources that make a study's numbers.

They are taken from syntax trees, so that comments, docstrings and formatting do not
count. Of a study file only that counts which its ``draw`` and ``methods`` reach: a new
figure, claim or factor level leaves finished replicates valid.
"""

from __future__ import annotations

import ast
import hashlib
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import nwsim
from nwsim.exceptions import StudyError
from nwsim.study.specification import Study

_PACKAGE = "nwsim"
# Rooms that run, store and draw but cannot change a replicate; of `study` the one file
# that computes replicates is added by name.
_NOT_NUMBERS = frozenset({"cli", "report", "study", "__init__", "__main__"})


def source_digests(study: Study) -> dict[str, str]:
    """Return the digests of the study's own code and of the package code behind it.

    Returns
    -------
    dict
        ``study_source`` and ``package_sources``, 16 hexadecimal digits each.
    """
    statements, text = _study_source(study)
    return {"study_source": _digest([text]), "package_sources": _package_digest(statements)}


def _digest(texts: Iterable[str]) -> str:
    total = hashlib.sha256()
    for text in texts:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()[:16]


def _parse(path: Path) -> ast.Module:
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError) as error:
        raise StudyError(f"cannot read the source {path}: {error}") from None
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


def _study_source(study: Study) -> tuple[list[ast.stmt], str]:
    if study.namespace is not None:
        statements = _reachable(_parse(Path(study.namespace["__file__"])))
        return statements, "\n".join(ast.unparse(statement) for statement in statements)
    # A study built by hand: the files its functions come from, or their code if none.
    functions = [study.draw, *(method.function for method in study.methods)]
    statements, texts = [], []
    for function in functions:
        code = getattr(function, "__code__", None)
        file = Path(code.co_filename) if code is not None else None
        if file is not None and file.is_file():
            tree = _parse(file)
            statements += tree.body
            texts.append(ast.unparse(tree))
        texts.append("".join(_code_text(code)) if code is not None else repr(type(function)))
    return statements, "\n".join(texts)


def _code_text(code: types.CodeType) -> Iterator[str]:
    yield f"{code.co_name} {code.co_names} {code.co_code.hex()}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_text(constant)
        else:
            yield repr(constant)


def _reachable(tree: ast.Module) -> list[ast.stmt]:
    """Return the top-level statements that ``draw`` and ``methods`` can see, in order.

    A statement that is no plain definition (a loop, a call, an item assignment) may
    change anything and is always included.
    """
    defining: dict[str, list[ast.stmt]] = {}
    wanted: list[ast.stmt] = []
    roots: list[ast.stmt] = []
    for statement in tree.body:
        names = _defined(statement)
        if "STUDY" in names:
            roots.append(_number_fields(statement))
        elif names:
            for name in names:
                defining.setdefault(name, []).append(statement)
        else:
            wanted.append(statement)
    found = {id(statement) for statement in wanted}
    queue = [*roots, *wanted]
    while queue:
        for node in ast.walk(queue.pop()):
            if isinstance(node, ast.Name):
                for statement in defining.get(node.id, []):
                    if id(statement) not in found:
                        found.add(id(statement))
                        queue.append(statement)
    return [*(statement for statement in tree.body if id(statement) in found), *roots]


def _defined(statement: ast.stmt) -> set[str]:
    """Return the names that a plain definition binds; none for any other statement."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        names = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        return set() if "*" in names else names
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id}
    if isinstance(statement, ast.Assign):
        targets: list[ast.expr] = []
        for target in statement.targets:
            targets += target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if all(isinstance(target, ast.Name) for target in targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


def _number_fields(statement: ast.stmt) -> ast.stmt:
    """Return ``STUDY = Study(...)`` reduced to the fields that hold functions of numbers."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call) or any(word.arg is None for word in value.keywords):
        return statement
    if value.args:
        return statement
    kept = [word for word in value.keywords if word.arg in ("draw", "methods")]
    call = ast.Call(func=value.func, args=[], keywords=kept)
    return ast.copy_location(ast.Expr(value=call), statement)


def _package_digest(statements: Iterable[ast.stmt]) -> str:
    """Digest the rooms of the package that the statements and the runner reach."""
    root = Path(nwsim.__file__).parent
    replicate = root / "study" / "replicate.py"
    files = {replicate: _parse(replicate)}
    queue: list[ast.AST] = [*statements, files[replicate]]
    rooms: set[str] = set()
    while queue:
        for room in _rooms(queue.pop(), root):
            if room in rooms or room in _NOT_NUMBERS:
                continue
            rooms.add(room)
            folder, file = root / room, root / f"{room}.py"
            # All of a room counts: registries may load its files by name.
            for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [file]:
                files[path] = _parse(path)
                queue.append(files[path])
    ordered = sorted(files, key=lambda path: path.relative_to(root).as_posix())
    return _digest(
        f"{path.relative_to(root).as_posix()}\n{ast.unparse(files[path])}" for path in ordered
    )


def _rooms(tree: ast.AST, root: Path) -> set[str]:
    """Return the first names below the package that a tree imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
            if node.module == _PACKAGE:
                names = [_home(alias.name, root) for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == _PACKAGE:
                # A bare `import nwsim` may reach everything.
                found |= {parts[1]} if len(parts) > 1 else _all_rooms(root)
    return found


def _home(name: str, root: Path) -> str:
    """Return the module behind a name imported from the package itself."""
    if (root / name).is_dir() or (root / f"{name}.py").is_file():
        return f"{_PACKAGE}.{name}"
    home: Any = getattr(getattr(nwsim, name, None), "__module__", None)
    return home if isinstance(home, str) and home.startswith(f"{_PACKAGE}.") else _PACKAGE


def _all_rooms(root: Path) -> set[str]:
    folders = {path.parent.name for path in root.glob("*/__init__.py")}
    return folders | {path.stem for path in root.glob("*.py")}
