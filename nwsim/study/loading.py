"""Finding and loading study files."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import TypeAlias

from nwsim.exceptions import NwsimError, StudyError
from nwsim.study.parts import FILE_NAME
from nwsim.study.specification import Study

StudyLike: TypeAlias = "str | Path | Study"


def known_studies(studies_dir: str | Path = "studies") -> tuple[str, ...]:
    """Return the names of the studies in a folder, sorted; nothing is loaded."""
    return tuple(
        sorted(path.stem for path in Path(studies_dir).glob("*.py") if path.stem[0] not in "_.")
    )


def load_study(name_or_study: StudyLike, studies_dir: str | Path = "studies") -> Study:
    """Return a study by its name, by the path of its file, or as it is.

    Parameters
    ----------
    name_or_study : str, Path or Study
        A path ends in ``.py``.
    studies_dir : str or Path
        Folder that holds ``<name>.py``.

    Raises
    ------
    StudyError
        If there is no such study (the known ones are listed), its file fails, or it
        defines no ``STUDY`` of its own name.
    """
    if isinstance(name_or_study, Study):
        return name_or_study
    text = str(name_or_study)
    if text.endswith(".py"):
        path = Path(text)
        if not path.is_file():
            raise StudyError(f"there is no study file {path}")
    else:
        path = Path(studies_dir) / f"{text}.py"
        if not FILE_NAME.match(text) or not path.is_file():
            known = ", ".join(known_studies(studies_dir)) or "none"
            raise StudyError(f"no study {text!r} in {Path(studies_dir)}; known studies: {known}")
    return _execute(path)


def _execute(path: Path) -> Study:
    """Run a study file as a module that is importable only meanwhile.

    Once it is gone from ``sys.modules``, cloudpickle writes its functions by value, and
    worker processes need neither the file nor its folder.
    """
    module = types.ModuleType(f"nwsim_study_{path.stem}")
    module.__file__ = str(path.resolve())
    previous = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    source = b""
    try:
        source = path.read_bytes()
        exec(compile(source, module.__file__, "exec"), module.__dict__)
    except NwsimError as error:
        raise StudyError(f"study file {path}: {error}") from error
    except Exception as error:
        raise StudyError(f"study file {path} fails: {type(error).__name__}: {error}") from error
    finally:
        del sys.modules[module.__name__]
        if previous is not None:
            sys.modules[module.__name__] = previous
    study = getattr(module, "STUDY", None)
    if not isinstance(study, Study):
        raise StudyError(f"study file {path} must define STUDY = Study(...)")
    if study.name != path.stem:
        raise StudyError(
            f"study file {path} defines the study {study.name!r}; its name must be {path.stem!r}"
        )
    object.__setattr__(study, "namespace", module.__dict__)
    object.__setattr__(study, "source", source)
    return study
