"""Worlds, designs and noise laws by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from nwsim._validation import check_choice
from nwsim.dgp.functions.base import World
from nwsim.exceptions import ParameterError

T = TypeVar("T")
W = TypeVar("W", bound=World)


class Registry(Generic[T]):
    """Named dataclasses, built by keyword with errors that list what is accepted."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type[T]] = {}

    def add(self, cls: type[T]) -> None:
        """Register a concrete dataclass under its ``name``; a name in use is refused."""
        name = getattr(cls, "name", None)
        if not isinstance(name, str) or not name.isidentifier():
            raise ParameterError(f"a {self.kind} must have an identifier as name; got {name!r}")
        if not dataclasses.is_dataclass(cls) or inspect.isabstract(cls):
            raise ParameterError(f"{self.kind} {name!r} must be a concrete dataclass")
        if name in self._classes:
            raise ParameterError(f"{self.kind} {name!r} is already registered; choose another name")
        self._classes[name] = cls

    def remove(self, name: str) -> None:
        """Forget a name (for tests that register their own)."""
        del self._classes[check_choice(self.kind, name, self._classes)]

    def names(self) -> tuple[str, ...]:
        """Return the registered names, in order of registration."""
        return tuple(self._classes)

    def get(self, name: str) -> type[T]:
        """Return the class of a name."""
        return self._classes[check_choice(self.kind, name, self._classes)]

    def build(self, name: str, arguments: Mapping[str, Any]) -> T:
        """Return an instance; unknown arguments raise an error that lists the known."""
        cls = self.get(name)
        # An option that shares its name with a method is stored under another one.
        accepted = {
            field.metadata.get("option", field.name): field.name
            for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        }
        for argument in arguments:
            if argument not in accepted:
                raise ParameterError(
                    f"{self.kind} {name!r} has no option {argument!r}; it accepts "
                    + ", ".join(accepted)
                )
        return cls(**{accepted[option]: value for option, value in arguments.items()})

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._classes)


WORLDS: Registry[World] = Registry("world")


def register_world(cls: type[W]) -> type[W]:
    """Register a world class; usable as a decorator.

    Parameters
    ----------
    cls : type
        A concrete frozen dataclass derived from :class:`World`, with the class variables
        ``name``, ``label``, ``source`` and ``roughness``. Its fields beyond alpha, dim and
        domain are the options of :func:`make_world` and need defaults. The property suite
        of the tests runs over every registered world.

    Raises
    ------
    ParameterError
        If the name is in use or the class does not fit.
    """
    if not (inspect.isclass(cls) and issubclass(cls, World)):
        raise ParameterError(f"register_world takes a subclass of World; got {cls!r}")
    for attribute in ("label", "source", "roughness"):
        # A composite's roughness is a property: that of its parts.
        if not isinstance(getattr(cls, attribute, None), (str, property)):
            raise ParameterError(f"world {cls.__name__} must have a text {attribute!r}")
    WORLDS.add(cls)
    return cls


def user_registrations() -> tuple[type[World], ...]:
    """Return the world classes that are not the package's own, for other processes."""
    classes = (WORLDS.get(name) for name in WORLDS)
    return tuple(cls for cls in classes if not cls.__module__.startswith("nwsim."))


def register_missing(classes: Iterable[type[World]]) -> None:
    """Register the world classes whose names are not known yet."""
    for cls in classes:
        if cls.name not in WORLDS.names():
            register_world(cls)


def world_names() -> tuple[str, ...]:
    """Return the names of all registered worlds."""
    return WORLDS.names()


def make_world(
    name: str,
    alpha: float | None = None,
    dim: int = 1,
    domain: str = "cube",
    **options: Any,
) -> World:
    """Return a world by name.

    Parameters
    ----------
    name : str
        One of :func:`world_names`.
    alpha : float, optional
        Hölder exponent; None takes the family's default.
    dim : int
        Input dimension.
    domain : {"cube", "torus"}
        Not periodic, or of period 1 in each coordinate.
    **options
        The family's own options: see its class.

    Raises
    ------
    ParameterError
        For an unknown name or option (the known ones are listed) or a bad value.
    """
    arguments: dict[str, Any] = {"dim": dim, "domain": domain, **options}
    if alpha is not None:
        arguments["alpha"] = alpha
    return WORLDS.build(name, arguments)
