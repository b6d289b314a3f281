"""One option: its key, kind, default, effect and support.

An :class:`Option` is data; the declarations are the lines of ``declared.tsv``, see
:mod:`tidelake.options.declared`. The keys, kinds and defaults are those of Java Paimon 1.3.1's
``CoreOptions``.

An option has one of five states of :class:`Support`. An option that affects only files or speed may
have no effect here. An option that changes the rows that a reader sees must be covered or refused.
One that promises work (to delete, keep, create or publish something) is covered, or a warning says
what is not done: :mod:`tidelake.options.promises`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

Action = Literal["create", "read", "write"]
TableKind = Literal["any", "primary_key", "append"]

EVERY_ACTION: frozenset[Action] = frozenset({"create", "read", "write"})
ON_CREATE: frozenset[Action] = frozenset({"create"})
ON_READ: frozenset[Action] = frozenset({"read"})
ON_WRITE: frozenset[Action] = frozenset({"create", "write"})
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

T = TypeVar("T")
MaybeBool = TypeVar("MaybeBool", bool, bool | None)
MaybeInt = TypeVar("MaybeInt", int, int | None)
MaybeStr = TypeVar("MaybeStr", str, str | None)


class Kind(enum.Enum):
    """The type of an option's value; the text is the name of Java's class."""

    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    STRING = "String"
    ENUM = "Enum"
    MEMORY_SIZE = "MemorySize"
    DURATION = "Duration"
    MAP = "Map"


class Support(enum.Enum):
    """Support of an option by this version."""

    SUPPORTED = "supported"
    PARTLY = "supported in part"
    NO_EFFECT = "accepted without effect"
    NOT_DONE = "accepted, and not done"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Coverage:
    """The support of an option, and its limits.

    Parameters
    ----------
    accepted : tuple
        Supported values other than the default.
    tables : TableKind
        The tables to which the option applies; on others it is ignored, as in Java.
    """

    support: Support
    reason: str = ""
    accepted: tuple[object, ...] = ()
    actions: frozenset[Action] = EVERY_ACTION
    tables: TableKind = "any"


SUPPORTED = Coverage(Support.SUPPORTED)


def no_effect(reason: str) -> Coverage:
    """Make the coverage of an option that is kept without effect."""
    return Coverage(Support.NO_EFFECT, reason)


def refused(
    reason: str,
    *,
    on: frozenset[Action] = EVERY_ACTION,
    tables: TableKind = "any",
) -> Coverage:
    """Make the coverage of an option that must have its default for some actions."""
    return Coverage(Support.REFUSED, reason, actions=on, tables=tables)


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """One declared option.

    Parameters
    ----------
    kind : Kind
        The type of its value; memory sizes become bytes, durations milliseconds.
    default : T
        The value if the option is unset; None if Paimon derives or lacks one.
    pattern : str
        Regular expression that a STRING's whole text must match; empty for any.
    fallback_keys : tuple of str
        Older keys, which are read if the key itself is absent.
    mutable : bool
        Whether ALTER TABLE may change it on a table that has data.
    """

    key: str
    kind: Kind
    default: T
    description: str
    coverage: Coverage = SUPPORTED
    choices: tuple[str, ...] = ()
    minimum: int | float | None = None
    maximum: int | float | None = None
    pattern: str = ""
    fallback_keys: tuple[str, ...] = ()
    mutable: bool = True

    @property
    def support(self) -> Support:
        """Support of the option by this version."""
        return self.coverage.support

    @property
    def reason(self) -> str:
        """Why it has no effect or is refused."""
        return self.coverage.reason

    @property
    def constant(self) -> str:
        """Name of its constant in :mod:`tidelake.options.declared`."""
        return constant_name(self.key)


def constant_name(key: str) -> str:
    """Return the name of the constant that declares a key.

    Examples
    --------
    >>> constant_name("num-sorted-run.compaction-trigger")
    'NUM_SORTED_RUN_COMPACTION_TRIGGER'
    >>> constant_name("commit.callback.#.param")
    'COMMIT_CALLBACK_PARAM'
    """
    words = key.replace(".", "-").replace("#", "").split("-")
    return "_".join(word.upper() for word in words if word)


def boolean(
    key: str,
    default: MaybeBool,
    description: str,
    coverage: Coverage = SUPPORTED,
    **more: Any,
) -> Option[MaybeBool]:
    """Declare a true or false option."""
    return Option(key, Kind.BOOLEAN, default, description, coverage, **more)


def integer(
    key: str,
    default: MaybeInt,
    description: str,
    coverage: Coverage = SUPPORTED,
    *,
    minimum: int = -(2**31),
    maximum: int = INT_MAX,
    long: bool = False,
    **more: Any,
) -> Option[MaybeInt]:
    """Declare a whole number of 32 bits, or of 64 with ``long``."""
    if long:
        maximum = LONG_MAX
        minimum = -(2**63) if minimum == -(2**31) else minimum
    kind = Kind.LONG if long else Kind.INTEGER
    return Option(
        key, kind, default, description, coverage, minimum=minimum, maximum=maximum, **more
    )


def text(
    key: str,
    default: MaybeStr,
    description: str,
    coverage: Coverage = SUPPORTED,
    **more: Any,
) -> Option[MaybeStr]:
    """Declare a text option."""
    return Option(key, Kind.STRING, default, description, coverage, **more)


def enumeration(
    key: str,
    default: MaybeStr,
    choices: tuple[str, ...],
    description: str,
    coverage: Coverage = SUPPORTED,
    **more: Any,
) -> Option[MaybeStr]:
    """Declare an option whose value is one of a few words, in any case."""
    return Option(key, Kind.ENUM, default, description, coverage, choices=choices, **more)


def duration(
    key: str, default: MaybeInt, description: str, coverage: Coverage = SUPPORTED
) -> Option[MaybeInt]:
    """Declare a span of time in milliseconds."""
    return Option(key, Kind.DURATION, default, description, coverage, minimum=0)
