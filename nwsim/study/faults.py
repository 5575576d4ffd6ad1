"""What an exception says, whatever it is."""

from __future__ import annotations


def error_text(error: BaseException) -> str:
    """Return an exception's text, its repr if it has none, and its type if that fails too.

    Lone surrogates, which no file takes, are escaped.
    """
    for text_of in (str, repr):
        try:
            text = text_of(error)
        except Exception:
            continue
        return text.encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__} without a text"
