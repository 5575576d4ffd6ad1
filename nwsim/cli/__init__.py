"""The command line: ``nwsim list | run | status | figures | ledger | ...``."""

from nwsim.cli.application import main

__all__ = ["main"]
