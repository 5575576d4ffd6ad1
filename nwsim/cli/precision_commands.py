"""Commands about how precise results are, and whether they can be had again."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from nwsim.cli.commands import cli
from nwsim.cli.options import profile_option, studies_option, target_of, target_options


@cli.command()
@click.argument("study")
@target_options(required=True)
@profile_option("quick")
@click.option("--replace", is_flag=True, help="Start the pilot over.")
@click.option(
    "--out", default=None, metavar="DIR", help="Keep the pilot in DIR/STUDY, not build/plan/STUDY."
)
@studies_option
def plan(
    study: str,
    target_mcse: float,
    measure: tuple[str, ...],
    relative: bool,
    pilot: int | None,
    profile: str,
    replace: bool,
    out: str | None,
    studies: str,
) -> int:
    """Say how many replicates a target error takes, from a pilot of STUDY.

    A CSV table goes to standard output, a line that sums it up to standard error.
    """
    from nwsim.study import plan_study

    target = target_of(target_mcse, measure, relative, pilot)
    assert target is not None
    # The table alone goes to standard output, whatever a study prints.
    with contextlib.redirect_stdout(sys.stderr):
        found = plan_study(study, target, profile, out=out, replace=replace, studies_dir=studies)
    click.echo(found.table, nl=False)
    gaps = f", {found.untimed} cells without times" if found.untimed else ""
    click.echo(
        f"{found.n_sim} replicates in {found.n_cells} cells, about {_in_words(found.seconds)} on "
        f"one worker{gaps}, besides the pilot of {target.pilot} a cell in {found.folder}",
        err=True,
    )
    if found.undecided:
        click.echo(f"nwsim: {found.undecided} rows have no n_sim", err=True)
    if found.refusal:
        click.echo(f"nwsim: run would refuse this: {found.refusal}", err=True)
        return 1
    return 0


@cli.command()
@click.argument("study", nargs=-1)
@click.option("--seed", default=1, show_default=True, help="Decides which cells.")
@click.option(
    "--cells", default=None, type=int, metavar="K", help="No more tracked cells a study than K."
)
@click.option("--workers", default=1, show_default=True, help="Processes for the tracked cells.")
@click.option(
    "--results", default="results", show_default=True, metavar="DIR", help="Tracked results."
)
@click.option(
    "--out",
    default="build/verify",
    show_default=True,
    metavar="DIR",
    help="Folder for what is computed.",
)
@studies_option
def verify(
    study: tuple[str, ...],
    seed: int,
    cells: int | None,
    workers: int,
    results: str,
    out: str,
    studies: str,
) -> int:
    """Compute each STUDY (default: all) again; exit code 1 if numbers differ.

    The profile quick with 1 and 2 workers must give the same bytes. A random tenth of the cells
    of the tracked results, with all their replicates, must give the same numbers.
    """
    from nwsim.exceptions import StudyError
    from nwsim.study import known_studies, load_study
    from nwsim.study.verification import check_selection, verify_study

    check_selection(seed, cells, workers)
    names = study or known_studies(studies)
    if not names:
        raise StudyError(f"there are no studies in {studies}")
    loaded = [load_study(name, studies) for name in names]
    click.echo(f"tracked cells are drawn with seed {seed}")
    total = sum(
        verify_study(
            one, Path(results), Path(out), click.echo, seed=seed, most=cells, workers=workers
        )
        for one in loaded
    )
    click.echo(f"{total} differences in {len(loaded)} studies")
    return 1 if total else 0


def _in_words(seconds: float) -> str:
    """Return a time in the unit in which it is a small number."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.3g} s"
