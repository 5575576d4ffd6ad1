"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from nwsim.exceptions import ParameterError

if TYPE_CHECKING:
    from nwsim.study import PrecisionTarget

Decorator: TypeAlias = Callable[[Any], Any]

studies_option: Decorator = click.option(
    "--studies", default="studies", show_default=True, metavar="DIR", help="Folder of study files."
)


def profile_option(default: str) -> Decorator:
    """Return the option that says how much is run."""
    return click.option("--profile", default=default, show_default=True, help="How much is run.")


def target_options(required: bool) -> Decorator:
    """Return the options of a target error; :func:`target_of` makes a target of them."""
    options = (
        click.option(
            "--target-mcse",
            required=required,
            type=float,
            metavar="M",
            help="Monte Carlo standard error to reach; a pilot decides the replicates.",
        ),
        click.option(
            "--measure",
            multiple=True,
            metavar="NAME",
            help="Measure that the target is for; may be repeated; all means by default.",
        ),
        click.option("--relative", is_flag=True, help="The target is a share of each estimate."),
        click.option(
            "--pilot",
            default=None,
            type=int,
            metavar="N",
            help="Replicates a condition of the pilot; 20 by default.",
        ),
    )

    def add(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def target_of(
    target_mcse: float | None, measure: tuple[str, ...], relative: bool, pilot: int | None
) -> PrecisionTarget | None:
    """Return the target that options give, if any.

    Raises
    ------
    ParameterError
        If one is out of range, or says something about a target that is not given.
    """
    if target_mcse is None:
        for name, given in (("measure", measure), ("relative", relative), ("pilot", pilot)):
            if given not in ((), False, None):
                raise ParameterError(f"--{name} is about a target: give --target-mcse, too")
        return None
    from nwsim.study import PrecisionTarget

    size = {} if pilot is None else {"pilot": pilot}
    return PrecisionTarget(target_mcse, measure, relative, **size)
