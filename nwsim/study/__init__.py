"""Declarative Monte Carlo studies: specification, runner, checkpoint, tables."""

from nwsim.study.derived import Claim, Contrast, Curve, Figure
from nwsim.study.loading import known_studies, load_study
from nwsim.study.parts import Grid, Measure, Method, Profile
from nwsim.study.pipeline import FailureShareError, run_study
from nwsim.study.results import Results, load_results, results_folder
from nwsim.study.specification import Study

__all__ = [
    "Claim",
    "Contrast",
    "Curve",
    "FailureShareError",
    "Figure",
    "Grid",
    "Measure",
    "Method",
    "Profile",
    "Results",
    "Study",
    "known_studies",
    "load_results",
    "load_study",
    "results_folder",
    "run_study",
]
