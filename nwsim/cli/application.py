"""Entry point of the command line: messages and exit codes in one place.

Bad input is named in one line on standard error. The exit codes stand in the help of the
command line.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click

from nwsim.cli import precision_commands as _more_commands  # noqa: F401  (registers them)
from nwsim.cli.commands import cli
from nwsim.exceptions import NwsimError, PrecisionWarning

_INTERRUPTED = "interrupted; what is finished is kept, the same command goes on"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        In place of those of the process.
    """
    # A shell cannot pass one; Python's own files would refuse it as a ValueError.
    if any("\0" in argument for argument in arguments or ()):
        return _complain("arguments must not hold a null character", 2)
    with _ending_signals() as received, warnings.catch_warnings():
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
            return _complain(_INTERRUPTED, 128 + (received or [signal.SIGINT])[0])
        except OSError as error:
            _drop_output()
            return _complain(f"cannot read or write: {error.strerror or error}", 2)
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def _ending_signals() -> Iterator[list[int]]:
    """Treat a termination and a hang-up like Ctrl-C; yield those that came.

    By default they end the process at once: its workers and temporary files would be left.
    """
    received: list[int] = []

    def interrupt(number: int, frame: object) -> None:
        received.append(number)
        raise KeyboardInterrupt

    previous = {}
    # Only the main thread may set handlers. What is ignored (nohup) stays so.
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _drop_output() -> None:
    """Send what standard output still holds nowhere, if it cannot be written.

    Python would try again at its end and report a failure of its own.
    """
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _complain(message: str, code: int) -> int:
    click.echo(f"nwsim: {' '.join(message.split())}", err=True)
    return code


def _show_warning(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"nwsim: warning: {' '.join(str(message).split())}", file=sys.stderr)
