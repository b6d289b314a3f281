"""Finds the ends of statements in a text, by its tokens."""

from __future__ import annotations

from tidelake.errors import InvalidInputError
from tidelake.sql.syntax.tokens import BYTE_ORDER_MARK, split_statements, tokenize

END = ";"
META = "\\"
BARE = frozenset({"exit", "quit", "help"})
"""Commands without a semicolon."""


def split_texts(text: str) -> list[str]:
    r"""Split a text into statements, each with the comments before it.

    Examples
    --------
    >>> split_texts("SHOW TABLES; -- then\nSELECT ';' -- a sign")
    ['SHOW TABLES', "-- then\nSELECT ';' -- a sign"]
    """
    tokens = tokenize(text)
    ends = [w.start for w in tokens if w.text == END and not w.is_quoted]
    sources = []
    begin = 0
    for statement in split_statements(tokens):
        end = next((e for e in ends if e >= statement[-1].end), len(text))
        sources.append(text[begin:end].lstrip(END + " \n").strip().removeprefix(BYTE_ORDER_MARK))
        begin = end + len(END)
    return sources


def is_complete(text: str) -> bool:
    """Check if a semicolon ends an input, so that it can run.

    Examples
    --------
    >>> [is_complete(t) for t in ("SELECT 1", "SELECT 1;", "SELECT ';", "SELECT 1; -- one")]
    [False, True, False, True]
    >>> head = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;"
    >>> is_complete(head), is_complete(f"{head} END;")
    (False, True)
    """
    try:
        tokens = tokenize(text)
    except InvalidInputError:
        return False  # a string, a name or a comment is not closed
    if not tokens or tokens[-1].text != END or tokens[-1].is_quoted:
        return False
    statements = split_statements(tokens)
    return not statements or statements[-1][-1] is not tokens[-1]  # else in a statement set


def holds_statement(text: str) -> bool:
    """Check for more than comments, blanks and semicolons.

    Examples
    --------
    >>> [holds_statement(t) for t in ("-- nothing", " ;; ", "SHOW TABLES")]
    [False, False, True]
    """
    try:
        return bool(split_statements(tokenize(text)))
    except InvalidInputError:
        return True


def is_command(text: str) -> bool:
    r"""Check if a text is a command of the program.

    Examples
    --------
    >>> [is_command(t) for t in ("\\format json", "exit", "exit;", "SELECT 1")]
    [True, True, True, False]
    """
    stripped = text.removeprefix(BYTE_ORDER_MARK).strip()
    return stripped.startswith(META) or stripped.rstrip("; ").lower() in BARE
