"""Figures, ledger and tables of verdicts, from the results tables alone."""

from nwsim.report.figures import draw_figures, save_figure
from nwsim.report.found import fill_documents
from nwsim.report.ledger import write_ledger
from nwsim.report.style import new_figure, panels, style, styled

__all__ = [
    "draw_figures",
    "fill_documents",
    "new_figure",
    "panels",
    "save_figure",
    "style",
    "styled",
    "write_ledger",
]
