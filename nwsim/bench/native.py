"""The C programs of ``limits``: compiled when first needed, loaded with ctypes."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from nwsim._files import replacing

SOURCES = Path(__file__).with_name("limits")
LIBRARY_FOLDER = Path("build") / "bench"
_OPTIONS = ("-O3", "-march=native", "-fPIC", "-shared")


class NoCompilerError(ImportError):
    """The C programs cannot be compiled or run here."""


@functools.cache
def library() -> ctypes.CDLL:
    """Return the compiled programs.

    Raises
    ------
    NoCompilerError
        If there is no C compiler, or the processor has no AVX2.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise NoCompilerError("no C compiler")
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(f"{platform.node()} {compiler} {_OPTIONS}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    path = (LIBRARY_FOLDER / f"limits-{digest.hexdigest()[:12]}.so").resolve()
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        programs = [str(source) for source in sources if source.suffix == ".c"]
        with replacing(path) as temporary:
            done = subprocess.run(
                [compiler, *_OPTIONS, *programs, "-o", str(temporary)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no message"])[0]
                raise NoCompilerError(f"the C programs do not compile: {reason}")
            # Loaded by its final name only: it must be executable by its owner.
            temporary.chmod(0o755)
    loaded = ctypes.CDLL(str(path))
    for name in ("multiply_adds_f64", "multiply_adds_f32", "read_all"):
        getattr(loaded, name).restype = ctypes.c_double
    return loaded


def call(name: str, *arguments: Any) -> Any:
    """Call a program: arrays as pointers, ints as ``long``, floats as ``double``."""
    return getattr(library(), name)(*map(_as_c, arguments))


def _as_c(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        if not argument.flags.c_contiguous:
            raise ValueError("arrays handed to C must be contiguous")
        return argument.ctypes.data_as(ctypes.c_void_p)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return ctypes.c_long(argument)
