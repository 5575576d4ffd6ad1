"""Entry point of the command line: messages and exit codes in one place.

Exit codes: 0 done; 1 done, but something is wrong with the numbers; 2 bad input, named in
one line on standard error; 130 interrupted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from nwsim.cli.commands import cli
from nwsim.exceptions import NwsimError, PrecisionWarning

_INTERRUPTED = "interrupted; finished replicates are kept, the same command goes on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        In place of those of the process.
    """
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("always", PrecisionWarning)
        try:
            code = cli.main(
                args=None if arguments is None else list(arguments),
                prog_name="nwsim",
                standalone_mode=False,
            )
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message())
            return 2
        except click.ClickException as error:
            return _complain(error.format_message(), 2)
        except NwsimError as error:
            return _complain(str(error), 2)
        except (click.Abort, KeyboardInterrupt):
            return _complain(_INTERRUPTED, 130)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo(f"nwsim: {' '.join(message.split())}", err=True)
    return code


def _show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"nwsim: warning: {' '.join(str(message).split())}", file=sys.stderr)
