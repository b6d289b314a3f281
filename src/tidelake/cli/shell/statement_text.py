"""Where statements end in a text, by the words of SQL: not inside strings, names and comments."""

from __future__ import annotations

from tidelake.errors import InvalidInputError
from tidelake.sql.syntax.tokens import BYTE_ORDER_MARK, split_statements, words_of

__all__ = ["holds_statement", "is_command", "is_complete", "sources_of"]

END = ";"
META = "\\"
BARE = frozenset({"exit", "quit", "help"})
"""Words that need no semicolon."""


def sources_of(text: str) -> list[str]:
    r"""Cut a text into its statements, each with the comments before it.

    Examples
    --------
    >>> sources_of("SHOW TABLES; -- then\nSELECT ';' -- a sign")
    ['SHOW TABLES', "-- then\nSELECT ';' -- a sign"]
    """
    words = words_of(text)
    ends = [w.start for w in words if w.text == END and not w.is_quoted]
    sources = []
    begin = 0
    for end in (*ends, len(text)):
        if any(begin <= w.start < end for w in words):
            sources.append(text[begin:end].strip().removeprefix(BYTE_ORDER_MARK))
        begin = end + len(END)
    return sources


def is_complete(text: str) -> bool:
    """Whether a semicolon ends what was typed, so that it can run.

    Examples
    --------
    >>> [is_complete(t) for t in ("SELECT 1", "SELECT 1;", "SELECT ';", "SELECT 1; -- one")]
    [False, True, False, True]
    """
    try:
        words = words_of(text)
    except InvalidInputError:
        return False  # a string, a name or a comment goes on
    return bool(words) and words[-1].text == END and not words[-1].is_quoted


def holds_statement(text: str) -> bool:
    """Whether there is more than comments, blanks and semicolons.

    Examples
    --------
    >>> [holds_statement(t) for t in ("-- nothing", " ;; ", "SHOW TABLES")]
    [False, False, True]
    """
    try:
        return bool(split_statements(words_of(text)))
    except InvalidInputError:
        return True


def is_command(text: str) -> bool:
    r"""Whether a text is a command of the program and no SQL.

    Examples
    --------
    >>> [is_command(t) for t in ("\\format json", "exit", "exit;", "SELECT 1")]
    [True, True, True, False]
    """
    stripped = text.removeprefix(BYTE_ORDER_MARK).strip()
    return stripped.startswith(META) or stripped.rstrip("; ").lower() in BARE
