"""Errors that nwsim raises on purpose.

Every one of them carries a single sentence that names the parameter (or the file) at
fault and what would be accepted, so that the command line can print it as it stands.
"""


class NwsimError(Exception):
    """Base of all errors raised on purpose."""


class ParameterError(NwsimError, ValueError):
    """An argument outside its accepted values; a ``ValueError`` for callers."""


class StudyError(NwsimError):
    """A study that cannot be found, loaded or run as specified."""


class StoreError(NwsimError):
    """A results folder or checkpoint that cannot be used as it stands."""


class EmptyWindowError(NwsimError, ValueError):
    """A query whose window holds no weight, under ``empty_window="raise"``."""


class PrecisionWarning(UserWarning):
    """A result is defined but its precision is not (one replicate, a search edge)."""
