"""What an exception says, whatever it is."""

from __future__ import annotations

LONGEST = 2000
"""Characters of a text that are kept."""


def error_text(error: BaseException) -> str:
    """Return an exception's text, its repr if it has none, and its type if that fails too.

    Lone surrogates, which no file takes, are escaped; a very long text is cut.
    """
    for text_of in (str, repr):
        try:
            text = text_of(error)
        except KeyboardInterrupt:
            raise
        except BaseException:
            # Even a way out of the program, such as SystemExit.
            continue
        if len(text) > LONGEST:
            text = f"{text[:LONGEST]}... ({len(text)} characters)"
        return text.encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__} without a text"
