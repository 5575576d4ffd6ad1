"""Declarative Monte Carlo studies: specification, runner, checkpoint, tables."""

from nwsim.study.parts import Grid, Measure, Method, Profile
from nwsim.study.pipeline import (
    FailureShareError,
    MissingReplicatesError,
    UnsoundRunError,
    run_study,
)
from nwsim.study.planning import Plan, plan_study
from nwsim.study.points import CurvePoint, Group, Points
from nwsim.study.precision import PrecisionTarget
from nwsim.study.results import Results, load_results, results_folder
from nwsim.study.rules import ClaimRule, CurveRule, register_rule
from nwsim.study.specification import Study, known_studies, load_study
from nwsim.study.statements import Claim, Contrast, Curve, Figure

__all__ = [
    "Claim",
    "ClaimRule",
    "Contrast",
    "Curve",
    "CurvePoint",
    "CurveRule",
    "FailureShareError",
    "Figure",
    "Grid",
    "Group",
    "Measure",
    "Method",
    "MissingReplicatesError",
    "Plan",
    "Points",
    "PrecisionTarget",
    "Profile",
    "Results",
    "Study",
    "UnsoundRunError",
    "known_studies",
    "load_results",
    "load_study",
    "plan_study",
    "register_rule",
    "results_folder",
    "run_study",
]
