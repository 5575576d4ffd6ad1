"""Lets ``python -m nwsim`` stand for ``nwsim``."""

import sys

from nwsim.cli import main

# Spawned workers import this module under another name; they must not start again.
if __name__ == "__main__":
    sys.exit(main())
