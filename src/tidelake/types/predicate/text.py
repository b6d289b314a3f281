"""Filters as SQL text: a small recursive-descent parser whose errors point at the place.

Grammar, words in any case::

    filter      = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = NOT negation | "(" filter ")" | condition
    condition   = column ( = | == | != | <> | < | <= | > | >= ) literal
                | literal (the same) column
                | column [NOT] IN "(" literal { "," literal } ")"
                | column [NOT] BETWEEN literal AND literal
                | column [NOT] LIKE 'prefix%'
                | column IS [NOT] (NULL | TRUE | FALSE)
                | column | TRUE | FALSE
    column      = word | `any text` | "any text"
    literal     = 12 | -1.5 | 1e3 | 'it''s' | TRUE | FALSE | NULL (in IN only) | X'00ff'
                | DATE '2024-01-31' | TIME '12:30:00' | TIMESTAMP '2024-01-31 12:30:00.5[Z|+01:00]'

Numbers with a point are exact decimals. LIKE takes a prefix and one closing ``%``, or no wildcard;
a backslash takes ``%``, ``_`` and itself literally.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from dataclasses import dataclass

import numpy as np

from tidelake.errors import TEXT_SHOWN_MAX, InvalidInputError, shortened
from tidelake.types.predicate.node import (
    Always,
    And,
    Compare,
    In,
    IsNull,
    Not,
    NotNull,
    Or,
    Predicate,
    StartsWith,
)
from tidelake.types.values import parse_timestamp

DEPTH_MAX = 100
NUMBER_DIGITS_MAX = 400
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>`(?:[^`]|``)*`|"(?:[^"]|"")*")
      | (?P<word>[^\W\d]\w*)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),+-])
    """,
    re.VERBOSE,
)
_UNREADABLE = re.compile(r"\w+|\S")
_OPERATORS = {
    "=": "==",
    "==": "==",
    "!=": "!=",
    "<>": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
}
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_RESERVED = frozenset({"AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "BETWEEN", "TRUE", "FALSE"})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number, string, quoted, word, sign, or end
    text: str
    position: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.upper() == word

    def is_sign(self, sign: str) -> bool:
        return self.kind == "sign" and self.text == sign


def parse_text(text: str) -> Predicate:
    """Parse a filter.

    Raises
    ------
    InvalidInputError
        The text is not a filter; the message shows the place, ``context["position"]`` counts
        characters from 0.

    Examples
    --------
    >>> print(parse_text("day BETWEEN DATE '2024-01-01' AND DATE '2024-01-31' AND NOT ok"))
    day >= datetime.date(2024, 1, 1) AND day <= datetime.date(2024, 1, 31) AND NOT (ok == True)
    >>> parse_text("a >")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: The filter ends where a value is expected:
      a >
         ^
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokenize()
        self._next = 0

    def _tokenize(self) -> list[_Token]:
        tokens = []
        position = 0
        while position < len(self._text):
            match = _TOKEN.match(self._text, position)
            if match is None:
                rest = _UNREADABLE.match(self._text, position)
                assert rest is not None, "a sign that is no space"
                is_quote = rest.group() in {"'", "`", '"'}
                what = "a quote that is not closed" if is_quote else f"'{shortened(rest.group())}'"
                raise self._error(f"The filter has {what}, which cannot be read", position)
            assert match.lastgroup is not None, "one of the named groups matched"
            if match.lastgroup != "space":
                tokens.append(_Token(match.lastgroup, match.group(), position))
            position = match.end()
        tokens.append(_Token("end", "", len(self._text.rstrip())))
        return tokens

    # --- tokens ---

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _took_word(self, word: str) -> bool:
        if self._token.is_word(word):
            self._next += 1
            return True
        return False

    def _took_sign(self, sign: str) -> bool:
        if self._token.is_sign(sign):
            self._next += 1
            return True
        return False

    def _error(self, problem: str, position: int) -> InvalidInputError:
        line_start = self._text.rfind("\n", 0, position) + 1
        line_end = self._text.find("\n", position)
        line = self._text[line_start : line_end if line_end >= 0 else len(self._text)]
        line, place = _around(line, position - line_start)
        pointer = " " * place + "^"
        message = f"{problem}:\n  {line}\n  {pointer}"
        return InvalidInputError(message, kind="filter_syntax", position=position)

    def _expected(self, what: str) -> InvalidInputError:
        token = self._token
        if token.kind == "end":
            return self._error(f"The filter ends where {what} is expected", token.position)
        return self._error(
            f"The filter has {shortened(token.text)} where {what} is expected", token.position
        )

    # --- grammar ---

    def parse(self) -> Predicate:
        predicate = self._filter(0)
        if self._token.kind != "end":
            raise self._expected("AND, OR or the end")
        return predicate

    def _filter(self, depth: int) -> Predicate:
        parts = [self._conjunction(depth)]
        while self._took_word("OR"):
            parts.append(self._conjunction(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self, depth: int) -> Predicate:
        parts = [self._negation(depth)]
        while self._took_word("AND"):
            parts.append(self._negation(depth))
        if len(parts) == 1:
            return parts[0]
        return And(tuple(q for p in parts for q in (p.parts if isinstance(p, And) else (p,))))

    def _negation(self, depth: int) -> Predicate:
        if depth > DEPTH_MAX:
            raise self._error(
                f"The filter is nested more than {DEPTH_MAX} levels deep", self._token.position
            )
        if self._took_word("NOT"):
            return Not(self._negation(depth + 1))
        if self._took_sign("("):
            inner = self._filter(depth + 1)
            if not self._took_sign(")"):
                raise self._expected("')'")
            return inner
        return self._condition()

    def _condition(self) -> Predicate:
        if self._is_literal():
            return self._turned_comparison()
        name = self._column()
        op = self._operator()
        if op is not None:
            return Compare(op, name, self._value())
        if self._took_word("IS"):
            return self._is_condition(name)
        negated = self._took_word("NOT")
        predicate = self._choice(name)
        if predicate is None:
            if negated:
                raise self._expected("IN, BETWEEN or LIKE")
            return Compare("==", name, True)  # a boolean column standing alone
        return Not(predicate) if negated else predicate

    def _turned_comparison(self) -> Predicate:
        first = self._token
        literal = self._literal()
        op = self._operator()
        if op is None:
            if isinstance(literal, bool):
                return Always(literal)
            raise self._expected("a comparison")
        if literal is None:
            raise self._null_compared(first)
        if self._is_literal():
            raise self._expected("a column")
        return Compare(_TURNED[op], self._column(), literal)

    def _is_condition(self, name: str) -> Predicate:
        negated = self._took_word("NOT")
        if self._took_word("NULL"):
            return NotNull(name) if negated else IsNull(name)
        for word, value in (("TRUE", True), ("FALSE", False)):
            if self._took_word(word):
                # IS TRUE is never unknown: null is not true
                held = And((NotNull(name), Compare("==", name, value)))
                return Not(held) if negated else held
        raise self._expected("NULL, TRUE or FALSE")

    def _choice(self, name: str) -> Predicate | None:
        if self._took_word("IN"):
            return In(name, self._literals())
        if self._took_word("BETWEEN"):
            low = self._value()
            if not self._took_word("AND"):
                raise self._expected("AND")
            return And((Compare(">=", name, low), Compare("<=", name, self._value())))
        if self._took_word("LIKE"):
            return self._like(name)
        return None

    def _like(self, name: str) -> Predicate:
        token = self._token
        if token.kind != "string":
            raise self._expected("a pattern in quotes")
        pattern = _unquoted(self._take().text)
        plain = ""
        at = 0
        while at < len(pattern):
            sign = pattern[at]
            if sign == "\\":
                if pattern[at + 1 : at + 2] not in {"%", "_", "\\"}:
                    problem = "A backslash in LIKE must stand before %, _ or a backslash"
                    raise self._error(problem, token.position)
                at += 1
                sign = pattern[at]
            elif sign == "%" and at == len(pattern) - 1:
                return StartsWith(name, plain)
            elif sign in "%_":
                problem = "LIKE supports only a prefix ('abc%'): filter the rest after reading"
                raise self._error(problem, token.position)
            plain += sign
            at += 1
        return Compare("==", name, plain)

    def _column(self) -> str:
        token = self._token
        if token.kind == "quoted":
            self._next += 1
            return _unquoted(token.text)
        if token.kind == "word" and token.text.upper() not in _RESERVED:
            self._next += 1
            return token.text
        raise self._expected("a column")

    def _operator(self) -> str | None:
        if self._token.kind == "sign" and self._token.text in _OPERATORS:
            return _OPERATORS[self._take().text]
        return None

    # --- literals ---

    def _is_literal(self) -> bool:
        token = self._token
        if token.kind in {"number", "string"} or token.is_sign("-") or token.is_sign("+"):
            return True
        if token.kind != "word":
            return False
        if token.text.upper() in {"TRUE", "FALSE", "NULL"}:
            return True
        following = self._tokens[self._next + 1]
        return (
            token.text.upper() in {"DATE", "TIME", "TIMESTAMP", "X"} and following.kind == "string"
        )

    def _value(self) -> object:
        """A literal that a column can be compared with."""
        token = self._token
        if not self._is_literal():
            if token.kind in {"word", "quoted"} and token.text.upper() not in _RESERVED:
                problem = (
                    "A filter compares columns with values, not with columns"
                    " (text goes in single quotes)"
                )
                raise self._error(problem, token.position)
            raise self._expected("a value")
        literal = self._literal()
        if literal is None:
            raise self._null_compared(token)
        return literal

    def _null_compared(self, token: _Token) -> InvalidInputError:
        problem = "A comparison with NULL is never true; write IS NULL or IS NOT NULL"
        return self._error(problem, token.position)

    def _literals(self) -> tuple[object, ...]:
        if not self._took_sign("("):
            raise self._expected("'('")
        literals = []
        while True:
            if not self._is_literal():
                raise self._expected("a value")
            literals.append(self._literal())
            if self._took_sign(")"):
                return tuple(literals)
            if not self._took_sign(","):
                raise self._expected("',' or ')'")

    def _literal(self) -> object:
        token = self._take()
        if token.kind == "sign":
            if self._token.kind != "number":
                raise self._expected("a number")
            number = self._number(self._take())
            return -number if token.text == "-" else number
        if token.kind == "number":
            return self._number(token)
        if token.kind == "string":
            return _unquoted(token.text)
        word = token.text.upper()
        if word in {"TRUE", "FALSE"}:
            return word == "TRUE"
        if word == "NULL":
            return None
        body = self._take()
        value = _typed_literal(word, _unquoted(body.text))
        if value is None:
            raise self._error(f"{shortened(body.text)} is not a {word} literal", body.position)
        return value

    def _number(self, token: _Token) -> int | float | decimal.Decimal:
        if len(token.text) > NUMBER_DIGITS_MAX:
            raise self._error(f"A number has more than {NUMBER_DIGITS_MAX} digits", token.position)
        if "e" in token.text.lower():
            return float(token.text)
        return decimal.Decimal(token.text) if "." in token.text else int(token.text)


def _around(line: str, place: int) -> tuple[str, int]:
    """The part of a long line around a place, and where the place is in it."""
    if len(line) <= TEXT_SHOWN_MAX:
        return line, place
    start = max(0, min(place - TEXT_SHOWN_MAX // 2, len(line) - TEXT_SHOWN_MAX))
    before = "..." if start else ""
    after = "..." if start + TEXT_SHOWN_MAX < len(line) else ""
    return before + line[start : start + TEXT_SHOWN_MAX] + after, place - start + len(before)


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote)


def _typed_literal(word: str, text: str) -> object:
    """The value of DATE, TIME, TIMESTAMP or X text; None where the text is not one."""
    try:
        match word:
            case "DATE":
                return dt.date.fromisoformat(text.strip())
            case "TIME":
                moment = dt.time.fromisoformat(text.strip())
                return moment if moment.tzinfo is None else None
            case "X":
                return bytes.fromhex(text)
    except ValueError:
        return None
    parsed = parse_timestamp(text)
    if parsed is None:
        return None
    nanos, has_zone = parsed
    if nanos % 1000:
        # Python's datetime ends at microseconds; numpy's time has nanoseconds but no zone
        return None if has_zone else np.datetime64(nanos, "ns")
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    try:
        instant = epoch + dt.timedelta(microseconds=nanos // 1000)
    except OverflowError:  # the zone moved it out of the years 1 to 9999
        return None
    return instant if has_zone else instant.replace(tzinfo=None)
