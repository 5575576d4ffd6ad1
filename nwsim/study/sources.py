"""Digests of the sources that make a study's numbers.

They are taken from syntax trees, so that comments, docstrings and formatting do not
count. A study file counts whole but for what describes numbers: see :func:`counted`.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import nwsim
from nwsim.study.helpers import helper_texts, parse
from nwsim.study.specification import Study

_PACKAGE = "nwsim"
# Rooms that run, store and draw but cannot change a replicate; of `study` the one file
# that computes replicates is added by name.
_NOT_NUMBERS = frozenset({"cli", "report", "study", "_files", "__init__", "__main__"})
# Fields of a Study that make no number of a replicate by their own text: levels, names,
# measures and streams are compared by value when a checkpoint is opened.
_DESCRIBING = frozenset(
    (
        *("name", "label", "seed", "factors", "measures", "profiles", "shared_streams"),
        *("claims", "curves", "contrasts", "figures", "max_failure_share"),
    )
)
# Calls that return a value and do nothing else.
_PARTS = ("Study", "Grid", "Method", "Measure", "Profile", "Claim", "Curve", "Contrast", "Figure")
_PURE = frozenset(
    (
        *("abs", "dict", "enumerate", "float", "frozenset", "int", "len", "list", "max", "min"),
        *("range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"),
    )
)
_REFLECTION = frozenset({"globals", "locals", "vars", "eval", "exec", "__import__"})


def source_digests(study: Study) -> dict[str, str]:
    """Return the digests of the study's own code and of the package code behind it.

    The study's code is what was executed when it was loaded, whatever its file holds now.

    Returns
    -------
    dict
        ``study_source`` and ``package_sources``, 16 hexadecimal digits each.
    """
    statements, text = _study_source(study)
    texts = [text, *helper_texts(statements)]
    return {"study_source": _digest(texts), "package_sources": _package_digest(statements)}


def counted(tree: ast.Module) -> list[ast.stmt]:
    """Return the top-level statements of a study file that can change a replicate.

    Left out are the fields of ``STUDY = Study(...)`` that describe numbers (claims, curves,
    contrasts, figures, profiles, labels, levels) and plain definitions that nothing kept
    mentions. A definition is plain if making it does nothing else: an undecorated function,
    a class without bases or decorators, an import from the package or the standard library,
    a name for a value. All else may change anything (a decorator may register a class, a
    call may draw) and always counts.
    """
    if any(isinstance(n, ast.Name) and n.id in _REFLECTION for n in ast.walk(tree)):
        return tree.body
    calls = _Calls(tree)
    # Code that looks into the study itself may use any field of it.
    whole = any(
        isinstance(node, ast.Name) and node.id == "STUDY" and isinstance(node.ctx, ast.Load)
        for node in ast.walk(tree)
    )
    spare: dict[str, list[ast.stmt]] = {}
    kept: list[ast.stmt] = []
    for statement in _one_import_each(tree.body):
        names = _plain_names(statement, calls)
        if "STUDY" in names or (not names and _binds_study(statement)):
            kept.append(statement if whole else _number_fields(statement, calls))
        elif names:
            for name in names:
                spare.setdefault(name, []).append(statement)
        else:
            kept.append(statement)
    queue = list(kept)
    found: dict[int, ast.stmt] = {}
    while queue:
        for node in ast.walk(queue.pop()):
            if isinstance(node, ast.Name):
                for statement in spare.pop(node.id, []):
                    if id(statement) not in found:
                        found[id(statement)] = statement
                        queue.append(statement)
    return sorted([*kept, *found.values()], key=lambda statement: statement.lineno)


def _one_import_each(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Split imports, so that a name more or less changes no other one's line."""
    for statement in statements:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                yield ast.copy_location(ast.Import([alias]), statement)
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                one = ast.ImportFrom(statement.module, [alias], statement.level)
                yield ast.copy_location(one, statement)
        else:
            yield statement


class _Calls:
    """Knows which calls of a study file return a value and do nothing else."""

    def __init__(self, tree: ast.Module) -> None:
        self.pure = set(_PURE)
        self.functions: dict[str, ast.FunctionDef] = {}
        for statement in _one_import_each(tree.body):
            if isinstance(statement, ast.FunctionDef):
                self.functions[statement.name] = statement
        # A name that the file binds itself is no built-in function any more.
        self.pure -= {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
        }
        for statement in _one_import_each(tree.body):
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                names = _imported(statement)
                part = isinstance(statement, ast.ImportFrom) and (
                    statement.module == "nwsim.study" and statement.names[0].name in _PARTS
                )
                self.pure = self.pure | names if part else self.pure - names

    def harmless(self, *nodes: ast.AST | None, seen: frozenset[str] = frozenset()) -> bool:
        """Return whether evaluating the nodes calls nothing but pure functions."""
        queue = [node for node in nodes if node is not None]
        while queue:
            node = queue.pop()
            if isinstance(node, ast.Lambda):
                queue += [*node.args.defaults, *(d for d in node.args.kw_defaults if d)]
                continue
            if isinstance(node, (ast.NamedExpr, ast.Await, ast.Global, ast.Delete)):
                return False
            if isinstance(node, (ast.Subscript, ast.Attribute)) and not isinstance(
                node.ctx, ast.Load
            ):
                return False
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else None
                own = self.functions.get(name or "")
                if own is not None and name not in seen:
                    if own.decorator_list or not self.harmless(*own.body, seen=seen | {own.name}):
                        return False
                elif own is None and name not in self.pure:
                    return False
            queue += ast.iter_child_nodes(node)
        return True


