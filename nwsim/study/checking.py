"""How the parts of a study refer to each other: each mistake is one clear sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nwsim._validation import check_choice
from nwsim.exceptions import ParameterError

if TYPE_CHECKING:
    from nwsim.study.specification import Study


def check_study(study: Study) -> None:
    """Raise :class:`~nwsim.exceptions.ParameterError` at the first broken reference."""
    for field in ("factors", "methods", "measures"):
        if not getattr(study, field):
            raise ParameterError(f"{field} must hold at least one entry")
    for field in ("methods", "measures", "contrasts", "figures"):
        _check_distinct(field, [item.name for item in getattr(study, field)])
    # One claim may be tested on several quantities, one curve drawn for several measures.
    _check_distinct(
        "claims", [f"{c.id} {c.quantity} {c.method or '(any method)'}" for c in study.claims]
    )
    _check_distinct("curves", [f"{c.name} {c.measure}" for c in study.curves])
    _check_distinct("shared_streams", list(study.shared_streams))
    _check_grids(study)
    factors = tuple(study.levels)
    methods = tuple(method.name for method in study.methods)
    for factor in study.shared_streams:
        check_choice("shared_streams", factor, factors)
    for measure in study.measures:
        for method in measure.methods or ():
            check_choice(f"methods of measure {measure.name!r}", method, methods)
    _check_derived(study, factors, methods)


def _check_distinct(field: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ParameterError(f"{field} must have distinct names; {name!r} occurs twice")


def _check_grids(study: Study) -> None:
    first = set(study.factors[0].levels)
    for grid in study.factors[1:]:
        if set(grid.levels) != first:
            odd = ", ".join(sorted(first.symmetric_difference(grid.levels)))
            raise ParameterError(f"factors must be the same in every grid; not in all: {odd}")
    # Levels of one type within a grid may still differ in type between grids.
    _ = study.factor_types


def _check_derived(study: Study, factors: tuple[str, ...], methods: tuple[str, ...]) -> None:
    means = tuple(measure.name for measure in study.measures if measure.kind == "mean")
    for claim in study.claims:
        what = f"claim {claim.id!r}"
        check_choice(f"quantity of {what}", claim.quantity, means)
        if claim.over is not None:
            check_choice(f"over of {what}", claim.over, factors)
        if claim.method is not None:
            check_choice(f"method of {what}", claim.method, methods)
        if claim.rule == "rate":
            _check_slope_factor(study, what, str(claim.over))
    for curve in study.curves:
        what = f"curve {curve.name!r}"
        check_choice(f"measure of {what}", curve.measure, means)
        check_choice(f"over of {what}", curve.over, factors)
        _check_slope_factor(study, what, curve.over)
    for contrast in study.contrasts:
        what = f"contrast {contrast.name!r}"
        check_choice(f"measure of {what}", contrast.measure, means)
        check_choice(f"factor of {what}", contrast.factor, (*factors, "method"))
        levels = methods if contrast.factor == "method" else study.levels[contrast.factor]
        for parameter in ("level", "baseline"):
            value = getattr(contrast, parameter)
            if value not in levels:
                raise ParameterError(
                    f"{parameter} of {what} must be one of {', '.join(map(repr, levels))}; "
                    f"got {value!r}"
                )


def _check_slope_factor(study: Study, what: str, over: str) -> None:
    """Refuse slopes along text levels and along levels that share random numbers."""
    if study.factor_types[over] not in ("int", "float") or min(study.levels[over]) <= 0:  # type: ignore[operator]
        raise ParameterError(f"over of {what} must be a factor with positive numbers as levels")
    # The fit takes its points as independent; common random numbers would make its
    # standard error wrong.
    if over in study.shared_streams:
        raise ParameterError(
            f"shared_streams must not hold {over!r}: {what} fits a slope over its levels"
        )
