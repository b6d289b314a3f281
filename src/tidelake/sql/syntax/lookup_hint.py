"""Flink's hint for a lookup: whether a key that is missing is asked for again.

::

    SELECT /*+ LOOKUP('table'='d', 'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay',
                      'fixed-delay'='1s', 'max-attempts'='3') */ ...

Keys are looked up in batches and rows keep their order, whatever ``async`` and its like say. An
option of our own, ``via``, is ``auto``, ``local`` or ``service``: see
:meth:`tidelake.spark.Lake.lookup_join`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tidelake.errors import near_names
from tidelake.sql.syntax.tokens import error_at, non_option_hints

_HINT = re.compile(r"\bLOOKUP\s*\((?P<options>(?:[^()']|'[^']*')*)\)", re.IGNORECASE)
_OPTION = re.compile(r"\s*'(?P<key>[^']*)'\s*=\s*'(?P<value>[^']*)'\s*(?P<next>,|$)")
_DELAY = re.compile(r"(?P<number>\d+)\s*(?P<unit>ms|s|sec|min)")
_UNITS_MS = {"ms": 1, "s": 1_000, "sec": 1_000, "min": 60_000}
TABLE, PREDICATE, STRATEGY = "table", "retry-predicate", "retry-strategy"
DELAY, ATTEMPTS = "fixed-delay", "max-attempts"
_RETRY = {PREDICATE: "lookup_miss", STRATEGY: "fixed_delay"}
VIA = "via"
_VIAS: Mapping[str, Via] = {"auto": "auto", "local": "local", "service": "service"}
_WITHOUT_EFFECT = ("async", "output-mode", "capacity", "timeout")


Via: TypeAlias = Literal["auto", "local", "service"]


@dataclass(frozen=True, slots=True)
class LookupHint:
    """A hint for the lookup of one table.

    Parameters
    ----------
    attempts_max, delay_ms : int
        How often a missing key is asked for again, and the wait before; 0 tries without a retry.
    start, end : int
        Offsets of what Spark is not given: the hint, or the whole comment where it stands alone.
    """

    table: str
    attempts_max: int
    delay_ms: int
    via: Via
    start: int
    end: int


def lookup_hints(text: str, start: int, end: int) -> list[LookupHint]:
    """Find the hints for lookups in a part of a text.

    Raises
    ------
    InvalidInputError
        An option is unknown, missing or wrong; the message shows the position.

    Examples
    --------
    >>> text = "SELECT /*+ LOOKUP('table'='d', 'async'='true') */ 1"
    >>> (hint,) = lookup_hints(text, 0, len(text))
    >>> hint.table, hint.attempts_max, text[: hint.start] + text[hint.end :]
    ('d', 0, 'SELECT  1')
    """
    hints = []
    for offset, body in non_option_hints(text):
        if not start <= offset < end:
            continue
        found = list(_HINT.finditer(body))
        is_alone = not _HINT.sub("", body).strip(" \t\r\n,")
        for number, one in enumerate(found):
            span = _span(offset, body, one)
            if is_alone:  # the first takes the comment with it
                span = (offset - 3, offset + len(body) + 2) if not number else (offset, offset)
            hints.append(_hint(text, offset + one.start(), one["options"], span))
    return hints


def _span(offset: int, body: str, found: re.Match[str]) -> tuple[int, int]:
    """The hint and a comma beside it."""
    behind = re.match(r"\s*,", body[found.end() :])
    if behind is not None:
        return offset + found.start(), offset + found.end() + behind.end()
    before = re.search(r",\s*$", body[: found.start()])
    first = found.start() if before is None else before.start()
    return offset + first, offset + found.end()


def _hint(text: str, at: int, written: str, span: tuple[int, int]) -> LookupHint:
    options = _options(text, at, written)
    if TABLE not in options:
        raise error_at(text, at, "LOOKUP needs 'table' = '...'.", kind="sql_hint")
    via = _VIAS.get(options.get(VIA, "auto").casefold())
    if via is None:
        message = f"'{VIA}' of LOOKUP is auto, local or service, not '{options[VIA]}'."
        raise error_at(text, at, message, kind="sql_hint")
    given = [k for k in (*_RETRY, DELAY, ATTEMPTS) if k in options]
    if not given:
        return LookupHint(options[TABLE], 0, 0, via, *span)
    missing = [k for k in (*_RETRY, DELAY, ATTEMPTS) if k not in options]
    if missing:
        message = f"A retry of LOOKUP needs '{missing[0]}' too."
        raise error_at(text, at, message, kind="sql_hint")
    for key, value in _RETRY.items():
        if options[key].casefold() != value:
            message = f"'{key}' of LOOKUP is '{value}', not '{options[key]}'."
            raise error_at(text, at, message, kind="sql_hint")
    delay = _DELAY.fullmatch(options[DELAY].strip())
    attempts = options[ATTEMPTS].strip()
    if delay is None or not attempts.isdecimal():
        wrong, what = (ATTEMPTS, "a number") if delay is not None else (DELAY, "a time as '10s'")
        message = f"'{wrong}' of LOOKUP is {what}, not '{options[wrong]}'."
        raise error_at(text, at, message, kind="sql_hint")
    delay_ms = int(delay["number"]) * _UNITS_MS[delay["unit"]]
    return LookupHint(options[TABLE], int(attempts), delay_ms, via, *span)


def _options(text: str, at: int, written: str) -> Mapping[str, str]:
    known = (TABLE, VIA, *_RETRY, DELAY, ATTEMPTS, *_WITHOUT_EFFECT)
    options: dict[str, str] = {}
    position = 0
    while position < len(written.rstrip()):
        found = _OPTION.match(written, position)
        if found is None:
            message = "Options of LOOKUP are 'key' = 'value', ...."
            raise error_at(text, at, message, kind="sql_hint")
        key = found["key"].casefold()
        if key not in known:
            message = f"LOOKUP has no option '{found['key']}'.{near_names(key, known)}"
            raise error_at(text, at, message, kind="sql_hint")
        options[key] = found["value"]
        position = found.end()
    return options
