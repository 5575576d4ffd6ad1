"""The one place where compiler options are chosen.

Why these options:

- ``error_model="numpy"``: a division by zero gives inf or NaN as in the interpreted twin
  instead of raising from compiled code.
- fast-math is limited to ``reassoc``, ``contract`` and ``nsz``: reductions vectorise and
  fused multiply-adds form, while NaN and infinity keep their meaning (``nnan`` and
  ``ninf`` would let a NaN in the data come out as a finite number).
- ``STRICT`` carries no reordering at all; it is for compensated sums and range
  reductions, which ``reassoc`` would simplify away.
- ``nogil``: a thread-based executor may overlap calls.

A cached function keeps the code of helpers it had inlined when it was compiled. The cache
folder is therefore named by a digest of all numerics sources and the compiler versions,
so a change in any of them starts a fresh cache.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core import types

# Inputs are declared read-only: such a signature takes both read-only arrays (a memory map)
# and ordinary ones, without a second compilation.
VECTOR = types.Array(types.float64, 1, "C", readonly=True)
MATRIX = types.Array(types.float64, 2, "C", readonly=True)
INDICES = types.Array(types.int64, 1, "C", readonly=True)
STACK = types.Array(types.float64, 3, "C", readonly=True)
OUT_VECTOR = types.Array(types.float64, 1, "C")
OUT_MATRIX = types.Array(types.float64, 2, "C")
OUT_STACK = types.Array(types.float64, 3, "C")
OUT_INDICES = types.Array(types.int64, 1, "C")
OUT_MASK = types.Array(types.boolean, 2, "C")
INTEGER, REAL, FLAG, NOTHING = types.int64, types.float64, types.boolean, types.void
PAIR = types.UniTuple(types.float64, 2)

# numba fills its settings in at run time, out of a type checker's sight.
settings: Any = numba.config

SUMS: frozenset[str] = frozenset({"reassoc", "contract", "nsz"})
STRICT: frozenset[str] = frozenset()


def _source_digest() -> str:
    digest = hashlib.sha256()
    for part in (numba.__version__, llvmlite.__version__, np.__version__, platform.machine()):
        digest.update(part.encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _cache_folder() -> str:
    """Return a writable folder that belongs to exactly these sources."""
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    folder = root / "nwsim" / _source_digest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError:
        user = os.getuid() if hasattr(os, "getuid") else "user"
        folder = Path(tempfile.gettempdir()) / f"nwsim-{user}" / _source_digest()
        folder.mkdir(parents=True, exist_ok=True)
    return str(folder)


CACHE_FOLDER = _cache_folder()


def compiled(
    signature: Any = None,
    *,
    fastmath: frozenset[str] = SUMS,
    inline: bool = False,
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function for the given signature, cached by source digest.

    Parameters
    ----------
    signature : numba signature or None
        Such as ``NOTHING(MATRIX, OUT_VECTOR)``. None is for small helpers that are
        compiled into their callers.
    fastmath : frozenset of str
        ``SUMS`` or ``STRICT``.
    inline : bool
        Ask LLVM to inline the function into its callers.

    Returns
    -------
    callable
        A decorator; the result keeps its interpreted twin as ``py_func``.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": set(fastmath)}
    if inline:
        options["forceinline"] = True

    def decorate(function: Callable[..., Any]) -> Any:
        if signature is None:
            return numba.njit(**options)(function)
        # The cache locator reads the setting at this moment only; it is put back so that
        # other packages keep theirs.
        previous = settings.CACHE_DIR
        settings.CACHE_DIR = CACHE_FOLDER
        try:
            return numba.njit(signature, cache=True, **options)(function)
        finally:
            settings.CACHE_DIR = previous

    return decorate
