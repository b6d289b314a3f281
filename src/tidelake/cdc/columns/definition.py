"""The definition of a computed column as text: ``column=function(argument, ...)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelake.cdc.columns.constants import Constant, Now
from tidelake.cdc.columns.date_pattern import PatternError, parse_pattern
from tidelake.cdc.columns.expression import STRING, TEXTS, DefinitionError, Expression, has_text
from tidelake.cdc.columns.temporal import FIELD_FUNCTIONS, DateFormat, TimeField, Times
from tidelake.cdc.columns.texts import CHANGE_FUNCTIONS, ChangedText, Substring
from tidelake.cdc.columns.truncate import Truncation
from tidelake.errors import TidelakeError, near_names
from tidelake.types import DataType, TypeRoot, parse_type

Types = Mapping[str, DataType]
"""Types of the columns that a definition may name."""
_INT_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition, cut into its parts.

    Parameters
    ----------
    function : str
        In lower case.
    arguments : tuple of str
        As given, with their spaces; one empty argument where there is none.
    """

    column: str
    function: str
    arguments: tuple[str, ...]

    @property
    def reference(self) -> str | None:
        """The column that it names; None if its function reads none."""
        return None if self.function in _CONSTANT else self.arguments[0].strip()


def parse_definition(text: str) -> Definition:
    """Cut a definition into its parts.

    Raises
    ------
    DefinitionError
        The text has another form.

    Examples
    --------
    >>> parse_definition("pt=substring(day, 5)")
    Definition(column='pt', function='substring', arguments=('day', ' 5'))
    """
    column, sign, expression = text.partition("=")
    if not sign or not column.strip():
        raise DefinitionError("it is not of the form column=function(argument, ...)")
    call = expression.strip()
    function, opening, rest = call.partition("(")
    if not opening:
        raise DefinitionError(f"'{call}' has no '(' after the function's name")
    inside, closing, after = rest.rpartition(")")
    if not closing:
        raise DefinitionError("the '(' is not closed: end it with ')'")
    if after.strip():
        at = len(text.rstrip()) - len(after.strip()) + 1
        raise DefinitionError(f"'{after.strip()}' at character {at} is too much")
    name = function.strip().lower()
    if name not in FUNCTIONS:
        known = ", ".join(sorted(FUNCTIONS))
        hint = near_names(name, FUNCTIONS) or f" Known: {known}."
        raise DefinitionError(f"there is no function '{function.strip()}'.{hint}")
    return Definition(column.strip(), name, tuple(inside.split(",")))


def expression_of(
    definition: Definition, types: Types, *, case_sensitive: bool, zone: str
) -> Expression:
    """Give a definition its meaning.

    Parameters
    ----------
    case_sensitive : bool
        If not, names of `types` are in lower case.

    Raises
    ------
    DefinitionError
        A column is missing, or an argument does not fit.
    """
    if definition.function in _CONSTANT:
        return _CONSTANT[definition.function](definition.arguments, zone)
    name = definition.arguments[0].strip()
    reference = name if case_sensitive else name.lower()
    literals = tuple(text.strip() for text in definition.arguments[1:])
    source = types.get(reference)
    if source is None:
        shown = f"there is no column '{name}'" if name else "it names no column"
        hint = near_names(reference, types) or f" The columns are: {', '.join(types)}."
        raise DefinitionError(f"{shown}.{hint}")
    return _READING[definition.function](definition.function, reference, source, literals)


def _check_count(function: str, literals: tuple[str, ...], least: int, most: int) -> None:
    if not least <= len(literals) <= most:
        wanted = str(least) if least == most else f"{least} or {most}"
        raise DefinitionError(
            f"{function} takes {wanted} arguments after the column, not {len(literals)}"
        )


def _number(text: str, what: str) -> int:
    try:
        number = int(text)
    except ValueError as error:
        raise DefinitionError(f"the {what} '{text}' is no whole number") from error
    if abs(number) > _INT_MAX:
        raise DefinitionError(f"the {what} {text} is beyond {_INT_MAX}")
    return number


def _time_field(
    function: str, reference: str, source: DataType, literals: tuple[str, ...]
) -> Expression:
    _check_count(function, literals, 0, 1)
    precision = _number(literals[0], "precision") if literals else None
    return TimeField(function, Times.of(reference, source, precision))


def _date_format(
    function: str, reference: str, source: DataType, literals: tuple[str, ...]
) -> Expression:
    _check_count(function, literals, 1, 2)
    precision = _number(literals[1], "precision") if len(literals) > 1 else None
    try:
        pattern = parse_pattern(literals[0])
    except PatternError as error:
        raise DefinitionError(f"of the pattern '{literals[0]}': {error}") from error
    return DateFormat(pattern, Times.of(reference, source, precision))


def _substring(
    function: str, reference: str, source: DataType, literals: tuple[str, ...]
) -> Expression:
    _check_count(function, literals, 1, 2)
    begin = _number(literals[0], "begin")
    end = _number(literals[1], "end") if len(literals) > 1 else None
    if begin < 0:
        raise DefinitionError(f"the begin {begin} is below 0")
    if end is not None and end <= begin:
        raise DefinitionError(f"the end {end} is not above the begin {begin}")
    if not has_text(source):
        raise DefinitionError(f"column '{reference}' of type {source.as_nullable()} has no text")
    return Substring(reference, source, begin, end)


def _truncate(
    function: str, reference: str, source: DataType, literals: tuple[str, ...]
) -> Expression:
    _check_count(function, literals, 1, 1)
    return Truncation.of(reference, source, _number(literals[0], "width"))


def _changed_text(
    function: str, reference: str, source: DataType, literals: tuple[str, ...]
) -> Expression:
    _check_count(function, literals, 0, 0)
    if source.root is not TypeRoot.VARCHAR:
        raise DefinitionError(
            f"column '{reference}' is {source.as_nullable()}, and {function} takes only VARCHAR and"
            " STRING, as Paimon's does"
        )
    return ChangedText(function, reference)


def _cast(arguments: tuple[str, ...], zone: str) -> Expression:
    if len(arguments) > 2:
        raise DefinitionError(f"cast takes a literal and a type, not {len(arguments)} arguments")
    try:
        target = parse_type(arguments[1]) if len(arguments) > 1 else STRING
    except TidelakeError as error:
        raise DefinitionError(error.message.removesuffix(".")) from error
    text = arguments[0] if target.root in TEXTS else arguments[0].strip()
    return Constant.of(text, target, zone=zone)


def _now(arguments: tuple[str, ...], zone: str) -> Expression:  # noqa: ARG001
    if [text.strip() for text in arguments] != [""]:
        raise DefinitionError("now takes no argument")
    return Now()


_Reading = Callable[[str, str, DataType, tuple[str, ...]], Expression]

_READING: dict[str, _Reading] = {
    **dict.fromkeys(FIELD_FUNCTIONS, _time_field),
    **dict.fromkeys(CHANGE_FUNCTIONS, _changed_text),
    "date_format": _date_format,
    "substring": _substring,
    "truncate": _truncate,
}
_CONSTANT: dict[str, Callable[[tuple[str, ...], str], Expression]] = {"cast": _cast, "now": _now}
FUNCTIONS = (*_READING, *_CONSTANT)
