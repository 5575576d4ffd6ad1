"""The commands. Each imports what it needs when it is called, so that help is quick."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nwsim import __version__
from nwsim.cli.options import profile_option, studies_option, target_of, target_options

if TYPE_CHECKING:
    from nwsim.study import Results, Study

_studies = studies_option
_profile = profile_option
_out = click.option(
    "--out",
    default=None,
    metavar="DIR",
    help="Results are in DIR/STUDY in place of results/STUDY or build/PROFILE[-N]/STUDY.",
)

_n_sim = click.option(
    "--n-sim", default=None, type=int, metavar="N", help="Replicates a condition, for this run."
)


_EXIT_CODES = (
    "Exit codes: 0 done; 1 done, but something is wrong with the numbers, or results differ; "
    "2 bad input; 130 interrupted, 129 by a hang-up, 143 by a termination."
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EXIT_CODES)
@click.version_option(__version__, prog_name="nwsim")
def cli() -> None:
    """Monte Carlo studies of attention as Nadaraya-Watson regression."""


@cli.command("list")
@_studies
def list_studies(studies: str) -> None:
    """List the studies and their profiles."""
    from nwsim.exceptions import StudyError
    from nwsim.study import known_studies, load_study

    names = known_studies(studies)
    if not names:
        raise StudyError(f"there are no studies in {studies}")
    width = max(map(len, names))
    for name in names:
        try:
            study = load_study(name, studies)
        except StudyError as error:
            click.echo(f"{name:<{width}}  broken: {' '.join(str(error).split())}")
            continue
        click.echo(f"{name:<{width}}  {study.label}  [{', '.join(study.profiles)}]")


@cli.command()
@click.argument("study")
@_profile("quick")
@click.option("--workers", default=1, show_default=True, help="Processes; the bytes stay the same.")
@click.option(
    "--executor", default="local", show_default=True, metavar="KIND", help="local or dask."
)
@click.option(
    "--scheduler",
    default=None,
    metavar="ADDRESS",
    help="Dask cluster to use, such as tcp://node7:8786; without it one is started here.",
)
@click.option(
    "--block-timeout",
    default=None,
    type=float,
    metavar="S",
    help="End a worker that holds a block longer; its replicates are missing then.",
)
@click.option(
    "--n-sim",
    default=None,
    type=int,
    help="Replicates a condition; results go to build/PROFILE-N/STUDY.",
)
@target_options(required=False)
@click.option(
    "--log-file", default=None, metavar="FILE", help="Append a line for every event to FILE."
)
@click.option("--replace", is_flag=True, help="Start over, whatever the checkpoint holds.")
@click.option("--no-figures", is_flag=True, help="Write the tables only.")
@_out
@_studies
def run(
    study: str,
    profile: str,
    workers: int,
    executor: str,
    scheduler: str | None,
    block_timeout: float | None,
    n_sim: int | None,
    target_mcse: float | None,
    measure: tuple[str, ...],
    relative: bool,
    pilot: int | None,
    log_file: str | None,
    replace: bool,
    no_figures: bool,
    out: str | None,
    studies: str,
) -> int:
    """Run STUDY, or what is missing of it; write its tables and figures."""
    from nwsim.study import UnsoundRunError, load_study, run_study
    from nwsim.study.events import log_file as log_events
    from nwsim.study.executors import make_executor

    local = executor == "local" and scheduler is None
    target = target_of(target_mcse, measure, relative, pilot)
    start = Path.cwd()
    loaded = load_study(study, studies)
    trouble: UnsoundRunError | None = None
    try:
        with log_events(log_file):
            results = run_study(
                loaded,
                profile,
                workers,
                out,
                n_sim=n_sim,
                target=target,
                replace=replace,
                studies_dir=studies,
                executor=None if local else make_executor(executor, workers, scheduler),
                block_timeout=block_timeout,
            )
    except UnsoundRunError as error:
        trouble, results = error, error.results
    if not no_figures:
        _draw(loaded, results)
    if profile == "standard" and n_sim is None and target is None:
        _write_ledger(results.folder.parent)
    _show_verdicts(results)
    if target is not None:
        met = results.manifest["precision"]["reached"]
        click.echo(
            f"target: {met['above']} of {met['estimates']} errors are above it, the largest is "
            f"{met['largest_ratio']:.2f} times the target"
        )
    folder = results.folder
    click.echo(
        f"results are in {folder.relative_to(start) if folder.is_relative_to(start) else folder}"
    )
    if trouble is not None:
        click.echo(f"nwsim: {' '.join(str(trouble).split())}", err=True)
        return 1
    return 0


@cli.command()
@click.argument("study", nargs=-1)
@_profile("standard")
@_n_sim
@target_options(required=False)
@_out
@_studies
def figures(
    study: tuple[str, ...],
    profile: str,
    n_sim: int | None,
    target_mcse: float | None,
    measure: tuple[str, ...],
    relative: bool,
    pilot: int | None,
    out: str | None,
    studies: str,
) -> None:
    """Draw the figures of each STUDY (default: all with results) from its tables."""
    from nwsim.exceptions import StudyError
    from nwsim.study import known_studies, load_results, load_study, results_folder

    target = target_of(target_mcse, measure, relative, pilot)
    text = None if target is None else target.text
    names = study or tuple(
        name
        for name in known_studies(studies)
        if (results_folder(name, profile, out, n_sim, text) / "manifest.json").is_file()
    )
    if not names:
        raise StudyError(f"no study in {studies} has results of profile {profile!r}")
    for name in names:
        loaded = load_study(name, studies)
        folder = results_folder(loaded.name, profile, out, n_sim, text)
        _draw(loaded, load_results(folder.name, folder.parent))
        if loaded.figures:
            click.echo(f"figures of {loaded.name} are in {folder / 'figures'}")
        else:
            click.echo(f"{loaded.name} names no figures")


@cli.command()
@click.option(
    "--out", default="results", show_default=True, metavar="DIR", help="Folder of results."
)
def ledger(out: str) -> None:
    """Gather the verdicts of all studies into ledger.csv."""
    from nwsim.exceptions import StoreError

    if not Path(out).is_dir():
        raise StoreError(f"there are no results in {out}")
    click.echo(f"verdicts are in {_write_ledger(Path(out))}")


@cli.command()
@click.argument("folder", default="docs")
@click.option(
    "--results", default="results", show_default=True, metavar="DIR", help="Folder of results."
)
def docs(folder: str, results: str) -> None:
    """Fill the tables of verdicts in the documents of FOLDER (default: docs)."""
    from nwsim.report import fill_documents

    changed = fill_documents(folder, results)
    for path in changed:
        click.echo(f"filled {path}")
    click.echo(f"{len(changed)} documents changed")


@cli.command()
@click.argument("study", nargs=-1)
@_profile("standard")
@_n_sim
@target_options(required=False)
@_out
@_studies
def status(
    study: tuple[str, ...],
    profile: str,
    n_sim: int | None,
    target_mcse: float | None,
    measure: tuple[str, ...],
    relative: bool,
    pilot: int | None,
    out: str | None,
    studies: str,
) -> int:
    """Say how much of each STUDY (default: all) is finished, and which runs now."""
    from nwsim.exceptions import NwsimError, StudyError
    from nwsim.study import known_studies, load_study, results_folder
    from nwsim.study.standing import standing_of

    target = target_of(target_mcse, measure, relative, pilot)
    text = None if target is None else target.text
    code, told = 0, 0
    for name in study or known_studies(studies):
        try:
            loaded = load_study(name, studies)
            if profile not in loaded.profiles and not study:
                continue
            folder = results_folder(loaded.name, profile, out, n_sim, text)
            line = f"{loaded.name}: {standing_of(loaded, profile, folder, n_sim, target).text}"
        except NwsimError as error:
            # Among all, one that is broken must not hide how far the others are.
            if study:
                raise
            code, line = 1, f"{name}: no status: {' '.join(str(error).split())}"
        click.echo(line)
        told += 1
    if not told:
        raise StudyError(f"no study in {studies} has a profile {profile!r}")
    return code


@cli.command()
@click.argument("study")
@click.option("--condition", required=True, metavar="ID", help="condition_id of performance.csv.")
@click.option("--rep", required=True, type=int, help="Replicate, from 0.")
@_studies
def replay(study: str, condition: str, rep: int, studies: str) -> int:
    """Compute one replicate of STUDY again and print its scalars as CSV."""
    from nwsim.study import load_study
    from nwsim.study.pipeline import replay as compute
    from nwsim.study.results import table_text

    # The table alone goes to standard output, whatever a study prints.
    with contextlib.redirect_stdout(sys.stderr):
        outcome = compute(load_study(study, studies), condition, rep)
    rows = [
        {"condition_id": condition, "rep": rep, "method": method, "measure": name, "value": value}
        for method, values in outcome.scalars.items()
        for name, value in values.items()
    ]
    click.echo(table_text(("condition_id", "rep", "method", "measure", "value"), rows), nl=False)
    for method, kind, message in outcome.failures:
        click.echo(f"nwsim: method {method!r} fails: {kind}: {message}", err=True)
    return 1 if outcome.failures else 0


@cli.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
def diff(first: str, second: str) -> int:
    """Compare the results folders A and B; exit code 1 if they differ."""
    from nwsim.study.results import differences, read_results, run_differences

    pair = read_results(Path(first)), read_results(Path(second))
    found = [*run_differences(*pair), *differences(*pair)]
    for line in found:
        click.echo(line)
    click.echo(f"{len(found)} differences")
    return 1 if found else 0


@cli.command("new-study")
@click.argument("name")
@_studies
def new_study(name: str, studies: str) -> None:
    """Write a small working study to start from."""
    from nwsim.cli.template import write_template

    click.echo(f"wrote {write_template(name, Path(studies))}; try: make study-{name} PROFILE=quick")


@cli.command()
@click.argument("parts", nargs=-1)
@click.option("--quick", is_flag=True, help="Few rounds, and no slow packages.")
@click.option(
    "--out",
    default=None,
    metavar="DIR",
    help="Folder of the tables in place of results/bench, or build/quick/bench if quick.",
)
def bench(parts: tuple[str, ...], quick: bool, out: str | None) -> int:
    """Time nwsim, other packages and plain C on the same work, by turns.

    PARTS are W1 to W7, roofline, costs, scaling, statistical and runner; all by default.
    """
    from nwsim.bench.running import run as run_parts

    folder = Path(out or ("build/quick/bench" if quick else "results/bench"))
    whole = run_parts(folder, parts, quick=quick, say=click.echo)
    click.echo(f"tables are in {folder}")
    return 0 if whole else 1


def _draw(study: Study, results: Results) -> None:
    if study.figures:
        from nwsim.report import draw_figures

        draw_figures(study, results)


def _write_ledger(root: Path) -> Path:
    from nwsim.report import write_ledger

    return write_ledger(root)


def _show_verdicts(results: Results) -> None:
    from nwsim.study.points import MIN_REPLICATES

    claims = results.claims
    if len(claims) and max(results.manifest["n_sim"].values()) < MIN_REPLICATES:
        # "inconclusive" says nothing about a claim then; only a counterexample does.
        claims = claims[claims["verdict"] != "inconclusive"]
        but = ", but for counterexamples" if len(claims) else ""
        click.echo(f"no verdicts: they need {MIN_REPLICATES} replicates a condition{but}")
    counts = Counter(zip(claims["claim"], claims["verdict"], strict=True))
    for (claim, verdict), count in counts.items():
        click.echo(f"{claim}: {verdict} in {count} settings")