def _plain_names(statement: ast.stmt, calls: _Calls) -> set[str]:
    """Return the names that a plain definition binds; none for any other statement."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        arguments = statement.args
        plain = not statement.decorator_list and calls.harmless(arguments, statement.returns)
        return {statement.name} if plain else set()
    if isinstance(statement, ast.ClassDef):
        bare = not (statement.decorator_list or statement.bases or statement.keywords)
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        body = all(
            bool(_plain_names(s, calls)) if isinstance(s, functions) else calls.harmless(s)
            for s in statement.body
        )
        return {statement.name} if bare and body else set()
    if isinstance(statement, ast.Import):
        modules = [alias.name for alias in statement.names]
        return _imported(statement) if all(map(_quiet, modules)) else set()
    if isinstance(statement, ast.ImportFrom):
        quiet = statement.level == 0 and _quiet(statement.module or "")
        return _imported(statement) if quiet else set()
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return {statement.target.id} if calls.harmless(statement.value) else set()
    if isinstance(statement, ast.Assign) and calls.harmless(statement.value):
        targets: list[ast.expr] = []
        for target in statement.targets:
            targets += target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        if all(isinstance(target, ast.Name) for target in targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
    return set()


def _imported(statement: ast.Import | ast.ImportFrom) -> set[str]:
    names = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    return set() if "*" in names else names


def _quiet(module: str) -> bool:
    """Return whether importing a module does nothing to other modules."""
    return module.partition(".")[0] in {_PACKAGE, *sys.stdlib_module_names}


def _binds_study(statement: ast.stmt) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == "STUDY" for target in targets)


def _number_fields(statement: ast.stmt, calls: _Calls) -> ast.stmt:
    """Return ``STUDY = Study(...)`` without the fields that only describe numbers."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.Call) or value.args:
        return statement
    kept = [
        word
        for word in value.keywords
        if word.arg not in _DESCRIBING or not calls.harmless(word.value)
    ]
    call = ast.Call(func=value.func, args=[], keywords=kept)
    return ast.copy_location(ast.Expr(value=call), statement)


def _digest(texts: Iterable[str]) -> str:
    total = hashlib.sha256()
    for text in texts:
        total.update(hashlib.sha256(text.encode()).digest())
    return total.hexdigest()[:16]


def _study_source(study: Study) -> tuple[list[ast.stmt], str]:
    if study.source is not None:
        statements = counted(parse(study.source))
        return statements, "\n".join(ast.unparse(statement) for statement in statements)
    # A study built by hand: the files its functions come from, and what they hold.
    functions = [study.draw, *(method.function for method in study.methods)]
    statements, texts = [], []
    for function in functions:
        code = getattr(function, "__code__", None)
        file = Path(code.co_filename) if code is not None else None
        if file is not None and file.is_file():
            tree = parse(file)
            statements += tree.body
            texts.append(ast.unparse(tree))
        texts.append("".join(_value_text(function)))
    return statements, "\n".join(texts)


def _value_text(value: Any, seen: tuple[int, ...] = ()) -> Iterator[str]:
    """Describe a function by its code and the values it holds, others by value or type."""
    code = getattr(value, "__code__", None)
    held: list[Any] = []
    if id(value) in seen:
        yield "itself"
    elif isinstance(value, functools.partial):
        yield "partial"
        held = [value.func, *value.args, *itertools.chain(*sorted(value.keywords.items()))]
    elif isinstance(code, types.CodeType):
        yield from _code_text(code)
        held = [cell.cell_contents for cell in getattr(value, "__closure__", None) or ()]
        held += getattr(value, "__defaults__", None) or ()
        held += (getattr(value, "__kwdefaults__", None) or {}).values()
    elif isinstance(value, (tuple, list)):
        yield type(value).__name__
        held = list(value)
    elif value is None or isinstance(value, (str, bytes, int, float)):
        yield repr(value)
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    else:
        yield f"{type(value).__module__}.{type(value).__qualname__}"
    for part in held:
        yield from _value_text(part, (*seen, id(value)))


def _code_text(code: types.CodeType) -> Iterator[str]:
    yield f"{code.co_name} {code.co_names} {code.co_code.hex()}"
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_text(constant)
        else:
            yield repr(constant)


def _package_digest(statements: Iterable[ast.stmt]) -> str:
    """Digest the rooms of the package that the statements and the runner reach."""
    root = Path(nwsim.__file__).parent
    replicate = root / "study" / "replicate.py"
    files = {replicate: parse(replicate)}
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
                files[path] = parse(path)
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
