"""Checks hints ``/*+ ... */``: OPTIONS after a table, LOOKUP and Spark's hints after SELECT.

Spark ignores an unknown hint and only logs it: a misspelt ``OPTION(...)`` would read the wrong
snapshot.
"""

from __future__ import annotations

import re

from tidelake.errors import UnsupportedError, near_names
from tidelake.sql.syntax.tokens import error_at, non_option_hints

OWN = "OPTIONS"
SPARK = frozenset(
    {
        "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLE_MERGE",
        "SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL", "COALESCE", "REPARTITION", "REPARTITION_BY_RANGE",
        "REBALANCE",
    }
)  # fmt: skip
LOOKUP = "LOOKUP"
FLINK = frozenset({"STATE_TTL", "NEST_LOOP", "MULTI_JOIN", "JSON_AGGREGATE_WRAPPED"})
_STRING = re.compile(r"'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")
_ARGUMENTS = re.compile(r"\([^()]*\)")
_NAME = re.compile(r"[^\W\d]\w*")


def check_hints(text: str) -> None:
    """Refuse an unknown hint; suggest similar names.

    Raises
    ------
    InvalidInputError
        The name is unknown, or OPTIONS is misplaced.
    UnsupportedError
        It is a hint of Flink.

    Examples
    --------
    >>> check_hints("SELECT /*+ BROADCAST(a), coalesce(3) */ * FROM t /*+ OPTIONS('a' = 'b') */")
    >>> check_hints("SELECT * FROM t /*+ OPTION('a' = 'b') */")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: There is no hint 'OPTION'. Did you mean 'OPTIONS'? At ...
    """
    for start, body in non_option_hints(text):
        for name in _NAME.finditer(_names_alone(body)):
            _check(text, start + name.start(), name[0])


def _names_alone(body: str) -> str:
    """Blank out strings and parenthesized text."""
    bare = _STRING.sub(lambda found: " " * len(found[0]), body)
    while True:
        inner = _ARGUMENTS.sub(lambda found: " " * len(found[0]), bare)
        if inner == bare:
            return bare
        bare = inner


def _check(text: str, start: int, name: str) -> None:
    upper = name.upper()
    if upper in SPARK or upper == LOOKUP:
        return
    if upper == OWN:
        message = "Write OPTIONS after a table, alone: t /*+ OPTIONS('key' = 'value') */."
        raise error_at(text, start, message, kind="sql_hint")
    if upper in FLINK:
        message = f"{upper} is a hint of Flink: leave it out, or use a hint of Spark."
        raise error_at(text, start, message, kind="sql_hint", error=UnsupportedError)
    message = f"There is no hint '{name}'.{near_names(upper, [OWN, LOOKUP, *sorted(SPARK)])}"
    raise error_at(text, start, message, kind="sql_hint")
